//! Taking rows, ending them and giving them back.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use condition::Collate;
use queue::{Filter, Queue, RowId, Target, WaitOptions, WaitOutcome};

use crate::abi::{
    RQ_CONDITION, RQ_GONE, RQ_INTERRUPTED, RQ_OK, RQ_TAKEN, RQ_TIMED_OUT, RqAlive, RqError, RqTarget, array,
    shared,
};
use crate::collation::Server;
use crate::guard::{Fault, guard};
use crate::session::RqSession;

/// How often a wait checks whether its client is still there: as often as the server's own SLEEP.
pub(crate) const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// # Safety
/// The pointers must be valid.
pub(crate) unsafe fn target(target: &RqTarget) -> Result<Target, Fault> {
    // SAFETY: the caller's handle.
    let queue = unsafe { shared(target.queue) };
    // SAFETY: the caller's string.
    let text = unsafe { target.condition.get() };
    // SAFETY: the caller's string.
    let name = unsafe { target.reader.get() };
    let reader = match name {
        [] => None,
        name => Some(queue.definition().reader(&String::from_utf8_lossy(name))?),
    };
    if text.is_empty() {
        return Ok(Target { queue, filter: None, reader });
    }
    let text = std::str::from_utf8(text)
        .map_err(|_| Fault::Other(RQ_CONDITION, "the condition is not UTF-8".to_owned()))?;
    let collate: Arc<dyn Collate> = Arc::new(Server);
    let filter: Arc<dyn Filter> = queue.condition(text, &collate)?;
    Ok(Target { queue, filter: Some(filter), reader })
}

/// How a wait has ended, and the index of the target that it took rows of.
pub(crate) fn ended(waited: WaitOutcome) -> (c_int, usize) {
    match waited {
        WaitOutcome::Taken(at) => (RQ_TAKEN, at),
        WaitOutcome::TimedOut => (RQ_TIMED_OUT, 0),
        WaitOutcome::Interrupted => (RQ_INTERRUPTED, 0),
        WaitOutcome::Dropped => (RQ_GONE, 0),
    }
}

/// Takes rows, or waits for them; owned rows are acknowledged first. With `within` that is part of the
/// transaction if the queue takes part in transactions; `rq_tx_add_taken` then adds the taken rows. A
/// `timeout_ms` below 0 is none. `alive` is called from time to time. `outcome` receives `RQ_TAKEN` and so
/// on, `taken` the index of the target.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_wait(
    session: *mut RqSession,
    targets: *const RqTarget,
    count: usize,
    rows_max: usize,
    within: c_int,
    timeout_ms: i64,
    alive: RqAlive,
    context: *mut c_void,
    outcome: *mut c_int,
    taken: *mut usize,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        let within = within != 0;
        // The owned rows are consumed whatever the result of this wait.
        if within {
            transactions.end(session)?
        } else {
            session.end()?
        }
        // SAFETY: the caller's array.
        let given = unsafe { array(targets, count) };
        // SAFETY: the caller's array.
        let targets = given.iter().map(|one| unsafe { target(one) }).collect::<Result<Vec<_>, _>>()?;
        let mut alive = || alive(context) != 0;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let (alive, alive_every) = (Some(&mut alive as &mut dyn FnMut() -> bool), Some(ALIVE_EVERY));
        let waited = session.wait(&targets, &mut WaitOptions { rows_max, timeout, alive, alive_every })?;
        let (code, at) = ended(waited);
        // SAFETY: the caller's variable.
        unsafe { *outcome = code };
        // SAFETY: the caller's variable.
        unsafe { *taken = at };
        Ok(RQ_OK)
    })
}

/// Ends the owned rows: they are gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_end(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.end()?;
        Ok(RQ_OK)
    })
}

/// Gives the owned rows back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_abort(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.abort()?;
        Ok(RQ_OK)
    })
}

/// Gives the owned rows back because nobody could be told of them: a failed try, in queues that count them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_fail(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.fail()?;
        Ok(RQ_OK)
    })
}

/// Deletes rows that the connection owns and rows that nobody owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_delete(
    session: *mut RqSession,
    queue: *const Queue,
    rows: *const u64,
    count: usize,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        // SAFETY: the caller's array.
        let rows: Vec<RowId> = unsafe { array(rows, count) }.iter().map(|row| RowId(*row)).collect();
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.delete(queue, &rows)?;
        Ok(RQ_OK)
    })
}
