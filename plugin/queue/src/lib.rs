//! The queue core for ha_queue.cc: a C interface over the `queue` crate. queue_abi.h says what each function
//! means.
//!
//! Every exported function runs inside `guard`: a panic becomes an error code, and the queue it was about is
//! out of service until the server is restarted. THD, TABLE and everything else of the server stays in C++.
#![expect(unsafe_code, reason = "C++ calls these functions and passes pointers")]

pub mod abi;
pub mod hold;
pub mod session;
pub mod table;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use queue::{Collate, Engine, Pattern};

use std::sync::atomic::{AtomicBool, Ordering};

use abi::{Fault, RqSlice};

/// The engine while the plugin is loaded.
static ENGINE: Mutex<Option<Running>> = Mutex::new(None);

/// What the server knows about strings; it does not change while the library is loaded.
static SERVER: OnceLock<Collations> = OnceLock::new();

/// What the server asks of strings.
#[derive(Clone, Copy)]
struct Collations {
    equal: extern "C" fn(u32, RqSlice, RqSlice) -> std::ffi::c_int,
    encode: extern "C" fn(u32, RqSlice, *mut u8, usize) -> std::ffi::c_long,
    like: extern "C" fn(u32, RqSlice, std::ffi::c_int, RqSlice, u32) -> std::ffi::c_int,
}

/// For tests: a row that has these bytes makes the core panic while it is written.
static FAULT: OnceLock<Vec<u8>> = OnceLock::new();

/// The next reading of the clock, in the middle of a write, panics.
static ARMED: AtomicBool = AtomicBool::new(false);

/// Looks for the row that a test asked to fail with.
fn arm(rows: &[&[u8]]) {
    let Some(fault) = FAULT.get().filter(|fault| !fault.is_empty()) else { return };
    if rows.iter().any(|row| row.windows(fault.len()).any(|window| window == fault.as_slice())) {
        ARMED.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Running(std::sync::Arc<Engine>);

/// The engine, or why there is none.
fn engine() -> Result<std::sync::Arc<Engine>, Fault> {
    let running = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let running = running.as_ref().map(|running| running.0.clone());
    running.ok_or_else(|| Fault::Other(6, "the queue engine is not started".to_owned()))
}

#[expect(clippy::disallowed_methods, reason = "this is where the core's clock comes from")]
fn now_ms() -> u64 {
    assert!(!ARMED.load(Ordering::Relaxed) || !ARMED.swap(false, Ordering::Relaxed), "the fault of a test");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Random bytes for the incarnation of a queue.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled != Ok(bytes.len()) {
        // Never seen for so few bytes; the clock and the process make it unlikely to be one that was there.
        bytes[..8].copy_from_slice(&now_ms().to_le_bytes());
        bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    }
    bytes
}

/// The server's collations.
struct Server;

impl Collate for Server {
    fn equal(&self, collation: u32, one: &[u8], other: &[u8]) -> bool {
        let (one, other) = (RqSlice::new(one), RqSlice::new(other));
        SERVER.get().is_some_and(|server| (server.equal)(collation, one, other) != 0)
    }

    fn like(&self, collation: u32, text: &[u8], pattern: &Pattern) -> bool {
        let (text, bytes) = (RqSlice::new(text), RqSlice::new(&pattern.bytes));
        let (padded, escape) = (pattern.padded.into(), pattern.escape.into());
        SERVER.get().is_some_and(|server| (server.like)(collation, text, padded, bytes, escape) != 0)
    }

    fn encode(&self, collation: u32, literal: &str) -> Option<Vec<u8>> {
        let server = SERVER.get()?;
        // No character set takes more than four times the bytes of UTF-8.
        let mut out = vec![0; literal.len() * 4 + 4];
        let len = (server.encode)(collation, RqSlice::new(literal.as_bytes()), out.as_mut_ptr(), out.len());
        out.truncate(usize::try_from(len).ok()?);
        Some(out)
    }
}
