//! A server while it is copied: the backup that it knows of, and its redo log, which is followed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use server::Session;
use snapshot::server::Login;

use crate::backup_stage::Stages;
use crate::data_files::DataFiles;
use crate::redo_log::LogReader;
use crate::spool::Spool;

/// How long pages wait for the log before they look again.
const WAIT_FOR_LOG: Duration = Duration::from_millis(20);
/// How long they wait for it at most: it may be read through the connection that waits here, so that must
/// continue.
const WAIT_FOR_LOG_MAX: Duration = Duration::from_secs(1);

/// A server that is being copied. If this is dropped, the server ends the backup.
pub(crate) struct RunningServer {
    pub stages: Stages,
    pub log: LogReader,
    /// Set when the run must stop.
    pub stop: Arc<AtomicBool>,
}

impl RunningServer {
    /// Tells the server that a backup begins, and follows its log. That is spooled in `room`.
    pub(crate) fn begin(
        login: &Login<'_>,
        session: Session,
        files: &DataFiles<'_>,
        room: &Path,
    ) -> io::Result<RunningServer> {
        let stages = Stages::start(session, login.wait)?;
        let (_, session) = login.connect(files.machine)?;
        let log = LogReader::begin(files.machine, &files.places.log, Spool::new(room)?, session)?;
        Ok(RunningServer { stages, log, stop: Arc::clone(&login.stop) })
    }

    /// To be called before each read of a page: waits while much of the redo log is unread, and keeps the
    /// session. Fails if the log can't be followed any more.
    pub(crate) fn before_read(&mut self) -> io::Result<()> {
        let began = Instant::now();
        loop {
            self.log.check()?;
            if !self.log.is_late()
                || began.elapsed() > WAIT_FOR_LOG_MAX
                || !progress::pause(WAIT_FOR_LOG, &self.stop)
            {
                return self.stages.stay();
            }
        }
    }
}

/// Fails if the run must stop.
pub(crate) fn check_stop(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(io::Error::other("stopped")) } else { Ok(()) }
}
