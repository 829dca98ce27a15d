//! The folder of a queue, which may be renamed while it is in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::Disk;

use crate::Counters;
use crate::store::files::OpenFiles;
use crate::sync::{Mutex, lock};

/// A queue's folder on its disk.
pub(crate) struct Folder {
    disk: Arc<dyn Disk>,
    path: Mutex<PathBuf>,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) calls: IoCounters,
}

/// The system calls on the files in a folder, as in [`Counters`].
#[derive(Default)]
pub(crate) struct IoCounters {
    pub(crate) reads: AtomicU64,
    pub(crate) read_hits: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl IoCounters {
    pub(crate) fn counted(&self, counters: Counters) -> Counters {
        let [reads, read_hits, writes, syncs] = [&self.reads, &self.read_hits, &self.writes, &self.syncs]
            .map(|counter| counter.load(Ordering::Relaxed));
        Counters { reads, read_hits, writes, syncs, ..counters }
    }
}

impl Folder {
    pub(crate) fn new(disk: Arc<dyn Disk>, files: Arc<OpenFiles>, path: &Path) -> Arc<Folder> {
        Arc::new(Folder { disk, path: Mutex::new(path.to_owned()), files, calls: IoCounters::default() })
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn path(&self) -> PathBuf {
        lock(&self.path).clone()
    }

    /// Notes that the folder has another name from now on.
    pub(crate) fn moved(&self, path: &Path) {
        path.clone_into(&mut lock(&self.path));
    }
}
