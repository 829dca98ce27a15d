//! Where a file's data is on its device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A contiguous part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its offset in the file, in bytes.
    pub logical: u64,
    /// Its offset on the device, in bytes.
    pub physical: u64,
    /// Its length, in bytes.
    pub len: u64,
    /// The kernel's flags (`FIEMAP_EXTENT_*` of linux/fiemap.h).
    pub flags: u32,
}

/// Of linux/fs.h, in the type of the C library: musl's is signed.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// Data that is only in memory is written first (linux/fiemap.h).
const FIEMAP_FLAG_SYNC: u32 = 1;
/// The last extent of the file.
const FIEMAP_EXTENT_LAST: u32 = 1;
/// Extents per call.
const COUNT: u32 = 64;

/// `struct fiemap` of linux/fiemap.h, with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; COUNT as usize],
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The extents of a file, from the kernel's fiemap.
#[expect(unsafe_code, reason = "there is no safe interface to fiemap")]
pub(crate) fn of(file: &File) -> io::Result<Vec<Extent>> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Box::new(Fiemap {
            start,
            length: u64::MAX - start,
            flags: FIEMAP_FLAG_SYNC,
            mapped_extents: 0,
            extent_count: COUNT,
            reserved: 0,
            extents: [FiemapExtent::default(); COUNT as usize],
        });
        // SAFETY: the file is open, and the kernel writes at most as many extents as the structure announces.
        let told = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) };
        if told != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENOTTY) => io::ErrorKind::Unsupported.into(),
                _ => error,
            });
        }
        let found = map.extents.get(..map.mapped_extents as usize).unwrap_or_default();
        extents.extend(found.iter().map(|extent| Extent {
            logical: extent.logical,
            physical: extent.physical,
            len: extent.length,
            flags: extent.flags & !FIEMAP_EXTENT_LAST,
        }));
        match found.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => start = last.logical + last.length,
            _ => return Ok(extents),
        }
    }
}
