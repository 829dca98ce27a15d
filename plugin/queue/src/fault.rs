//! For tests: makes the core panic in the middle of writing a certain row.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of that row.
static FAULT: OnceLock<Vec<u8>> = OnceLock::new();

/// Set to make the next reading of the clock, in the middle of a write, panic.
static ARMED: AtomicBool = AtomicBool::new(false);

/// Sets the bytes; empty for none.
pub(crate) fn set(bytes: &[u8]) {
    FAULT.get_or_init(|| bytes.to_vec());
}

/// Whether the row that a test has chosen to fail is among these.
pub(crate) fn is_in(rows: &[&[u8]]) -> bool {
    let Some(fault) = FAULT.get().filter(|fault| !fault.is_empty()) else { return false };
    rows.iter().any(|row| row.windows(fault.len()).any(|window| window == fault.as_slice()))
}

/// Makes the write that follows fail.
pub(crate) fn arm() {
    ARMED.store(true, Ordering::Relaxed);
}

/// Panics if that row is being written.
pub(crate) fn strike() {
    assert!(!ARMED.load(Ordering::Relaxed) || !ARMED.swap(false, Ordering::Relaxed), "the fault of a test");
}
