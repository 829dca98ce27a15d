//! What is in the queues, and what happened in them.

use std::ffi::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use queue::{Queue, Status};

use crate::abi::{RQ_OK, RqEach, RqEachOwned, RqEachReader, RqOwned, RqReader, RqSlice, RqStatus};
use crate::engine::engine;
use crate::guard::guard;

fn status(status: &Status) -> RqStatus {
    let counters = status.counters;
    RqStatus {
        oldest_ms: status.oldest_ms.unwrap_or(0),
        waiting: status.waiting,
        owned: status.owned,
        leased: status.leased,
        delayed: status.delayed,
        dead: status.dead,
        behind: status.behind,
        keys_busy: status.keys_busy,
        transactions: status.transactions,
        prepared: status.prepared,
        in_doubt: status.in_doubt,
        kept: status.kept,
        waiters: status.waiters,
        paused: status.paused,
        keys_paused: status.keys_paused,
        bytes: status.bytes,
        live_bytes: status.live_bytes,
        kept_bytes: status.kept_bytes,
        memory: status.memory,
        written_per_s: status.written_per_s,
        removed_per_s: status.removed_per_s,
        batches: counters.batches,
        removals: counters.removals,
        reads: counters.reads,
        read_hits: counters.read_hits,
        writes: counters.writes,
        syncs: counters.syncs,
        rows_written: counters.rows_written,
        rows_removed: counters.rows_removed,
        compacted: counters.compacted,
        checkpoints: counters.checkpoints,
        maintenance_errors: counters.maintenance_errors,
        wait_immediate: counters.wait_immediate,
        wait_delayed: counters.wait_delayed,
        wait_timeout: counters.wait_timeout,
        handed_over: counters.handed_over,
        restored_by_abort: counters.restored_by_abort,
        restored_by_close: counters.restored_by_close,
        evaluations: counters.evaluations,
        compiles: counters.compiles,
        compile_hits: counters.compile_hits,
        duplicates: counters.duplicates,
        left_out: counters.left_out,
        replayed: counters.replayed,
        leases: counters.leases,
        leases_expired: counters.leases_expired,
        leases_failed: counters.leases_failed,
        leases_refused: counters.leases_refused,
        tries_cut: counters.tries_cut,
        dead_lettered: counters.dead_lettered,
        waited: counters.waited.0,
        worked: counters.worked.0,
    }
}

/// What is in a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_get_status(queue: *const Queue, out: *mut RqStatus) -> c_int {
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(std::ptr::null_mut(), Some(queue), || {
        // SAFETY: the caller's structure.
        unsafe { *out = status(&queue.status()) };
        Ok(RQ_OK)
    })
}

/// What is in all open queues, and what happened since the start in all that were ever open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_get_total(out: *mut RqStatus) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        let total = status(&engine()?.total());
        // SAFETY: the caller's structure.
        unsafe { *out = total };
        Ok(RQ_OK)
    })
}

/// How many rows are not gone; unlike the status, this takes no time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_rows(queue: *const Queue) -> u64 {
    let mut rows = 0;
    // SAFETY: the caller's handle.
    let queue = unsafe { &*queue };
    guard(std::ptr::null_mut(), None, || {
        rows = queue.rows();
        Ok(RQ_OK)
    });
    rows
}

/// The end of a class of times in milliseconds; 0 for the last one, which has none.
#[unsafe(no_mangle)]
pub extern "C" fn rq_class_end(class: usize) -> u64 {
    queue::CLASS_ENDS_MS.get(class).copied().unwrap_or(0)
}

/// Calls `each` for every open queue with its folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each(each: RqEach, context: *mut c_void) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        for queue in engine()?.queues() {
            let folder = queue.folder();
            let status = status(&queue.status());
            let code = each(context, RqSlice::new(folder.as_os_str().as_bytes()), &raw const status);
            if code != 0 {
                return Ok(code);
            }
        }
        Ok(RQ_OK)
    })
}

/// Calls `each` for every reader of every open queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each_reader(each: RqEachReader, context: *mut c_void) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        for queue in engine()?.queues() {
            let folder = queue.folder();
            // One that is out of service has none to show.
            for reader in queue.readers().unwrap_or_default() {
                let shown = RqReader {
                    name: RqSlice::new(reader.name.as_bytes()),
                    waiting: reader.waiting,
                    owned: reader.owned,
                    next: reader.next.0,
                    oldest_ms: reader.oldest_ms.unwrap_or(0),
                };
                let code = each(context, RqSlice::new(folder.as_os_str().as_bytes()), &raw const shown);
                if code != 0 {
                    return Ok(code);
                }
            }
        }
        Ok(RQ_OK)
    })
}

/// Calls `each` for every owned row of every open queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_each_owned(each: RqEachOwned, context: *mut c_void) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        for queue in engine()?.queues() {
            let folder = queue.folder();
            let name = RqSlice::new(folder.as_os_str().as_bytes());
            for (reader, row, ownership) in queue.owned_by_readers() {
                let (connection, since_ms) = (ownership.owner.0, ownership.since_ms);
                let reader = RqSlice::new(reader.as_bytes());
                let owned = RqOwned { reader, row: row.0, connection, since_ms, until_ms: 0, failed: 0 };
                let code = each(context, name, &raw const owned);
                if code != 0 {
                    return Ok(code);
                }
            }
            for (row, ownership) in queue.owned() {
                let (until_ms, failed) = queue.lease_of(row).unwrap_or_default();
                let owner = ownership.owner;
                let connection = if owner.is_lease() { 0 } else { owner.0 };
                let (reader, since_ms) = (RqSlice::new(b""), ownership.since_ms);
                let owned = RqOwned { reader, row: row.0, connection, since_ms, until_ms, failed };
                let code = each(context, name, &raw const owned);
                if code != 0 {
                    return Ok(code);
                }
            }
        }
        Ok(RQ_OK)
    })
}
