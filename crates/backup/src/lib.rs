//! One run of a backup: a source becomes a generation of a repository.
//!
//! `run` is its way: hooks, a snapshot if one can be made, what is stored, and what is removed whatever
//! happens. `hot` copies a server file by file while it runs, and `trial` starts a server on a copy before
//! the backup counts. `metrics` says what a repository has. Snapshots are in `snapshot`, the hot copy itself
//! in `hotcopy`, the format in `block`.

mod hot;
pub mod metrics;
mod run;
mod trial;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use block::RunContext;
use block::backup::Summary;
use instance::boot::BootResult;
use progress::Progress;
use repository::Location;
use seal::Key;
use snapshot::Source;
use snapshot::server::Login;

/// How a server is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a snapshot of LVM, btrfs or XFS.
    Snapshot,
    /// File by file, while it runs.
    Copy,
}

/// What is wanted of a backup.
pub struct Request {
    /// The repository.
    pub to: PathBuf,
    /// Continue a name that has backups of another source.
    pub adopt: bool,
    /// Store everything again.
    pub full: bool,
    /// Accept a file that changes while it is read.
    pub live: bool,
    /// A shell command on the source's machine before reading.
    pub before: Option<String>,
    /// A shell command there after reading, even if that failed.
    pub after: Option<String>,
    /// A shell command that holds a lock while the snapshot is made.
    pub lock: Option<String>,
    /// Read only what has changed since the last run.
    pub track: bool,
    /// Room for changes in a logical volume while it is read, in bytes.
    pub snapshot_size: Option<u64>,
    /// Bytes that are read per second, at most.
    pub rate: Option<u64>,
    /// Run at the lowest priority.
    pub nice: bool,
    /// Options for ssh.
    pub ssh_option: Vec<String>,
    /// Threads that compress.
    pub jobs: usize,
    /// How to copy a server; a snapshot where one can be made, if none is chosen.
    pub way: Option<Way>,
    /// Start a server on a copy, and say if that can't be done.
    pub prove: bool,
    /// Start none.
    pub no_prove: bool,
    /// Seconds to check tables there.
    pub prove_for_s: u64,
}

impl Request {
    /// Whether something is wanted that has a meaning only with a snapshot.
    #[must_use]
    pub fn needs_snapshot(&self) -> bool {
        self.lock.is_some() || self.snapshot_size.is_some()
    }
}

/// Where a run says what it has done.
pub trait Output: Progress {
    /// There is a new generation.
    fn stored(&self, source: &Source, name: &str, made: &Summary, took: Duration);

    /// A server was started on it.
    ///
    /// # Errors
    /// If it can't be said.
    fn booted(&self, name: &str, result: &BootResult) -> Result<()>;
}

/// A source, and what to do with it.
pub struct Backup<'a> {
    /// What is backed up.
    pub source: &'a Source,
    /// Its name in the repository.
    pub name: &'a str,
    /// Where the backups of that name are.
    pub home: Location,
    /// What is wanted.
    pub request: &'a Request,
    /// How to reach its server.
    pub login: &'a Login<'a>,
    /// What the backups are encrypted with.
    pub key: Option<&'a Key>,
    /// When to stop, and where progress is shown.
    pub world: RunContext<'a>,
    /// Where results are said.
    pub output: &'a dyn Output,
}
