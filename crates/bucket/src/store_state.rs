//! What a run remembers about a store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a run knows about its lock for writing, and about the store.
#[derive(Default)]
pub(crate) struct StoreState {
    /// The number of the lock's file; 0 if this run has no lock.
    pub(crate) number: AtomicU64,
    /// Another run has taken over.
    pub(crate) is_lost: AtomicBool,
    /// The store was seen to honor conditional writes.
    pub(crate) conditions_checked: AtomicBool,
    /// The bucket was seen to have object lock.
    pub(crate) retains: AtomicBool,
    /// The store has said that it keeps removed files.
    pub(crate) keeps_removed: AtomicBool,
    /// The holder of a lock that could not be taken.
    pub(crate) other: Mutex<Option<String>>,
}
