//! The file as it is written: consecutive pages at once.

use std::path::Path;

use disk::Volume;
use innodb::page::{PAGE_BYTES, Page};

use crate::Error;
use crate::error::io;

/// How many pages are written at once.
const PAGES: usize = 64;

/// Pages on their way to the file.
pub(super) struct Pages<'a> {
    path: &'a Path,
    volume: Box<dyn Volume>,
    first: u32,
    bytes: Vec<u8>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(path: &'a Path, volume: Box<dyn Volume>) -> Pages<'a> {
        Pages { path, volume, first: 0, bytes: Vec::with_capacity(PAGES * PAGE_BYTES) }
    }

    pub(super) fn put(&mut self, number: u32, page: &Page) -> Result<(), Error> {
        let waiting = self.bytes.len() / PAGE_BYTES;
        if waiting == PAGES || u64::from(number) != u64::from(self.first) + waiting as u64 {
            self.flush()?;
            self.first = number;
        }
        self.bytes.extend_from_slice(page);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let at = u64::from(self.first) * PAGE_BYTES as u64;
        self.volume.write_at(at, &self.bytes).map_err(io(self.path))?;
        self.bytes.clear();
        Ok(())
    }

    /// Ends the file with this many pages, and makes it durable.
    pub(super) fn finish(mut self, pages: u32) -> Result<(), Error> {
        self.flush()?;
        let len = u64::from(pages) * PAGE_BYTES as u64;
        self.volume.set_len(len).and_then(|()| self.volume.sync()).map_err(io(self.path))
    }
}
