//! Writes the lines of a chunk in the format of the dump.

pub(crate) mod folders;
pub(crate) mod parquet;

use std::io::{self, Write};

use crate::data_file::{Text, Written};

/// A file that is being written, or a part of one with its own compression and checksum.
pub(crate) enum Writer<'a, W: Write + Send> {
    Text(Box<Text<W>>),
    Parquet(Box<parquet::ParquetFile<'a, W>>),
    /// Files in folders; nothing goes to the sink.
    Folders(Box<folders::Folders<'a, W>>),
}

impl<W: Write + Send> Writer<'_, W> {
    /// Takes a piece of the lines, cut anywhere.
    pub(crate) fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Writer::Text(file) => file.lines(lines),
            Writer::Parquet(file) => file.lines(lines),
            Writer::Folders(files) => files.lines(lines),
        }
    }

    /// Completes the file and returns the sink.
    pub(crate) fn end(self) -> io::Result<(Written, W)> {
        match self {
            Writer::Text(file) => file.end(),
            Writer::Parquet(file) => file.end(),
            Writer::Folders(files) => files.end(),
        }
    }
}
