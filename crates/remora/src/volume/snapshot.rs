//! Sources that hold still while they are read.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use block::tree::Layout;
use block::{Feed, Seen, Want};
use disk::Stat;
use progress::Progress;
use serde_json::Value;

use crate::host::Machine;
use crate::volume::start::Start;

/// How long reading goes on before the snapshot is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Whose a snapshot is.
pub(crate) struct Mark<'a> {
    /// One name in one repository, which this run has for itself: nobody else works under this mark.
    pub(crate) whose: &'a str,
    /// What was kept with this stamp is of use, and nothing else that was kept.
    pub(crate) kept: Option<&'a str>,
}

/// A tree of files as it is, and as it was when the snapshot was made that has been kept.
#[derive(Clone, Copy)]
pub(crate) struct Layouts<'a> {
    pub(crate) now: &'a Layout,
    pub(crate) before: &'a Layout,
}

/// What the name of a snapshot ends with, so that nobody has it already.
pub(super) fn new_name() -> io::Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(random)))
}

/// A snapshot, from before it is there until it is gone. Its methods are called in their order,
/// [`Snapshot::keep`] or [`Snapshot::remove`] in any case; each gets the machine that the source lies on, as
/// the connection to it may be another one by then.
pub(crate) trait Snapshot: Send + Sync {
    /// Does what takes long or may well fail, so that [`Snapshot::make`] is short and succeeds: removes what
    /// killed runs have left under the same mark, writes out what only memory holds.
    fn prepare(&mut self, machine: &Machine, mark: &Mark<'_>, progress: &dyn Progress) -> io::Result<()>;

    /// Makes it, with the commands that do so behind `lock`, a command of the user's that holds a lock while
    /// it runs others.
    fn make(&mut self, machine: &Machine, lock: Option<&str>) -> io::Result<()>;

    /// The device or folder that is to be read.
    fn path(&self) -> PathBuf;

    /// Whether it is a folder, whose files are read, and no volume.
    fn is_tree(&self) -> bool {
        false
    }

    /// What is to be noted of the moment when it was made.
    fn noted(&self) -> Option<&Value> {
        None
    }

    /// Bytes of the volume that may not be as they are in the snapshot that was kept; `None` if none was, or
    /// nobody tells. `layouts`: those of a tree of files.
    fn changes(&self, machine: &Machine, layouts: Option<Layouts<'_>>)
    -> io::Result<Option<Vec<Range<u64>>>>;

    /// The folder of the one that was kept.
    fn kept(&self) -> Option<PathBuf> {
        None
    }

    /// Fails when what was read so far can't be relied on, or the original is harmed by going on. Asked now
    /// and then, and when everything was read.
    fn check(&self, machine: &Machine) -> io::Result<()>;

    /// Makes a second one that may be written to, where that costs next to nothing: the folder that is like
    /// [`Snapshot::path`].
    fn spare(&mut self, _machine: &Machine) -> io::Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Removes that one, if making it was begun.
    fn remove_spare(&mut self, _machine: &Machine) -> io::Result<()> {
        Ok(())
    }

    /// How the server is started whose data are in it, or why it can't be; `None` when there is no server.
    fn start(&self) -> Option<&Result<Start, String>> {
        None
    }

    /// Keeps it for the next run, with a stamp to know it by, in place of the one that was kept before.
    fn keep(&mut self, machine: &Machine, stamp: &str) -> io::Result<()>;

    /// Removes it, if making it was begun. What was kept before stays.
    fn remove(&mut self, machine: &Machine) -> io::Result<()>;
}

/// What is read of a snapshot, which is looked at meanwhile.
pub(crate) struct Watched<'a> {
    feed: &'a mut dyn Feed,
    snapshot: &'a dyn Snapshot,
    machine: &'a Machine,
    looked: Instant,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(
        feed: &'a mut dyn Feed,
        snapshot: &'a dyn Snapshot,
        machine: &'a Machine,
    ) -> Watched<'a> {
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
