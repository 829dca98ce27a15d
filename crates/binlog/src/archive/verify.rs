//! Proves an archive that is the server's files: every event by its checksum, if the server wrote any.

use std::io::{self, BufReader, Read};
use std::path::Path;

use disk::Disk;

use super::line::files;
use super::lines;
use super::numbers::Numbers;
use super::pieces::Verified;
use crate::event::Kind;
use crate::reader::{End, Reader};
use crate::{Corrupt, Error};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Reads all files of the archive in a folder; `goes_on` is asked now and then, with the bytes that were read
/// since, whether to go on.
///
/// # Errors
/// [`Error::Io`] if they can't be read, and `TimedOut` if it is not to go on.
pub fn verify(
    disk: &dyn Disk,
    archive: &Path,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Verified, Error> {
    let mut found = Verified { is_opened: true, ..Verified::default() };
    for line in lines(disk, archive)? {
        let names = files(disk, &line)?;
        let mut numbers = Numbers::default();
        for name in &names {
            let path = line.join(name);
            let source = match disk.open(&path) {
                Ok(source) => source,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // What a prune has removed meanwhile is not missing.
                    numbers = Numbers::default();
                    if files(disk, &line)?.contains(name) {
                        found.damages.push(Corrupt {
                            what: "the file is missing, and the line's log.index names it".to_owned(),
                            place: path.display().to_string(),
                        });
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            found.files += 1;
            found.bytes += source.stat()?.len;
            let counted = Counted { source: BufReader::with_capacity(PIECE_BYTES, source), goes_on };
            if let Some(what) = file(counted, names.last() == Some(name), &mut numbers)? {
                found.damages.push(Corrupt { what, place: path.display().to_string() });
            }
        }
    }
    Ok(found)
}

/// What is wrong with a file. The last one of a line may be written, or end where a run was killed.
fn file(input: impl Read, is_last: bool, numbers: &mut Numbers) -> Result<Option<String>, Error> {
    let mut missing = None;
    let read = || -> Result<_, Error> {
        let mut reader = Reader::open(input)?;
        // It says whether the others have checksums, so that without it nothing would be proven.
        if let Some(first) = reader.next()?
            && first.header.kind != Kind::FORMAT_DESCRIPTION
        {
            return Err(Error::Foreign("it does not begin with a FORMAT_DESCRIPTION event"));
        }
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
    Ok(match read {
        Ok(None | Some(End::Whole)) => missing,
        Ok(Some(End::Torn { .. })) if is_last => None,
        Ok(Some(End::Torn { at, .. })) => Some(format!("it ends within the event at {at}")),
        Ok(Some(End::Encrypted { at })) => Some(format!(
            "what is behind {at} is encrypted by the server, which no archive has, and was not read"
        )),
        Err(Error::Io(error)) if error.kind() != io::ErrorKind::InvalidData => return Err(error.into()),
        Err(error) => Some(error.to_string()),
    })
}

/// Tells what is read.
struct Counted<'a, R> {
    source: R,
    goes_on: &'a mut dyn FnMut(u64) -> bool,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(room)?;
        if !(self.goes_on)(count as u64) {
            // Not Interrupted: that is tried again.
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(count)
    }
}
