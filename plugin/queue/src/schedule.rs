//! Schedules: the engine's thread for them, which runs SQL by a function of the server's side, and when a
//! schedule comes.

use std::cell::RefCell;
use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;
use queue::PreparedTransaction;
use schedule::{Failed, Runner, Schedule, Session, Target};

use crate::abi::{RQ_CONDITION, RQ_OK, RqError, RqSlice, array};
use crate::alter_copy::open;
use crate::guard::{Fault, guard};

/// The server's number of errors of storage engines.
const UNREADABLE: u32 = 1296;

/// Is given a row of a result. A value without bytes is NULL.
pub type RqEachRow = extern "C" fn(rows: *mut c_void, values: *const RqSlice, count: usize);

/// Runs a statement on the connection of the schedules, and gives each row of its result to `each`. Returns
/// 0, or the server's number of the error, with its text in `failed`.
pub type RqQuery = extern "C" fn(
    connection: *mut c_void,
    sql: RqSlice,
    each: RqEachRow,
    rows: *mut c_void,
    failed: *mut RqError,
) -> c_uint;

/// Writes the folder of a table's queue into a buffer.
pub type RqFolderOf = extern "C" fn(database: RqSlice, table: RqSlice, folder: *mut RqError);

thread_local! {
    /// On the thread of the schedules, while it runs: the first row that its last COMMIT put into a queue.
    static COMMITTED: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Notes what is about to be committed, if the thread wants to know.
pub(crate) fn note_commit(prepared: &PreparedTransaction) {
    COMMITTED.with_borrow_mut(|committed| {
        if let Some(row) = committed {
            *row = prepared.first_row();
        }
    });
}

/// What delivers the ticks of schedules.
pub struct RqScheduler {
    runner: Runner,
}

/// A connection of the server's side.
struct Connection {
    connection: *mut c_void,
    query: RqQuery,
    folder_of: RqFolderOf,
}

type Rows = Vec<Vec<Option<String>>>;

extern "C" fn add_row(rows: *mut c_void, values: *const RqSlice, count: usize) {
    // SAFETY: `query` below passed it, and waits.
    let rows = unsafe { &mut *rows.cast::<Rows>() };
    // SAFETY: the server's values, for the duration of this call.
    let values = unsafe { array(values, count) };
    let text = |value: &RqSlice| {
        // SAFETY: as above.
        let bytes = (!value.bytes.is_null()).then(|| unsafe { value.get() });
        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    rows.push(values.iter().map(text).collect());
}

fn text_of(buffer: &RqError) -> Vec<u8> {
    let bytes = buffer.text.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte: &c_char| byte.cast_unsigned()).collect()
}

impl Session for Connection {
    fn query(&mut self, sql: &str) -> Result<Rows, Failed> {
        let mut rows = Rows::new();
        let mut failed = RqError { text: [0; 512] };
        let into = (&raw mut rows).cast::<c_void>();
        let code =
            (self.query)(self.connection, RqSlice::new(sql.as_bytes()), add_row, into, &raw mut failed);
        if code == 0 {
            return Ok(rows);
        }
        Err(Failed { code, text: String::from_utf8_lossy(&text_of(&failed)).into_owned() })
    }

    fn committed_row(&mut self) -> Option<String> {
        COMMITTED.with_borrow_mut(|committed| committed.as_mut().and_then(Option::take))
    }

    fn has_row(&mut self, target: &Target, row: &str) -> Result<bool, Failed> {
        let mut folder = RqError { text: [0; 512] };
        let (database, table) = (target.database.as_bytes(), target.table.as_bytes());
        (self.folder_of)(RqSlice::new(database), RqSlice::new(table), &raw mut folder);
        let folder = text_of(&folder);
        let found = open(Path::new(OsStr::from_bytes(&folder))).and_then(|queue| Ok(queue.has_row(row)?));
        found.map_err(|fault| Failed { code: UNREADABLE, text: fault.text() })
    }
}

/// What delivers ticks, until `rq_scheduler_free`.
#[unsafe(no_mangle)]
pub extern "C" fn rq_scheduler_new() -> *mut RqScheduler {
    Box::into_raw(Box::new(RqScheduler { runner: Runner::default() }))
}

/// Frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_scheduler_free(scheduler: *mut RqScheduler) {
    // SAFETY: the caller's handle, which it does not use again.
    drop(unsafe { Box::from_raw(scheduler) });
}

/// Delivers the ticks that have come. `connection` is for `query`; `tell` writes into the error log.
/// `sleep_ms`: in how many milliseconds to call this again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_scheduler_pass(
    scheduler: *mut RqScheduler,
    query: RqQuery,
    connection: *mut c_void,
    folder_of: RqFolderOf,
    tell: extern "C" fn(text: RqSlice),
    sleep_ms: *mut u64,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let scheduler = unsafe { &mut *scheduler };
        COMMITTED.set(Some(None));
        let pass = scheduler.runner.pass(&mut Connection { connection, query, folder_of }, now());
        COMMITTED.set(None);
        pass.told.iter().for_each(|text| tell(RqSlice::new(text.as_bytes())));
        // A millisecond more, because what is rounded down would come before the tick.
        let sleep = u64::try_from(pass.sleep.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        // SAFETY: the caller's variable.
        unsafe { *sleep_ms = sleep };
        Ok(RQ_OK)
    })
}

/// When a schedule comes next after a time; both in microseconds since 1970, and with `INT64_MIN` after now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_next_tick(
    spec: RqSlice,
    zone: RqSlice,
    after_us: i64,
    next_us: *mut i64,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's text.
        let spec = String::from_utf8_lossy(unsafe { spec.get() });
        // SAFETY: the caller's text.
        let zone = String::from_utf8_lossy(unsafe { zone.get() });
        let wrong = |why: String| Fault::Other(RQ_CONDITION, why);
        let schedule = Schedule::parse(&spec, &zone).map_err(|error| wrong(error.to_string()))?;
        let after = match after_us {
            i64::MIN => now(),
            us => Timestamp::from_microsecond(us).map_err(|error| wrong(error.to_string()))?,
        };
        let never = || wrong(schedule::Error::Never(spec.to_string()).to_string());
        let next = schedule.next(after).ok_or_else(never)?;
        // SAFETY: the caller's variable.
        unsafe { *next_us = next.as_microsecond() };
        Ok(RQ_OK)
    })
}

fn now() -> Timestamp {
    Timestamp::now()
}
