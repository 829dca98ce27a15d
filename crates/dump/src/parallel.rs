//! The same for many things, by several sessions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use server::Session;

use crate::Error;

/// Makes a session for a thread.
pub(crate) type Connect<'a> = &'a (dyn Fn() -> Result<Session, Error> + Sync);

/// Does the job for every thing, in the order they come in; no more are begun once one has failed. The job is told the
/// place of its thing.
pub(crate) fn each<T: Sync>(
    things: &[T],
    sessions: usize,
    connect: Connect<'_>,
    job: &(dyn Fn(&mut Session, usize, &T) -> Result<(), Error> + Sync),
) -> Result<(), Error> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> Result<(), Error> {
        let mut session = connect()?;
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { break };
            job(&mut session, at, thing)?;
        }
        Ok(())
    };
    let guarded = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..sessions.max(1).min(things.len())).map(|_| scope.spawn(guarded)).collect();
        // All are waited for, and the first error is told.
        let ended: Vec<Result<(), Error>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        ended.into_iter().collect()
    })
}
