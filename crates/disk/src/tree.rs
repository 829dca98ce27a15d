//! Folders with everything in them: what a tree of files needs beyond single files.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::extent::Extent;
use crate::xattr::Extended;
use crate::{Disk, RealDisk, xattr};

/// The kind of an entry in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, with its target.
    Link(OsString),
    /// A socket, a pipe or a device.
    Other,
}

/// Owner, permissions and time of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, with set-user-id, set-group-id and the sticky bit.
    pub mode: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Modification time, nanoseconds since the epoch.
    pub modified_ns: i128,
}

impl Attributes {
    /// The same for something that belongs to a user and a group that may be others: it runs as neither of
    /// them, and a group that did not have it gets no more than everybody has.
    #[must_use]
    pub fn owned_by(self, (uid, gid): (u32, u32)) -> Attributes {
        const SET_USER: u32 = 0o4000;
        const SET_GROUP: u32 = 0o2000;
        const GROUP: u32 = 0o070;
        let mut mode = self.mode;
        if uid != self.uid {
            mode &= !SET_USER;
        }
        if gid != self.gid {
            mode &= !SET_GROUP & (!GROUP | (mode << 3));
        }
        Attributes { mode, uid, gid, ..self }
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Its kind.
    pub kind: Kind,
    /// Length in bytes of a regular file.
    pub len: u64,
    /// Number of its device; a mounted file system and a btrfs subvolume have their own.
    pub device: u64,
    /// Its inode number: hard links to one file have the same.
    pub inode: u64,
    /// When it was made, nanoseconds since the epoch: with the inode number it tells a file from another one
    /// that has its number now. 0 if the file system does not tell.
    pub born_ns: i128,
    /// How many hard links it has.
    pub links: u64,
    /// Owner, permissions and time.
    pub attributes: Attributes,
    /// Extended attributes by name, including access control lists, as far as we may see them.
    pub extended: Extended,
}

/// Operations on folders, for backup and restore.
pub trait Tree: Send + Sync {
    /// The entries of a folder, sorted by the bytes of their names. Links are not followed, except for the
    /// folder itself. What is removed meanwhile may be missing.
    ///
    /// # Errors
    /// `NotFound` when the folder does not exist; otherwise errors of the operating system.
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>>;

    /// The entry at a path; a link is followed.
    ///
    /// # Errors
    /// `NotFound` when there is nothing; otherwise errors of the operating system.
    fn entry(&self, path: &Path) -> io::Result<Entry>;

    /// Creates a symbolic link at `path`.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; otherwise errors of the operating system.
    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()>;

    /// Sets attributes, of a link itself and not of its target, and removes access control lists inherited
    /// from the folder. Returns which it has: who may not set the owner or the group gets what
    /// [`Attributes::owned_by`] says.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn set_attributes(&self, path: &Path, kind: &Kind, attributes: Attributes) -> io::Result<Attributes>;

    /// Sets one extended attribute, of a link itself and not of its target.
    ///
    /// # Errors
    /// `Unsupported` if there are none here, or not over this connection; otherwise errors of the operating
    /// system.
    fn set_extended(&self, path: &Path, name: &OsStr, value: &[u8]) -> io::Result<()> {
        let _ = (path, name, value);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes `path` a hard link to a file.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; otherwise errors of the operating system.
    fn make_hard_link(&self, path: &Path, file: &Path) -> io::Result<()> {
        let _ = (path, file);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Where a regular file's data is on its device, in the order of its bytes. Files that share bytes share
    /// extents.
    ///
    /// # Errors
    /// `Unsupported` on a file system that does not tell; otherwise errors of the operating system.
    fn extents(&self, path: &Path) -> io::Result<Vec<Extent>>;

    /// How many bytes may still be written to the file system of a folder.
    ///
    /// # Errors
    /// `Unsupported` over this connection; otherwise errors of the operating system.
    fn free(&self, folder: &Path) -> io::Result<u64> {
        let _ = folder;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Files and folders of one machine.
pub trait Files: Disk + Tree {}

impl<T: Disk + Tree> Files for T {}

impl Tree for RealDisk {
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let (mut entries, mut buffer) = (Vec::new(), xattr::buffer());
        for found in std::fs::read_dir(folder)? {
            let found = found?;
            let metadata = found.metadata();
            match metadata.and_then(|known| describe(found.file_name(), &found.path(), &known, &mut buffer)) {
                // It was removed since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                entry => entries.push(entry?),
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let name = path.file_name().unwrap_or_default().to_owned();
        // Of a link's target, like everything else.
        let path = path.canonicalize()?;
        describe(name, &path, &std::fs::metadata(&path)?, &mut xattr::buffer())
    }

    fn free(&self, folder: &Path) -> io::Result<u64> {
        let state = rustix::fs::statvfs(folder)?;
        Ok(state.f_bavail.saturating_mul(state.f_frsize))
    }

    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    fn set_attributes(&self, path: &Path, kind: &Kind, attributes: Attributes) -> io::Result<Attributes> {
        let attributes = attributes.owned_by(give(path, attributes)?);
        if !matches!(kind, Kind::Link(_)) {
            xattr::remove_lists(path)?;
            // After the owner, because changing the owner clears set-user-id.
            rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(attributes.mode & 0o7777), AtFlags::empty())?;
        }
        set_times(path, attributes.modified_ns)?;
        Ok(attributes)
    }

    fn set_extended(&self, path: &Path, name: &OsStr, value: &[u8]) -> io::Result<()> {
        xattr::set(path, name, value)
    }

    fn make_hard_link(&self, path: &Path, file: &Path) -> io::Result<()> {
        std::fs::hard_link(file, path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn extents(&self, path: &Path) -> io::Result<Vec<Extent>> {
        crate::extent::of(&std::fs::File::open(path)?)
    }
}

/// Gives a file to its owner and its group, as far as we may. Returns whom it belongs to.
fn give(path: &Path, Attributes { uid, gid, .. }: Attributes) -> io::Result<(u32, u32)> {
    let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    // Who is not root may give it to a group of theirs. In a container not every number exists.
    for user in [user, None] {
        match rustix::fs::chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) if user.is_some() => return Ok((uid, gid)),
            Err(error) if ![Errno::PERM, Errno::INVAL].contains(&error) => return Err(error.into()),
            _ => {}
        }
    }
    let is = std::fs::symlink_metadata(path)?;
    Ok((is.uid(), is.gid()))
}

/// Sets the modification time, and the access time to the same.
pub(crate) fn set_times(path: &Path, modified_ns: i128) -> io::Result<()> {
    let whole = i64::try_from(modified_ns.div_euclid(1_000_000_000)).unwrap_or(0);
    let rest = i64::try_from(modified_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
    let time = Timespec { tv_sec: whole, tv_nsec: rest };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn nanoseconds(time: SystemTime) -> Option<i128> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok().and_then(|since| since.as_nanos().try_into().ok())
}

pub(crate) fn describe(
    name: OsString,
    path: &Path,
    metadata: &Metadata,
    buffer: &mut [u8],
) -> io::Result<Entry> {
    let kind = if metadata.is_file() {
        Kind::File
    } else if metadata.is_dir() {
        Kind::Folder
    } else if metadata.is_symlink() {
        match std::fs::read_link(path) {
            // Whoever lists the folder reports that its own path is too long.
            Err(error) if xattr::is_too_long(&error) => Kind::Link(OsString::new()),
            target => Kind::Link(target?.into()),
        }
    } else {
        Kind::Other
    };
    Ok(Entry {
        name,
        len: if kind == Kind::File { metadata.len() } else { 0 },
        extended: if kind == Kind::Other { Extended::new() } else { xattr::of(path, buffer)? },
        kind,
        device: metadata.dev(),
        inode: metadata.ino(),
        born_ns: metadata.created().ok().and_then(nanoseconds).unwrap_or(0),
        links: metadata.nlink(),
        attributes: Attributes {
            mode: metadata.permissions().mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::Attributes;

    #[test]
    fn another_owner_gets_no_more_than_before() {
        let mode = |mode: u32, owner: (u32, u32)| {
            Attributes { mode, uid: 7, gid: 8, modified_ns: 0 }.owned_by(owner).mode
        };
        assert_eq!(mode(0o6755, (7, 8)), 0o6755);
        assert_eq!(mode(0o6755, (1, 8)), 0o2755);
        assert_eq!(mode(0o6755, (7, 1)), 0o4755);
        assert_eq!(
            [0o640, 0o2775, 0o1777, 0o604].map(|was| mode(was, (1, 1))),
            [0o600, 0o755, 0o1777, 0o604]
        );
        assert_eq!(mode(0o664, (1, 1)), 0o644);
    }
}
