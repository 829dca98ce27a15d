//! Connections: the state of each, and which rows it sees.

use std::ffi::c_int;
use std::sync::Arc;

use queue::{Cursor, Interrupter, LeasedRows, Origin, OwnerId, Queue, RowId, Session};

use crate::abi::{RQ_ALL, RQ_KEPT, RQ_OK, RQ_UNOWNED, RQ_WAITING, RqError, RqSlice, shared};
use crate::alter_copy::folder_of;
use crate::cursor::RqCursor;
use crate::guard::guard;
use crate::queue_cache::QueueCache;
use crate::statement_leases::StatementLeases;
use crate::transaction::Transactions;

/// A connection.
pub struct RqSession {
    pub(crate) session: Session,
    /// The origin of the next publish.
    pub(crate) origin: Option<Origin>,
    /// What it does in queues that take part in transactions.
    pub(crate) transactions: Transactions,
    /// The queue that it used last.
    found: QueueCache,
    /// The next walk over this cursor's queue.
    peek: Option<Cursor>,
    /// What the statement has leased, and sees of these queues.
    pub(crate) leases: StatementLeases,
}

/// Begins a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_session_new(
    number: u64,
    session: *mut *mut RqSession,
    interrupter: *mut *mut Interrupter,
) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        let new = Session::new(OwnerId(number));
        // SAFETY: the caller's variable.
        unsafe { *interrupter = Box::into_raw(Box::new(new.interrupter())) };
        // SAFETY: the caller's variable.
        unsafe {
            *session = Box::into_raw(Box::new(RqSession {
                session: new,
                origin: None,
                transactions: Transactions::default(),
                found: QueueCache::default(),
                peek: None,
                leases: StatementLeases::default(),
            }))
        };
        Ok(RQ_OK)
    })
}

/// Ends a connection; the rows that it owned go back. With `died` that is a failed try, in queues that count
/// them. A transaction is rolled back, but a prepared one stays prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_session_free(
    session: *mut RqSession,
    interrupter: *mut Interrupter,
    died: c_int,
) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(interrupter) });
        // SAFETY: the caller promises it.
        let mut session = unsafe { Box::from_raw(session) };
        drop(std::mem::take(&mut session.transactions));
        if died != 0 {
            session.session.close()?;
        } else {
            session.session.end_statement(false).and(session.session.abort())?;
        }
        Ok(RQ_OK)
    });
}

/// Ends the current wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_interrupt(interrupter: *const Interrupter) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        unsafe { &*interrupter }.interrupt();
        Ok(RQ_OK)
    });
}

/// Whether the connection sees only its own rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_is_owner(session: *const RqSession) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*session }.session.is_owner())
}

/// The id of the first row that the connection owns; 0 when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_owned_row(session: *mut RqSession) -> u64 {
    // SAFETY: the caller's handle.
    let session = unsafe { &mut *session };
    session.session.owned_rows().and_then(|(_, rows)| rows.first()).map_or(0, |row| row.0)
}

/// The folder of the queue whose rows the connection owns, or of the copy that is about to replace it; 0 when
/// it owns none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_owned_folder(session: *mut RqSession, folder: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let held = unsafe { &mut *session }.session.owned_rows().map(|(queue, _)| folder_of(queue));
    if let Some(held) = &held {
        // SAFETY: the caller's buffer.
        unsafe { &mut *folder }.fill(&held.to_string_lossy());
    }
    c_int::from(held.is_some())
}

/// How many rows of a queue the connection sees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_count(session: *const RqSession, queue: *const Queue) -> u64 {
    let mut count = 0;
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        // SAFETY: the caller's handle.
        count = unsafe { &*session }.session.count(&queue);
        Ok(RQ_OK)
    });
    count
}

/// Like `rq_open`, but faster when the session asks for the same folder again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_find(
    session: *mut RqSession,
    folder: RqSlice,
    queue: *mut *const Queue,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let session = unsafe { &mut *session };
        // SAFETY: the caller's string.
        let found = session.found.find(unsafe { folder.get() })?.clone();
        // SAFETY: the caller's variable.
        unsafe { *queue = Arc::into_raw(found) };
        Ok(RQ_OK)
    })
}

/// The next `rq_scan` of this queue begins at this row and includes owned rows, until `rq_peek_end`. Returns
/// the row before which it will end, or 0 after a bug in the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_peek(session: *mut RqSession, queue: *const Queue, from: u64) -> u64 {
    let mut end = 0;
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        let cursor = Cursor::starting_at(&queue, RowId(from));
        end = cursor.end().0;
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.peek = Some(cursor);
        Ok(RQ_OK)
    });
    end
}

/// Ends `rq_peek`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_peek_end(session: *mut RqSession) {
    // SAFETY: the caller's handle.
    unsafe { &mut *session }.peek = None;
}

/// Begins a walk over the rows that the connection sees. An owner sees the rows that it owns, and any other
/// connection those that `sees` says: `RQ_WAITING` and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_scan(
    session: *mut RqSession,
    queue: *const Queue,
    sees: c_int,
    cursor: *mut *mut RqCursor,
) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        // SAFETY: the caller's handle.
        let session = unsafe { &mut *session };
        let peek = session.peek.take_if(|peek| Arc::ptr_eq(peek.queue(), &queue));
        let sees = if session.session.is_owner() { RQ_WAITING } else { sees };
        let leased = session.leases.all.iter_mut().rev().find(|leased| Arc::ptr_eq(leased.queue(), &queue));
        let walk = peek.or_else(|| leased.map(LeasedRows::cursor)).unwrap_or_else(|| match sees {
            RQ_ALL => Cursor::starting_at(&queue, RowId(0)),
            RQ_UNOWNED => Cursor::of_unowned(&queue),
            RQ_KEPT => Cursor::of_kept(&queue),
            _ => session.session.cursor(&queue),
        });
        let new = Box::new(RqCursor::new(walk));
        // SAFETY: the caller's variable.
        unsafe { *cursor = Box::into_raw(new) };
        Ok(RQ_OK)
    })
}
