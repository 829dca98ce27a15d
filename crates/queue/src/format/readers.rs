//! Readers of a queue: each is given every row once. docs/formats/queue.md has the tables.

use std::collections::BTreeMap;

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of files of queues with readers.
pub(crate) const READERS: u64 = 0x100;

/// The most readers that a queue has.
pub const READERS_MAX: usize = 64;

/// A set of row ids, as runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowIdSet {
    /// The end of each run, by its beginning. Between two runs there is a gap.
    runs: BTreeMap<u64, u64>,
    count: u64,
}

impl RowIdSet {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The end of the run that an id is in.
    pub(crate) fn end_of(&self, id: u64) -> Option<u64> {
        let (_, end) = self.runs.range(..=id).next_back()?;
        (id < *end).then_some(*end)
    }

    /// Adds the ids from `first` to the one before `end`.
    pub(crate) fn add(&mut self, first: u64, end: u64) {
        let (mut from, mut to) = (first, end);
        let before = self.runs.range(..=first).next_back().filter(|(_, end)| **end >= first);
        from = before.map_or(from, |(start, _)| *start);
        let joined: Vec<u64> = self.runs.range(from..=end).map(|(start, _)| *start).collect();
        for start in joined {
            let Some(end) = self.runs.remove(&start) else { continue };
            self.count -= end - start;
            to = to.max(end);
        }
        if to > from {
            self.count += to - from;
            self.runs.insert(from, to);
        }
    }

    /// Takes those of the ids from `first` to the one before `end` out that are in it. Returns how many.
    pub(crate) fn remove(&mut self, first: u64, end: u64) -> u64 {
        if first >= end {
            return 0;
        }
        let before = self.count;
        let start = self.runs.range(..=first).next_back().map_or(first, |(start, _)| *start);
        let touched: Vec<(u64, u64)> =
            self.runs.range(start..end).map(|(start, end)| (*start, *end)).collect();
        for (start, stop) in touched {
            self.runs.remove(&start);
            self.count -= stop - start;
            for (from, to) in [(start, stop.min(first)), (start.max(end), stop)] {
                if to > from {
                    self.runs.insert(from, to);
                    self.count += to - from;
                }
            }
        }
        before - self.count
    }

    /// The runs, `(first, end)`.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(first, end)| (*first, *end))
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        // Nodes of the map are half full.
        self.runs.len() * 2 * size_of::<(u64, u64)>()
    }
}

/// Appends the names of readers.
pub(crate) fn encode_names(names: &[String], out: &mut Vec<u8>) {
    put_varint(out, names.len() as u64);
    for name in names {
        put_varint(out, name.len() as u64);
        out.extend(name.as_bytes());
    }
}

pub(crate) fn decode_names(bytes: &mut ByteReader<'_>) -> Option<Vec<String>> {
    let count = bytes.count().filter(|count| (1..=READERS_MAX).contains(count))?;
    let name = |bytes: &mut ByteReader<'_>| {
        let len = bytes.count()?;
        std::str::from_utf8(bytes.take(len)?).ok().map(str::to_owned)
    };
    (0..count).map(|_| name(bytes)).collect()
}

/// Appends what a reader has ended.
pub(crate) fn encode_ended(ended: &RowIdSet, out: &mut Vec<u8>) {
    put_varint(out, ended.runs.len() as u64);
    let mut before = 0;
    for (first, end) in ended.runs() {
        put_varint(out, first - before);
        put_varint(out, end - first);
        before = end;
    }
}

pub(crate) fn decode_ended(bytes: &mut ByteReader<'_>) -> Option<RowIdSet> {
    let (mut ended, mut before) = (RowIdSet::default(), 0u64);
    for _ in 0..bytes.varint()? {
        let first = before.checked_add(bytes.varint()?)?;
        before = first.checked_add(bytes.varint().filter(|count| *count > 0)?)?;
        ended.add(first, before);
    }
    Some(ended)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::{ByteReader, RowIdSet, decode_ended, encode_ended};

    proptest! {
        #[test]
        fn runs_are_the_set_of_their_ids(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..9), 1..40)) {
            let (mut ids, mut set) = (RowIdSet::default(), BTreeSet::new());
            for (add, first, count) in steps {
                let range = first..first + count;
                if add {
                    ids.add(range.start, range.end);
                    set.extend(range);
                } else {
                    let removed = range.clone().filter(|id| set.remove(id)).count() as u64;
                    prop_assert_eq!(ids.remove(range.start, range.end), removed);
                }
                let all: BTreeSet<u64> = ids.runs().flat_map(|(first, end)| first..end).collect();
                prop_assert_eq!(&all, &set);
                prop_assert_eq!(ids.count(), set.len() as u64);
                let runs: Vec<_> = ids.runs().collect();
                prop_assert_eq!(runs.windows(2).all(|two| two[0].1 < two[1].0), true, "a gap between two");
                for id in 0..50 {
                    prop_assert_eq!(ids.end_of(id).is_some(), set.contains(&id));
                }
                let mut bytes = Vec::new();
                encode_ended(&ids, &mut bytes);
                prop_assert_eq!(decode_ended(&mut ByteReader::new(&bytes)), Some(ids.clone()));
                for at in 0..bytes.len() {
                    prop_assert_eq!(decode_ended(&mut ByteReader::new(&bytes[..at])), None);
                }
            }
        }
    }
}
