//! Folders with all that is in them: what a tree of files needs beyond single files.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};

use crate::extended::Extended;
use crate::extent::Extent;
use crate::{RealDisk, extended};

/// What something in a folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, and where it leads.
    Link(OsString),
    /// A socket, a pipe or a device.
    Other,
}

/// Owner, rights and time of something in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, with set-user-id, set-group-id and the sticky bit.
    pub mode: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Time of the last change, nanoseconds since the epoch.
    pub modified_ns: i128,
}

/// Something in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
    /// Length in bytes of a regular file.
    pub len: u64,
    /// Number of the device it lies on, which a mounted file system and a btrfs subvolume have of their own.
    pub device: u64,
    /// Its number there: two names of one file have the same.
    pub inode: u64,
    /// How many names it has.
    pub links: u64,
    /// Owner, rights and time.
    pub attributes: Attributes,
    /// Extended attributes by name, access control lists among them, as far as we may see them.
    pub extended: Extended,
}

/// Folders, as they are backed up and restored.
pub trait Tree: Send + Sync {
    /// What is in a folder, in the order of the names' bytes. Links are not followed, but for the folder
    /// itself.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder; otherwise what the operating system reports.
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>>;

    /// What there is at a path; a link is followed.
    ///
    /// # Errors
    /// `NotFound` when there is nothing; otherwise what the operating system reports.
    fn entry(&self, path: &Path) -> io::Result<Entry>;

    /// Makes a symbolic link at `path`.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; otherwise what the operating system reports.
    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()>;

    /// Gives something its attributes, a link itself and not what it leads to, and takes access control lists
    /// away that it has got from its folder. Only root can give a file to another owner: for others a file
    /// stays theirs.
    ///
    /// # Errors
    /// What the operating system reports.
    fn set_attributes(&self, path: &Path, kind: &Kind, attributes: Attributes) -> io::Result<()>;

    /// Gives something one extended attribute, a link itself and not what it leads to.
    ///
    /// # Errors
    /// `Unsupported` where there are none, or not over this connection; otherwise what the operating system
    /// reports.
    fn set_extended(&self, path: &Path, name: &OsStr, value: &[u8]) -> io::Result<()> {
        let _ = (path, name, value);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes `path` another name of a file.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; otherwise what the operating system reports.
    fn make_hard_link(&self, path: &Path, file: &Path) -> io::Result<()> {
        let _ = (path, file);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Where a regular file lies on its device, in the order of its bytes. Files that share bytes share
    /// extents.
    ///
    /// # Errors
    /// `Unsupported` on a file system that does not tell; otherwise what the operating system reports.
    fn extents(&self, path: &Path) -> io::Result<Vec<Extent>>;
}

impl Tree for RealDisk {
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let (mut entries, mut buffer) = (Vec::new(), extended::buffer());
        for found in std::fs::read_dir(folder)? {
            let found = found?;
            entries.push(describe(found.file_name(), &found.path(), &found.metadata()?, &mut buffer)?);
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let name = path.file_name().unwrap_or_default().to_owned();
        // Of what a link leads to, as all else.
        let path = path.canonicalize()?;
        describe(name, &path, &std::fs::metadata(&path)?, &mut extended::buffer())
    }

    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    fn set_attributes(&self, path: &Path, kind: &Kind, attributes: Attributes) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            let (user, group) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            rustix::fs::chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if !matches!(kind, Kind::Link(_)) {
            extended::remove_lists(path)?;
            // After the owner, because a change of that takes set-user-id away.
            rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(attributes.mode & 0o7777), AtFlags::empty())?;
        }
        set_times(path, attributes.modified_ns)
    }

    fn set_extended(&self, path: &Path, name: &OsStr, value: &[u8]) -> io::Result<()> {
        extended::set(path, name, value)
    }

    fn make_hard_link(&self, path: &Path, file: &Path) -> io::Result<()> {
        std::fs::hard_link(file, path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn extents(&self, path: &Path) -> io::Result<Vec<Extent>> {
        crate::extent::of(&std::fs::File::open(path)?)
    }
}

/// Sets the time of the last change, and that of the last use with it.
pub(crate) fn set_times(path: &Path, modified_ns: i128) -> io::Result<()> {
    let whole = i64::try_from(modified_ns.div_euclid(1_000_000_000)).unwrap_or(0);
    let rest = i64::try_from(modified_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
    let time = Timespec { tv_sec: whole, tv_nsec: rest };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
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
            // Whoever lists it sees how long its own path is.
            Err(error) if extended::is_too_long(&error) => Kind::Link(OsString::new()),
            target => Kind::Link(target?.into()),
        }
    } else {
        Kind::Other
    };
    Ok(Entry {
        name,
        len: if kind == Kind::File { metadata.len() } else { 0 },
        extended: if kind == Kind::Other { Extended::new() } else { extended::of(path, buffer)? },
        kind,
        device: metadata.dev(),
        inode: metadata.ino(),
        links: metadata.nlink(),
        attributes: Attributes {
            mode: metadata.permissions().mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        },
    })
}
