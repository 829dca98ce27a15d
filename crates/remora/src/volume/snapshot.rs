//! Sources that hold still while they are read.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use block::{Feed, Seen, Want};
use disk::Stat;
use progress::Progress;

use crate::host::Machine;

/// How long reading goes on before the snapshot is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A snapshot, from before it is there until it is gone. Its methods are called in their order, [`Snapshot::remove`]
/// in any case; each gets the machine that the source lies on, as the connection to it may be another one by then.
pub(crate) trait Snapshot: Send + Sync {
    /// Does what takes long or may well fail, so that [`Snapshot::make`] is short and succeeds: removes what killed runs
    /// have left under the same `mark`, writes out what only memory holds.
    ///
    /// Nobody else works under this mark: it is that of one name in one repository, which this run has for itself.
    fn prepare(&mut self, machine: &Machine, mark: &str, progress: &dyn Progress) -> io::Result<()>;

    /// Makes it. A lock may be held around this.
    fn make(&mut self, machine: &Machine) -> io::Result<()>;

    /// The device or folder that is to be read.
    fn path(&self) -> PathBuf;

    /// Fails when what was read so far can't be relied on, or the original is harmed by going on. Asked now and then,
    /// and when everything was read.
    fn check(&self, machine: &Machine) -> io::Result<()>;

    /// Removes it, if making it was begun.
    fn remove(&mut self, machine: &Machine) -> io::Result<()>;
}

/// What is read of a snapshot, which is looked at meanwhile.
pub(crate) struct Watched<'a> {
    feed: Box<dyn Feed>,
    snapshot: &'a dyn Snapshot,
    machine: &'a Machine,
    looked: Instant,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(feed: Box<dyn Feed>, snapshot: &'a dyn Snapshot, machine: &'a Machine) -> Watched<'a> {
        Watched { feed, snapshot, machine, looked: Instant::now() }
    }
}

impl Feed for Watched<'_> {
    fn stat(&mut self) -> io::Result<Stat> {
        self.feed.stat()
    }

    fn ahead(&self) -> u64 {
        self.feed.ahead()
    }

    fn expect(&mut self, number: u64, bytes: usize, want: Want) -> io::Result<()> {
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.snapshot.check(self.machine)?;
            self.looked = Instant::now();
        }
        self.feed.expect(number, bytes, want)
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Seen> {
        self.feed.read(buffer).map_err(|error| match error.kind() {
            // There is nobody to be asked.
            io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => error,
            // What became of the snapshot says more than that it can't be read.
            _ => self.snapshot.check(self.machine).err().unwrap_or(error),
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        self.feed.finish()?;
        self.snapshot.check(self.machine)
    }
}
