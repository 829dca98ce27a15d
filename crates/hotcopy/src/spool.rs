//! What was read before it can be stored.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file without a name: nothing is left of it, however the run ends.
pub(crate) struct Spool {
    file: File,
    len: u64,
}

impl Spool {
    /// An empty one on the file system of this folder.
    pub(crate) fn new(folder: &Path) -> io::Result<Spool> {
        Ok(Spool { file: tempfile::tempfile_in(folder)?, len: 0 })
    }

    /// Another writer, which begins at byte `at`.
    pub(crate) fn writer(&self, at: u64) -> io::Result<File> {
        // Opened again, because a copy of the descriptor would share its position.
        let mut file = File::options().write(true).open(self.path())?;
        file.seek(SeekFrom::Start(at))?;
        Ok(file)
    }

    /// How many bytes were added.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds bytes; returns where they begin, and how many they are.
    pub(crate) fn add(&mut self, mut from: impl Read) -> io::Result<(u64, u64)> {
        let start = self.len;
        let count = io::copy(&mut from, &mut self.file)?;
        self.len += count;
        Ok((start, count))
    }

    /// Reads bytes that were added.
    pub(crate) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    /// Replaces bytes that were added.
    pub(crate) fn replace(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// A path that leads to it in this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
