//! What both sides of the C interface know: codes and structures.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::Arc;

use queue::Queue;

/// Success. Every function that returns an `int` returns one of these codes, unless it says otherwise, and
/// sets the error with any other code.
pub const RQ_OK: c_int = 0;
/// There is no queue in the folder.
pub const RQ_MISSING: c_int = 1;
/// There is a queue in the folder already.
pub const RQ_EXISTS: c_int = 2;
/// The queue was dropped meanwhile.
pub const RQ_DROPPED: c_int = 3;
/// Its files are damaged, or were written by a later version.
pub const RQ_CORRUPT: c_int = 4;
/// A read failed.
pub const RQ_DISK: c_int = 5;
/// Out of service after a failure, such as a failed sync.
pub const RQ_FAILED: c_int = 6;
/// Too many bytes in one statement.
pub const RQ_TOO_LARGE: c_int = 7;
/// The condition is wrong.
pub const RQ_CONDITION: c_int = 8;
/// A bug in the engine; the queue is out of service.
pub const RQ_PANIC: c_int = 9;
/// No more rows, or no such row.
pub const RQ_END: c_int = 10;

/// How many classes of times there are.
pub const RQ_CLASSES: usize = 10;
const _: () = assert!(RQ_CLASSES == queue::CLASSES, "the core has other classes");

/// How a wait ended: rows were taken.
pub const RQ_TAKEN: c_int = 0;
/// Nothing came before the timeout.
pub const RQ_TIMED_OUT: c_int = 1;
/// Somebody interrupted it, or its client is gone.
pub const RQ_INTERRUPTED: c_int = 2;
/// A table was dropped.
pub const RQ_GONE: c_int = 3;

/// The type of a column: an integer. `one`: whether it is signed.
pub const RQ_INTEGER: u32 = 0;
/// `one`: precision, `two`: scale.
pub const RQ_DECIMAL: u32 = 1;
/// A year.
pub const RQ_YEAR: u32 = 2;
/// A date.
pub const RQ_DATE: u32 = 3;
/// `one`: fractional digits.
pub const RQ_TIME: u32 = 4;
/// The same.
pub const RQ_DATETIME: u32 = 5;
/// The same.
pub const RQ_TIMESTAMP: u32 = 6;
/// `one`: collation.
pub const RQ_TEXT: u32 = 7;
/// A type that a condition can only test for NULL.
pub const RQ_OPAQUE: u32 = 8;
/// `one`: collation.
pub const RQ_ENUM: u32 = 9;

/// When a queue is synced: with every write.
pub const RQ_SYNC_ALWAYS: u32 = 0;
/// Within an interval.
pub const RQ_SYNC_INTERVAL: u32 = 1;
/// When the operating system does so.
pub const RQ_SYNC_NONE: u32 = 2;

/// A walk shows the rows that wait.
pub const RQ_WAITING: c_int = 0;
/// All rows, owned or not.
pub const RQ_ALL: c_int = 1;
/// The rows that nobody owns, also those that are due later.
pub const RQ_UNOWNED: c_int = 2;
/// The rows that were ended and are kept, and no others.
pub const RQ_KEPT: c_int = 3;

/// Bytes that belong to the other side, or, for the duration of a call, to this one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RqSlice {
    pub(crate) bytes: *const u8,
    pub(crate) len: usize,
}

/// A buffer for the reason of a failure, which ends with a 0.
#[repr(C)]
pub struct RqError {
    pub(crate) text: [c_char; 512],
}

/// A column of a table that is being created.
#[repr(C)]
pub struct RqColumn {
    pub(crate) name: RqSlice,
    /// `RQ_INTEGER` and so on, which also say what `one` and `two` mean.
    pub(crate) kind: u32,
    pub(crate) one: u32,
    pub(crate) two: u32,
    pub(crate) is_variable: u32,
    /// Fixed: offset and length; variable: how many variable columns are before it.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// -1 for NOT NULL.
    pub(crate) null_bit: i32,
    /// The members of an ENUM.
    pub(crate) members: *const RqSlice,
    pub(crate) member_count: usize,
}

/// A table that is being created.
#[repr(C)]
pub struct RqDefinition {
    /// `RQ_SYNC_ALWAYS` and so on.
    pub(crate) sync: u32,
    /// Whether the queue takes part in transactions.
    pub(crate) transactional: c_int,
    pub(crate) null_bytes: u32,
    pub(crate) fixed_bytes: u32,
    pub(crate) columns: *const RqColumn,
    pub(crate) column_count: usize,
    /// How many tries a row has; 0 for no limit.
    pub(crate) tries: u64,
    /// How long a row waits after a failed try, as text; empty for not at all.
    pub(crate) backoff: RqSlice,
    /// The folder of the queue for rows that have no tries left; empty for none.
    pub(crate) dead_letter_folder: RqSlice,
    /// Whether what is known of rows is shown.
    pub(crate) shows_delivery_info: c_int,
    /// The number of the column that says when a row is due; -1 for none.
    pub(crate) due: i32,
    /// The number of the column that says which rows come first; -1 for none.
    pub(crate) priority: i32,
    /// The number of the column whose rows with the same value are given one after the other; -1 for none.
    pub(crate) fifo: i32,
    /// How many rows with the same value in it may be owned at once.
    pub(crate) concurrency: u32,
    /// After how many seconds a row is as urgent as one that comes with a priority better by 1; 0: never.
    pub(crate) age_s: u32,
    /// The number of the column that is the key to whose rows the rate applies; -1 for none.
    pub(crate) rate_key: i32,
    /// The number of the column that is the key by which rows are left out; -1 for none.
    pub(crate) dedupe: i32,
    /// For how long after a row others with its key are left out, milliseconds; 0: while it waits.
    pub(crate) dedupe_ms: u64,
    /// For how long rows that were ended are kept, milliseconds; 0: not at all.
    pub(crate) keep_ms: u64,
    /// How many rows may be given within a time, as text; empty for any number.
    pub(crate) rate: RqSlice,
    /// The names of those who are each given every row, with commas between them; empty for none.
    pub(crate) readers: RqSlice,
}

/// What is known of a row besides.
#[repr(C)]
pub struct RqDeliveryInfo {
    /// How many of its tries have failed.
    pub(crate) failed: u64,
    /// Why the last one failed, in UTF-8; empty when nobody said.
    pub(crate) why: RqSlice,
    /// What ends it, without its table; empty unless the statement has leased it.
    pub(crate) token: RqSlice,
}

/// The name of a transaction, as X/Open XA defines it.
#[repr(C)]
pub struct RqXid {
    pub(crate) format: i64,
    pub(crate) gtrid: RqSlice,
    pub(crate) bqual: RqSlice,
}

/// A queue to wait on.
#[repr(C)]
pub struct RqTarget {
    pub(crate) queue: *const Queue,
    /// Empty for all rows.
    pub(crate) condition: RqSlice,
    /// The name of one of its readers; empty for none.
    pub(crate) reader: RqSlice,
}

/// What is in a queue and what happened in it.
#[repr(C)]
#[derive(Default)]
pub struct RqStatus {
    /// When the oldest row was inserted: milliseconds since 1970; 0 when there is none.
    pub(crate) oldest_ms: u64,
    pub(crate) waiting: u64,
    pub(crate) owned: u64,
    pub(crate) leased: u64,
    pub(crate) delayed: u64,
    pub(crate) dead: u64,
    pub(crate) behind: u64,
    pub(crate) keys_busy: u64,
    pub(crate) transactions: u64,
    pub(crate) prepared: u64,
    pub(crate) in_doubt: u64,
    pub(crate) kept: u64,
    pub(crate) waiters: u64,
    pub(crate) paused: u64,
    pub(crate) keys_paused: u64,
    pub(crate) bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) kept_bytes: u64,
    pub(crate) memory: u64,
    pub(crate) written_per_s: u64,
    pub(crate) removed_per_s: u64,
    pub(crate) batches: u64,
    pub(crate) removals: u64,
    pub(crate) reads: u64,
    pub(crate) read_hits: u64,
    pub(crate) writes: u64,
    pub(crate) syncs: u64,
    pub(crate) rows_written: u64,
    pub(crate) rows_removed: u64,
    pub(crate) compacted: u64,
    pub(crate) checkpoints: u64,
    pub(crate) maintenance_errors: u64,
    pub(crate) wait_immediate: u64,
    pub(crate) wait_delayed: u64,
    pub(crate) wait_timeout: u64,
    pub(crate) handed_over: u64,
    pub(crate) restored_by_abort: u64,
    pub(crate) restored_by_close: u64,
    pub(crate) evaluations: u64,
    pub(crate) compiles: u64,
    pub(crate) compile_hits: u64,
    pub(crate) duplicates: u64,
    pub(crate) left_out: u64,
    pub(crate) replayed: u64,
    pub(crate) leases: u64,
    pub(crate) leases_expired: u64,
    pub(crate) leases_failed: u64,
    pub(crate) leases_refused: u64,
    pub(crate) tries_cut: u64,
    pub(crate) dead_lettered: u64,
    /// How old rows were when they were given, in classes of milliseconds.
    pub(crate) waited: [u64; RQ_CLASSES],
    /// How long those who ended rows had had them.
    pub(crate) worked: [u64; RQ_CLASSES],
}

/// What the core needs from the server.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RqServer {
    /// For tests: an INSERT of a row with these bytes panics while it is written. Empty for none.
    pub(crate) fault: RqSlice,
    /// Tells whoever reads the server's error log.
    pub(crate) tell: extern "C" fn(text: RqSlice),
    pub(crate) equal: extern "C" fn(collation: u32, one: RqSlice, other: RqSlice) -> c_int,
    /// Returns the length, or -1 when the character set lacks a character of the literal.
    pub(crate) encode: extern "C" fn(collation: u32, literal: RqSlice, out: *mut u8, room: usize) -> c_long,
    /// `padded`: whether the text ends with spaces that do not belong to it.
    pub(crate) like:
        extern "C" fn(collation: u32, text: RqSlice, padded: c_int, pattern: RqSlice, escape: u32) -> c_int,
    /// Converts to UTF-8. Returns the length, or -1 when the text is not of the character set.
    pub(crate) decode: extern "C" fn(collation: u32, text: RqSlice, out: *mut u8, room: usize) -> c_long,
}

/// A wait calls this from time to time; 0 ends the wait.
pub type RqAlive = extern "C" fn(context: *mut c_void) -> c_int;

/// Called with a queue; any result but 0 ends the calls.
pub type RqEach = extern "C" fn(context: *mut c_void, folder: RqSlice, status: *const RqStatus) -> c_int;

/// Called with the name of a prepared transaction; any result but 0 says that its decision was forgotten.
pub type RqEachPrepared = extern "C" fn(context: *mut c_void, xid: *const RqXid) -> c_int;

/// Tells the coordinator of transactions that it may forget those that it has asked about.
pub type RqCheckpointDone = extern "C" fn(cookie: *mut c_void);

/// A row that somebody owns, for a reader unless that is empty.
#[repr(C)]
pub struct RqOwned {
    pub(crate) reader: RqSlice,
    pub(crate) row: u64,
    /// The number of the connection; 0 for a lease.
    pub(crate) connection: u64,
    pub(crate) since_ms: u64,
    /// When its lease or delay is over, milliseconds since 1970; 0 when it has none.
    pub(crate) until_ms: u64,
    pub(crate) failed: u64,
}

/// What a reader has before it.
#[repr(C)]
pub struct RqReader {
    pub(crate) name: RqSlice,
    pub(crate) waiting: u64,
    pub(crate) owned: u64,
    /// The first row that it has not ended, or the next new one.
    pub(crate) next: u64,
    /// When that one was inserted: milliseconds since 1970; 0 when there is none.
    pub(crate) oldest_ms: u64,
}

/// Called with the name of a column; any result but 0 ends the calls.
pub type RqEachColumn = extern "C" fn(context: *mut c_void, name: RqSlice) -> c_int;

/// Called with a reader; any result but 0 ends the calls.
pub type RqEachReader =
    extern "C" fn(context: *mut c_void, folder: RqSlice, reader: *const RqReader) -> c_int;

/// Called with an owned row; any result but 0 ends the calls.
pub type RqEachOwned = extern "C" fn(context: *mut c_void, folder: RqSlice, owned: *const RqOwned) -> c_int;

impl RqSlice {
    pub(crate) fn new(bytes: &[u8]) -> RqSlice {
        RqSlice { bytes: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The bytes must live as long as the result is used.
    pub(crate) unsafe fn get<'bytes>(self) -> &'bytes [u8] {
        // SAFETY: the caller promises it.
        unsafe { array(self.bytes, self.len) }
    }
}

impl RqError {
    pub(crate) fn fill(&mut self, text: &str) {
        let room = self.text.len() - 1;
        let bytes = text.bytes().take(room).map(u8::cast_signed);
        for (to, from) in self.text.iter_mut().zip(bytes.chain([0])) {
            *to = from;
        }
    }
}

/// # Safety
/// The pointer is to `len` values that do not change while the result is used; it may be null when `len` is
/// 0.
pub(crate) unsafe fn array<'values, T>(values: *const T, len: usize) -> &'values [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(values, len) }
}

/// # Safety
/// The queue came from `rq_open` and was not released.
pub(crate) unsafe fn shared(queue: *const Queue) -> Arc<Queue> {
    // SAFETY: the caller promises it.
    unsafe { Arc::increment_strong_count(queue) };
    // SAFETY: the count was just raised for this `Arc`.
    unsafe { Arc::from_raw(queue) }
}
