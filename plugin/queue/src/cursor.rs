//! Walks over the rows of a queue.

use std::ffi::c_int;

use queue::{Cursor, RowId};

use crate::abi::{RQ_END, RQ_OK, RqDeliveryInfo, RqError, RqSlice};
use crate::guard::guard;

/// A walk over rows, and its current row.
pub struct RqCursor {
    cursor: Cursor,
    row: Vec<u8>,
    token: String,
}

impl RqCursor {
    pub(crate) fn new(cursor: Cursor) -> RqCursor {
        RqCursor { cursor, row: Vec::new(), token: String::new() }
    }
}

/// The next row. It belongs to the cursor until its next use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_next(
    cursor: *mut RqCursor,
    id: *mut u64,
    row: *mut RqSlice,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let cursor = unsafe { &mut *cursor };
        let Some((found, bytes)) = cursor.cursor.advance()? else { return Ok(RQ_END) };
        // SAFETY: the caller's variable.
        unsafe { *id = found.0 };
        // SAFETY: the caller's variable.
        unsafe { *row = RqSlice::new(bytes) };
        Ok(RQ_OK)
    })
}

/// Reads a row by its id, into the cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_read(
    cursor: *mut RqCursor,
    id: u64,
    row: *mut RqSlice,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let cursor = unsafe { &mut *cursor };
        let Some(bytes) = cursor.cursor.read(RowId(id))? else { return Ok(RQ_END) };
        cursor.row = bytes;
        // SAFETY: the caller's variable.
        unsafe { *row = RqSlice::new(&cursor.row) };
        Ok(RQ_OK)
    })
}

/// What is known of the last row besides, in queues that were made with `noted`. The texts belong to the
/// cursor until its next use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_last_delivery_info(cursor: *mut RqCursor, known: *mut RqDeliveryInfo) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let RqCursor { cursor, token, .. } = unsafe { &mut *cursor };
        let last = cursor.delivery_info();
        *token = last.token.map(|token| token.to_string()).unwrap_or_default();
        let (why, token) = (RqSlice::new(last.why.as_bytes()), RqSlice::new(token.as_bytes()));
        // SAFETY: the caller's structure.
        unsafe { *known = RqDeliveryInfo { failed: last.failed, why, token } };
        Ok(RQ_OK)
    })
}

/// Ends a walk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_scan_end(cursor: *mut RqCursor) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(cursor) });
        Ok(RQ_OK)
    });
}
