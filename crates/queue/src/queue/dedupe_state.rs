//! Deduplication keys besides those of the rows in the index.

use std::collections::BTreeSet;

use crate::format::dedupe::DedupeEntry;
use crate::index::dedupe_window::DedupeWindow;

/// The keys that leave rows out because of rows that are not in the index: those that came within the time of
/// DEDUPE_FOR, and those that are being written.
#[derive(Debug, Default)]
pub(crate) struct DedupeState {
    /// Keys of rows that came a short time ago, in a queue that leaves rows out for a time.
    pub(crate) window: DedupeWindow,
    /// Keys of rows that are being written.
    pending: BTreeSet<u128>,
}

impl DedupeState {
    /// The state after recovery.
    pub(crate) fn new(window: DedupeWindow) -> DedupeState {
        DedupeState { window, pending: BTreeSet::new() }
    }

    /// Whether a row with this key is being written.
    pub(crate) fn is_pending(&self, key: u128) -> bool {
        self.pending.contains(&key)
    }

    /// Notes that rows with these keys are being written.
    pub(crate) fn add_pending(&mut self, keys: &[u128]) {
        self.pending.extend(keys);
    }

    /// Notes that the rows with these keys are not being written any more.
    pub(crate) fn forget_pending(&mut self, keys: &[u128]) {
        keys.iter().for_each(|key| {
            self.pending.remove(key);
        });
    }

    /// Notes that the rows of a batch were written.
    pub(crate) fn note_written(&mut self, keys: &[u128], entries: &[DedupeEntry], now_ms: u64) {
        self.forget_pending(keys);
        entries.iter().for_each(|entry| self.window.set(*entry));
        self.window.trim(now_ms);
    }

    /// Forgets everything, because the queue was emptied.
    pub(crate) fn clear(&mut self) {
        self.window.clear();
        self.pending.clear();
    }
}
