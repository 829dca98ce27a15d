//! Adding rows.

use std::ffi::c_int;

use queue::Queue;

use crate::abi::{RQ_OK, RqError, RqSlice, array, shared};
use crate::fault;
use crate::guard::guard;
use crate::session::RqSession;

/// Adds rows. Unless they are relayed, or are `copied` from another table, those that are doubles are left
/// out, and counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_publish(
    session: *mut RqSession,
    queue: *const Queue,
    rows: *const RqSlice,
    count: usize,
    copied: c_int,
    left_out: *mut u64,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        // SAFETY: the caller's array.
        let rows = unsafe { array(rows, count) };
        // SAFETY: the caller's rows.
        let rows: Vec<&[u8]> = rows.iter().map(|row| unsafe { row.get() }).collect();
        if fault::is_in(&rows) {
            fault::arm();
        }
        // SAFETY: the caller's handle.
        let origin = unsafe { &mut *session }.origin.take();
        let doubles = if copied != 0 || origin.is_some() {
            queue.publish(&rows, origin.as_ref()).map(|_| 0)
        } else {
            queue.publish_once(&rows)
        };
        // SAFETY: the caller's variable.
        unsafe { *left_out = doubles? };
        Ok(RQ_OK)
    })
}

/// Adds rows for a statement that may still fail: nobody sees or takes them until `rq_end_statement`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_publish_in_statement(
    session: *mut RqSession,
    queue: *const Queue,
    rows: *const RqSlice,
    count: usize,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { shared(queue) };
    guard(error, Some(&queue), || {
        // SAFETY: the caller's array.
        let rows = unsafe { array(rows, count) };
        // SAFETY: the caller's rows.
        let rows: Vec<&[u8]> = rows.iter().map(|row| unsafe { row.get() }).collect();
        if fault::is_in(&rows) {
            fault::arm();
        }
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.publish_in_statement(&queue, &rows)?;
        Ok(RQ_OK)
    })
}

/// Whether the connection has rows from `rq_publish_in_statement`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_has_statement_rows(session: *const RqSession) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*session }.session.has_statement_rows())
}

/// Lets others take the rows from `rq_publish_in_statement`, but for doubles, which are left out and counted;
/// or, without `keep`, removes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_end_statement(
    session: *mut RqSession,
    keep: c_int,
    left_out: *mut u64,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let doubles = unsafe { &mut *session }.session.end_statement(keep != 0)?;
        // SAFETY: the caller's variable.
        unsafe { *left_out = doubles };
        Ok(RQ_OK)
    })
}
