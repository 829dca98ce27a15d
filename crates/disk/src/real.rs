//! The operating system's files.

mod direct;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags, fadvise, fallocate, flock};
use rustix::io::Errno;

use crate::{Batch, CachedPages, Disk, Guard, Share, Sink, Source, Stat, Volume, file_lease, page_cache};

/// So many zeros are written at a time if a hole can't be made.
const CLEAR_BYTES: usize = 1 << 16;
/// After so many bytes the operating system is told to bring them to the disk.
const BEGIN_EACH: u64 = 8 << 20;

/// The operating system's own files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// An open file, and its length if it is a block device, whose metadata does not give it.
struct RealFile {
    file: File,
    device_len: Option<u64>,
}

/// A file that is written from some place on.
struct RealSink {
    file: File,
    /// How far it is written, and how far the operating system was told to bring it to the disk.
    at: u64,
    begun: u64,
}

/// A folder on the file system to sync.
struct RealBatch(File);
struct RealGuard(File);

impl RealFile {
    fn new(mut file: File) -> io::Result<RealFile> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        let mut device_len = None;
        if metadata.file_type().is_block_device() {
            device_len = Some(file.seek(SeekFrom::End(0))?);
            file.rewind()?;
        }
        Ok(RealFile { file, device_len })
    }

    fn state(&self) -> io::Result<Stat> {
        let stat = stat_of(&self.file.metadata()?);
        Ok(Stat { len: self.device_len.unwrap_or(stat.len), ..stat })
    }
}

fn stat_of(metadata: &std::fs::Metadata) -> Stat {
    Stat {
        len: metadata.len(),
        modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        changed_ns: i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()),
        inode: metadata.ino(),
        regular: metadata.is_file(),
        block_device: metadata.file_type().is_block_device(),
    }
}

impl Read for RealFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for RealFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Source for RealFile {
    fn stat(&self) -> io::Result<Stat> {
        self.state()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn try_write_out(&self) {
        self.write_out().ok();
    }

    fn write_out(&self) -> io::Result<()> {
        match rustix::fs::fdatasync(&self.file) {
            // If a file can't be synced, nobody writes to it.
            Err(Errno::INVAL | Errno::ROFS) => Ok(()),
            written => Ok(written?),
        }
    }

    fn is_written_to(&self) -> Option<bool> {
        if self.device_len.is_some() { None } else { file_lease::is_written_to(&self.file) }
    }

    fn absent(&self, at: u64, len: usize) -> io::Result<Vec<Range<u64>>> {
        match page_cache::absent(&self.file, at, len) {
            // Something that can't be mapped, such as a pipe.
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(Vec::new()),
            told => told,
        }
    }

    fn resident(&self, at: u64, len: u64) -> io::Result<Option<CachedPages>> {
        page_cache::resident(&self.file, at, len)
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(at)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at)),
            Err(error) => Err(error.into()),
        }
    }

    fn prefetch(&self, at: u64, len: u64) {
        // This is only advice, and it may be refused.
        fadvise(&self.file, at, NonZeroU64::new(len), Advice::WillNeed).ok();
    }

    fn forget(&self, at: u64, len: u64) {
        fadvise(&self.file, at, NonZeroU64::new(len), Advice::DontNeed).ok();
    }
}

impl Volume for RealFile {
    fn stat(&self) -> io::Result<Stat> {
        self.state()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        // On some hardware a hole in a device may return any bytes, so zeros are written there.
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if len > 0 && self.device_len.is_none() && fallocate(&self.file, mode, at, len).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; CLEAR_BYTES];
        let mut done = 0;
        while done < len {
            let left = usize::try_from(len - done).unwrap_or(CLEAR_BYTES);
            let piece = zeros.get(..left).unwrap_or(&zeros);
            self.file.write_all_at(piece, at + done)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Guard for RealGuard {}

impl Drop for RealGuard {
    /// To close the file is not enough: a program that is being started has it open too, until it is loaded.
    fn drop(&mut self) {
        flock(&self.0, FlockOperation::Unlock).ok();
    }
}

impl Batch for RealBatch {
    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// Whether the device, or the file system, says that it can't give back what was written. Other errors say
/// nothing about the bytes of a file.
#[must_use]
pub fn is_lost(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::UCLEAN | Errno::BADMSG))
}

/// Whether the kernel has at least this version.
fn is_linux_from(least: (u32, u32)) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= least
}

impl RealSink {
    fn new(file: File, at: u64) -> RealSink {
        RealSink { file, at, begun: at }
    }
}

impl Write for RealSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        if self.at - self.begun >= BEGIN_EACH {
            // A sync of all of it at the end would make everybody else's wait. Linux begins to write what is
            // to be forgotten, and forgets what was written already.
            let len = NonZeroU64::new(self.at - self.begun);
            fadvise(&self.file, self.begun, len, Advice::DontNeed).ok();
            self.begun = self.at;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for RealSink {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Disk for RealDisk {
    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let file = RealFile::new(File::open(path)?)?;
        // This is only advice: a pipe or a device refuses it and can still be read.
        fadvise(&file.file, 0, None, Advice::Sequential).ok();
        Ok(Box::new(file))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn open_direct(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        direct::source(RealFile::new(File::open(path)?)?)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(RealSink::new(file, 0)))
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

    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        let file = OpenOptions::new().append(true).open(path)?;
        let there = file.metadata()?.len();
        if there > len {
            file.set_len(len)?;
        }
        Ok(Box::new(RealSink::new(file, there.min(len))))
    }

    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if std::fs::metadata(path)?.file_type().is_block_device() {
            // Without O_CREAT this asks the kernel for exclusive use of the device: it refuses if the device
            // is mounted, used as swap or mapped.
            options.custom_flags(i32::try_from(OFlags::EXCL.bits()).unwrap_or(0));
        }
        Ok(Box::new(RealFile::new(options.open(path)?)?))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let name = |entry: io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name());
        let mut names = std::fs::read_dir(folder)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(folder)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]
    fn batch(&self, folder: &Path) -> io::Result<Option<Box<dyn Batch>>> {
        // Older kernels do not report failed writes here.
        if !is_linux_from((5, 8)) {
            return Ok(None);
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Ok(Some(Box::new(RealBatch(File::open(folder)?))))
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        std::fs::remove_dir(folder)
    }

    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let operation = match share {
            Share::Shared => FlockOperation::NonBlockingLockShared,
            Share::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Box::new(RealGuard(file)))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_while_a_program_that_is_being_started_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = || {
            let file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            let is_free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            (is_free, RealGuard(file))
        };
        let (is_free, guard) = lock();
        let inherited = guard.0.try_clone().unwrap();
        assert!(is_free && !lock().0);
        drop(guard);
        assert!(lock().0);
        drop(inherited);
    }
}
