//! Finds out whether somebody has a file open for writing.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `F_SETSIG` of fcntl(2).
const F_SETSIG: libc::c_int = 10;

/// Takes a read lease (fcntl(2), `F_SETLEASE`), which the kernel refuses while anybody has the file open for
/// writing, including mappings, and releases it at once. None if a lease is impossible for another reason:
/// files of other users without the privilege to take leases, file systems without leases.
#[expect(unsafe_code, reason = "there is no safe interface to leases")]
pub(crate) fn is_written_to(file: &File) -> Option<bool> {
    // If somebody opens the file for writing just then, the kernel sends a signal: this selects one that is
    // ignored and does not kill. SAFETY: the file is open, and only two numbers are passed.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return None;
    }
    // SAFETY: as above.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if taken != 0 {
        return (io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)).then_some(true);
    }
    // SAFETY: as above. This can't fail, because the lease was granted.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    Some(false)
}
