//! Rows that were ended and are kept for a time. docs/formats/queue.md has the tables.

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of files of queues that keep rows which were ended.
pub(crate) const KEEP: u64 = 0x80;

/// Consecutive rows that were ended within the same second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetainedRun {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// The end of that second, seconds since 1970.
    pub(crate) ended_s: u64,
}

impl RetainedRun {
    /// The id after its last row.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// Appends runs.
pub(crate) fn encode_kept(runs: &[RetainedRun], out: &mut Vec<u8>) {
    put_varint(out, runs.len() as u64);
    for run in runs {
        put_varint(out, run.first);
        put_varint(out, run.count);
        put_varint(out, run.ended_s);
    }
}

pub(crate) fn decode_kept(reader: &mut ByteReader<'_>) -> Option<Vec<RetainedRun>> {
    let run = |reader: &mut ByteReader<'_>| {
        let (first, count, ended_s) = (reader.varint()?, reader.varint()?, reader.varint()?);
        // Later arithmetic has room for both.
        first.checked_add(count)?;
        ended_s.checked_mul(1000)?;
        Some(RetainedRun { first, count, ended_s })
    };
    (0..reader.varint()?).map(|_| run(reader)).collect()
}
