//! Queues that ALTER replaces by a changed copy: nobody takes from them, and whoever opens one waits for its
//! successor.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use queue::{Error, Queue};

use crate::abi::{RQ_FAILED, RQ_OK, RqError, shared};
use crate::cursor::RqCursor;
use crate::engine::engine;
use crate::guard::{Fault, guard};

/// Queues that are being replaced by a changed copy, by the folders that the copies will have.
static CHANGING: Mutex<BTreeMap<PathBuf, Weak<Queue>>> = Mutex::new(BTreeMap::new());

/// Signals that a replacement is complete.
static CHANGED: Condvar = Condvar::new();

/// How long opening waits for a queue that is being replaced.
const CHANGE_WAIT: Duration = Duration::from_secs(10);

/// A queue whose rows nobody takes.
pub struct RqCopy {
    queue: Arc<Queue>,
    /// Its folder, which will be its successor's.
    folder: PathBuf,
    /// The queue that its rows are copied to.
    copy: Weak<Queue>,
    read: u64,
    written: u64,
}

impl RqCopy {
    /// The queue that is being replaced and its copy, when the copy is in this folder.
    pub(crate) fn copy_in(&self, folder: &Path) -> Option<(&Arc<Queue>, Arc<Queue>)> {
        let copy = self.copy.upgrade().filter(|copy| copy.folder() == folder)?;
        Some((&self.queue, copy))
    }
}

impl Drop for RqCopy {
    fn drop(&mut self) {
        CHANGING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.folder);
        CHANGED.notify_all();
        self.queue.end_copy();
    }
}

/// Lets nobody take a row until `rq_copy_end`, which may come after `rq_release`. Until then `rq_open` waits
/// when it finds no queue in this folder, because the successor is about to come. Read rows with
/// `rq_copy_scan` and note each with `rq_copy_read`; call `rq_copy_wrote` for each that goes to the copy.
/// When `rq_rename` then moves the copy here, owners find their rows in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_begin(
    queue: *const Queue,
    hold: *mut *mut RqCopy,
    error: *mut RqError,
) -> c_int {
    // SAFETY: it is a handle that was not released; the hold has one of its own.
    let queue = unsafe { shared(queue) };
    guard(error, Some(&queue), || {
        queue.begin_copy()?;
        let folder = queue.folder();
        let changing = Arc::downgrade(&queue);
        CHANGING.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.clone(), changing);
        let held = RqCopy { queue: queue.clone(), folder, copy: Weak::new(), read: 0, written: 0 };
        // SAFETY: the caller's variable.
        unsafe { *hold = Box::into_raw(Box::new(held)) };
        Ok(RQ_OK)
    })
}

/// Begins a walk over all rows of a queue that is held back; with `kept` also over those that were ended and
/// are kept, which a copy that is no queue must not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_scan(hold: *const RqCopy, kept: c_int, cursor: *mut *mut RqCursor) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller's handle.
        let queue = unsafe { &(*hold).queue };
        let new = RqCursor::new(queue.copy_cursor(kept != 0));
        // SAFETY: the caller's variable.
        unsafe { *cursor = Box::into_raw(Box::new(new)) };
        Ok(RQ_OK)
    })
}

/// Notes that a row was read to be copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_read(hold: *mut RqCopy) {
    // SAFETY: the caller's handle.
    unsafe { &mut *hold }.read += 1;
}

/// Notes that the copy is complete. From now on a crash may leave the server with either of the two: a row
/// that is ended in one is ended in the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_complete(
    hold: *mut RqCopy,
    copy: *const Queue,
    error: *mut RqError,
) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let hold = unsafe { &mut *hold };
        // SAFETY: it is a handle that was not released.
        let copy = unsafe { shared(copy) };
        hold.copy = Arc::downgrade(&copy);
        hold.queue.copied_to(&copy)?;
        Ok(RQ_OK)
    })
}

/// Notes that the last row that was read goes to the copy. It is an error when another row goes there: owners
/// would lose theirs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_wrote(hold: *mut RqCopy, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's handle.
        let hold = unsafe { &mut *hold };
        hold.written += 1;
        if hold.written != hold.read && hold.queue.copied_owned() {
            return Err(Fault::Other(
                RQ_FAILED,
                "rows are owned or kept (KEEP), and a copy in another order would lose them".to_owned(),
            ));
        }
        Ok(RQ_OK)
    })
}

/// Whether the queue that is held back is not there any more: it was dropped, or its copy has its place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_is_over(hold: *const RqCopy) -> c_int {
    // SAFETY: the caller's handle.
    c_int::from(unsafe { &*hold }.queue.is_dropped())
}

/// Ends `rq_copy_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_copy_end(hold: *mut RqCopy) {
    guard(std::ptr::null_mut(), None, || {
        // SAFETY: the caller promises it.
        drop(unsafe { Box::from_raw(hold) });
        Ok(RQ_OK)
    });
}

/// The folder of a queue. While it is being replaced by a copy, when it may have been moved away, that is the
/// folder in which the copy will be.
pub(crate) fn folder_of(queue: &Arc<Queue>) -> PathBuf {
    let changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let here = |of: &&PathBuf| changing.get(*of).is_some_and(|one| one.as_ptr() == Arc::as_ptr(queue));
    changing.keys().find(here).cloned().unwrap_or_else(|| queue.folder())
}

/// Opens the queue in a folder. A queue that is being replaced is missing for a moment, until its successor
/// is there.
pub(crate) fn open(folder: &Path) -> Result<Arc<Queue>, Fault> {
    let started = Instant::now();
    loop {
        match engine()?.open(folder) {
            Err(Error::Missing { .. }) => {}
            other => return Ok(other?),
        }
        let mut changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        if !changing.contains_key(folder) {
            drop(changing);
            // It may have come between the two lookups.
            return Ok(engine()?.open(folder)?);
        }
        while changing.contains_key(folder) {
            let left = CHANGE_WAIT.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(engine()?.open(folder)?);
            }
            changing = CHANGED.wait_timeout(changing, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
