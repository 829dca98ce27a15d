//! Queues: creating, opening and dropping them, and operations on a whole queue.

use std::ffi::{OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use condition::{Collate, Column, ColumnLayout, Kind, Schema};
use queue::{
    Backoff, Dedupe, Definition, DeliveryRate, Error, Order, Queue, READERS_MAX, RetainedFilter, RetryPolicy,
    RowId, Sync,
};

use crate::abi::{
    self, RQ_FAILED, RQ_OK, RQ_PANIC, RqColumn, RqDefinition, RqEachColumn, RqError, RqSlice, array, shared,
};
use crate::alter_copy::{RqCopy, open};
use crate::collation::Server;
use crate::engine::engine;
use crate::guard::{Fault, guard};
use crate::queue_cache::moved;

/// # Safety
/// Safety as for [`RqSlice::get`].
unsafe fn path<'bytes>(folder: RqSlice) -> &'bytes Path {
    // SAFETY: the caller promises it.
    Path::new(OsStr::from_bytes(unsafe { folder.get() }))
}

fn kind(column: &RqColumn) -> Result<Kind, Fault> {
    let wrong = || Fault::Other(RQ_PANIC, format!("column kind {}, {}", column.kind, column.one));
    let one = u8::try_from(column.one).map_err(|_| wrong());
    Ok(match column.kind {
        abi::RQ_INTEGER => Kind::Integer { signed: column.one != 0 },
        abi::RQ_DECIMAL => {
            Kind::Decimal { precision: one?, scale: u8::try_from(column.two).map_err(|_| wrong())? }
        }
        abi::RQ_YEAR => Kind::Year,
        abi::RQ_DATE => Kind::Date,
        abi::RQ_TIME => Kind::Time(one?),
        abi::RQ_DATETIME => Kind::DateTime(one?),
        abi::RQ_TIMESTAMP => Kind::Timestamp(one?),
        abi::RQ_TEXT => Kind::Text(column.one),
        abi::RQ_OPAQUE => Kind::Opaque,
        abi::RQ_ENUM => Kind::Enum(column.one),
        _ => return Err(wrong()),
    })
}

/// # Safety
/// Safety as for [`RqSlice::get`], for all names.
unsafe fn schema(definition: &RqDefinition) -> Result<Schema, Fault> {
    let mut columns = Vec::new();
    // SAFETY: the caller promises it.
    for column in unsafe { array(definition.columns, definition.column_count) } {
        // SAFETY: the caller promises it.
        let name = String::from_utf8_lossy(unsafe { column.name.get() }).into_owned();
        let layout = match column.is_variable {
            0 => ColumnLayout::Fixed(column.offset, column.len),
            _ => ColumnLayout::Variable(column.offset),
        };
        // SAFETY: the caller promises it.
        let members = unsafe { array(column.members, column.member_count) }.iter();
        columns.push(Column {
            // SAFETY: the caller promises it.
            members: members.map(|member| unsafe { member.get() }.to_vec()).collect(),
            name,
            kind: kind(column)?,
            layout,
            null_bit: u32::try_from(column.null_bit).ok(),
        });
    }
    Ok(Schema { null_bytes: definition.null_bytes, fixed_bytes: definition.fixed_bytes, columns })
}

/// # Safety
/// Safety as for [`RqSlice::get`].
unsafe fn policy(definition: &RqDefinition) -> Result<RetryPolicy, Fault> {
    // SAFETY: the caller promises it.
    let backoff = String::from_utf8_lossy(unsafe { definition.backoff.get() });
    let backoff: Backoff = match backoff.trim() {
        "" => Backoff::default(),
        text => text.parse().map_err(|why| Fault::Other(RQ_FAILED, format!("BACKOFF: {why}")))?,
    };
    // SAFETY: the caller promises it.
    let dead = unsafe { path(definition.dead_letter_folder) };
    let dead = (!dead.as_os_str().is_empty()).then(|| dead.to_owned());
    Ok(RetryPolicy {
        tries: definition.tries,
        backoff,
        dead_letter_folder: dead,
        shows_delivery_info: definition.shows_delivery_info != 0,
    })
}

/// The rate, if there is one.
fn rate(text: &[u8]) -> Result<Option<DeliveryRate>, Fault> {
    let text = String::from_utf8_lossy(text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|why| Fault::Other(RQ_FAILED, format!("RATE: {why}")))
}

/// The names of readers in a list.
fn readers(list: &[u8]) -> Result<Vec<String>, Fault> {
    let list = String::from_utf8_lossy(list);
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    let is_word = |name: &String| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let refuse = |why: String| Err(Fault::Other(RQ_FAILED, format!("READERS: {why}")));
    if let Some(name) = names.iter().find(|name| !is_word(name)) {
        return refuse(format!(
            "'{name}' is not a reader name: use letters, digits and _, separated by commas"
        ));
    }
    let mut sorted = names.clone();
    sorted.sort_unstable();
    if let Some(two) = sorted.windows(2).find(|two| two[0] == two[1]) {
        return refuse(format!("'{}' is there twice", two[0]));
    }
    if names.len() > READERS_MAX {
        return refuse(format!("{} names, and at most {READERS_MAX} are possible", names.len()));
    }
    Ok(names)
}

/// Calls `each` with the name of every column of the queue, or, with a condition, of those that it asks for,
/// and with an empty name if it asks for tries. Returns what `each` returned last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each_column(
    queue: *const Queue,
    condition: *const RqSlice,
    each: RqEachColumn,
    context: *mut c_void,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { &*queue };
        let call = |name: &str| each(context, RqSlice::new(name.as_bytes()));
        // SAFETY: the caller's string, or null.
        let Some(text) = (unsafe { condition.as_ref() }) else {
            let mut columns = queue.schema().columns.iter().map(|column| call(&column.name));
            return Ok(columns.find(|result| *result != RQ_OK).unwrap_or(RQ_OK));
        };
        let collate: Arc<dyn Collate> = Arc::new(Server);
        // SAFETY: the caller's string.
        let condition = queue.condition(&String::from_utf8_lossy(unsafe { text.get() }), &collate)?;
        let tries = condition.asks_tries().then_some("");
        let mut asked = condition.columns().chain(tries).map(call);
        Ok(asked.find(|result| *result != RQ_OK).unwrap_or(RQ_OK))
    })
}

/// Whether rows of this queue that have no tries left go to the other folder, at once or by way of others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_leads_to(queue: *const Queue, folder: RqSlice) -> c_int {
    let mut leads = false;
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { shared(queue) };
        // SAFETY: the caller's string.
        leads = engine()?.leads_to(&queue, unsafe { path(folder) });
        Ok(RQ_OK)
    });
    c_int::from(leads)
}

/// Makes a queue.
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
            abi::RQ_SYNC_ALWAYS => Sync::Always,
            abi::RQ_SYNC_INTERVAL => Sync::Interval,
            abi::RQ_SYNC_NONE => Sync::Never,
            other => return Err(Fault::Other(RQ_PANIC, format!("a SYNC of {other}"))),
        };
        // SAFETY: the caller's structure.
        let schema = unsafe { schema(definition) }?.encode();
        // SAFETY: the caller's structure.
        let policy = unsafe { policy(definition) }?;
        if let Some(dead) = &policy.dead_letter_folder {
            match open(dead) {
                Ok(grave) if grave.definition().schema != schema => {
                    return Err(Error::DeadLetterQueue { folder: dead.clone() }.into());
                }
                // It may come later.
                Ok(_) | Err(Fault::Queue(Error::Missing { .. })) => {}
                Err(fault) => return Err(fault),
            }
        }
        let transactional = definition.transactional != 0;
        let column = |number: i32| u32::try_from(number).ok();
        let order = Order {
            due: column(definition.due),
            priority: column(definition.priority),
            fifo: column(definition.fifo),
            concurrency: definition.concurrency,
            age_s: definition.age_s,
            rate_key: column(definition.rate_key),
        };
        let dedupe = column(definition.dedupe).map(|column| Dedupe { column, for_ms: definition.dedupe_ms });
        let keep_ms = definition.keep_ms;
        // SAFETY: the caller's structure.
        let readers = readers(unsafe { definition.readers.get() })?;
        // SAFETY: the caller's string.
        let rate = rate(unsafe { definition.rate.get() })?;
        let definition =
            Definition { sync, schema, transactional, policy, order, dedupe, keep_ms, rate, readers };
        // SAFETY: the caller's string.
        engine()?.create(unsafe { path(folder) }, &definition)?;
        Ok(RQ_OK)
    })
}

/// Drops a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_drop(folder: RqSlice, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's string.
        let removed = engine()?.remove(unsafe { path(folder) });
        moved();
        removed?;
        Ok(RQ_OK)
    })
}

/// Moves a queue to another folder. `hold` is null, or that of the queue that a changed copy replaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_rename(
    from: RqSlice,
    to: RqSlice,
    copy: *const RqCopy,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's string.
        let from = unsafe { path(from) };
        // SAFETY: the caller's string.
        let to = unsafe { path(to) };
        let engine = engine()?;
        if engine.open(from).is_ok_and(|queue| engine.leads_to(&queue, to)) {
            let why = "the new name is the DEAD of a table that the DEAD of this table leads to, so that its rows would be retried forever";
            return Err(Fault::Other(RQ_FAILED, why.to_owned()));
        }
        // SAFETY: the caller's handle.
        let copy = unsafe { copy.as_ref() };
        let renamed = match copy.and_then(|copy| copy.copy_in(from)) {
            Some((queue, copy)) => queue.replaced_by(&copy, || engine.rename(from, to)),
            None => engine.rename(from, to),
        };
        moved();
        renamed?;
        Ok(RQ_OK)
    })
}

/// Opens a queue; `rq_release` releases it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_open(folder: RqSlice, queue: *mut *const Queue, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's string.
        let opened = open(unsafe { path(folder) })?;
        // SAFETY: the caller's variable.
        unsafe { *queue = Arc::into_raw(opened) };
        Ok(RQ_OK)
    })
}

/// Whether reasons of failed tries are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_keeps_reasons(queue: *const Queue) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*queue }.definition().policy.is_set())
}

/// Whether rows that have no tries left could not be moved to where they should go; then the text is why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_dead_letter_error(queue: *const Queue, why: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    let mut found = None;
    guard(std::ptr::null_mut(), Some(queue), || {
        found = queue.dead_letter_error().filter(|_| queue.definition().policy.dead_letter_folder.is_some());
        Ok(RQ_OK)
    });
    if let Some(found) = &found {
        // SAFETY: the caller's buffer.
        unsafe { &mut *why }.fill(found);
    }
    c_int::from(found.is_some())
}

/// Releases a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_release(queue: *const Queue) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Arc::from_raw(queue) });
        Ok(RQ_OK)
    });
}

/// Empties a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_truncate(queue: *const Queue, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || Ok(queue.truncate().map(|()| RQ_OK)?))
}

/// Rewrites segments that have dead rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_compact(queue: *const Queue, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || Ok(queue.compact().map(|()| RQ_OK)?))
}

/// Gives rows again that were ended and are kept: those with numbers from `first` to `last` that were ended
/// from `from_ms` to `to_ms`, milliseconds since 1970; to this reader, unless its name is empty. `given`
/// receives how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_replay(
    queue: *const Queue,
    reader: RqSlice,
    first: u64,
    last: u64,
    from_ms: u64,
    to_ms: u64,
    given: *mut u64,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        let rows = RowId(first)..RowId(last.saturating_add(1));
        // SAFETY: the caller's string.
        let name = unsafe { reader.get() };
        let reader = match name {
            [] => None,
            name => Some(queue.definition().reader(&String::from_utf8_lossy(name))?),
        };
        let replayed = queue.replay_to(reader, &RetainedFilter { rows, within_ms: from_ms..=to_ms })?;
        // SAFETY: the caller's variable.
        unsafe { *given = replayed };
        Ok(RQ_OK)
    })
}

/// Lets nobody take a row until `rq_end_hold`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_hold(queue: *const Queue, error: *mut RqError) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        queue.hold()?;
        Ok(RQ_OK)
    })
}

/// Pauses or resumes a queue, over restarts. `changed`: whether it was not so already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_set_paused(
    queue: *const Queue,
    paused: c_int,
    changed: *mut c_int,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        let result = queue.set_paused(paused != 0)?;
        // SAFETY: the caller's variable.
        unsafe { *changed = c_int::from(result) };
        Ok(RQ_OK)
    })
}

/// Pauses or resumes the key with these bytes, over restarts; without one it resumes all keys. `changed`:
/// whether it was not so already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_set_key_paused(
    queue: *const Queue,
    key: *const RqSlice,
    paused: c_int,
    changed: *mut c_int,
    error: *mut RqError,
) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(error, Some(queue), || {
        // SAFETY: the caller's key, if there is one.
        let result = match unsafe { key.as_ref() } {
            // SAFETY: the caller's bytes.
            Some(key) => queue.set_key_paused(unsafe { key.get() }, paused != 0)?,
            None => queue.resume_keys()?,
        };
        // SAFETY: the caller's variable.
        unsafe { *changed = c_int::from(result) };
        Ok(RQ_OK)
    })
}

/// Ends `rq_hold`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_end_hold(queue: *const Queue) {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(std::ptr::null_mut(), Some(queue), || {
        queue.end_hold();
        Ok(RQ_OK)
    });
}
