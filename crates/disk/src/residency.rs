//! Which pages of a file are in memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// Parts of a range that are not in memory. `at` is a multiple of the page size.
///
/// It maps the range and asks mincore(2), which every Linux has; cachestat(2) would need 6.5. A read that
/// does not wait (RWF_NOWAIT) is no way to ask: it starts reading ahead. Of files that we neither own nor may
/// write the kernel says that all is in memory.
#[expect(unsafe_code, reason = "there is no safe interface to mincore")]
pub(crate) fn absent(file: &File, at: u64, len: usize) -> io::Result<Vec<Range<u64>>> {
    let page = rustix::param::page_size();
    let mut flags = vec![0u8; len.div_ceil(page)];
    let offset = libc::off_t::try_from(at).map_err(io::Error::other)?;
    if len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a new mapping where the kernel likes it. Nobody reads through it, so a file that is cut does no
    // harm.
    let start =
        unsafe { libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is mapped, and there is a flag for each of its pages.
    let told = unsafe { libc::mincore(start, len, flags.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: it was mapped above and is used no more. It can't fail for such a range.
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
