//! Mounts that nobody else sees.

use std::io;

/// Gives this thread, and what it starts from now on, mounts of its own: a copy of everybody's, which goes
/// with the last process that has it, however that ends. What is mounted here is seen elsewhere all the same
/// until the mounts are made private (`mount --make-rprivate /`).
///
/// # Errors
/// `PermissionDenied` for a user who is not root.
#[expect(unsafe_code, reason = "there is no safe interface to unshare")]
pub fn leave_mounts() -> io::Result<()> {
    // SAFETY: it takes no pointers, and no file that is open changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
