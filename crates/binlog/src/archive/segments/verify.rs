//! Verifies every byte of a segmented archive.

use std::io;
use std::sync::Arc;

use block::verify::Sample;

use super::super::gtid_state::{GtidState, missing_gtids};
use super::super::sample::is_in;
use super::super::tail::PositionTracker;
use super::chunk::{chunks, decrypt, read_stored};
use super::index::SegmentArchive;
use crate::reader::{End, Reader};
use crate::{Corrupt, Error};

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Number of segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of the server's files.
    pub files: u64,
    /// Whether the log itself was read, event by event. Otherwise only its stored bytes were checked.
    pub is_opened: bool,
    /// What is damaged or missing.
    pub damages: Vec<Corrupt>,
}

/// Reads all segments, or those of the files in a sample. `goes_on` is called from time to time with the
/// bytes read since the last call, and returns whether to continue.
///
/// # Errors
/// [`Error::Io`] if the store does not answer, and `Interrupted` if `goes_on` returned false.
pub fn verify(
    segments: &Arc<SegmentArchive>,
    sample: Option<Sample>,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Verified, Error> {
    let mut found = Verified {
        segments: segments.entries.len() as u64,
        is_opened: segments.reads(),
        damages: segments.damages().to_vec(),
        ..Verified::default()
    };
    let store = &*segments.store;
    for entry in &segments.entries {
        found.bytes += entry.bytes;
        if !is_in(sample, entry.header.segment.timeline, &entry.header.segment.file) {
            continue;
        }
        let name = entry.name();
        let proven = store.open(&name).and_then(|source| {
            for (_, at, chunk) in chunks(entry) {
                let bytes = read_stored(store, &*source, (entry, at, chunk))?;
                if found.is_opened {
                    decrypt(store, &name, bytes, chunk)?;
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
    for timeline in segments.timelines() {
        // The GTID state at the end of the previous file, if that was read.
        let mut known = None;
        for file in &timeline.files {
            found.files += 1;
            let before = known.take();
            let what = match &file.missing {
                Some(what) => Some(what.clone()),
                None if !found.is_opened || !is_in(sample, timeline.number, &file.name) => None,
                None => match events(segments, file, before.as_ref())? {
                    Events::Whole { state, missing } => {
                        known = state;
                        missing
                    }
                    Events::Damaged(what) => what,
                },
            };
            let place = format!("timeline {}, {}", timeline.number, file.name);
            found.damages.extend(what.map(|what| Corrupt { what, place }));
        }
    }
    Ok(found)
}

/// The result for a file's events.
enum Events {
    /// The GTID state at its end, and the transactions missing before it.
    Whole { state: Option<GtidState>, missing: Option<String> },
    /// What is wrong, unless it was reported already.
    Damaged(Option<String>),
}

/// Reads a file event by event. `known`: the GTID state at the end of the previous file.
fn events(
    segments: &Arc<SegmentArchive>,
    file: &super::LogFile,
    known: Option<&GtidState>,
) -> Result<Events, Error> {
    let mut track = PositionTracker::default();
    let mut before = None;
    let mut read = || -> Result<Option<End>, Error> {
        let mut reader = Reader::open(segments.open_file(file))?;
        while let Some(event) = reader.next()? {
            track.take(&event)?;
            before = before.take().or_else(|| track.state.clone());
        }
        Ok(reader.end().cloned())
    };
    Ok(match read() {
        Ok(None | Some(End::Whole)) => {
            let missing = known.zip(before.as_ref()).and_then(|(known, before)| missing_gtids(known, before));
            let missing = missing.map(|missing| format!("transactions are missing before it: {missing}"));
            Events::Whole { state: track.state, missing }
        }
        Ok(Some(_)) => Events::Damaged(Some("it ends within an event".to_owned())),
        Err(Error::Io(error)) if error.kind() != io::ErrorKind::InvalidData => return Err(error.into()),
        // Damage of a segment was reported already.
        Err(Error::Io(_)) => Events::Damaged(None),
        Err(error) => Events::Damaged(Some(error.to_string())),
    })
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
