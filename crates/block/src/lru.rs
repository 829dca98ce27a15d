//! A cache that drops what was not used for the longest time.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Values by key; when there are too many, the least recently used one is dropped.
pub(crate) struct LruCache<Key, Value> {
    /// With the time of its last use.
    values: BTreeMap<Key, (u64, Value)>,
    clock: u64,
    max: usize,
}

impl<Key: Ord + Clone, Value: Clone> LruCache<Key, Value> {
    pub(crate) fn new(max: usize) -> Self {
        LruCache { values: BTreeMap::new(), clock: 0, max }
    }

    pub(crate) fn get<Asked: Ord + ?Sized>(&mut self, key: &Asked) -> Option<Value>
    where
        Key: Borrow<Asked>,
    {
        self.clock += 1;
        let (used, value) = self.values.get_mut(key)?;
        *used = self.clock;
        Some(value.clone())
    }

    pub(crate) fn put(&mut self, key: Key, value: Value) {
        if self.values.len() >= self.max {
            let oldest = self.values.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.values.remove(&oldest));
        }
        self.clock += 1;
        self.values.insert(key, (self.clock, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_dropped() {
        let mut recent = LruCache::new(2);
        recent.put(1, "one");
        recent.put(2, "two");
        assert_eq!(recent.get(&1), Some("one"));
        recent.put(3, "three");
        assert_eq!([1, 2, 3].map(|key| recent.get(&key)), [Some("one"), None, Some("three")]);
    }
}
