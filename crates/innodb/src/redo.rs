//! The redo log: whether it shows a clean shutdown, and a copy of it that is verified byte by byte.
//!
//! A server that recovers takes the first mini-transaction that is not sound for the end of the log, and says
//! nothing. So a copy must be proven before: a changed bit would undo everything after it.
//!
//! Facts: `log0log.h` and `mtr0types.h` of MariaDB's source; the format of MariaDB 10.8 and later.

pub mod blocks;
mod changed_pages;
mod dictionary;
mod tablespaces;

pub use self::changed_pages::ChangedPages;
pub use self::tablespaces::{Tablespaces, path_in_copy};

use std::ops::Range;

use crate::Error;
use crate::page::{crc, u32_at, u64_at};

/// Bytes before the log: its header, and two checkpoints.
pub const START_OFFSET: usize = 12_288;
/// Where the checkpoints are.
const CHECKPOINTS: [usize; 2] = [4096, 8192];
/// Bytes of the checkpoint record, with its end.
const CHECKPOINT_BYTES: u64 = 16;
/// More than a server writes in its life.
const LSN_MAX: u64 = 1 << 62;
/// Type and empty page number of a checkpoint record; an LSN, an end byte and a checksum follow.
const CHECKPOINT_HEAD: [u8; 3] = [0xFA, 0, 0];
/// The formats, by the number at the beginning: MariaDB 10.8 and later, and those before.
const CURRENT: u32 = 0x5068_7973;
const EARLIER: [u32; 5] = [0, 1, 103, 104, 0x5048_5953];

/// Records about the file of a tablespace.
const FILE_CREATE: u8 = 0x80;
const FILE_DELETE: u8 = 0x90;
const FILE_RENAME: u8 = 0xA0;

/// A greater first byte begins no length of a record.
const LENGTH_MAX: u8 = 0xDF;
/// Bytes after the records of a mini-transaction: the round, and a checksum.
const END_BYTES: usize = 5;
/// The round byte of what is written before the log starts over.
const FIRST_ROUND: u8 = 1;
/// More bytes than a mini-transaction has.
const MINI_BYTES_MAX: usize = 64 << 20;
/// Who made the log, if it is a copy.
pub const CREATOR: &[u8] = b"remora";
/// Where that is in the header, with zeros behind it.
const CREATOR_AT: Range<usize> = 16..48;

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

/// Who made the log whose first bytes these are, such as `MariaDB 10.11.19`.
#[must_use]
pub fn creator(head: &[u8]) -> &[u8] {
    let name = head.get(CREATOR_AT).unwrap_or_default();
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl Log {
    /// Reads the first [`START_OFFSET`] bytes of `ib_logfile0`, whose length is `len`.
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
        let capacity = len.saturating_sub(START_OFFSET as u64);
        if capacity < CHECKPOINT_BYTES || checkpoint < first || end < checkpoint || end > LSN_MAX {
            return Err(corrupt("its checkpoint is not in it", CHECKPOINTS[0]));
        }
        Ok(Log { first, capacity, checkpoint, end })
    }

    /// The LSN of the last checkpoint: the data files are complete up to it.
    #[must_use]
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// The number of bytes that the log has before the server writes over them.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The offset of the last checkpoint in the file; after the last byte of the file the log continues at
    /// [`START_OFFSET`].
    #[must_use]
    pub fn place(&self) -> u64 {
        START_OFFSET as u64 + (self.end - self.first) % self.capacity
    }

    /// Where the bytes of these LSNs are in the file, and how many are there: in two places if the file ends
    /// between them. Those before the log was begun are left out.
    pub fn places(&self, lsns: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (start, end) = (lsns.start.clamp(self.first, lsns.end.max(self.first)), lsns.end.max(self.first));
        let at = (start - self.first) % self.capacity;
        let len = (end - start).min(self.capacity);
        let before_end = len.min(self.capacity - at);
        let places = [(START_OFFSET as u64 + at, before_end), (START_OFFSET as u64, len - before_end)];
        places.into_iter().filter(|(_, len)| *len > 0)
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
        matches!(self.mini_transaction(bytes, lsn), MiniTransaction::Whole(_))
    }

    /// The mini-transaction at `lsn`, whose bytes `bytes` begin with.
    fn mini_transaction(&self, bytes: &[u8], lsn: u64) -> MiniTransaction {
        let mut at = 0;
        // Records, each with its length, up to a byte that says in which round it was written.
        while let Some(&first) = bytes.get(at).filter(|&&first| first > 1) {
            let rest = &bytes[at + 1..];
            match record_bytes(first, rest) {
                Some(len) => at += len,
                None if rest.first().is_some_and(|&byte| byte > LENGTH_MAX) => return MiniTransaction::Wrong,
                None => return MiniTransaction::Cut,
            }
        }
        let Some([end, sum @ ..]) = bytes.get(at..at + END_BYTES) else { return MiniTransaction::Cut };
        let round = (lsn - self.first).saturating_add(at as u64) / self.capacity;
        if at > 0 && u64::from(*end) == (round + 1) & 1 && u32_at(sum, 0) == crc(&bytes[..at]) {
            MiniTransaction::Whole(at)
        } else {
            MiniTransaction::Wrong
        }
    }
}

/// What is at a place of the log.
enum MiniTransaction {
    /// A mini-transaction with so many bytes of records, which are followed by its end.
    Whole(usize),
    /// The beginning of one, as far as can be seen.
    Cut,
    /// Something else.
    Wrong,
}

/// Copies a log from its checkpoint on, and verifies all of it. The copy is not circular:
/// [`LogCopier::head`] comes first, the mini-transactions follow. It names no file outside of the data
/// folder ([`path_in_copy`]): a server that recovers by it would open that file of the original server.
#[derive(Clone, Debug)]
pub struct LogCopier {
    log: Log,
    /// Everything before this LSN is verified.
    lsn: u64,
    /// The bytes from there on that were taken.
    rest: Vec<u8>,
    spaces: Tablespaces,
}

impl LogCopier {
    /// Begins at the checkpoint of a log.
    #[must_use]
    pub fn new(log: Log) -> LogCopier {
        LogCopier { log, lsn: log.checkpoint, rest: Vec::new(), spaces: Tablespaces::default() }
    }

    /// Begins at an earlier LSN, at which a mini-transaction must begin, and notes which pages the log
    /// changes from there on. None if the log begins later. Whether the server has overwritten that place
    /// since can't always be seen in the log itself: see [`Log::capacity`].
    #[must_use]
    pub fn since(log: Log, lsn: u64) -> Option<LogCopier> {
        let spaces = Tablespaces::with_pages();
        (log.first..=log.checkpoint).contains(&lsn).then(|| LogCopier { lsn, spaces, ..LogCopier::new(log) })
    }

    /// The pages that the log changes, if it was begun by [`LogCopier::since`].
    #[must_use]
    pub fn changed_pages(&self) -> Option<&ChangedPages> {
        self.spaces.changed_pages()
    }

    /// What the log says of tablespaces, as far as it was taken.
    #[must_use]
    pub fn spaces(&self) -> &Tablespaces {
        &self.spaces
    }

    /// The LSN before which everything is verified.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The LSN of the next byte to take.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.lsn + self.rest.len() as u64
    }

    /// Where the next byte is in the file, and how many bytes there are from it to the end of the file. After
    /// these the log continues at [`START_OFFSET`].
    #[must_use]
    pub fn place(&self) -> (u64, u64) {
        let at = (self.next() - self.log.first) % self.log.capacity;
        (START_OFFSET as u64 + at, self.log.capacity - at)
    }

    /// Takes the next bytes of the log, which the server must have flushed: an unfinished write can't be
    /// distinguished from damage. Appends the complete mini-transactions to `out`, as they are in the copy.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where something else is than a mini-transaction: damage, or the server has written
    /// over it.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let rest = &self.rest[at..];
            match self.log.mini_transaction(rest, self.lsn) {
                MiniTransaction::Whole(len) => {
                    let (records, end) = self.rest[at..at + len + END_BYTES].split_at_mut(len);
                    // The checksum is of the records alone.
                    if self.spaces.take(records, self.lsn) {
                        put(end, 1, &crc(records).to_be_bytes());
                    }
                    out.extend_from_slice(records);
                    out.push(FIRST_ROUND);
                    out.extend_from_slice(&end[1..]);
                    at += len + END_BYTES;
                    self.lsn += (len + END_BYTES) as u64;
                }
                MiniTransaction::Cut if rest.len() < MINI_BYTES_MAX => break,
                _ => return Err(self.gap()),
            }
        }
        self.rest.drain(..at);
        Ok(())
    }

    /// Whether the copy can end at this LSN, which must be the end of a mini-transaction.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the copy does not end there.
    pub fn end(&self, lsn: u64) -> Result<(), Error> {
        if self.lsn == lsn && self.rest.is_empty() { Ok(()) } else { Err(self.gap()) }
    }

    /// The first [`START_OFFSET`] bytes of the copy.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = vec![0; START_OFFSET];
        put(&mut head, 0, &CURRENT.to_be_bytes());
        put(&mut head, 8, &self.log.checkpoint.to_be_bytes());
        put(&mut head, CREATOR_AT.start, CREATOR);
        let sum = crc(&head[..508]);
        put(&mut head, 508, &sum.to_be_bytes());
        let at = CHECKPOINTS[0];
        put(&mut head, at, &self.log.checkpoint.to_be_bytes());
        put(&mut head, at + 8, &self.log.end.to_be_bytes());
        let sum = crc(&head[at..at + 60]);
        put(&mut head, at + 60, &sum.to_be_bytes());
        head
    }

    fn gap(&self) -> Error {
        Error::Corrupt {
            what: "the log has a gap, or the server has overwritten it".to_owned(),
            place: format!("LSN {}", self.lsn),
        }
    }
}

fn put(head: &mut [u8], at: usize, bytes: &[u8]) {
    head[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A number of one to five bytes, and how many they are (`mlog_decode_varint`).
fn number(bytes: &[u8]) -> Option<(u32, usize)> {
    let (count, first, least) = match *bytes.first()? {
        first @ 0..=0x7F => (1, first, 0),
        first @ 0x80..=0xBF => (2, first & 0x3F, 0x80),
        first @ 0xC0..=0xDF => (3, first & 0x1F, 0x4080),
        first @ 0xE0..=0xEF => (4, first & 0x0F, 0x0020_4080),
        _ => (5, 0, 0x1020_4080),
    };
    let rest = bytes.get(1..count)?.iter();
    let value = rest.fold(u32::from(first), |value, byte| value << 8 | u32::from(*byte));
    Some((value.checked_add(least)?, count))
}

/// Bytes of a record, including its first.
fn record_bytes(first: u8, rest: &[u8]) -> Option<usize> {
    let len = usize::from(first & 15);
    if len > 0 {
        return Some(1 + len);
    }
    if rest.first().is_some_and(|&byte| byte > LENGTH_MAX) {
        return None;
    }
    let more = usize::try_from(number(rest)?.0).ok()?;
    Some(16 + more)
}
