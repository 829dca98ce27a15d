//! The operating system's files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use crate::{Disk, Sink, Source, Stat};

/// The operating system's own files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealSource(File);
struct RealSink(File);

fn stat_of(metadata: &std::fs::Metadata) -> Stat {
    Stat {
        len: metadata.len(),
        modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        regular: metadata.is_file(),
    }
}

impl Read for RealSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for RealSource {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

impl Source for RealSource {
    fn stat(&self) -> io::Result<Stat> {
        Ok(stat_of(&self.0.metadata()?))
    }
}

impl Write for RealSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Sink for RealSink {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Disk for RealDisk {
    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        // Only advice: a pipe or a device refuses it and is read all the same.
        fadvise(&file, 0, None, Advice::Sequential).ok();
        Ok(Box::new(RealSource(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(RealSink(file)))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // The parent of a bare name is empty and means the current folder.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        Ok(stat_of(&std::fs::metadata(path)?))
    }
}
