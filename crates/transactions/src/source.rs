//! Reads files of a log.

use std::io::{self, BufReader, Read};

use anyhow::{Context, Result};
use binlog::event::Event;
use binlog::event::format::Format;
use binlog::reader::Reader;
use disk::Source;

use crate::file::LogFile;
use crate::transaction::{Place, Transaction};

/// Bytes that are read at once.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The least that is read at once.
const LEAST_BYTES: usize = 1 << 10;

/// Reads the events of a file.
pub(crate) type LogReader = Reader<BufReader<FileSource>>;

/// A file, read from an offset on.
pub struct FileSource {
    source: Box<dyn Source>,
    at: u64,
}

impl FileSource {
    /// Opens a file, all of which is read from there on.
    pub fn open(file: &LogFile, at: u64) -> Result<BufReader<FileSource>> {
        FileSource::sized(file, at, PIECE_BYTES)
    }

    /// Opens a file of which about so many bytes are read.
    fn sized(file: &LogFile, at: u64, bytes: usize) -> Result<BufReader<FileSource>> {
        let source = file.open().with_context(|| file.display().to_string())?;
        Ok(BufReader::with_capacity(bytes.clamp(LEAST_BYTES, PIECE_BYTES), FileSource { source, at }))
    }
}

impl Read for FileSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read_at(self.at, buffer)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// Reads the events of a transaction again, in one file after the other.
pub(crate) fn again(
    whole: &Transaction,
    files: &[LogFile],
    take: impl FnMut(&Event<'_>, Place) -> Result<()>,
) -> Result<()> {
    let bytes = usize::try_from(whole.bytes).unwrap_or(PIECE_BYTES);
    events(&Span { start: whole.start, end: whole.end, bytes }, &whole.format, files, take)
}

/// Events that follow each other.
pub(crate) struct Span {
    pub(crate) start: Place,
    pub(crate) end: Place,
    /// About how many bytes they have.
    pub(crate) bytes: usize,
}

/// Reads events. Their first file is written in this format from there on.
pub(crate) fn events(
    span: &Span,
    format: &Format,
    files: &[LogFile],
    mut take: impl FnMut(&Event<'_>, Place) -> Result<()>,
) -> Result<()> {
    let Span { start, end, bytes } = *span;
    for number in start.file..=end.file {
        let Some(path) = files.get(number) else { break };
        let mut reader = match number == start.file {
            true => Reader::at(FileSource::sized(path, start.at, bytes)?, start.at, format.clone()),
            false => Reader::open(FileSource::sized(path, 0, bytes)?)?,
        }
        .unpacking();
        while let Some(event) = reader.next()? {
            let place = Place { file: number, at: event.at };
            if place >= end {
                break;
            }
            take(&event, place)?;
        }
    }
    Ok(())
}

/// What the first event of a file says: when the server began it, in seconds since 1970, and how it is
/// written. A time of 0 if that event is not there yet.
pub(crate) fn head(file: &LogFile) -> Result<(u32, Format)> {
    let mut reader = Reader::open(FileSource::sized(file, 0, LEAST_BYTES)?)?;
    let begun = reader.next()?.map_or(0, |event| event.header.timestamp);
    Ok((begun, reader.format().clone()))
}

/// When the server began a file, in seconds since 1970; 0 if it has no event yet.
///
/// # Errors
/// If it can't be read, or is no log.
pub fn begun(file: &LogFile) -> Result<u32> {
    Ok(head(file)?.0)
}
