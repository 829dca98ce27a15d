//! Extended attributes, and the access control lists among them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;

/// Extended attributes: names and values, in the order of the names.
pub type Extended = Vec<(OsString, Vec<u8>)>;

/// The attribute with the permissions of users beyond owner, group and others.
pub const ACCESS_LIST: &str = "system.posix_acl_access";
/// The attribute from which new entries of a folder inherit these.
const DEFAULT_LIST: &str = "system.posix_acl_default";
/// The longest list of names, and the longest value (linux/limits.h).
const LONGEST: usize = 64 << 10;

/// Room for a list of names or a value.
pub(crate) fn buffer() -> Vec<u8> {
    vec![0; LONGEST]
}

pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error())
}

/// Errors that can be ignored: there are no attributes here, they are gone, or we may not see them.
fn none(error: Errno) -> bool {
    [Errno::NOTSUP, Errno::NODATA, Errno::PERM, Errno::ACCESS, Errno::NAMETOOLONG].contains(&error)
}

/// All attributes of a path; of a link itself and not of its target.
pub(crate) fn of(path: &Path, buffer: &mut [u8]) -> io::Result<Extended> {
    let count = match llistxattr(path, &mut *buffer) {
        Ok(0) => return Ok(Extended::new()),
        Err(error) if none(error) => return Ok(Extended::new()),
        count => count?,
    };
    let list = buffer.get(..count).unwrap_or_default().to_vec();
    let mut all = Extended::new();
    for name in list.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match lgetxattr(path, name, &mut *buffer) {
            Ok(count) => {
                let value = buffer.get(..count).unwrap_or_default().to_vec();
                all.push((OsString::from_vec(name.to_vec()), value));
            }
            Err(error) if none(error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    all.sort();
    Ok(all)
}

pub(crate) fn set(path: &Path, name: &OsStr, value: &[u8]) -> io::Result<()> {
    Ok(lsetxattr(path, name.as_bytes(), value, XattrFlags::empty())?)
}

/// Sets all attributes that another path has and removes any others, for example a list inherited from the
/// folder. Attributes that can't be set are skipped, for example labels of a security module that sets its
/// own.
pub(crate) fn mirror(path: &Path, all: &Extended, buffer: &mut [u8]) -> io::Result<()> {
    let has = of(path, buffer)?;
    for (name, _) in has.iter().filter(|(name, _)| !all.iter().any(|(wanted, _)| wanted == name)) {
        match lremovexattr(path, name.as_bytes()) {
            Err(error) if none(error) => {}
            removed => removed?,
        }
    }
    for (name, value) in all.iter().filter(|wanted| !has.contains(wanted)) {
        match lsetxattr(path, name.as_bytes(), value, XattrFlags::empty()) {
            Err(error) if none(error) => {}
            set => set?,
        }
    }
    Ok(())
}

/// Removes the access control lists that a new entry inherited from its folder.
pub(crate) fn remove_lists(path: &Path) -> io::Result<()> {
    for name in [ACCESS_LIST, DEFAULT_LIST] {
        match lremovexattr(path, name) {
            Err(error) if ![Errno::NOTSUP, Errno::NODATA, Errno::INVAL].contains(&error) => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    Ok(())
}

/// The permission bits of a path without its access control list. With a list, `mode` has the list's mask in
/// place of the group's permissions; here the owning group gets what the list grants it, and nobody gets more
/// than before.
#[must_use]
pub fn mode_without_list(mode: u32, list: &[u8]) -> u32 {
    const GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;
    // struct posix_acl_xattr_header, then entries of tag, permissions and id (linux/posix_acl_xattr.h).
    let (entries, _) = list.get(4..).unwrap_or_default().as_chunks::<8>();
    let rights = |wanted: u16| {
        let of = |[a, b, c, d, ..]: &[u8; 8]| (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        entries.iter().map(of).find(|(tag, _)| *tag == wanted).map(|(_, rights)| u32::from(rights) & 7)
    };
    let group = rights(GROUP).unwrap_or(0) & rights(MASK).unwrap_or(7);
    (mode & !0o070) | (group << 3)
}
