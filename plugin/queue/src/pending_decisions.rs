//! Transactions whose decision could not be written yet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use queue::PreparedTransaction;

/// What the disk did not take yet: a prepared transaction, and whether it is committed. The order matters for
/// a transaction over several queues.
static PENDING: Mutex<Vec<(PreparedTransaction, bool)>> = Mutex::new(Vec::new());

/// How many those are, so that nobody waits for the lock when there is none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Commits a prepared transaction or rolls it back. The coordinator can't be told that this failed, so it is
/// tried again with the next transactions. If the server ends before, its next start decides.
pub(crate) fn decide(prepared: PreparedTransaction, commit: bool) {
    if !prepared.decide(commit) {
        add(vec![(prepared, commit)]);
    }
}

/// The same for a commit that the coordinator remembers until the queue is synced.
pub(crate) fn commit_remembered(prepared: PreparedTransaction) {
    if !prepared.commit_remembered() {
        add(vec![(prepared, true)]);
    }
}

/// Keeps decisions that could not be written, to try them again in this order.
pub(crate) fn add(left: Vec<(PreparedTransaction, bool)>) {
    if !left.is_empty() {
        put(left);
    }
}

/// Tries again what could not be written before, up to the first that can't be written now.
pub(crate) fn decide_again() {
    if !is_any() {
        return;
    }
    let mut left = std::mem::take(&mut *PENDING.lock().unwrap_or_else(PoisonError::into_inner));
    let done = left.iter().take_while(|(prepared, commit)| prepared.decide(*commit)).count();
    left.drain(..done);
    put(left);
}

/// Whether there is something that could not be written yet.
pub(crate) fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Puts these before what others have added meanwhile.
fn put(mut first: Vec<(PreparedTransaction, bool)>) {
    let mut undecided = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    first.append(&mut undecided);
    *undecided = first;
    COUNT.store(undecided.len(), Ordering::Release);
}
