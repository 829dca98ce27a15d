//! What every task is given: the door to files, the wish to stop, and whom to tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::Disk;
use progress::Progress;

/// What the caller brings.
#[derive(Clone)]
pub struct World {
    /// The door to files.
    pub disk: Arc<dyn Disk>,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
    /// Where to tell how far it is.
    pub progress: Arc<dyn Progress + Send>,
}

impl World {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
