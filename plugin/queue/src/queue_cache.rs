//! The queue that a session used last, because a session mostly uses the same one again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use queue::Queue;

use crate::alter_copy::open;
use crate::guard::Fault;

/// How often a queue has left its folder: then what a session found there must not be used again.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// Counts that a queue has left its folder, or is about to be found gone.
pub(crate) fn moved() {
    MOVES.fetch_add(1, Ordering::Release);
}

/// The queue that a session used last, and its folder.
#[derive(Default)]
pub(crate) struct QueueCache {
    moves: u64,
    folder: Vec<u8>,
    queue: Option<Arc<Queue>>,
}

impl QueueCache {
    /// Opens the queue in a folder.
    pub(crate) fn find(&mut self, folder: &[u8]) -> Result<&Arc<Queue>, Fault> {
        // Read before the folder is looked up, and raised after the folder has changed.
        let moves = MOVES.load(Ordering::Acquire);
        if self.moves != moves || self.folder != folder {
            self.queue = None;
        }
        match &mut self.queue {
            Some(queue) => Ok(queue),
            none => {
                let queue = open(Path::new(OsStr::from_bytes(folder)))?;
                (self.moves, self.folder) = (moves, folder.to_vec());
                Ok(none.insert(queue))
            }
        }
    }
}
