//! Compares what a server sends with what is archived.

use std::io::{self, BufReader, Read, Seek};

use crate::event::{FLAGS_AT, IN_USE, MAGIC};

/// Bytes per read.
const READ_BYTES: usize = 256 << 10;

/// An archived file to compare events with. Events are small, so the file is read through a buffer.
pub struct EventComparer<F> {
    file: BufReader<F>,
    at: u64,
    own: Vec<u8>,
}

impl<F: Read + Seek> EventComparer<F> {
    /// For a file that was not read yet.
    #[must_use]
    pub fn new(file: F) -> EventComparer<F> {
        EventComparer { file: BufReader::with_capacity(READ_BYTES, file), at: 0, own: Vec::new() }
    }

    /// Whether the file has an event with these bytes at this offset. The in-use flag of the file is ignored.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn matches(&mut self, event: &[u8], at: u64) -> io::Result<bool> {
        let way = i64::try_from(i128::from(at) - i128::from(self.at)).map_err(io::Error::other)?;
        self.file.seek_relative(way)?;
        self.own.clear();
        self.file.by_ref().take(event.len() as u64).read_to_end(&mut self.own)?;
        self.at = at + self.own.len() as u64;
        if at == MAGIC.len() as u64
            && let (Some(own), Some(flags)) = (self.own.get_mut(FLAGS_AT), event.get(FLAGS_AT))
        {
            let bit = IN_USE.to_le_bytes()[0];
            *own = *own & !bit | *flags & bit;
        }
        Ok(self.own == event)
    }
}
