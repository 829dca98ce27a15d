//! Two sides in one process.

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::faults::FaultDisk;
use disk::{Batch, Disk, Guard, RealDisk, Share, Sink, Source, Stat, Tree, Volume};
use far::{CloneReport, CloneRequest, CommandOutput, Connection, Greeting, Machine, serve};

struct Memory(FaultDisk);

impl Machine for Memory {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.0.clone())
    }

    /// The disk in memory has none.
    fn tree(&self) -> &dyn Tree {
        &RealDisk
    }

    fn run(&self, command: &[OsString]) -> io::Result<CommandOutput> {
        let [program, rest @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
        if program != "echo" {
            return Err(io::ErrorKind::NotFound.into());
        }
        let output = rest.join(&OsString::from(" ")).into_encoded_bytes();
        Ok(CommandOutput { code: 0, output, errors: Vec::new() })
    }

    fn clone_folder(&self, _cloning: &CloneRequest) -> io::Result<CloneReport> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// This machine, how often a single file or folder of it was synced, and how many direct reads are torn yet.
#[derive(Clone, Default)]
pub(crate) struct Real(pub(crate) Arc<AtomicU64>, pub(crate) Arc<AtomicU64>);

/// Its disk.
struct Counted(Arc<AtomicU64>, Arc<AtomicU64>);

/// A file of which the byte at [`TORN`] is wrong in some reads.
struct Torn(Box<dyn Source>, Arc<AtomicU64>);

pub(crate) const TORN: u64 = 50_000;

impl Source for Torn {
    fn stat(&self) -> io::Result<Stat> {
        self.0.stat()
    }
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read_at(at, buffer)?;
        let place = TORN.checked_sub(at).and_then(|place| usize::try_from(place).ok());
        if let Some(byte) = place.and_then(|place| buffer.get_mut(place))
            && self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        {
            *byte ^= 1;
        }
        Ok(count)
    }
    fn absent(&self, at: u64, len: usize) -> io::Result<Vec<Range<u64>>> {
        self.0.absent(at, len)
    }
    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        self.0.skip_hole(at)
    }
    fn prefetch(&self, at: u64, len: u64) {
        self.0.prefetch(at, len);
    }
    fn forget(&self, at: u64, len: u64) {
        self.0.forget(at, len);
    }
}

impl Read for Torn {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for Torn {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// A file of it.
struct CountedFile<T: ?Sized>(Arc<AtomicU64>, Box<T>);

impl Disk for Counted {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        RealDisk.open(path)
    }
    fn open_direct(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        Ok(Box::new(Torn(RealDisk.open_direct(path)?, Arc::clone(&self.1))))
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        Ok(Box::new(CountedFile(Arc::clone(&self.0), RealDisk.create(path)?)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        RealDisk.sync_folder(folder)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        RealDisk.stat(path)
    }
    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        RealDisk.append(path, len)
    }
    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>> {
        Ok(Box::new(CountedFile(Arc::clone(&self.0), RealDisk.volume(path)?)))
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        RealDisk.list(folder)
    }
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.create_folder(folder)
    }
    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.remove_folder(folder)
    }
    fn batch(&self, folder: &Path) -> io::Result<Option<Box<dyn Batch>>> {
        RealDisk.batch(folder)
    }
    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        RealDisk.lock(path, share)
    }
}

impl Write for CountedFile<dyn Sink> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

impl Sink for CountedFile<dyn Sink> {
    fn sync(&mut self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.sync()
    }
}

impl Volume for CountedFile<dyn Volume> {
    fn stat(&self) -> io::Result<Stat> {
        self.1.stat()
    }
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.read_at(at, buffer)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.write_at(at, bytes)
    }
    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        self.1.clear(at, len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.1.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.sync()
    }
}

impl Machine for Real {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(Counted(Arc::clone(&self.0), Arc::clone(&self.1)))
    }

    fn tree(&self) -> &dyn Tree {
        &RealDisk
    }

    fn run(&self, command: &[OsString]) -> io::Result<CommandOutput> {
        far::run(command)
    }

    fn clone_folder(&self, cloning: &CloneRequest) -> io::Result<CloneReport> {
        far::clone(cloning)
    }
}

/// What comes from the far side: counted, and cut off after a number of bytes.
struct Cut {
    stream: UnixStream,
    left: u64,
    count: Arc<AtomicU64>,
}

impl Read for Cut {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            // As if ssh had been killed.
            self.stream.shutdown(Shutdown::Both).ok();
            return Ok(0);
        }
        let count = self.stream.read(&mut buffer[..most])?;
        self.left -= count as u64;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A connection to a machine with this disk. It breaks after `bytes` bytes have arrived.
pub(crate) fn connect(disk: &FaultDisk, bytes: u64) -> (io::Result<Connection>, Arc<AtomicU64>) {
    connect_to(Memory(disk.clone()), bytes)
}

/// A connection to this machine's own disk.
pub(crate) fn connected_here() -> Connection {
    connected_to(&Real::default())
}

/// The same, with syncs counted.
pub(crate) fn connected_to(machine: &Real) -> Connection {
    connect_to(machine.clone(), u64::MAX).0.unwrap()
}

fn connect_to(
    machine: impl Machine + Send + 'static,
    bytes: u64,
) -> (io::Result<Connection>, Arc<AtomicU64>) {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let greeting = Greeting { program: [7; 32], uid: 3, host: "elsewhere".into() };
        serve(far.try_clone().unwrap(), far, &greeting, &machine).ok();
    });
    let count = Arc::new(AtomicU64::new(0));
    let input = Cut { stream: near.try_clone().unwrap(), left: bytes, count: Arc::clone(&count) };
    (Connection::new(Box::new(input), Box::new(near)), count)
}

pub(crate) fn connected(disk: &FaultDisk) -> Connection {
    connect(disk, u64::MAX).0.unwrap()
}
