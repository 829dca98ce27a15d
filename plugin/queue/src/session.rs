//! Connections: what they own, publish, wait for, and see.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use queue::{
    Collate, Cursor, Filter, Interrupter, Origin, OwnerId, Patience, Published, Queue, RowId, SLOTS, Session,
    Source, Target, Waited,
};

use crate::Server;
use crate::abi::{Alive, END, Fault, OK, RqError, RqSlice, RqTarget, array, guard};
use crate::table::Found;

/// How often a wait looks whether its client is still there: as the server's own SLEEP does.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// A connection.
pub struct RqSession {
    session: Session,
    /// What the next publish carries.
    origin: Option<Origin>,
    /// The queue it named last.
    pub(crate) found: Found,
    /// What the next walk over this cursor's queue is to be.
    peek: Option<Cursor>,
}

/// A walk over rows, and the row it is at.
pub struct RqCursor {
    queue: Arc<Queue>,
    cursor: Cursor,
    row: Vec<u8>,
}

impl RqCursor {
    pub(crate) fn new(queue: Arc<Queue>, cursor: Cursor) -> RqCursor {
        RqCursor { queue, cursor, row: Vec::new() }
    }
}

/// # Safety
/// It is a queue that [`crate::table::rq_open`] gave and that was not released.
pub(crate) unsafe fn shared(queue: *const Queue) -> Arc<Queue> {
    // SAFETY: the caller promises it.
    unsafe { Arc::increment_strong_count(queue) };
    // SAFETY: the count was just raised for it.
    unsafe { Arc::from_raw(queue) }
}

/// Begins a connection.
///
/// # Safety
/// The pointers are valid.
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
                found: Found::default(),
                peek: None,
            }))
        };
        Ok(OK)
    })
}

/// Ends a connection; what it owned goes back.
///
/// # Safety
/// Both came from [`rq_session_new`] and are not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_session_free(session: *mut RqSession, interrupter: *mut Interrupter) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(interrupter) });
        // SAFETY: the caller promises it.
        let mut session = unsafe { Box::from_raw(session) };
        session.session.close()?;
        Ok(OK)
    });
}

/// Ends the wait that is going on.
///
/// # Safety
/// It came from [`rq_session_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_interrupt(interrupter: *const Interrupter) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        unsafe { &*interrupter }.interrupt();
        Ok(OK)
    });
}

/// Whether the connection sees its own rows only.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_is_owner(session: *const RqSession) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*session }.session.is_owner())
}

/// The id of the first row that the connection owns, 0 when there is none.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_owned_row(session: *mut RqSession) -> u64 {
    // SAFETY: the caller's handle.
    let session = unsafe { &mut *session };
    session.session.held().and_then(|(_, rows)| rows.first()).map_or(0, |row| row.0)
}

/// How many rows of a queue the connection sees.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_count(session: *const RqSession, queue: *const Queue) -> u64 {
    let mut count = 0;
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        // SAFETY: the caller's handle.
        count = unsafe { &*session }.session.count(&queue);
        Ok(OK)
    });
    count
}

/// What the next publish carries; `END` when there is no such slot.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_set_origin(
    session: *mut RqSession,
    slot: u32,
    overwrite: c_int,
    row: u64,
) -> c_int {
    let Some(slot) = u8::try_from(slot).ok().filter(|slot| *slot < SLOTS) else { return END };
    // SAFETY: the caller's handle.
    let session = unsafe { &mut *session };
    let source = Source::Slot(slot);
    // Row id 0 says that there is none.
    session.origin = (row != 0).then_some(Origin { source, row, floor: 0, overwrite: overwrite != 0 });
    OK
}

/// What a relay says of the first row that the connection owns, as text; `END` when it owns none.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_origin(
    session: *mut RqSession,
    text: *mut RqError,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let session = unsafe { &mut *session };
        let held = session.session.held();
        let Some((queue, row)) = held.and_then(|(queue, rows)| Some((queue, *rows.first()?))) else {
            return Ok(END);
        };
        let origin = queue.origin(row)?;
        // SAFETY: the caller's buffer.
        unsafe { &mut *text }.fill(&origin.to_string());
        Ok(OK)
    })
}

/// What the next publish carries, as [`rq_origin`] wrote it; `END` when that is no such text.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_set_origin_text(session: *mut RqSession, text: RqSlice) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's string.
        let text = unsafe { text.get() };
        let Some(origin) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Origin>().ok()) else {
            return Ok(END);
        };
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.origin = Some(origin);
        Ok(OK)
    })
}

/// Whether the next publish carries an origin.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_has_origin(session: *const RqSession) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*session }.origin.is_some())
}

/// Adds rows.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_publish(
    session: *mut RqSession,
    queue: *const Queue,
    rows: *const RqSlice,
    count: usize,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        // SAFETY: the caller's array.
        let rows = unsafe { array(rows, count) };
        // SAFETY: the caller's rows.
        let rows: Vec<&[u8]> = rows.iter().map(|row| unsafe { row.get() }).collect();
        crate::arm(&rows);
        // SAFETY: the caller's handle.
        let origin = unsafe { &mut *session }.origin.take();
        match queue.publish(&rows, origin.as_ref())? {
            Published::New(_) | Published::Duplicate => Ok(OK),
        }
    })
}

/// Adds rows for a statement that may fail yet.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_publish_unsettled(
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
        crate::arm(&rows);
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.publish_unsettled(&queue, &rows)?;
        Ok(OK)
    })
}

/// Whether the connection has rows that [`rq_publish_unsettled`] has added.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_is_unsettled(session: *const RqSession) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*session }.session.is_unsettled())
}

/// Lets what [`rq_publish_unsettled`] has added be taken, or be gone.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_settle(session: *mut RqSession, keep: c_int, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.settle(keep != 0)?;
        Ok(OK)
    })
}

/// Forgets what the next publish was to carry.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_forget_origin(session: *mut RqSession) {
    // SAFETY: the caller's handle.
    unsafe { &mut *session }.origin = None;
}

/// Deletes rows that the connection owns or nobody does.
///
/// # Safety
/// The pointers are valid.
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
        Ok(OK)
    })
}

/// # Safety
/// The pointers are valid.
unsafe fn target(target: &RqTarget) -> Result<Target, Fault> {
    // SAFETY: the caller's handle.
    let queue = unsafe { shared(target.queue) };
    // SAFETY: the caller's string.
    let text = unsafe { target.condition.get() };
    if text.is_empty() {
        return Ok(Target { queue, filter: None });
    }
    let text =
        std::str::from_utf8(text).map_err(|_| Fault::Other(8, "the condition is not UTF-8".to_owned()))?;
    let collate: Arc<dyn Collate> = Arc::new(Server);
    let filter: Arc<dyn Filter> = queue.condition(text, &collate)?;
    Ok(Target { queue, filter: Some(filter) })
}

/// Takes rows, or waits for them.
///
/// # Safety
/// The pointers are valid; `alive` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_wait(
    session: *mut RqSession,
    targets: *const RqTarget,
    count: usize,
    rows_max: usize,
    timeout_ms: i64,
    alive: Alive,
    context: *mut c_void,
    outcome: *mut c_int,
    taken: *mut usize,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let session = unsafe { &mut (*session).session };
        // What was owned is consumed whatever becomes of this wait.
        session.end()?;
        // SAFETY: the caller's array.
        let given = unsafe { array(targets, count) };
        // SAFETY: the caller's array.
        let targets = given.iter().map(|one| unsafe { target(one) }).collect::<Result<Vec<_>, _>>()?;
        let mut alive = || alive(context) != 0;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let (alive, alive_every) = (Some(&mut alive as &mut dyn FnMut() -> bool), Some(ALIVE_EVERY));
        let waited = session.wait(&targets, &mut Patience { rows_max, timeout, alive, alive_every })?;
        let (code, at) = match waited {
            Waited::Taken(at) => (0, at),
            Waited::TimedOut => (1, 0),
            Waited::Interrupted => (2, 0),
            Waited::Dropped => (3, 0),
        };
        // SAFETY: the caller's variable.
        unsafe { *outcome = code };
        // SAFETY: the caller's variable.
        unsafe { *taken = at };
        Ok(OK)
    })
}

/// Lets the owned rows be gone.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_end(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.end()?;
        Ok(OK)
    })
}

/// Gives the owned rows back.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_abort(session: *mut RqSession, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        unsafe { &mut *session }.session.abort()?;
        Ok(OK)
    })
}

/// Has the next walk over a queue begin at this row and show rows that somebody owns too; returns the row
/// before which it will end, 0 after a fault.
///
/// # Safety
/// The pointers are valid.
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
        Ok(OK)
    });
    end
}

/// Ends what [`rq_peek`] began.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_peek_end(session: *mut RqSession) {
    // SAFETY: the caller's handle.
    unsafe { &mut *session }.peek = None;
}

/// Begins a walk over the rows that the connection sees.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_scan(
    session: *mut RqSession,
    queue: *const Queue,
    all: c_int,
    cursor: *mut *mut RqCursor,
) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        // SAFETY: the caller's handle.
        let session = unsafe { &mut *session };
        let peek = session.peek.take_if(|peek| Arc::ptr_eq(peek.queue(), &queue));
        let all = all != 0 && !session.session.is_owner();
        let walk = peek.unwrap_or_else(|| {
            if all { Cursor::starting_at(&queue, RowId(0)) } else { session.session.cursor(&queue) }
        });
        let new = Box::new(RqCursor::new(queue, walk));
        // SAFETY: the caller's variable.
        unsafe { *cursor = Box::into_raw(new) };
        Ok(OK)
    })
}

/// The next row.
///
/// # Safety
/// The pointers are valid.
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
        let Some((found, bytes)) = cursor.cursor.advance()? else { return Ok(END) };
        // SAFETY: the caller's variable.
        unsafe { *id = found.0 };
        // SAFETY: the caller's variable.
        unsafe { *row = RqSlice::new(bytes) };
        Ok(OK)
    })
}

/// A row by its id.
///
/// # Safety
/// The pointers are valid.
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
        let Some(bytes) = cursor.queue.read(RowId(id))? else { return Ok(END) };
        cursor.row = bytes;
        // SAFETY: the caller's variable.
        unsafe { *row = RqSlice::new(&cursor.row) };
        Ok(OK)
    })
}

/// Ends a walk.
///
/// # Safety
/// It came from [`rq_scan`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_scan_end(cursor: *mut RqCursor) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(cursor) });
        Ok(OK)
    });
}
