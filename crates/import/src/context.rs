//! What an import needs from the caller.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{Disk, Files};
use progress::Progress;
use server::Session;

use crate::Error;

/// What an import needs from the caller.
pub struct Context<'a> {
    /// Access to files.
    pub disk: &'a dyn Disk,
    /// The files of the server's machine.
    pub server: &'a dyn Files,
    /// Opens a connection to the server.
    pub connect: &'a (dyn Fn() -> Result<Session, server::Error> + Sync),
    /// Folder for the rejects of standard input.
    pub folder: PathBuf,
    /// CPU cores of this machine: the useful number of sessions if the server runs on it too.
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
