//! The door to files: everything that must survive a crash reads and writes through [`Disk`].
//!
//! It is not a file system and not a cache. It exists so that a crash test can stand in for the
//! real thing: [`RealDisk`] is the operating system's, and with the feature `faults` there is
//! `FaultDisk`, which forgets, keeps or tears what was not synced when it is stopped.
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

pub mod extended;
mod extent;
#[cfg(feature = "faults")]
pub mod faults;
mod lease;
mod mount;
mod output;
mod real;
mod reflink;
mod residency;
mod tree;
mod visit;

pub use extended::Extended;
pub use extent::Extent;
pub use mount::leave_mounts;
pub use output::Output;
pub use real::RealDisk;
pub use reflink::{Own, Reflink, Vanish};
pub use residency::{Resident, page_size};
pub use tree::{Attributes, Entry, Kind, Tree};
pub use visit::Visit;

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes; of a block device its size.
    pub len: u64,
    /// Time of the last change, nanoseconds since the epoch. Two equal stamps mean unchanged as far as
    /// the file system can tell.
    pub modified_ns: i128,
    /// Time of the last change of anything of it, nanoseconds since the epoch. Unlike the other it can't be
    /// set by a program. 0 where nobody tells.
    pub changed_ns: i128,
    /// True for a regular file.
    pub regular: bool,
    /// True for a block device. `len` says how much will be read of it and of a regular file, not of others.
    pub block_device: bool,
}

/// Where a seek leads to from a position, in a file whose length is asked for when that matters.
///
/// # Errors
/// `InvalidInput` for a place before the beginning, and those of `len`.
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
    /// The file's state now, also after it was renamed or removed.
    ///
    /// # Errors
    /// What the operating system reports.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads at byte `at` without moving the position; as with `read`, 0 means the end.
    ///
    /// # Errors
    /// What the operating system reports.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills `buffer` from byte `at` on; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// What the operating system reports.
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

    /// Writes what is only in memory to the disk, so that whoever changes it from now on through a mapping is
    /// seen by its times. Nothing where there is nothing to write, or nobody may.
    fn settle(&self) {}

    /// Writes what is only in memory to the disk, and says when that fails: what is in memory is then the
    /// only copy there is.
    ///
    /// # Errors
    /// What the operating system reports.
    fn write_out(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether somebody has it open for writing. None where that can't be told.
    fn is_written_to(&self) -> Option<bool> {
        None
    }

    /// Parts of a range, which begins at a page, that are not in memory; none when that can't be told.
    ///
    /// # Errors
    /// What the operating system reports.
    fn absent(&self, at: u64, len: usize) -> io::Result<Vec<Range<u64>>>;

    /// How much of a range, which begins at a page, is in memory; none when that can't be told.
    ///
    /// # Errors
    /// What the operating system reports.
    fn resident(&self, at: u64, len: u64) -> io::Result<Option<Resident>> {
        let _ = (at, len);
        Ok(None)
    }

    /// The first byte from `at` on that does not lie in a hole; `None` when only holes follow. A file
    /// system that does not tell has no holes.
    ///
    /// # Errors
    /// What the operating system reports.
    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>>;

    /// Advice: this range will be read soon.
    fn prefetch(&self, at: u64, len: u64);

    /// Advice: this range need not stay in memory; from `at` on all when `len` is 0. What is not on the disk
    /// yet stays, and so does what a process has mapped.
    fn forget(&self, at: u64, len: u64);
}

/// A file or block device that is read and written in place. After an error of a write or a sync nothing
/// of it is to be trusted any more.
pub trait Volume: Send + Sync {
    /// Its state now.
    ///
    /// # Errors
    /// What the operating system reports.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads at byte `at`; 0 means the end.
    ///
    /// # Errors
    /// What the operating system reports.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at byte `at`.
    ///
    /// # Errors
    /// What the operating system reports; a part may be written.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes a range read as zeros, without keeping room for it where that is possible.
    ///
    /// # Errors
    /// What the operating system reports; a part may be cleared.
    fn clear(&self, at: u64, len: u64) -> io::Result<()>;

    /// Makes a regular file this long; new bytes read as zeros.
    ///
    /// # Errors
    /// What the operating system reports.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    /// What the operating system reports; the data may then be lost, and calling again does not help.
    fn sync(&self) -> io::Result<()>;
}

/// How a lock is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// With others that share it.
    Shared,
    /// With nobody.
    Exclusive,
}

/// A lock that is held; dropping it, or the end of the process, gives it back.
pub trait Guard: Send + Sync {}

/// Everything that is written to a file system, made durable at once.
pub trait Batch: Send + Sync {
    /// Makes everything survive a crash that was written to the file system since this was had.
    ///
    /// # Errors
    /// What the operating system reports; the data may then be lost, and calling again does not help.
    fn sync(&self) -> io::Result<()>;
}

/// A file being written. After an error nothing of the file is to be trusted any more.
pub trait Sink: Write + Send {
    /// Makes everything written so far survive a crash.
    ///
    /// # Errors
    /// What the operating system reports; the data may then be lost, and calling again does not help.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operations on files that durability rests on.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise what the operating system reports.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>>;

    /// Makes a new file for writing, readable by its owner only.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one; otherwise what the operating system reports.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>>;

    /// Gives a file another name, replacing what had it, in one step. A folder moves with all that is in it.
    ///
    /// # Errors
    /// `NotFound` when there is no such file; otherwise what the operating system reports.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise what the operating system reports.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder (new, renamed, removed) survive a crash.
    ///
    /// # Errors
    /// What the operating system reports.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The state of a file by name.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise what the operating system reports.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Cuts an existing file to `len` bytes, if it is longer, and opens it for writing at its end. The cut
    /// survives a crash after the next sync, not before.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise what the operating system reports.
    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>>;

    /// Opens an existing file or block device for reading and writing in place. A block device that is
    /// mounted or otherwise in use is refused.
    ///
    /// # Errors
    /// `NotFound` when there is none, `ResourceBusy` when it is in use; otherwise what the operating system
    /// reports.
    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>>;

    /// The names of what is in a folder, folders included, in order.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder; otherwise what the operating system reports.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Makes a folder, for its owner only. Its name survives a crash when its parent is synced.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; otherwise what the operating system reports.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Makes a folder and those above it, and their names survive a crash. One that exists is no error.
    ///
    /// # Errors
    /// What the operating system reports.
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
    /// `NotFound` when there is none; otherwise what the operating system reports, so for one that is not
    /// empty.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// A way to make many files durable at once, which is to be had before they are written; none where each
    /// must be synced.
    ///
    /// # Errors
    /// What the operating system reports.
    fn batch(&self, folder: &Path) -> io::Result<Option<Box<dyn Batch>>> {
        let _ = folder;
        Ok(None)
    }

    /// Takes a lock on a file, which is made when there is none, without waiting; `None` when others hold
    /// it.
    ///
    /// # Errors
    /// What the operating system reports.
    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>>;
}
