//! The queue that a session used last: it mostly uses the same again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use queue::Queue;

use crate::guard::Fault;
use crate::hold::open;

/// How often a queue went from its folder: what a session found there before is not to be used again.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// A queue went from its folder, or is about to be found gone.
pub(crate) fn moved() {
    MOVES.fetch_add(1, Ordering::Release);
}

/// The queue that a session found last, and where.
#[derive(Default)]
pub(crate) struct Found {
    moves: u64,
    folder: Vec<u8>,
    queue: Option<Arc<Queue>>,
}

impl Found {
    /// The queue in a folder.
    pub(crate) fn find(&mut self, folder: &[u8]) -> Result<&Arc<Queue>, Fault> {
        // Asked before the folder is looked into, and counted after it was changed.
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
