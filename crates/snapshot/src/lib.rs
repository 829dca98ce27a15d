//! Snapshots of sources, which stay unchanged while they are read.

pub mod file_system;
pub mod folder;
pub mod identity;
pub mod lvm;
pub mod server;
pub mod server_files;
pub mod server_lock;
mod source;
pub mod start_options;
pub mod trial_start;

pub use source::{Opened, Place, Source, in_messages, is_name};

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use block::tree::Layout;
use block::{ChunkRead, ChunkRequest, ChunkSource};
use disk::Stat;
use host::Machine;
use progress::Progress;
use serde_json::Value;

use crate::start_options::Start;

/// How long to read before the snapshot is checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Who owns a snapshot.
pub struct Mark<'a> {
    /// One name in one repository, in its place, locked by this run: nobody else works with this mark.
    pub whose: &'a str,
    /// Only what was kept with this stamp is useful.
    pub kept: Option<&'a str>,
    /// The stamps of all generations. What was kept with one of them is of this name, also under another
    /// mark: then the repository was in another place.
    pub all: &'a [String],
}

/// A tree of files as it is now, and as it was when the kept snapshot was made.
#[derive(Clone, Copy)]
pub struct Layouts<'a> {
    /// Where files are in the snapshot.
    pub now: &'a Layout,
    /// Where they were in the generation before.
    pub before: &'a Layout,
}

/// The unique end of a snapshot's name.
pub fn new_name() -> io::Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(random)))
}

/// A snapshot, from before it exists until it is gone. Its methods must be called in their order, and
/// [`Snapshot::keep`] or [`Snapshot::remove`] in any case. Each gets the source's machine, because the
/// connection to it may be another one by then.
pub trait Snapshot: Send + Sync {
    /// Does what takes long or may fail, so that [`Snapshot::make`] is short and succeeds: removes what
    /// killed runs have left under the same mark, and writes out what is only in memory.
    fn prepare(&mut self, machine: &Machine, mark: &Mark<'_>, progress: &dyn Progress) -> io::Result<()>;

    /// Makes it. The commands for this are run through `lock`, a command of the user that holds a lock while
    /// it runs others.
    fn make(&mut self, machine: &Machine, lock: Option<&str>) -> io::Result<()>;

    /// The device or folder to read.
    fn path(&self) -> PathBuf;

    /// Whether it is a folder whose files are read, and not a volume.
    fn is_tree(&self) -> bool {
        false
    }

    /// How many things it may lack, because others renamed or removed them while it was made.
    fn vanished(&self) -> u64 {
        0
    }

    /// What to note about the moment when it was made.
    fn noted(&self) -> Option<&Value> {
        None
    }

    /// Bytes of the volume that may differ from the kept snapshot; `None` if there is none, or if that is
    /// unknown. `layouts`: those of a tree of files.
    fn changes(&self, machine: &Machine, layouts: Option<Layouts<'_>>)
    -> io::Result<Option<Vec<Range<u64>>>>;

    /// The folder of the kept snapshot.
    fn kept(&self) -> Option<PathBuf> {
        None
    }

    /// Fails when what was read so far can't be trusted, or when continuing would harm the original. Called
    /// from time to time, and after everything was read.
    fn check(&self, machine: &Machine) -> io::Result<()>;

    /// Makes a second, writable snapshot if that costs next to nothing, and returns its folder, which
    /// corresponds to [`Snapshot::path`].
    fn spare(&mut self, _machine: &Machine) -> io::Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Removes the writable one, if its creation was begun.
    fn remove_spare(&mut self, _machine: &Machine) -> io::Result<()> {
        Ok(())
    }

    /// How to start the server whose data are in it, or why that is impossible; `None` when there is no
    /// server.
    fn start(&self) -> Option<&Result<Start, String>> {
        None
    }

    /// Keeps it for the next run, with a stamp to recognise it, and replaces the one that was kept before.
    fn keep(&mut self, machine: &Machine, stamp: &str) -> io::Result<()>;

    /// Removes it, if its creation was begun. The one that was kept before stays.
    fn remove(&mut self, machine: &Machine) -> io::Result<()>;
}

/// A reader of a snapshot that checks the snapshot from time to time.
pub struct Watched<'a> {
    feed: &'a mut dyn ChunkSource,
    snapshot: &'a dyn Snapshot,
    machine: &'a Machine,
    looked: Instant,
}

impl<'a> Watched<'a> {
    /// A source that is read while its snapshot is looked after.
    pub fn new(
        feed: &'a mut dyn ChunkSource,
        snapshot: &'a dyn Snapshot,
        machine: &'a Machine,
    ) -> Watched<'a> {
        Watched { feed, snapshot, machine, looked: Instant::now() }
    }
}

impl ChunkSource for Watched<'_> {
    fn stat(&mut self) -> io::Result<Stat> {
        self.feed.stat()
    }

    fn ahead(&self) -> u64 {
        self.feed.ahead()
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.snapshot.check(self.machine)?;
            self.looked = Instant::now();
        }
        self.feed.expect(number, bytes, want)
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        self.feed.read(buffer).map_err(|error| match error.kind() {
            // The connection is gone, so nobody can be asked.
            io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => error,
            // What happened to the snapshot says more than that it can't be read.
            _ => self.snapshot.check(self.machine).err().unwrap_or(error),
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        self.feed.finish()?;
        self.snapshot.check(self.machine)
    }
}
