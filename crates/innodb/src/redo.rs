//! The redo log, as far as it tells whether a server was shut down with everything in its files.
//!
//! Facts: `log0log.h` and `mtr0types.h` of MariaDB's source; the format of MariaDB 10.8 and later.

use crate::Error;
use crate::page::{crc, u32_at, u64_at};

/// Bytes before the log: its header, and two checkpoints.
pub const START: usize = 12_288;
/// Where the checkpoints are.
const CHECKPOINTS: [usize; 2] = [4096, 8192];
/// Bytes of the checkpoint record, with its end.
const CHECKPOINT_BYTES: u64 = 16;
/// Type and empty page number of a checkpoint record; an LSN, an end byte and a checksum follow.
const CHECKPOINT_HEAD: [u8; 3] = [0xFA, 0, 0];
/// The formats, by the number at the beginning: MariaDB 10.8 and later, and those before.
const CURRENT: u32 = 0x5068_7973;
const EARLIER: [u32; 5] = [0, 1, 103, 104, 0x5048_5953];

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The LSN of the first byte after the header.
    first: u64,
    /// Bytes after the header, which the log uses as a ring.
    capacity: u64,
    /// Up to this LSN the data files are complete.
    checkpoint: u64,
    /// The LSN that the checkpoint gives as its end.
    end: u64,
}

impl Log {
    /// Reads the first [`START`] bytes of `ib_logfile0`, whose length is `len`.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for other formats.
    pub fn parse(head: &[u8], len: u64) -> Result<Log, Error> {
        let corrupt =
            |what: &str, at: usize| Error::Corrupt { what: what.to_owned(), place: format!("byte {at}") };
        let format = u32_at(head, 0);
        if EARLIER.contains(&format) {
            return Err(Error::Unsupported("it is of a server before MariaDB 10.8, or of MySQL".to_owned()));
        }
        if format != CURRENT {
            return Err(Error::Unsupported(format!(
                "its format {format:#x} is not known; it may be encrypted"
            )));
        }
        if head.get(..508).map(crc) != Some(u32_at(head, 508)) {
            return Err(corrupt("wrong checksum", 0));
        }
        let checkpoint = |at: usize| {
            let block = head.get(at..at + 64)?;
            (crc(&block[..60]) == u32_at(block, 60)).then(|| (u64_at(block, 0), u64_at(block, 8)))
        };
        let newest = CHECKPOINTS.into_iter().filter_map(checkpoint).max();
        let (checkpoint, end) = newest.ok_or_else(|| corrupt("there is no checkpoint", CHECKPOINTS[0]))?;
        let first = u64_at(head, 8);
        let capacity = len.saturating_sub(START as u64);
        if capacity < CHECKPOINT_BYTES || checkpoint < first || end < checkpoint {
            return Err(corrupt("its checkpoint is not in it", CHECKPOINTS[0]));
        }
        Ok(Log { first, capacity, checkpoint, end })
    }

    /// The offset of the last checkpoint in the file; after the last byte of the file the log continues at
    /// [`START`].
    #[must_use]
    pub fn place(&self) -> u64 {
        START as u64 + (self.end - self.first) % self.capacity
    }

    /// Whether nothing was written since the last checkpoint. `tail` is the log from [`Log::place`] on.
    #[must_use]
    pub fn is_at_end(&self, tail: &[u8]) -> bool {
        let Some((record, rest)) = tail.split_at_checked(16) else { return false };
        self.checkpoint == self.end
            && record.starts_with(&CHECKPOINT_HEAD)
            && u64_at(record, 3) == self.checkpoint
            && self.is_written(record, self.end)
            && !self.is_written(rest, self.end.saturating_add(CHECKPOINT_BYTES))
    }

    /// Whether the log has a mini-transaction at `lsn`, whose bytes are `bytes`.
    fn is_written(&self, bytes: &[u8], lsn: u64) -> bool {
        let mut at = 0;
        // Records, each with its length, up to a byte that says in which round it was written.
        while let Some(&first) = bytes.get(at).filter(|&&first| first > 1) {
            let Some(len) = record_bytes(first, &bytes[at + 1..]) else { return false };
            at += len;
        }
        let round = (lsn - self.first).saturating_add(at as u64) / self.capacity;
        let ends = bytes.get(at).is_some_and(|&end| u64::from(end) == (round + 1) & 1);
        at > 0 && ends && bytes.get(at + 1..at + 5).is_some_and(|sum| u32_at(sum, 0) == crc(&bytes[..at]))
    }
}

/// Bytes of a record, including its first.
fn record_bytes(first: u8, rest: &[u8]) -> Option<usize> {
    let len = usize::from(first & 15);
    if len > 0 {
        return Some(1 + len);
    }
    let byte = |at: usize| rest.get(at).map(|&byte| usize::from(byte));
    let more = match byte(0)? {
        low @ 0..=0x7F => low,
        low @ 0x80..=0xBF => ((low & 0x3F) << 8 | byte(1)?) + 0x80,
        low @ 0xC0..=0xDF => ((low & 0x1F) << 16 | byte(1)? << 8 | byte(2)?) + 0x4080,
        _ => return None,
    };
    Some(1 + 15 + more + 1)
}
