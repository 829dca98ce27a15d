//! Retry policies and failure records as bytes. docs/formats/queue.md has the tables.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::format::wire::{ByteReader, RowId, put_varint};

/// The feature flag of files of queues with a policy.
pub(crate) const POLICIES: u64 = 0x4;

/// The longest wait between two tries: a year.
const WAIT_MAX_MS: u64 = 366 * 24 * 60 * 60 * 1000;

/// The most bytes of a reason that are kept.
const WHY_BYTES_MAX: usize = 1024;

/// The delay after a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure, in milliseconds.
    pub first_ms: u64,
    /// Growth factor per further failure, in thousandths.
    pub factor: u64,
    /// Maximum delay in milliseconds; 0 for a year.
    pub max_ms: u64,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first_ms: 0, factor: 1000, max_ms: 0 }
    }
}

impl Backoff {
    /// The delay in milliseconds after this many failed tries.
    #[must_use]
    pub fn after(&self, failed: u64) -> u64 {
        let most = if self.max_ms == 0 { WAIT_MAX_MS } else { self.max_ms.min(WAIT_MAX_MS) };
        // In microseconds: a thousandth more is not lost even of a millisecond.
        let [first, longest] = [self.first_ms, most].map(|wait| u128::from(wait) * 1000);
        let mut wait = first.min(longest);
        for _ in 1..failed {
            let longer = (wait * u128::from(self.factor) / 1000).min(longest);
            if longer <= wait {
                break;
            }
            wait = longer;
        }
        u64::try_from(wait / 1000).unwrap_or(most)
    }
}

impl FromStr for Backoff {
    type Err = String;

    /// Reads `FIRST,FACTOR,MAX`: two times in seconds and a number in between, all with up to three decimals.
    fn from_str(text: &str) -> Result<Backoff, String> {
        let parts: Vec<Option<u64>> = text.split(',').map(|part| thousandths(part.trim())).collect();
        match parts[..] {
            [Some(first_ms), Some(factor), Some(max_ms)]
                if factor >= 1000 && first_ms.max(max_ms) <= WAIT_MAX_MS =>
            {
                Ok(Backoff { first_ms, factor, max_ms })
            }
            _ => Err(format!(
                "'{text}' is not FIRST,FACTOR,MAX: seconds, a factor of at least 1, seconds (0: no limit), \
                 such as '10,2,3600'; at most a year and three decimals"
            )),
        }
    }
}

/// A number with up to three decimals, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || behind.len() > 3 || !digits(whole) || !digits(behind) {
        return None;
    }
    let behind: u64 = format!("{behind:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(behind)
}

/// Retries and the dead letter queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of tries; 0 for no limit.
    pub tries: u64,
    /// The delay between tries.
    pub backoff: Backoff,
    /// The folder of the dead letter queue. Without one, rows without tries left stay and are not
    /// delivered.
    pub dead_letter_folder: Option<PathBuf>,
    /// Whether columns of the table show failed tries, reason or token.
    pub shows_delivery_info: bool,
}

impl RetryPolicy {
    /// Whether anything is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self != RetryPolicy::default()
    }

    /// Whether no tries are left after this many failures.
    pub(crate) fn is_exhausted(&self, failed: u64) -> bool {
        self.tries > 0 && failed >= self.tries
    }

    /// The feature flags that it needs.
    pub(crate) fn features(&self) -> u64 {
        if self.is_set() { POLICIES } else { 0 }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.tries);
        put_varint(out, self.backoff.first_ms);
        put_varint(out, self.backoff.factor);
        put_varint(out, self.backoff.max_ms);
        let dead = self.dead_letter_folder.as_ref().map_or(&[][..], |dead| dead.as_os_str().as_bytes());
        put_varint(out, dead.len() as u64);
        out.extend(dead);
        out.push(u8::from(self.shows_delivery_info));
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<RetryPolicy> {
        let tries = reader.varint()?;
        let backoff =
            Backoff { first_ms: reader.varint()?, factor: reader.varint()?, max_ms: reader.varint()? };
        let len = reader.count()?;
        let dead = reader.take(len)?.to_vec();
        let dead = (!dead.is_empty()).then(|| PathBuf::from(OsString::from_vec(dead)));
        let noted = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let policy = RetryPolicy { tries, backoff, dead_letter_folder: dead, shows_delivery_info: noted };
        policy.is_set().then_some(policy)
    }
}

/// Earlier failures of a row, besides its tries in this queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureInfo {
    /// Failed tries in the queue that it came from as a dead letter.
    pub(crate) tries: u64,
    /// The reason of the last failure; may be empty.
    pub(crate) why: Arc<str>,
}

impl FailureInfo {
    /// A past with as much of a reason as is kept.
    pub(crate) fn new(tries: u64, why: &str) -> FailureInfo {
        FailureInfo { tries, why: why[..why.floor_char_boundary(WHY_BYTES_MAX)].into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tries == 0 && self.why.is_empty()
    }

    pub(crate) fn encode(&self, row: RowId, out: &mut Vec<u8>) {
        put_varint(out, row.0);
        put_varint(out, self.tries);
        put_varint(out, self.why.len() as u64);
        out.extend(self.why.as_bytes());
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<(RowId, FailureInfo)> {
        let (row, tries) = (RowId(reader.varint()?), reader.varint()?);
        let len = reader.count()?;
        let why = std::str::from_utf8(reader.take(len)?).ok()?;
        Some((row, FailureInfo { tries, why: why.into() }))
    }
}

/// Appends what is known of rows.
pub(crate) fn encode_failures(failures: &[(RowId, FailureInfo)], out: &mut Vec<u8>) {
    put_varint(out, failures.len() as u64);
    failures.iter().for_each(|(row, failure)| failure.encode(*row, out));
}

pub(crate) fn decode_failures(reader: &mut ByteReader<'_>) -> Option<Vec<(RowId, FailureInfo)>> {
    (0..reader.varint()?).map(|_| FailureInfo::decode(reader)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::{Backoff, FailureInfo, RetryPolicy, decode_failures, encode_failures};
    use crate::format::wire::{ByteReader, RowId};

    #[test]
    fn a_wait_grows_to_its_limit() {
        let waits = |text: &str| -> Vec<u64> {
            let backoff: Backoff = text.parse().unwrap();
            [1, 2, 3, 4, 50, u64::MAX].map(|failed| backoff.after(failed)).to_vec()
        };
        assert_eq!(waits("0,1,0"), [0; 6]);
        assert_eq!(waits("10, 2, 50"), [10_000, 20_000, 40_000, 50_000, 50_000, 50_000]);
        assert_eq!(waits("0.5,1.5,1"), [500, 750, 1000, 1000, 1000, 1000]);
        assert_eq!(waits("0.001,1.5,0.004"), [1, 1, 2, 3, 4, 4], "also a short one");
        assert_eq!(waits("0.1,1.001,10"), [100, 100, 100, 100, 104, 10_000], "also by little");
        assert_eq!(waits("20,1,5"), [5000; 6], "the limit is also that of the first");
        assert_eq!(waits("1,10,0")[4..], [366 * 24 * 3600 * 1000; 2]);
        assert_eq!(Ok(Backoff::default()), "0,1,0".parse());
    }

    #[test]
    fn what_is_no_backoff_is_refused() {
        for wrong in [
            "",
            "1",
            "1,2",
            "1,2,3,4",
            "-1,1,0",
            "1,0.5,0",
            "1,1,x",
            "1,1.0001,0",
            ".5,1,0",
            "1e3,1,0",
            "1,,0",
        ] {
            let error = wrong.parse::<Backoff>().unwrap_err();
            assert!(error.contains(&format!("'{wrong}' is not FIRST,FACTOR,MAX")), "{error}");
        }
        "99999999999,1,0".parse::<Backoff>().unwrap_err();
    }

    #[test]
    fn a_reason_is_cut_at_a_letter() {
        assert_eq!(&*FailureInfo::new(1, "short").why, "short");
        let long = format!("x{}", "\u{e4}".repeat(1000));
        assert_eq!(FailureInfo::new(1, &long).why.len(), 1023);
    }

    proptest! {
        #[test]
        fn policies_come_back(
            numbers in any::<[u64; 4]>(), dead in prop::option::of("[a-z/#]{1,20}"), noted in any::<bool>(),
        ) {
            let [tries, first_ms, factor, max_ms] = numbers;
            let backoff = Backoff { first_ms, factor, max_ms };
            let policy = RetryPolicy { tries, backoff, dead_letter_folder: dead.map(PathBuf::from), shows_delivery_info: noted };
            let mut bytes = Vec::new();
            policy.encode(&mut bytes);
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(RetryPolicy::decode(&mut reader), Some(policy));
            prop_assert_eq!(reader.is_empty(), true);
            for at in 0..bytes.len() {
                prop_assert_eq!(RetryPolicy::decode(&mut ByteReader::new(&bytes[..at])), None);
            }
        }

        #[test]
        fn pasts_come_back(failures in prop::collection::vec((any::<u64>(), any::<u64>(), ".{0,9}"), 0..5)) {
            let failure = |(row, tries, why): (u64, u64, String)| (RowId(row), FailureInfo::new(tries, &why));
            let failures: Vec<_> = failures.into_iter().map(failure).collect();
            let mut bytes = Vec::new();
            encode_failures(&failures, &mut bytes);
            prop_assert_eq!(decode_failures(&mut ByteReader::new(&bytes)), Some(failures));
            for at in 0..bytes.len() {
                prop_assert_eq!(decode_failures(&mut ByteReader::new(&bytes[..at])), None);
            }
        }
    }
}
