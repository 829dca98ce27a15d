//! What an import needs from outside.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{Disk, Files};
use progress::Progress;
use server::Session;

use crate::Error;

/// What an import needs from outside.
pub struct Context<'a> {
    /// Access to files.
    pub disk: &'a dyn Disk,
    /// The files of the server's machine.
    pub server: &'a dyn Files,
    /// Opens a connection to the server.
    pub connect: &'a (dyn Fn() -> Result<Session, server::Error> + Sync),
    /// Folder for the rejects of standard input.
    pub folder: PathBuf,
    /// Cores of this machine: this many sessions help when the server is on this machine too.
    pub cores: usize,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

impl Context<'_> {
    /// A read or a spool that ended because the user wants to stop is not an error of a file.
    pub(crate) fn stopped(&self, error: Error) -> Error {
        match error {
            Error::Read { .. } | Error::Write { .. } if self.stop.load(Ordering::Relaxed) => Error::Stopped,
            error => error,
        }
    }
}
