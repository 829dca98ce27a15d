//! Proves every byte of an archive in pieces.

use std::io;
use std::sync::Arc;

use block::verify::Sample;

use super::super::numbers::Numbers;
use super::super::sample::is_in;
use super::chain::Pieces;
use super::chunk::{chunks, opened, stored};
use crate::reader::{End, Reader};
use crate::{Corrupt, Error};

/// What was proven, and what is wrong.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// How many pieces there are.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many files of servers.
    pub files: u64,
    /// Whether the log itself was read, event by event. Otherwise its bytes were proven as they are stored.
    pub is_opened: bool,
    /// What is damaged or missing.
    pub damages: Vec<Corrupt>,
}

/// Reads all pieces, or those of the files of a sample; `goes_on` is asked now and then, with the bytes that
/// were read since, whether to go on.
///
/// # Errors
/// [`Error::Io`] if the store does not answer, and `Interrupted` if it is not to go on.
pub fn verify(
    pieces: &Arc<Pieces>,
    sample: Option<Sample>,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Verified, Error> {
    let mut found = Verified {
        pieces: pieces.entries.len() as u64,
        is_opened: pieces.reads(),
        damages: pieces.damages().to_vec(),
        ..Verified::default()
    };
    let store = &*pieces.store;
    for entry in &pieces.entries {
        found.bytes += entry.bytes;
        if !is_in(sample, entry.front.piece.line, &entry.front.piece.file) {
            continue;
        }
        let name = entry.name();
        let proven = store.open(&name).and_then(|source| {
            for (_, at, chunk) in chunks(entry) {
                let bytes = stored(store, &*source, (entry, at, chunk))?;
                if found.is_opened {
                    opened(store, &name, bytes, chunk)?;
                }
            }
            Ok(())
        });
        if let Err(error) = proven {
            damage(&mut found, store.shown(&name), error)?;
        }
        if !goes_on(entry.bytes) {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
    }
    for line in pieces.lines() {
        let mut numbers = Numbers::default();
        for file in &line.files {
            found.files += 1;
            let place = format!("line {}, {}", line.number, file.name);
            if let Some(what) = &file.missing {
                found.damages.push(Corrupt { what: what.clone(), place });
                numbers = Numbers::default();
            } else if !found.is_opened || !is_in(sample, line.number, &file.name) {
                numbers = Numbers::default();
            } else if let Some(what) = events(pieces, file, &mut numbers)? {
                found.damages.push(Corrupt { what, place });
            }
        }
    }
    Ok(found)
}

/// Reads a file event by event. Returns what is wrong with it.
fn events(
    pieces: &Arc<Pieces>,
    file: &super::LogFile,
    numbers: &mut Numbers,
) -> Result<Option<String>, Error> {
    let mut missing = None;
    let mut read = || -> Result<Option<End>, Error> {
        let mut reader = Reader::open(pieces.open_file(file))?;
        while let Some(event) = reader.next()? {
            missing = numbers.take(&event)?.or(missing.take());
        }
        Ok(reader.end().cloned())
    };
    let read = read();
    if !matches!(read, Ok(None | Some(End::Whole))) {
        // What it has further is unknown.
        *numbers = Numbers::default();
    }
    match read {
        Ok(None | Some(End::Whole)) => Ok(missing),
        Ok(Some(_)) => Ok(Some("it ends within an event".to_owned())),
        Err(Error::Io(error)) if error.kind() != io::ErrorKind::InvalidData => Err(error.into()),
        // That of a piece was told already.
        Err(Error::Io(_)) => Ok(None),
        Err(error) => Ok(Some(error.to_string())),
    }
}

fn damage(found: &mut Verified, place: String, error: io::Error) -> Result<(), Error> {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound => {
            found.damages.push(Corrupt { what: error.to_string(), place });
            Ok(())
        }
        _ => Err(error.into()),
    }
}
