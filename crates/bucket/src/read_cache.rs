//! A cache of parts of files that were read, or are being read.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of cached chunks: 64 MiB.
const CHUNKS_MAX: usize = 512;

/// The cached chunks of all open files of a store.
#[derive(Default)]
pub(crate) struct Cache {
    pub(crate) chunks: Mutex<ChunkCache>,
    /// Signals that a chunk has arrived, or can't be read.
    pub(crate) arrived: Condvar,
    /// Counts opened files.
    pub(crate) opened: AtomicU64,
}

#[derive(Default)]
pub(crate) struct ChunkCache {
    /// By open file and chunk number. `None`: it is being fetched.
    pub(crate) chunks: BTreeMap<(u64, u64), Option<CachedChunk>>,
    /// How many of them are in memory.
    here: usize,
    /// Counts uses.
    pub(crate) clock: u64,
    /// Number of running read-ahead fetches.
    pub(crate) ahead: usize,
}

#[derive(Clone)]
pub(crate) struct CachedChunk {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) used: u64,
}

impl ChunkCache {
    pub(crate) fn put(&mut self, at: (u64, u64), bytes: Vec<u8>) {
        self.clock += 1;
        self.chunks.insert(at, Some(CachedChunk { bytes: Arc::new(bytes), used: self.clock }));
        self.here += 1;
        while self.here > CHUNKS_MAX {
            let used = |(at, chunk): (&(u64, u64), &Option<CachedChunk>)| Some((chunk.as_ref()?.used, *at));
            let Some((_, oldest)) = self.chunks.iter().filter_map(used).min() else { break };
            self.chunks.remove(&oldest);
            self.here -= 1;
        }
    }

    /// Drops the chunks of a file, and those that are being fetched.
    pub(crate) fn forget(&mut self, file: u64) {
        let of_file = (file, 0)..=(file, u64::MAX);
        let gone: Vec<_> = self.chunks.range(of_file).map(|(at, chunk)| (*at, chunk.is_some())).collect();
        for (at, was_here) in gone {
            self.chunks.remove(&at);
            self.here -= usize::from(was_here);
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
