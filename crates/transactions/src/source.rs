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
    mut take: impl FnMut(&Event<'_>, Place) -> Result<()>,
) -> Result<()> {
    let bytes = usize::try_from(whole.bytes).unwrap_or(PIECE_BYTES);
    for number in whole.start.file..=whole.end.file {
        let Some(path) = files.get(number) else { break };
        let mut reader = match number == whole.start.file {
            true => {
                let at = whole.start.at;
                Reader::at(FileSource::sized(path, at, bytes)?, at, Format::clone(&whole.format))
            }
            false => Reader::open(FileSource::sized(path, 0, bytes)?)?,
        }
        .unpacking();
        while let Some(event) = reader.next()? {
            let place = Place { file: number, at: event.at };
            if place >= whole.end {
                break;
            }
            take(&event, place)?;
        }
    }
    Ok(())
}
