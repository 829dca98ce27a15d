//! For how long nobody can remove what is written to a store, on the command line.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use failure::usage;
use humanize::date_time;
use repository::location::Location;

/// The longest time: nobody can take it back, and a typing error must not cost ten years of storage.
const DAYS_MAX: u64 = 400;

/// A long run retains the files that it continues with again, when one part in this many of the time has
/// passed, and after a day at the latest.
const RENEWALS: u64 = 16;
const RENEWED_MAX_S: u64 = 86_400;

/// `--retain`, for every command that writes to a repository.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct RetainArguments {
    /// Keep what is written from being removed, by anybody, for this long, such as 30d; and what it refers
    /// to as well. The repository must be in a bucket with object lock. Nothing can shorten it
    #[arg(long, value_name = "AGE", value_parser = seconds)]
    retain: Option<u64>,
}

fn seconds(text: &str) -> Result<u64, String> {
    let seconds = date_time::duration_s(text).map_err(|error| error.to_string())?;
    match seconds {
        0 => Err("write more than 0".to_owned()),
        seconds if seconds > DAYS_MAX * 86_400 => {
            Err(format!("nobody can shorten it, so it can be {DAYS_MAX}d at most"))
        }
        seconds => Ok(seconds),
    }
}

impl RetainArguments {
    /// How often a long run has to retain the files that it continues with again.
    pub(crate) fn renewed(self) -> Option<Duration> {
        self.retain.map(|seconds| Duration::from_secs((seconds / RENEWALS).min(RENEWED_MAX_S)))
    }

    /// The same, with the time that passes until then: so it never is less than what was asked for.
    pub(crate) fn renewing(self) -> RetainArguments {
        let more = self.renewed().map_or(0, |renewed| renewed.as_secs());
        RetainArguments { retain: self.retain.map(|seconds| seconds + more) }
    }

    /// The place, which keeps what is written.
    pub(crate) fn on(self, home: Location) -> Result<Location> {
        match (self.retain, home) {
            (None, home) => Ok(home),
            (Some(seconds), Location::Bucket(bucket)) => Ok(Location::Bucket(bucket.retaining(seconds))),
            (Some(_), Location::Folder(folder)) => Err(usage(format!(
                "--retain is for places in an object store, s3://BUCKET/PREFIX, and {} is a folder",
                folder.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_retention_that_is_too_long_is_refused() {
        assert_eq!([seconds("1m"), seconds("400d")], [Ok(60), Ok(34_560_000)]);
        assert!([seconds("0d"), seconds("401d"), seconds("10y")].iter().all(Result::is_err));
    }
}
