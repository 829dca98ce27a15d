//! The deduplication window: keys of recent rows, whose duplicates are discarded until they expire.

use std::collections::{BTreeMap, VecDeque};

use crate::format::dedupe::DedupeEntry;

/// Lists that have room for fewer keys keep it.
const SPARE_MIN: usize = 1024;

/// The keys of the rows within the window.
#[derive(Debug, Default)]
pub(crate) struct DedupeWindow {
    for_ms: u64,
    until: BTreeMap<u128, u64>,
    /// The same in the order in which it is over, unless the clock was set.
    order: VecDeque<DedupeEntry>,
}

impl DedupeWindow {
    /// No keys; they will be known for so long.
    pub(crate) fn new(for_ms: u64) -> DedupeWindow {
        DedupeWindow { for_ms, ..DedupeWindow::default() }
    }

    /// Whether keys are kept at all.
    pub(crate) fn is_kept(&self) -> bool {
        self.for_ms > 0
    }

    /// What is known of the keys of rows that come at this time; nothing of 0, which is none.
    pub(crate) fn of(&self, keys: &[u128], time_ms: u64) -> Vec<DedupeEntry> {
        let keys = keys.iter().filter(|key| **key != 0 && self.is_kept());
        keys.map(|key| DedupeEntry { key: *key, until_ms: time_ms.saturating_add(self.for_ms) }).collect()
    }

    /// Takes over keys of a file or of another queue.
    pub(crate) fn adopt(&mut self, entries: &[DedupeEntry]) {
        if self.is_kept() {
            entries.iter().for_each(|entry| self.set(*entry));
        }
    }

    /// Notes the key of a row that came. The last one decides, also if the clock was set back before it came.
    pub(crate) fn set(&mut self, entry: DedupeEntry) {
        if self.until.insert(entry.key, entry.until_ms) != Some(entry.until_ms) {
            self.order.push_back(entry);
        }
    }

    /// Whether a row with this key came within the time. When the clock was set back, none counts for longer
    /// than that.
    pub(crate) fn has(&self, key: u128, now_ms: u64) -> bool {
        self.until.get(&key).is_some_and(|until| self.counts(*until, now_ms))
    }

    fn counts(&self, until_ms: u64, now_ms: u64) -> bool {
        until_ms.checked_sub(now_ms).is_some_and(|left| left > 0 && left <= self.for_ms)
    }

    /// Forgets keys whose time is over.
    pub(crate) fn trim(&mut self, now_ms: u64) {
        while let Some(first) =
            self.order.front().copied().filter(|first| !self.counts(first.until_ms, now_ms))
        {
            self.order.pop_front();
            if self.until.get(&first.key) == Some(&first.until_ms) {
                self.until.remove(&first.key);
            }
        }
        if self.order.capacity() > SPARE_MIN && self.order.len() < self.order.capacity() / 4 {
            self.order.shrink_to(self.order.len() * 2);
        }
    }

    /// The keys whose time is not over.
    pub(crate) fn list(&self, now_ms: u64) -> Vec<DedupeEntry> {
        let counts = |entry: &&DedupeEntry| {
            self.counts(entry.until_ms, now_ms) && self.until.get(&entry.key) == Some(&entry.until_ms)
        };
        self.order.iter().filter(counts).copied().collect()
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        *self = DedupeWindow::new(self.for_ms);
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn memory(&self) -> usize {
        // Nodes of the map are half full.
        self.until.len() * 2 * size_of::<(u128, u64)>() + self.order.capacity() * size_of::<DedupeEntry>()
    }
}

#[cfg(test)]
mod tests {
    use super::{DedupeEntry, DedupeWindow};

    #[test]
    fn a_key_is_known_for_its_time_and_then_forgotten() {
        let mut keys = DedupeWindow::new(10);
        for (key, time_ms) in [(7, 100), (0, 100), (7, 105), (8, 106)] {
            keys.of(&[key], time_ms).into_iter().for_each(|entry| keys.set(entry));
        }
        assert_eq!(DedupeWindow::new(0).of(&[7], 100), []);
        assert!(keys.has(7, 114) && !keys.has(7, 115) && !keys.has(0, 100));
        assert_eq!(
            keys.list(114),
            [DedupeEntry { key: 7, until_ms: 115 }, DedupeEntry { key: 8, until_ms: 116 }]
        );
        keys.trim(114);
        assert_eq!((keys.until.len(), keys.order.len()), (2, 2), "the earlier time of 7 is gone");
        keys.trim(116);
        assert_eq!((keys.until.len(), keys.order.len()), (0, 0));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_time_longer() {
        let mut keys = DedupeWindow::new(10);
        keys.set(DedupeEntry { key: 7, until_ms: 1010 });
        keys.set(DedupeEntry { key: 8, until_ms: 110 });
        assert!(!keys.has(7, 101) && keys.has(8, 101));
        keys.trim(101);
        assert_eq!(keys.list(101), [DedupeEntry { key: 8, until_ms: 110 }]);
        assert_eq!(keys.until.len(), 1, "what can't be is forgotten");
    }
}
