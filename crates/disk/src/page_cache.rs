//! Which pages of a file are in the page cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use rustix::fs::{Access, AtFlags, CWD, accessat, fstat, fstatfs};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The number of cachestat(2), which is the same on all architectures; libc does not define it everywhere.
const SYS_CACHESTAT: libc::c_long = 451;
/// The range of one mincore(2) call.
const WINDOW: u64 = 1 << 30;
/// File systems whose files exist only in memory: tmpfs and ramfs, by their numbers in statfs(2).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// How much of a range of a file is in the page cache, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedPages {
    /// Pages in the page cache.
    pub pages: u64,
    /// How many of them are not on the disk yet, or are being written; none if the kernel does not tell (it
    /// does since Linux 6.5).
    pub dirty: Option<u64>,
    /// Whether the file system keeps its files only in memory, so that none of their pages can be dropped.
    pub only_there: bool,
}

/// Bytes per page.
#[must_use]
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// `struct cachestat_range` of linux/mman.h.
#[repr(C)]
struct CacheRange {
    at: u64,
    len: u64,
}

/// `struct cachestat` of linux/mman.h, in pages.
#[repr(C)]
#[derive(Default)]
struct CacheCounts {
    there: u64,
    dirty: u64,
    being_written: u64,
    evicted: u64,
    evicted_of_late: u64,
}

/// How much of a range is in the page cache; the range must begin at a page. None when the kernel does not
/// tell: for files that we neither own nor may write, and for anything that is not a file.
pub(crate) fn resident(file: &File, at: u64, len: u64) -> io::Result<Option<CachedPages>> {
    if !may_know(file)? {
        return Ok(None);
    }
    // The width of this number differs between architectures.
    let kind = i128::from(fstatfs(file)?.f_type) & 0xffff_ffff;
    let only_there = IN_MEMORY.iter().any(|known| i128::from(*known) == kind);
    if let Some(counts) = counts(file, at, len) {
        let dirty = Some(counts.dirty + counts.being_written);
        return Ok(Some(CachedPages { pages: counts.there, dirty, only_there }));
    }
    Ok(mapped(file, at, len)?.map(|pages| CachedPages { pages, dirty: None, only_there }))
}

/// The same with mincore(2): pages in the page cache; none for what can't be mapped.
fn mapped(file: &File, at: u64, len: u64) -> io::Result<Option<u64>> {
    let (mut pages, mut from) = (len.div_ceil(page_size()), at);
    while from < at + len {
        let window = WINDOW.min(at + len - from);
        match absent(file, from, usize::try_from(window).map_err(io::Error::other)?) {
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => return Ok(None),
            told => pages -= told?.iter().map(|r| (r.end - r.start).div_ceil(page_size())).sum::<u64>(),
        }
        from += window;
    }
    Ok(Some(pages))
}

/// Whether the kernel tells us the truth. To other users it says that everything is in memory (mincore) or
/// nothing (cachestat), because what a program has read is a secret of its user.
fn may_know(file: &File) -> io::Result<bool> {
    let me = geteuid();
    if me.is_root() || fstat(file)?.st_uid == me.as_raw() {
        return Ok(true);
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}

/// Calls cachestat(2), which counts without mapping anything. None if the kernel or the file system lacks it.
#[expect(unsafe_code, reason = "there is no safe interface to cachestat")]
fn counts(file: &File, at: u64, len: u64) -> Option<CacheCounts> {
    let (range, mut counts) = (CacheRange { at, len }, CacheCounts::default());
    // An empty range would mean everything up to the end.
    if len == 0 {
        return Some(counts);
    }
    // SAFETY: the kernel reads the first structure and fills the second; both have the layout of its headers
    // and live until the call returns.
    let told =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    (told == 0).then_some(counts)
}

/// Parts of a range that are not in the page cache. `at` must be a multiple of the page size.
///
/// This maps the range and calls mincore(2), which every Linux has; cachestat(2) would need 6.5. A read that
/// does not wait (RWF_NOWAIT) is not a way to ask, because it starts read-ahead. For files that we neither
/// own nor may write the kernel says that everything is in memory.
#[expect(unsafe_code, reason = "there is no safe interface to mincore")]
pub(crate) fn absent(file: &File, at: u64, len: usize) -> io::Result<Vec<Range<u64>>> {
    let page = rustix::param::page_size();
    let mut flags = vec![0u8; len.div_ceil(page)];
    let offset = libc::off_t::try_from(at).map_err(io::Error::other)?;
    if len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a new mapping at an address that the kernel chooses. Nobody reads through it, so truncating the
    // file does no harm.
    let start =
        unsafe { libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is mapped, and `flags` has an element for each of its pages.
    let told = unsafe { libc::mincore(start, len, flags.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: it was mapped above and is not used any more. This can't fail for such a range.
    unsafe { libc::munmap(start, len) };
    if told != 0 {
        return Err(error);
    }
    let mut absent: Vec<Range<u64>> = Vec::new();
    for (number, _) in flags.iter().enumerate().filter(|(_, flag)| **flag & 1 == 0) {
        let (from, to) = (at + (number * page) as u64, at + ((number + 1) * page).min(len) as u64);
        match absent.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => absent.push(from..to),
        }
    }
    Ok(absent)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn both_ways_of_asking_agree() {
        let mut file = tempfile::tempfile().unwrap();
        let len = (5 << 20) + 123;
        file.write_all(&vec![7; len]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // One of the two methods counts pages that are just being read ahead, the other does not yet.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        file.read_exact(&mut vec![0; 1 << 20]).unwrap();
        let len = len as u64;
        for (at, len) in [(0, len), (0, 4096), (1 << 20, 3 << 20), (5 << 20, 123), (0, 0)] {
            let told = mapped(&file, at, len).unwrap();
            let counted = counts(&file, at, len).map(|counts| counts.there);
            assert!(counted.is_none() || counted == told, "{counted:?} {told:?} at {at}, {len} bytes");
            assert_eq!(resident(&file, at, len).unwrap().map(|resident| resident.pages), told);
        }
        assert!(resident(&file, 0, len).unwrap().unwrap().pages >= 256);
    }
}
