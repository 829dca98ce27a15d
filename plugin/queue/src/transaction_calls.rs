//! What the server calls in a transaction: publishing and ending within it, its statements and savepoints,
//! prepare, commit, rollback and recovery.

use std::ffi::{c_int, c_void};

use queue::{Error, Queue, RowId, Xid};

use crate::abi::{RQ_MISSING, RQ_OK, RqEachPrepared, RqError, RqSlice, RqXid, array, shared};
use crate::engine::engine;
use crate::fault;
use crate::guard::{Fault, guard, guard_all};
use crate::pending_decisions::decide_again;
use crate::session::RqSession;

/// # Safety
/// The pointers of the XID must be valid.
unsafe fn name(xid: &RqXid) -> Result<Xid, Fault> {
    // SAFETY: the caller promises it.
    let gtrid = unsafe { xid.gtrid.get() };
    // SAFETY: the caller promises it.
    let bqual = unsafe { xid.bqual.get() };
    Ok(Xid::new(xid.format, gtrid, bqual).ok_or(Error::UnknownTransaction)?)
}

/// Whether the queue takes part in transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_is_transactional(queue: *const Queue) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*queue }.definition().transactional)
}

/// Whether the connection owns rows of a queue that takes part in transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_owns_transactional(session: *mut RqSession) -> c_int {
    // SAFETY: the caller's handle.
    let held = unsafe { &mut (*session).session }.owned_rows();
    c_int::from(held.is_some_and(|(queue, _)| queue.definition().transactional))
}

/// Adds a row when the transaction is committed. Nobody sees it before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_publish(
    session: *mut RqSession,
    queue: *const Queue,
    row: RqSlice,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        // SAFETY: the caller's row.
        let row = unsafe { row.get() };
        transactions.fails |= fault::is_in(&[row]);
        transactions.branch(session, &queue)?.publish(&[row])?;
        Ok(RQ_OK)
    })
}

/// Like `rq_delete`, but the rows are gone at the transaction's commit, and come back at its rollback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_delete(
    session: *mut RqSession,
    queue: *const Queue,
    rows: *const u64,
    count: usize,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { shared(queue) };
    guard(error, Some(&queue), || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        // SAFETY: the caller's array.
        let rows: Vec<RowId> = unsafe { array(rows, count) }.iter().map(|row| RowId(*row)).collect();
        let branch = transactions.branch(session, &queue)?;
        session.delete_within(branch, &rows)?;
        Ok(RQ_OK)
    })
}

/// Like `rq_end`, but rows of a queue that takes part in transactions are gone when the transaction is
/// committed, and come back when it is rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_end(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        transactions.end(session)?;
        Ok(RQ_OK)
    })
}

/// Makes the rows that the connection has just taken a part of the transaction, if their queue takes part in
/// transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_add_taken(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        transactions.took(session)?;
        Ok(RQ_OK)
    })
}

/// A statement of the transaction has ended; without `keep`, what it did is undone. With `died`, because its
/// client could not be told, what it has taken is a failed try, in queues that count them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_statement(
    session: *mut RqSession,
    keep: c_int,
    died: c_int,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        transactions.end_statement(session, keep != 0, died != 0)?;
        Ok(RQ_OK)
    })
}

/// Makes a savepoint and returns its number, or 0 after a bug in the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_savepoint(session: *mut RqSession) -> u64 {
    let mut number = 0;
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        number = transactions.set_savepoint(session);
        Ok(RQ_OK)
    });
    number
}

/// Undoes what arrived after a savepoint, which stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_roll_back_to(
    session: *mut RqSession,
    savepoint: u64,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        transactions.undo_to_savepoint(savepoint, session)?;
        Ok(RQ_OK)
    })
}

/// Removes a savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_release(session: *mut RqSession, savepoint: u64) {
    // SAFETY: the caller's handle.
    unsafe { &mut (*session).transactions }.release_savepoint(savepoint);
}

/// Begins what `rq_tx_prepare` does, so that it shares the writes of others. After an error the transaction
/// must be rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_begin_prepare(
    session: *mut RqSession,
    xid: *const RqXid,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queues = unsafe { &(*session).transactions }.queues();
    guard_all(error, queues.iter().map(|queue| &**queue), || {
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        // SAFETY: the caller's structure.
        let xid = unsafe { &*xid };
        // SAFETY: the caller's structure.
        transactions.begin_prepare(&unsafe { name(xid) }?, session)?;
        Ok(RQ_OK)
    })
}

/// The coordinator has committed the transaction and remembers it until `rq_request_checkpoint` is answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_commit_ordered(session: *mut RqSession) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut (*session).transactions }.remembered();
        Ok(RQ_OK)
    });
}

/// Makes the transaction durable, so that it can be committed or rolled back also after a crash. After an
/// error it must be rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_prepare(
    session: *mut RqSession,
    xid: *const RqXid,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queues = unsafe { &(*session).transactions }.queues();
    guard_all(error, queues.iter().map(|queue| &**queue), || {
        decide_again();
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        // SAFETY: the caller's structure.
        let xid = unsafe { &*xid };
        // SAFETY: the caller's structure.
        transactions.prepare(&unsafe { name(xid) }?, session)?;
        Ok(RQ_OK)
    })
}

/// Commits the transaction. After an error it is rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_commit(session: *mut RqSession, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queues = unsafe { &(*session).transactions }.queues();
    guard_all(error, queues.iter().map(|queue| &**queue), || {
        decide_again();
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        transactions.commit(session)?;
        Ok(RQ_OK)
    })
}

/// Rolls the transaction back. With `died`, because its connection has ended, what it has taken and not ended
/// is a failed try, in queues that count them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_tx_rollback(session: *mut RqSession, died: c_int, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queues = unsafe { &(*session).transactions }.queues();
    guard_all(error, queues.iter().map(|queue| &**queue), || {
        decide_again();
        // SAFETY: the caller's handle.
        let RqSession { session, transactions, .. } = unsafe { &mut *session };
        transactions.rollback(session, died != 0)?;
        Ok(RQ_OK)
    })
}

/// Calls `each` with the XID of every transaction that is prepared in a queue and waits for a coordinator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each_prepared(each: RqEachPrepared, context: *mut c_void) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        let queues = engine()?.queues();
        let mut all: Vec<Xid> = queues.iter().flat_map(|queue| queue.recover()).collect();
        all.retain(|xid| !xid.is_of_engine());
        all.sort();
        all.dedup();
        for xid in all {
            let (gtrid, bqual) = (RqSlice::new(xid.gtrid()), RqSlice::new(xid.bqual()));
            if each(context, &RqXid { format: xid.format(), gtrid, bqual }) != 0 {
                queues.iter().for_each(|queue| queue.doubt(&xid));
            }
        }
        Ok(RQ_OK)
    })
}

/// Commits the prepared transaction with this XID in all queues, or, without `commit`, rolls it back.
/// `RQ_MISSING` when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_decide(xid: *const RqXid, commit: c_int, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's structure.
        let xid = unsafe { &*xid };
        // SAFETY: the caller's structure.
        let xid = unsafe { name(xid) }?;
        let (mut found, mut result) = (false, Ok(()));
        for queue in engine()?.queues() {
            let decided = if commit != 0 { queue.commit_by_xid(&xid) } else { queue.rollback_by_xid(&xid) };
            match decided {
                Err(Error::UnknownTransaction) => {}
                other => {
                    found = true;
                    result = result.and(other);
                }
            }
        }
        result?;
        Ok(if found { RQ_OK } else { RQ_MISSING })
    })
}
