//! Queues: starting and stopping the engine, creating, opening, dropping; what is in them.

use std::ffi::{OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use queue::{Column, Definition, Engine, Kind, Options, Place, Queue, RealDisk, Schema, Status, Sync};

use crate::abi::{Fault, OK, RqColumn, RqDefinition, RqError, RqServer, RqSlice, RqStatus, array, guard};
use crate::hold::{RqHold, open};
use crate::session::RqSession;
use crate::{Collations, ENGINE, FAULT, Running, SERVER, engine, now_ms, random};

/// # Safety
/// As [`RqSlice::get`].
unsafe fn path<'bytes>(folder: RqSlice) -> &'bytes Path {
    // SAFETY: the caller promises it.
    Path::new(OsStr::from_bytes(unsafe { folder.get() }))
}

/// Starts the engine.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_start(server: *const RqServer, files_max: usize, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's structure.
        let server = unsafe { *server };
        SERVER.get_or_init(|| Collations { equal: server.equal, encode: server.encode, like: server.like });
        // SAFETY: the caller's string.
        FAULT.get_or_init(|| unsafe { server.fault.get() }.to_vec());
        let engine = Options { files_max, ..Options::new(now_ms, random) };
        let engine = Engine::start(Arc::new(RealDisk), engine);
        let engine = engine.map_err(|error| Fault::Other(6, error.to_string()))?;
        *ENGINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running(Arc::new(engine)));
        Ok(OK)
    })
}

/// Stops the engine: everything is synced and its threads have ended.
#[unsafe(no_mangle)]
pub extern "C" fn rq_stop() -> c_int {
    guard(std::ptr::null_mut(), None, || {
        drop(ENGINE.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(OK)
    })
}

fn kind(column: &RqColumn) -> Result<Kind, Fault> {
    let wrong = || Fault::Other(9, format!("column kind {}, {}", column.kind, column.one));
    let one = u8::try_from(column.one).map_err(|_| wrong());
    Ok(match column.kind {
        0 => Kind::Integer { signed: column.one != 0 },
        1 => Kind::Decimal { precision: one?, scale: u8::try_from(column.two).map_err(|_| wrong())? },
        2 => Kind::Year,
        3 => Kind::Date,
        4 => Kind::Time(one?),
        5 => Kind::DateTime(one?),
        6 => Kind::Timestamp(one?),
        7 => Kind::Text(column.one),
        8 => Kind::Opaque,
        9 => Kind::Enum(column.one),
        _ => return Err(wrong()),
    })
}

/// # Safety
/// As [`RqSlice::get`], for all names.
unsafe fn schema(definition: &RqDefinition) -> Result<Schema, Fault> {
    let mut columns = Vec::new();
    // SAFETY: the caller promises it.
    for column in unsafe { array(definition.columns, definition.column_count) } {
        // SAFETY: the caller promises it.
        let name = String::from_utf8_lossy(unsafe { column.name.get() }).into_owned();
        let place = match column.is_variable {
            0 => Place::Fixed(column.place, column.len),
            _ => Place::Variable(column.place),
        };
        // SAFETY: the caller promises it.
        let members = unsafe { array(column.members, column.member_count) }.iter();
        columns.push(Column {
            // SAFETY: the caller promises it.
            members: members.map(|member| unsafe { member.get() }.to_vec()).collect(),
            name,
            kind: kind(column)?,
            place,
            null_bit: u32::try_from(column.null_bit).ok(),
        });
    }
    Ok(Schema { null_bytes: definition.null_bytes, fixed_bytes: definition.fixed_bytes, columns })
}

/// Makes a queue.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_create(
    folder: RqSlice,
    definition: *const RqDefinition,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's structure.
        let definition = unsafe { &*definition };
        let sync = match definition.sync {
            0 => Sync::Always,
            1 => Sync::Interval,
            _ => Sync::Never,
        };
        // SAFETY: the caller's structure.
        let schema = unsafe { schema(definition) }?.encode();
        // SAFETY: the caller's string.
        engine()?.create(unsafe { path(folder) }, &Definition { sync, schema })?;
        Ok(OK)
    })
}

/// Drops a queue.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_drop(folder: RqSlice, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's string.
        let removed = engine()?.remove(unsafe { path(folder) });
        MOVES.fetch_add(1, Ordering::Release);
        removed?;
        Ok(OK)
    })
}

/// Lets nobody take a row until [`rq_resume`].
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_pause(queue: *const Queue, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        queue.pause()?;
        Ok(OK)
    })
}

/// Ends what [`rq_pause`] began.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_resume(queue: *const Queue) {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(std::ptr::null_mut(), Some(queue), || {
        queue.resume();
        Ok(OK)
    });
}

/// Gives a queue another folder; `hold` is of the queue that is being replaced by a changed copy, or null.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_rename(
    from: RqSlice,
    to: RqSlice,
    hold: *const RqHold,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's string.
        let from = unsafe { path(from) };
        // SAFETY: the caller's string.
        let to = unsafe { path(to) };
        let engine = engine()?;
        // SAFETY: the caller's handle.
        let hold = unsafe { hold.as_ref() };
        let renamed = match hold.and_then(|hold| hold.copy_in(from)) {
            Some((queue, copy)) => queue.replaced_by(&copy, || engine.rename(from, to)),
            None => engine.rename(from, to),
        };
        MOVES.fetch_add(1, Ordering::Release);
        renamed?;
        Ok(OK)
    })
}

/// How often a queue went from its folder: what a session found there before is not to be used again.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// The queue that a session found last, and where.
#[derive(Default)]
pub(crate) struct Found {
    moves: u64,
    folder: Vec<u8>,
    queue: Option<Arc<Queue>>,
}

impl Found {
    /// The queue in a folder.
    fn find(&mut self, folder: &[u8]) -> Result<&Arc<Queue>, Fault> {
        // Asked before the folder is looked into, and counted after it was changed.
        let moves = MOVES.load(Ordering::Acquire);
        if self.moves != moves || self.folder != folder {
            self.queue = None;
        }
        match &mut self.queue {
            Some(queue) => Ok(queue),
            none => {
                let queue = open(Path::new(OsStr::from_bytes(folder)))?;
                (self.moves, self.folder) = (moves, folder.to_vec());
                Ok(none.insert(queue))
            }
        }
    }
}

/// As [`rq_open`], quicker when the session asks for the same again.
///
/// # Safety
/// The pointers are valid.
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
        Ok(OK)
    })
}

/// Opens a queue; [`rq_release`] lets go of it.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_open(folder: RqSlice, queue: *mut *const Queue, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's string.
        let opened = open(unsafe { path(folder) })?;
        // SAFETY: the caller's variable.
        unsafe { *queue = Arc::into_raw(opened) };
        Ok(OK)
    })
}

/// Lets go of a queue.
///
/// # Safety
/// It came from [`rq_open`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_release(queue: *const Queue) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Arc::from_raw(queue) });
        Ok(OK)
    });
}

/// Empties a queue.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_truncate(queue: *const Queue, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || Ok(queue.truncate().map(|()| OK)?))
}

/// Rewrites what has dead rows.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_compact(queue: *const Queue, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || Ok(queue.compact().map(|()| OK)?))
}

fn status(status: &Status) -> RqStatus {
    let counters = status.counters;
    RqStatus {
        // In the order of rq_status.
        values: [
            status.oldest_ms.unwrap_or(0),
            status.waiting,
            status.owned,
            status.waiters,
            status.bytes,
            status.live_bytes,
            status.memory,
            status.written_per_s,
            status.removed_per_s,
            counters.batches,
            counters.removals,
            counters.reads,
            counters.read_hits,
            counters.writes,
            counters.syncs,
            counters.rows_written,
            counters.rows_removed,
            counters.compacted,
            counters.checkpoints,
            counters.maintenance_errors,
            counters.wait_immediate,
            counters.wait_delayed,
            counters.wait_timeout,
            counters.handed_over,
            counters.restored_by_abort,
            counters.restored_by_close,
            counters.evaluations,
            counters.compiles,
            counters.compile_hits,
            counters.duplicates,
        ],
    }
}

/// What is in a queue.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_get_status(queue: *const Queue, out: *mut RqStatus) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(std::ptr::null_mut(), Some(queue), || {
        // SAFETY: the caller's structure.
        unsafe { *out = status(&queue.status()) };
        Ok(OK)
    })
}

/// What is in all open queues, and what happened since the start in these and in those that are open no more.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_get_total(out: *mut RqStatus) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        let total = status(&engine()?.total());
        // SAFETY: the caller's structure.
        unsafe { *out = total };
        Ok(OK)
    })
}

/// How many rows are not gone.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_rows(queue: *const Queue) -> u64 {
    let mut rows = 0;
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(std::ptr::null_mut(), None, || {
        rows = queue.rows();
        Ok(OK)
    });
    rows
}

/// All open queues.
///
/// # Safety
/// `each` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each(
    each: extern "C" fn(*mut c_void, RqSlice, *const RqStatus) -> c_int,
    context: *mut c_void,
) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        for queue in engine()?.queues() {
            let folder = queue.folder();
            let status = status(&queue.status());
            let code = each(context, RqSlice::new(folder.as_os_str().as_bytes()), &raw const status);
            if code != 0 {
                return Ok(code);
            }
        }
        Ok(OK)
    })
}

/// All rows that somebody owns.
///
/// # Safety
/// `each` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each_owned(
    each: extern "C" fn(*mut c_void, RqSlice, u64, u64, u64) -> c_int,
    context: *mut c_void,
) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        for queue in engine()?.queues() {
            let folder = queue.folder();
            let name = RqSlice::new(folder.as_os_str().as_bytes());
            for (row, ownership) in queue.owned() {
                let code = each(context, name, row.0, ownership.owner.0, ownership.since_ms);
                if code != 0 {
                    return Ok(code);
                }
            }
        }
        Ok(OK)
    })
}
