//! The engine while the plugin is loaded: starting and stopping it, and what it needs from outside.

use std::ffi::c_int;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use queue::{Engine, Options, RealDisk};

use crate::abi::{RQ_FAILED, RQ_OK, RqError, RqServer, RqSlice};
use crate::guard::{Fault, guard};
use crate::{collation, fault, pending_decisions};

static ENGINE: Mutex<Option<Arc<Engine>>> = Mutex::new(None);

/// The engine, or why there is none.
pub(crate) fn engine() -> Result<Arc<Engine>, Fault> {
    let running = ENGINE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    running.ok_or_else(|| Fault::Other(RQ_FAILED, "the queue engine is not started".to_owned()))
}

#[expect(clippy::disallowed_methods, reason = "this is where the core's clock comes from")]
fn now_ms() -> u64 {
    fault::strike();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Random bytes that nobody has had yet: asking the system for each lease would take longer than the lease.
static SPARE: Mutex<Vec<[u8; 16]>> = Mutex::new(Vec::new());

/// Random bytes for the incarnation of a queue, the name of a transaction, or the token of a lease.
pub(crate) fn random() -> [u8; 16] {
    let spare = || SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    // The lock is let go before the system is asked.
    let one = spare().pop();
    one.unwrap_or_else(|| {
        // As many as the system never gives in part.
        let mut bytes = [[0; 16]; 16];
        let filled = rustix::rand::getrandom(bytes.as_flattened_mut(), rustix::rand::GetRandomFlags::empty());
        let [mut first, rest @ ..] = bytes;
        if filled == Ok(size_of_val(&bytes)) {
            spare().extend(rest);
        } else {
            // This has never been seen for so few bytes; the clock and the process id make a repeated value
            // unlikely.
            first[..8].copy_from_slice(&now_ms().to_le_bytes());
            first[8..12].copy_from_slice(&std::process::id().to_le_bytes());
        }
        first
    })
}

/// Starts the engine, and opens the queues that take part in transactions, because the server then asks what
/// is prepared. `files_max`: how many files may be open at once for all queues.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_start(server: *const RqServer, files_max: usize, error: *mut RqError) -> c_int {
    guard(error, None, || {
        // SAFETY: the caller's structure.
        let server = unsafe { *server };
        collation::set(&server);
        // SAFETY: the caller's string.
        fault::set(unsafe { server.fault.get() });
        let engine = Options { files_max, ..Options::new(now_ms, random) };
        let engine = Engine::start(Arc::new(RealDisk), engine);
        let engine = engine.map_err(|error| Fault::Other(RQ_FAILED, error.to_string()))?;
        for (folder, error) in engine.open_transactional(Path::new(".")).map_err(Fault::Queue)? {
            let folder = folder.display();
            let text = format!("{folder}: {error}. Its prepared transactions wait for the next start");
            (server.tell)(RqSlice::new(text.as_bytes()));
        }
        *ENGINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(engine));
        Ok(RQ_OK)
    })
}

/// With `hold`, no row goes from one queue to another by itself until the call without it.
#[unsafe(no_mangle)]
pub extern "C" fn rq_pause_dead_letters(hold: c_int) -> c_int {
    guard(std::ptr::null_mut(), None, || {
        engine()?.hold_moves(hold != 0);
        Ok(RQ_OK)
    })
}

/// Stops the engine: everything is synced and its threads have ended.
#[unsafe(no_mangle)]
pub extern "C" fn rq_stop() -> c_int {
    guard(std::ptr::null_mut(), None, || {
        pending_decisions::decide_again();
        drop(ENGINE.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(RQ_OK)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn random_bytes_are_given_once() {
        let drawn: BTreeSet<[u8; 16]> = (0..1000).map(|_| super::random()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
