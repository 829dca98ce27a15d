//! Follows the redo log in a thread of its own, while pages are read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use host::Machine;
use physical::RedoPosition;
use physical::redo_copy::{CopiedLog, HEAD_BYTES, RedoCopier};
use server::Session;

use crate::backup_stage::IDLE_S;
use crate::spool::Spool;

/// How often the log is read.
const STEP: Duration = Duration::from_millis(50);
/// How many checkpoints a copy tries to begin with, one after the other, before anything else is read.
const TRIES: usize = 10;
/// The share of the log that may be unread before pages wait for it.
const BEHIND_MAX: f64 = 0.7;

/// A log that is followed.
pub(crate) struct LogReader {
    /// The LSN at which it begins.
    pub checkpoint: u64,
    /// The LSN up to which it was read before it was followed.
    began: u64,
    spool: Spool,
    /// Dropped when the thread shall end.
    stop: Sender<()>,
    /// Receives what the thread ends with.
    ended: Receiver<io::Result<(RedoCopier, Session)>>,
    /// Whether pages should wait, because much of the log is unread.
    late: Arc<AtomicBool>,
}

impl LogReader {
    /// Takes the last checkpoint, reads the log from there to its end, and follows it.
    pub(crate) fn begin(
        machine: &Machine,
        path: &Path,
        spool: Spool,
        mut session: Session,
    ) -> io::Result<LogReader> {
        // Nothing is asked while commits are stopped.
        session.execute(&format!("SET SESSION wait_timeout = {IDLE_S}")).map_err(io::Error::other)?;
        let mut tries = 1..TRIES;
        let mut follow = loop {
            match caught_up(machine, path, &spool, &mut session) {
                // The server has made a checkpoint and written over the one before.
                Err(physical::Error::Log { .. }) if tries.next().is_some() => {}
                follow => break follow.map_err(io::Error::other)?,
            }
        };
        let (checkpoint, began) = (follow.checkpoint(), follow.proven());
        let ((stop, stopped), (end, ended)) = (bounded::<()>(1), bounded(1));
        let late = Arc::new(AtomicBool::new(false));
        let is_late = Arc::clone(&late);
        let step = move |follow: &mut RedoCopier, session: &mut Session| {
            let now = RedoPosition::read(session)?;
            is_late.store(follow.behind(now.current) > BEHIND_MAX, Ordering::Release);
            follow.step(now.flushed, &mut || Ok(RedoPosition::read(session)?.current))
        };
        std::thread::Builder::new().name("redo".to_owned()).spawn(move || {
            let mut done = Ok(());
            while done.is_ok() && stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                done = step(&mut follow, &mut session).map_err(io::Error::other);
            }
            // Nobody receives it if the copy was given up.
            end.send(done.map(|()| (follow, session))).ok();
        })?;
        Ok(LogReader { checkpoint, began, spool, stop, ended, late })
    }

    /// Fails, with the reason, if it can't be followed any more.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.ended.try_recv() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) | Err(TryRecvError::Disconnected) => Err(ended_early()),
            Err(TryRecvError::Empty) => Ok(()),
        }
    }

    /// Whether so much of the log is unread that pages should wait.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Acquire)
    }

    /// Ends the thread. Nothing of the log is read then until [`Stopped::finish`].
    pub(crate) fn stop(self) -> io::Result<Stopped> {
        drop(self.stop);
        let (follow, session) = self.ended.recv().map_err(|_| ended_early())??;
        Ok(Stopped { follow, session, spool: self.spool, began: self.began })
    }
}

fn ended_early() -> io::Error {
    io::Error::other("a thread ended early")
}

/// Takes the last checkpoint, and reads the log from there to its end. A busy server's checkpoint may be so
/// far back that little is missing until it is written over.
fn caught_up(
    machine: &Machine,
    path: &Path,
    spool: &Spool,
    session: &mut Session,
) -> Result<RedoCopier, physical::Error> {
    let spooled = spool.writer(HEAD_BYTES).map_err(physical::Error::Output)?;
    let mut follow = RedoCopier::begin(machine.disk(), path.to_owned(), Box::new(spooled))?;
    let flushed = RedoPosition::read(session)?.flushed;
    follow.step(flushed, &mut || Ok(RedoPosition::read(session)?.current))?;
    Ok(follow)
}

/// A log that is read as far as some LSN.
pub(crate) struct Stopped {
    follow: RedoCopier,
    session: Session,
    spool: Spool,
    /// The LSN before which the first page was read.
    pub began: u64,
}

impl Stopped {
    /// Reads up to the LSN `end`, and proves that the log is whole. The spool has all of it but its head.
    pub(crate) fn finish(mut self, end: u64) -> io::Result<(CopiedLog, Spool)> {
        let Stopped { follow, session, .. } = &mut self;
        let mut current = || Ok(RedoPosition::read(session)?.current);
        follow.step(end, &mut current).map_err(io::Error::other)?;
        let log = self.follow.finish(end).map_err(io::Error::other)?;
        Ok((log, self.spool))
    }
}
