//! Whether somebody has a file open for writing.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `F_SETSIG` of fcntl(2).
const F_SETSIG: libc::c_int = 10;

/// Asks for a lease on reading (fcntl(2), `F_SETLEASE`), which the kernel refuses while anybody has the file
/// open for writing, mappings included, and gives it back at once. None where it can't be had for another
/// reason: files of others without the right to take leases, file systems that have none.
#[expect(unsafe_code, reason = "there is no safe interface to leases")]
pub(crate) fn is_written_to(file: &File) -> Option<bool> {
    // Whoever opens it for writing just then has the kernel send a signal: one that is ignored, not the one
    // that kills. SAFETY: the file is open, and nothing but two numbers is passed.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return None;
    }
    // SAFETY: as above.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if taken != 0 {
        return (io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)).then_some(true);
    }
    // SAFETY: as above. It can't fail: the lease was had.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    Some(false)
}
