//! A segmented archive: files that are written once, in any store, encrypted or not.
//!
//! A segment has the next bytes of the server's log, and names the previous segment. Whoever writes a number
//! first owns it, so two archivers can't continue from the same place. Nothing is ever appended to a file, so
//! no file is torn. Many small segments are compacted into one, whose name has the range of their numbers; if
//! both exist, the larger one takes precedence.
//!
//! docs/decisions/0520-a-log-in-pieces.md gives the reasons.

mod chunk;
mod compact;
mod file;
mod index;
mod prune;
mod segment_set;
mod verify;
mod writer;

use std::io::{self, Read, Write as _};

use block::{NUMBER_MAX, Store};

use super::segment::{self, HashText, Numbers, PREFIX_BYTES, SegmentHeader, header_bytes};
use crate::{Corrupt, Error};

pub use file::ArchivedFile;
pub use index::{LogFile, SegmentArchive, TimelineFiles};
pub use prune::{prune, remove_superseded};
pub use verify::{Verified, verify};
pub use writer::{HashComparer, NewestTimeline, SegmentWriter};

/// The number of the first segment that is kept, as text.
const FIRST: &str = "first.note";
/// When the archive last had everything, in seconds since 1970, and the newest segment then, as text.
const CAUGHT_UP: &str = "caught-up.note";
/// Limit for the bytes of a note.
const NOTE_MAX: u64 = 64;

/// A segment whose header was read.
#[derive(Clone, Debug)]
struct Entry {
    header: SegmentHeader,
    /// What the next segment names.
    root: HashText,
    /// Where its chunks begin.
    at: u64,
    /// Bytes of the file.
    bytes: u64,
}

impl Entry {
    fn numbers(&self) -> Numbers {
        (self.header.segment.first, self.header.segment.last)
    }

    fn name(&self) -> String {
        segment::name(self.numbers())
    }

    /// Reads the header of a segment.
    fn read(store: &dyn Store, numbers: Numbers) -> Result<Entry, Error> {
        let name = segment::name(numbers);
        let corrupt = |what: String| Error::Corrupt(Corrupt { what, place: store.shown(&name) });
        let damaged = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => corrupt(error.to_string()),
            _ => Error::Io(error),
        };
        let source = store.open(&name).map_err(damaged)?;
        let bytes = source.stat()?.len;
        let mut head = [0; PREFIX_BYTES];
        if source.read_full_at(0, &mut head).map_err(damaged)? < PREFIX_BYTES {
            return Err(corrupt("the segment header is truncated".to_owned()));
        }
        let len = header_bytes(&head).map_err(|flaw| corrupt(flaw.0.to_owned()))?;
        if len as u64 > bytes {
            return Err(corrupt("the segment header is truncated".to_owned()));
        }
        let mut header = vec![0; len];
        let count = source.read_full_at(0, &mut header).map_err(damaged)?;
        header.truncate(count);
        let decoded = SegmentHeader::decode(&header, numbers, bytes);
        let (header, root) = decoded.map_err(|wrong| corrupt(wrong.what))?;
        Ok(Entry { header, root, at: len as u64, bytes })
    }
}

/// Whether a file with the name of a segment is not sealed although the archive is, so that it does not
/// belong to it.
fn is_foreign(store: &dyn Store, numbers: Numbers) -> bool {
    store.open(&segment::name(numbers)).is_err_and(|error| block::is_not_encrypted(&error))
}

/// A note; `None` if there is none.
fn note(store: &dyn Store, name: &str) -> Result<Option<String>, Error> {
    let mut text = String::new();
    let read = store.open(name).and_then(|source| source.take(NOTE_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Corrupt { what: error.to_string(), place: store.shown(name) }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The numbers in a note.
fn numbers(store: &dyn Store, name: &str) -> Result<Option<Vec<u64>>, Error> {
    let Some(text) = note(store, name)? else { return Ok(None) };
    let number = |word: &str| word.parse().ok().filter(|number| *number <= NUMBER_MAX);
    let wrong = || Corrupt { what: "not an archive note".to_owned(), place: store.shown(name) };
    let parsed: Option<Vec<u64>> = text.split_whitespace().map(number).collect();
    Ok(Some(parsed.ok_or_else(wrong)?))
}

/// The number of the first segment that is kept.
fn first(store: &dyn Store) -> Result<u64, Error> {
    let noted = numbers(store, FIRST)?.and_then(|all| all.first().copied());
    Ok(noted.unwrap_or(1).max(1))
}

/// When an archive last had everything that the server had, in seconds since 1970, and the number of its
/// newest segment at that time.
///
/// # Errors
/// [`Error::Io`]; [`Error::Corrupt`] if the note can't be read.
pub fn caught_up(store: &dyn Store) -> Result<Option<(i64, u64)>, Error> {
    let Some(noted) = numbers(store, CAUGHT_UP)? else { return Ok(None) };
    let when = noted.first().and_then(|when| i64::try_from(*when).ok());
    Ok(when.map(|when| (when, noted.get(1).copied().unwrap_or(0))))
}

/// Writes a note.
fn put_note(store: &dyn Store, name: &str, numbers: &[u64]) -> io::Result<()> {
    let mut text = Vec::new();
    for number in numbers {
        write!(text, "{number} ")?;
    }
    store.put(name, &text)
}

/// Whether a store has a segmented archive.
///
/// # Errors
/// Errors of the store.
pub fn is_there(store: &dyn Store) -> io::Result<bool> {
    Ok(store.list()?.iter().any(|name| segment::numbers(name).is_some()))
}
