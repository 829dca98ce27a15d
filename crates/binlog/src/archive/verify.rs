//! Verifies an archive of the server's files: every event by its checksum, if the server wrote any.

use std::io::{self, BufReader, Read};
use std::path::Path;

use block::verify::Sample;
use disk::Disk;

use super::arrival::arrivals;
use super::gtid_state::{GtidState, missing_gtids};
use super::sample::is_in;
use super::segments::Verified;
use super::tail::PositionTracker;
use super::timeline::{DESCRIPTION, Timeline, files, unlisted};
use super::timelines;
use crate::event::Kind;
use crate::reader::{End, Reader};
use crate::{Corrupt, Error};

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Reads all files of the archive in a folder, or those of a sample. `goes_on` is called from time to time
/// with the bytes read since the last call, and returns whether to continue.
///
/// # Errors
/// [`Error::Io`] if they can't be read, and `TimedOut` if `goes_on` returned false.
pub fn verify(
    disk: &dyn Disk,
    archive: &Path,
    sample: Option<Sample>,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Verified, Error> {
    let mut found = Verified { is_opened: true, ..Verified::default() };
    let all = timelines(disk, archive)?;
    for (at, timeline) in all.iter().enumerate() {
        // How far it was when the next timeline began.
        let next = all.get(at + 1).and_then(|next| Timeline::read(disk, next).ok());
        let reached = next.and_then(|next| next.info.before);
        let number = timeline.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0);
        let damage =
            |file: &str, what: String| Corrupt { what, place: timeline.join(file).display().to_string() };
        found
            .damages
            .extend(Timeline::read(disk, timeline).err().map(|error| damage(DESCRIPTION, error.to_string())));
        found.damages.extend(unlisted(disk, timeline)?.iter().map(|file| {
            damage(file, "the file is there, but the timeline's log.index does not list it".to_owned())
        }));
        let names = files(disk, timeline)?;
        for (at, name) in names.iter().enumerate() {
            let path = timeline.join(name);
            // Before the file, which may grow meanwhile.
            let is_read = is_in(sample, number, name);
            let noted = if is_read { arrivals(disk, timeline, name)? } else { Vec::new() };
            let noted = noted.last().map(|arrival| arrival.end);
            let source = match disk.open(&path) {
                Ok(source) => source,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // A file that a prune has removed meanwhile is not missing.
                    if files(disk, timeline)?.contains(name) {
                        found.damages.push(Corrupt {
                            what: "the file is missing, but the timeline's log.index lists it".to_owned(),
                            place: path.display().to_string(),
                        });
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let len = source.stat()?.len;
            found.files += 1;
            found.bytes += len;
            if !is_read {
                continue;
            }
            let counted = Counted { source: BufReader::with_capacity(READ_BYTES, source), goes_on };
            let next = names.get(at + 1).map(String::as_str);
            let what = match (file(counted, next.is_none())?, next) {
                (Err(what), _) => Some(what),
                (Ok(track), next) => {
                    let reached = reached.as_ref().filter(|(file, _)| file == name).map(|(_, end)| *end);
                    let short = shorter(len, noted.max(reached));
                    match next.filter(|_| short.is_none()) {
                        Some(next) => cut(disk, timeline, &Closed { len, track: &track, next })?,
                        None => short,
                    }
                }
            };
            if let Some(what) = what {
                found.damages.push(Corrupt { what, place: path.display().to_string() });
            }
        }
    }
    Ok(found)
}

/// Reads a file: how far it goes, or what is wrong with it. The last file of a timeline may be in use, or
/// incomplete because a run was killed.
fn file(input: impl Read, is_last: bool) -> Result<Result<PositionTracker, String>, Error> {
    let mut track = PositionTracker::default();
    let read = || -> Result<_, Error> {
        let mut reader = Reader::open(input)?;
        // It says whether the others have checksums; without it nothing would be verified.
        if let Some(first) = reader.next()?
            && first.header.kind != Kind::FORMAT_DESCRIPTION
        {
            return Err(Error::Foreign("it does not begin with a FORMAT_DESCRIPTION event"));
        }
        while let Some(event) = reader.next()? {
            track.take(&event)?;
        }
        Ok(reader.end().cloned())
    };
    Ok(match read() {
        Ok(None | Some(End::Whole)) => Ok(track),
        Ok(Some(End::Torn { .. })) if is_last => Ok(track),
        Ok(Some(End::Torn { at, .. })) => Err(format!("it ends within the event at {at}")),
        Ok(Some(End::Encrypted { at })) => Err(format!(
            "the bytes after {at} are encrypted by the server, which archives are not, and were not read"
        )),
        Err(Error::Io(error)) if error.kind() != io::ErrorKind::InvalidData => return Err(error.into()),
        Err(error) => Err(error.to_string()),
    })
}

/// What is missing at the end of a file, if its former length is known.
fn shorter(len: u64, reached: Option<u64>) -> Option<String> {
    let end = reached.filter(|end| *end > len)?;
    Some(format!("it ends at {len}, but {end} bytes were archived: the rest is missing"))
}

/// A file of a timeline that another one follows.
struct Closed<'a> {
    /// Bytes.
    len: u64,
    /// What reading it to its end has found.
    track: &'a PositionTracker,
    /// The file that log.index lists after it.
    next: &'a str,
}

/// What is missing at the end of a file that another one follows, even if it ends after an event. A killed
/// server writes no final event, so only other records show it.
fn cut(disk: &dyn Disk, timeline: &Path, file: &Closed<'_>) -> io::Result<Option<String>> {
    let Closed { len, track, next } = *file;
    let other = track.next.as_deref().filter(|named| *named != next);
    if let Some(other) = other {
        return Ok(Some(format!("it names {other} as the next file, but log.index lists {next}")));
    }
    let Some(before) = listed(disk, &timeline.join(next)) else { return Ok(None) };
    let missing = missing_gtids(&track.state.clone().unwrap_or_default(), &before);
    Ok(missing.map(|missing| {
        format!("it ends at {len}, and transactions are missing between it and {next}: {missing}")
    }))
}

/// The GTID state before a file, as MariaDB lists it at its beginning. Damage of the file is reported when it
/// is read.
fn listed(disk: &dyn Disk, path: &Path) -> Option<GtidState> {
    let mut reader = Reader::open(BufReader::new(disk.open(path).ok()?)).ok()?;
    let mut track = PositionTracker::default();
    while track.state.is_none() {
        let event = reader.next().ok()??;
        if ![Kind::FORMAT_DESCRIPTION, Kind::GTID_LIST].contains(&event.header.kind) {
            return None;
        }
        track.take(&event).ok()?;
    }
    track.state
}

/// Reports the bytes that are read.
struct Counted<'a, R> {
    source: R,
    goes_on: &'a mut dyn FnMut(u64) -> bool,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(room)?;
        if !(self.goes_on)(count as u64) {
            // Not Interrupted: that would be retried.
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(count)
    }
}
