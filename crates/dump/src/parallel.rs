//! Work on several threads; the first failure ends all of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use server::Session;

use crate::Error;

/// The first failure among threads.
#[derive(Default)]
pub(crate) struct Failure {
    error: Mutex<Option<Error>>,
    is_there: AtomicBool,
}

impl Failure {
    /// Runs a thread's job and keeps its error, unless there is one already: later errors follow from the
    /// first.
    pub(crate) fn guard(&self, job: impl FnOnce() -> Result<(), Error>) {
        if let Err(error) = job() {
            // The error comes first: who sees the flag fails as well, and must not be taken for the cause.
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.is_there.store(true, Ordering::Release);
        }
    }

    /// Whether a thread has failed, so that it is useless to continue.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    /// The result, once all threads have ended.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// Opens a session for a thread.
pub(crate) type Connect<'a> = &'a (dyn Fn() -> Result<Session, Error> + Sync);

/// Runs the job for every item, in order; no more are started once one has failed. The job gets the index of
/// its item.
pub(crate) fn each<T: Sync>(
    things: &[T],
    sessions: usize,
    connect: Connect<'_>,
    job: &(dyn Fn(&mut Session, usize, &T) -> Result<(), Error> + Sync),
) -> Result<(), Error> {
    let (next, failure) = (AtomicUsize::new(0), Failure::default());
    let work = || -> Result<(), Error> {
        let mut session = connect()?;
        while !failure.is_there() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { break };
            job(&mut session, at, thing)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..sessions.max(1).min(things.len()) {
            scope.spawn(|| failure.guard(work));
        }
    });
    failure.into_result()
}
