//! Writes the pages of the file, consecutive ones with one call.

use std::io;
use std::path::Path;

use disk::Volume;
use innodb::page::{PAGE_BYTES, Page};

use crate::Error;
use crate::error::io as at;
use crate::sort::LEFT_BYTES;

/// How many pages are written at once.
const PAGES: usize = 64;
/// How many bytes are written between two checks of the free disk space.
const LOOK_BYTES: usize = 32 << 20;

/// Tells how many bytes may still be written.
pub(super) type Free<'a> = dyn Fn() -> io::Result<u64> + Send + 'a;

/// Pages on their way to the file.
pub(super) struct PageWriter<'a> {
    path: &'a Path,
    volume: Box<dyn Volume>,
    free: Box<Free<'a>>,
    first: u32,
    bytes: Vec<u8>,
    /// How many bytes were written since the free disk space was checked last.
    since: usize,
}

impl<'a> PageWriter<'a> {
    pub(super) fn new(path: &'a Path, volume: Box<dyn Volume>, free: Box<Free<'a>>) -> PageWriter<'a> {
        let bytes = Vec::with_capacity(PAGES * PAGE_BYTES);
        PageWriter { path, volume, free, first: 0, bytes, since: LOOK_BYTES }
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
        self.since += self.bytes.len();
        if self.since >= LOOK_BYTES {
            self.since = 0;
            // A server whose disk is full stops working.
            if (self.free)().is_ok_and(|free| free < LEFT_BYTES) {
                let what = "the disk is nearly full, and the server needs what is left";
                return Err(at(self.path)(io::Error::new(io::ErrorKind::StorageFull, what)));
            }
        }
        let start = u64::from(self.first) * PAGE_BYTES as u64;
        self.volume.write_at(start, &self.bytes).map_err(at(self.path))?;
        self.bytes.clear();
        Ok(())
    }

    /// Ends the file with this many pages. Returns a closure that syncs the file.
    pub(super) fn finish(
        mut self,
        pages: u32,
    ) -> Result<impl FnOnce() -> Result<(), Error> + Send + 'a, Error> {
        self.flush()?;
        let PageWriter { path, volume, .. } = self;
        volume.set_len(u64::from(pages) * PAGE_BYTES as u64).map_err(at(path))?;
        Ok(move || volume.sync().map_err(at(path)))
    }
}

#[cfg(test)]
mod tests {
    use disk::{Disk as _, RealDisk};

    use super::*;

    #[test]
    fn the_server_keeps_some_room_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.ibd");
        drop(RealDisk.create(&path).unwrap());
        let mut looks = 0_u64;
        let free = move || {
            looks += 1;
            Ok(LEFT_BYTES + 2 - looks)
        };
        let free = std::sync::Mutex::new(free);
        let free: Box<Free<'_>> = Box::new(move || (free.lock().unwrap())());
        let mut pages = PageWriter::new(&path, RealDisk.volume(&path).unwrap(), free);
        let page = [7; PAGE_BYTES];
        let mut written = 0_usize;
        let error =
            (0..).find_map(|number| pages.put(number, &page).inspect(|()| written += 1).err()).unwrap();
        // The third look finds one byte too few.
        let looked = 2 * LOOK_BYTES / PAGE_BYTES;
        assert!((looked..=looked + PAGES).contains(&written), "{written}");
        let error = error.to_string();
        assert!(error.contains("t.ibd") && error.contains("nearly full"), "{error}");
    }
}
