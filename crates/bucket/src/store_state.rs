//! What a run remembers about a store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a run knows about its lock for writing, and has seen of the store.
#[derive(Default)]
pub(crate) struct StoreState {
    /// The number of the file; 0 if this run has no lock.
    pub(crate) number: AtomicU64,
    /// Somebody else has taken over.
    pub(crate) is_lost: AtomicBool,
    /// The store was seen to keep conditions.
    pub(crate) conditions_checked: AtomicBool,
    /// The bucket was seen to have object lock.
    pub(crate) retains: AtomicBool,
    /// The store has said that it keeps what was removed.
    pub(crate) keeps_removed: AtomicBool,
    /// Who was found to have a lock.
    pub(crate) other: Mutex<Option<String>>,
}
