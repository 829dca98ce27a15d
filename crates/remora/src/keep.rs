//! Which generations stay, on the command line, and how a name is pruned.

use std::collections::BTreeSet;

use anyhow::Result;
use block::retention::Policy;
use block::{Generation, World};
use clap::Args;
use progress::Progress;

use crate::commands::prune;
use crate::exit::Exit;
use crate::report::Report;
use crate::repository::Named;
use crate::{calendar, identity};

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
    #[arg(long, value_name = "AGE", value_parser = calendar::duration_s)]
    keep_within: Option<u64>,
}

impl KeepArguments {
    /// What is to stay; None if nothing is said.
    pub(crate) fn policy(self) -> Option<Policy> {
        let since_s = self.keep_within.map(|age| calendar::now_s().saturating_sub_unsigned(age));
        let counts = [self.keep_last, self.keep_daily, self.keep_weekly, self.keep_monthly];
        if counts.iter().all(Option::is_none) && since_s.is_none() {
            return None;
        }
        let [last, daily, weekly, monthly] = counts.map(Option::unwrap_or_default);
        Some(Policy { last, daily, weekly, monthly, since_s })
    }
}

/// Forgets what the policy does not keep of a name.
pub(crate) fn prune(
    named: &Named,
    policy: &Policy,
    dry_run: bool,
    (world, report): (World<'_>, &Report),
) -> Result<Exit> {
    let listing = named.repository.list()?;
    let keep = kept(policy, &listing.generations);
    let done = block::prune(&named.repository, &keep, dry_run, world)?;
    prune::tell(&named.name, &done, dry_run, report)?;
    for damage in &listing.broken {
        report.warn(&format!("{}: {damage}", named.name));
    }
    let is_mixed = identity::warn_of_mixed(&named.name, &listing.generations, report);
    let is_damaged = !(listing.broken.is_empty() && done.damaged.is_empty());
    let kept = listing.generations.iter().filter(|one| !done.forgotten.contains(&one.number));
    prune::log::forget(named, kept, is_damaged, dry_run, report)?;
    Ok(match (is_damaged, is_mixed) {
        (true, _) => Exit::Damaged,
        (false, true) => Exit::Partial,
        (false, false) => Exit::Done,
    })
}

/// The generations that stay. Those of one source never push out those of another, and damaged ones count as
/// none, so that no complete one is removed because of them.
fn kept(policy: &Policy, all: &[Generation]) -> BTreeSet<u64> {
    let stamp = |one: &&Generation| calendar::stamp(one.number, one.taken_s);
    let mut keep = BTreeSet::new();
    for source in identity::sources(all) {
        let stamps: Vec<_> = source.iter().map(stamp).collect();
        let whole: Vec<_> = source.iter().filter(|one| one.is_whole).map(stamp).collect();
        keep.extend(policy.keep(&stamps));
        keep.extend(policy.keep(&whole));
    }
    keep
}
