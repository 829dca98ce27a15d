//! What every task needs from the caller: access to files, a stop flag, and a progress receiver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{Disk, Files};
use progress::Progress;

/// What the caller provides to every task.
#[derive(Clone)]
pub struct Context {
    /// Access to files.
    pub disk: Arc<dyn Disk>,
    /// The files of the server's machine.
    pub server: Arc<dyn Files>,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
    /// Receives the progress.
    pub progress: Arc<dyn Progress + Send>,
}

impl Context {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
