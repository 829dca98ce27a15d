//! Mounts that nobody else sees.

use std::io;

/// Gives this thread, and processes that it starts from now on, a mount namespace of its own: a copy of all
/// mounts, which disappears with the last process in it, however that ends. New mounts in it are still
/// visible elsewhere until the mounts are made private (`mount --make-rprivate /`).
///
/// # Errors
/// `PermissionDenied` for a user who is not root.
#[expect(unsafe_code, reason = "there is no safe interface to unshare")]
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the call takes no pointers, and no open file changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
