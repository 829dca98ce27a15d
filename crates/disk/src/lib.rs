//! Access to files: everything that must survive a crash reads and writes through [`Disk`].
//!
//! It is neither a file system nor a cache. It exists so that a crash test can replace the real disk:
//! [`RealDisk`] uses the operating system, and with the feature `faults` there is `FaultDisk`, which forgets,
//! keeps or tears unsynced bytes when it is stopped.
//!
//! ```
//! use disk::{Disk, Output, RealDisk};
//! use std::io::{Read, Write};
//!
//! let folder = tempfile::tempdir()?;
//! let name = folder.path().join("report.csv");
//! let mut output = Output::create(&RealDisk, &name)?;
//! output.write_all(b"a,b\n")?;
//! assert!(RealDisk.stat(&name).is_err(), "nothing is seen under its name before it is whole");
//! output.finish()?;
//!
//! let mut text = String::new();
//! RealDisk.open(&name)?.read_to_string(&mut text)?;
//! assert_eq!(text, "a,b\n");
//! # Ok::<(), std::io::Error>(())
//! ```

mod cache_neutral_read;
mod extent;
#[cfg(feature = "faults")]
pub mod faults;
mod file_lease;
mod mount_namespace;
mod output;
mod page_cache;
mod real;
mod reflink;
mod tree;
pub mod xattr;

pub use cache_neutral_read::CacheNeutralRead;
pub use extent::Extent;
pub use mount_namespace::unshare_mounts;
pub use output::Output;
pub use page_cache::{CachedPages, page_size};
pub use real::{RealDisk, is_lost};
pub use reflink::{OnVanish, Reflink, SkipName, copy};
pub use tree::{Attributes, Entry, Files, Kind, Tree};
pub use xattr::Extended;

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

/// What is known about a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes; for a block device its size.
    pub len: u64,
    /// Modification time, nanoseconds since the epoch. Two equal times mean that the file is unchanged, as
    /// far as the file system can tell.
    pub modified_ns: i128,
    /// Time of the last change of content or metadata, nanoseconds since the epoch. Unlike the modification
    /// time, programs can't set it. 0 if unknown.
    pub changed_ns: i128,
    /// Number of the file in its file system. No other file gets the number while this one is open or has a
    /// name. 0 if unknown.
    pub inode: u64,
    /// True for a regular file.
    pub regular: bool,
    /// True for a block device. For it and for regular files `len` says how much can be read; for others it
    /// does not.
    pub block_device: bool,
}

impl Stat {
    /// A volume of `len` bytes that is no file: of it nothing else is known.
    #[must_use]
    pub fn of_volume(len: u64) -> Stat {
        Stat { len, modified_ns: 0, changed_ns: 0, inode: 0, regular: true, block_device: false }
    }
}

/// The position after a seek. `len` is called only if the length matters.
///
/// # Errors
/// `InvalidInput` for a position before the beginning, and errors of `len`.
pub fn seek(position: u64, to: SeekFrom, len: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
    let place = match to {
        SeekFrom::Start(at) => Some(at),
        SeekFrom::Current(by) => position.checked_add_signed(by),
        SeekFrom::End(by) => len()?.checked_add_signed(by),
    };
    place.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A file being read.
pub trait Source: Read + Seek + Send + Sync {
    /// The current state of the file, even after it was renamed or removed.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads at byte `at` without moving the position; as with `read`, 0 means the end.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills `buffer` from byte `at` on; reads fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn read_full_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_at(at + filled as u64, rest) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Writes dirty pages of the file to the disk, so that later changes through a mapping show in the file's
    /// times. Does nothing if there is nothing to write, or if writing is not allowed.
    fn try_write_out(&self) {}

    /// Writes dirty pages of the file to the disk. If that fails, the copy in memory is the only one.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn write_out(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether somebody has it open for writing. None if that is unknown.
    fn is_written_to(&self) -> Option<bool> {
        None
    }

    /// Parts of a range that are not in the page cache; the range must begin at a page. None if that is
    /// unknown.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn absent(&self, at: u64, len: usize) -> io::Result<Vec<Range<u64>>>;

    /// How much of a range is in the page cache; the range must begin at a page. None if that is unknown.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn resident(&self, at: u64, len: u64) -> io::Result<Option<CachedPages>> {
        let _ = (at, len);
        Ok(None)
    }

    /// The first byte from `at` on that is not in a hole; `None` when only holes follow. On a file system
    /// that does not report holes there are none.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>>;

    /// Advice: this range will be read soon.
    fn prefetch(&self, at: u64, len: u64);

    /// Advice: this range can be dropped from the page cache; everything from `at` on when `len` is 0. Pages
    /// that are not on the disk yet stay, and so do pages that a process has mapped.
    fn forget(&self, at: u64, len: u64);
}

/// A file or block device that is read and written in place. After a failed write or sync nothing in it can
/// be trusted any more.
pub trait Volume: Send + Sync {
    /// Its current state.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads at byte `at`; 0 means the end.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at byte `at`.
    ///
    /// # Errors
    /// Errors of the operating system; some of the bytes may have been written.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes a range read as zeros, and frees its space if possible.
    ///
    /// # Errors
    /// Errors of the operating system; a part may have been cleared.
    fn clear(&self, at: u64, len: u64) -> io::Result<()>;

    /// Sets the length of a regular file; new bytes read as zeros.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    /// Errors of the operating system; the data may then be lost, and calling again does not help.
    fn sync(&self) -> io::Result<()>;
}

/// How a lock is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Others may hold it as shared too.
    Shared,
    /// Nobody else may hold it.
    Exclusive,
}

/// A held lock; it is released when this is dropped or the process ends.
pub trait Guard: Send + Sync {}

/// Syncs everything that is written to a file system at once.
pub trait Batch: Send + Sync {
    /// Makes everything survive a crash that was written to the file system since this value was created.
    ///
    /// # Errors
    /// Errors of the operating system; the data may then be lost, and calling again does not help.
    fn sync(&self) -> io::Result<()>;
}

/// A file that is being written. After an error nothing in the file can be trusted any more.
pub trait Sink: Write + Send {
    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    /// Errors of the operating system; the data may then be lost, and calling again does not help.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operations on files that durability depends on.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; otherwise errors of the operating system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>>;

    /// Opens an existing file for reading around the page cache, for files that others write in this way: the
    /// cache may have an older state of them. Where that is not possible it is the same as [`Disk::open`].
    /// Reads leave the cache as it is, so they have no need of a [`CacheNeutralRead`].
    ///
    /// # Errors
    /// Those of [`Disk::open`].
    fn open_direct(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.open(path)
    }

    /// Creates a new file for writing, readable only by its owner.
    ///
    /// # Errors
    /// `AlreadyExists` when it exists; otherwise errors of the operating system.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>>;

    /// Renames a file in one step, and replaces a file of the new name. A folder moves with everything in it.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist; otherwise errors of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; otherwise errors of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder (new, renamed, removed) survive a crash.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The state of a file by name.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; otherwise errors of the operating system.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Truncates an existing file to `len` bytes, if it is longer, and opens it for writing at its end. The
    /// truncation survives a crash only after the next sync.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; otherwise errors of the operating system.
    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>>;

    /// Opens an existing file or block device for reading and writing in place. A block device that is
    /// mounted or otherwise in use is refused.
    ///
    /// # Errors
    /// `NotFound` when it does not exist, `ResourceBusy` when it is in use; otherwise errors of the operating
    /// system.
    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>>;

    /// The names of everything in a folder, including folders, in order.
    ///
    /// # Errors
    /// `NotFound` when the folder does not exist; otherwise errors of the operating system.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Creates a folder, for its owner only. Its name survives a crash once its parent is synced.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; otherwise errors of the operating system.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Creates a folder and its parents, and makes their names durable. It is no error if the folder exists.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || self.list(folder).is_ok() {
            return Ok(());
        }
        let above = folder.parent().unwrap_or(Path::new(""));
        self.make_folder(above)?;
        match self.create_folder(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.sync_folder(above),
        }
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; otherwise errors of the operating system, for example when it is
    /// not empty.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// A way to make many files durable at once, to be requested before they are written; none if each must
    /// be synced.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn batch(&self, folder: &Path) -> io::Result<Option<Box<dyn Batch>>> {
        let _ = folder;
        Ok(None)
    }

    /// Takes a lock on a file, which is created if it does not exist, without waiting; `None` when others
    /// hold the lock.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>>;

    /// Whether somebody holds an exclusive lock on a file. Where no file is nobody does.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        // Asking must not leave a file behind.
        Ok(self.stat(path).is_ok() && self.lock(path, Share::Shared)?.is_none())
    }

    /// Who holds a lock that [`Disk::lock`] could not take, in words; `None` where that is not known.
    fn holder(&self, path: &Path) -> Option<String> {
        let _ = path;
        None
    }
}
