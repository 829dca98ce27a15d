//! Reads around the page cache (`O_DIRECT`).
//!
//! A program that writes around the cache leaves pages in it as they were when somebody last read them. A
//! direct read goes to the disk; the kernel writes there first what is newer in the cache.

use std::cell::RefCell;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::RealFile;
use crate::{CachedPages, Source, Stat};

/// Offset, length and memory of a direct read are multiples of a disk's sector, which has 512 or 4096 bytes.
const ALIGNED: usize = 4096;
/// The most bytes that are read at once.
const PIECE: usize = 1 << 20;

thread_local! {
    /// What a thread reads into: new memory for each read would have to be zeroed each time.
    static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A file that is read around the page cache.
struct Direct {
    inner: RealFile,
    position: u64,
}

/// Reads a file around the page cache, or as it is where its file system does not allow that: there others
/// can't write around the cache either.
pub(super) fn source(inner: RealFile) -> io::Result<Box<dyn Source>> {
    let flags = fcntl_getfl(&inner.file)?;
    match fcntl_setfl(&inner.file, flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => return Ok(Box::new(inner)),
        set => set?,
    }
    let direct = Direct { inner, position: 0 };
    match direct.read_at(0, &mut [0]) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            fcntl_setfl(&direct.inner.file, flags)?;
            Ok(Box::new(direct.inner))
        }
        Err(error) => Err(error),
        Ok(_) => Ok(Box::new(direct)),
    }
}

impl Read for Direct {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Direct {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = crate::seek(self.position, to, || Ok(self.inner.state()?.len))?;
        Ok(self.position)
    }
}

impl Source for Direct {
    fn stat(&self) -> io::Result<Stat> {
        self.inner.state()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let skip = usize::try_from(at % ALIGNED as u64).unwrap_or(0);
        let count = buffer.len().saturating_add(skip).min(PIECE).next_multiple_of(ALIGNED);
        MEMORY.with_borrow_mut(|memory| {
            memory.resize(memory.len().max(count + ALIGNED), 0);
            // There is an aligned place within the first `ALIGNED` bytes of any memory.
            let place = memory.as_ptr().align_offset(ALIGNED);
            let aligned = memory.get_mut(place..).and_then(|rest| rest.get_mut(..count)).unwrap_or_default();
            let count = self.inner.file.read_at(aligned, at - skip as u64)?;
            let found = aligned.get(skip..count).unwrap_or_default();
            let found = found.get(..buffer.len()).unwrap_or(found);
            buffer.get_mut(..found.len()).unwrap_or_default().copy_from_slice(found);
            Ok(found.len())
        })
    }

    fn is_written_to(&self) -> Option<bool> {
        self.inner.is_written_to()
    }

    /// Reading brings nothing into the cache, so there is nothing to drop afterwards.
    fn absent(&self, _at: u64, _len: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn resident(&self, at: u64, len: u64) -> io::Result<Option<CachedPages>> {
        self.inner.resident(at, len)
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        self.inner.skip_hole(at)
    }

    /// What the cache has ahead would not be read.
    fn prefetch(&self, _at: u64, _len: u64) {}

    /// What the cache has belongs to others.
    fn forget(&self, _at: u64, _len: u64) {}
}
