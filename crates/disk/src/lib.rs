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

#[cfg(feature = "faults")]
pub mod faults;
mod output;
mod real;

pub use output::Output;
pub use real::RealDisk;

use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes.
    pub len: u64,
    /// Time of the last change, nanoseconds since the epoch. Two equal stamps mean unchanged as far as
    /// the file system can tell.
    pub modified_ns: i128,
    /// True for a regular file: only there `len` says how much will be read.
    pub regular: bool,
}

/// A file being read.
pub trait Source: Read + Seek + Send {
    /// The file's state now, also after it was renamed or removed.
    ///
    /// # Errors
    /// What the operating system reports.
    fn stat(&self) -> io::Result<Stat>;
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

    /// Makes a new folder, for its owner only.
    ///
    /// # Errors
    /// `AlreadyExists` when there is something of that name; otherwise what the operating system reports.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, replacing what had it, in one step.
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
}
