//! Which generations stay, on the command line.

use block::retention::Policy;
use clap::Args;
use humanize::date_time;

/// `--keep-...`, for every command that forgets generations.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct KeepArguments {
    /// Keep the newest N generations
    #[arg(long, value_name = "N")]
    keep_last: Option<usize>,

    /// Keep the newest of each of the last N days that have a backup
    #[arg(long, value_name = "N")]
    keep_daily: Option<usize>,

    /// Keep the newest of each of the last N weeks that have a backup; weeks begin on Monday
    #[arg(long, value_name = "N")]
    keep_weekly: Option<usize>,

    /// Keep the newest of each of the last N months that have a backup
    #[arg(long, value_name = "N")]
    keep_monthly: Option<usize>,

    /// Keep all that are not older than this, such as 30d
    #[arg(long, value_name = "AGE", value_parser = date_time::duration_s)]
    keep_within: Option<u64>,
}

impl KeepArguments {
    /// The same options again, as words of a command line.
    pub(crate) fn words(self) -> Vec<String> {
        let counts = [
            ("last", self.keep_last),
            ("daily", self.keep_daily),
            ("weekly", self.keep_weekly),
            ("monthly", self.keep_monthly),
        ];
        let counts = counts.into_iter().filter_map(|(name, count)| Some(format!("--keep-{name} {}", count?)));
        counts.chain(self.keep_within.map(|seconds| format!("--keep-within {seconds}s"))).collect()
    }

    /// What is to stay; None if nothing is said.
    pub(crate) fn policy(self) -> Option<Policy> {
        let since_s = self.keep_within.map(|age| date_time::now_s().saturating_sub_unsigned(age));
        let counts = [self.keep_last, self.keep_daily, self.keep_weekly, self.keep_monthly];
        if counts.iter().all(Option::is_none) && since_s.is_none() {
            return None;
        }
        let [last, daily, weekly, monthly] = counts.map(Option::unwrap_or_default);
        Some(Policy { last, daily, weekly, monthly, since_s })
    }
}
