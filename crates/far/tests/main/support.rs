//! Two sides in one process.

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::faults::FaultDisk;
use disk::{Disk, RealDisk, Tree};
use far::{Cloned, Cloning, Connection, Greeting, Machine, Ran, serve};

struct Memory(FaultDisk);

impl Machine for Memory {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.0.clone())
    }

    /// The disk in memory has none.
    fn tree(&self) -> &dyn Tree {
        &RealDisk
    }

    fn run(&self, command: &[OsString]) -> io::Result<Ran> {
        let [program, rest @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
        if program != "echo" {
            return Err(io::ErrorKind::NotFound.into());
        }
        let output = rest.join(&OsString::from(" ")).into_encoded_bytes();
        Ok(Ran { code: 0, output, errors: Vec::new() })
    }

    fn clone_folder(&self, _cloning: &Cloning) -> io::Result<Cloned> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The machine we are on.
struct Real;

impl Machine for Real {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }

    fn tree(&self) -> &dyn Tree {
        &RealDisk
    }

    fn run(&self, command: &[OsString]) -> io::Result<Ran> {
        far::run(command)
    }

    fn clone_folder(&self, cloning: &Cloning) -> io::Result<Cloned> {
        far::clone(cloning)
    }
}

/// What comes from the far side: counted, and cut off after so many bytes.
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

/// A connection to a machine with this disk, which breaks after `bytes` bytes have come from there.
pub(crate) fn connect(disk: &FaultDisk, bytes: u64) -> (io::Result<Connection>, Arc<AtomicU64>) {
    connect_to(Memory(disk.clone()), bytes)
}

/// A connection to this machine's own disk.
pub(crate) fn connected_here() -> Connection {
    connect_to(Real, u64::MAX).0.unwrap()
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
