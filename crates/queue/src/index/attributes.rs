//! Priorities, message groups and deduplication keys of the rows of a segment, in queues that have them.

use super::{NewRow, OrderKey, RowKeys};
use crate::format::dedupe::DEDUPE;
use crate::format::order::{GROUPS, PRIORITY};
use crate::format::record::RowId;
use crate::format::segment_index::SegmentIndex;

/// One value per row; columns that the queue does not have are empty.
#[derive(Debug, Default)]
pub(super) struct AttributeColumns {
    /// The priority.
    priorities: Vec<i64>,
    /// The message group.
    groups: Vec<u64>,
    /// The deduplication key.
    keys: Vec<u128>,
}

impl AttributeColumns {
    /// Adds what is known of a row, in a segment with these feature flags.
    pub(super) fn push(&mut self, row: &NewRow, features: u64) {
        self.priorities.extend((features & PRIORITY != 0).then_some(row.attributes.priority));
        self.groups.extend((features & GROUPS != 0).then_some(row.attributes.group));
        self.keys.extend((features & DEDUPE != 0).then_some(row.attributes.key));
    }

    /// Adds what an index says of its row with this number.
    pub(super) fn push_listed(&mut self, listing: &SegmentIndex, nth: usize) {
        self.priorities.extend(listing.priorities.get(nth));
        self.groups.extend(listing.groups.get(nth));
        self.keys.extend(listing.keys.get(nth));
    }

    /// Where the row with this id stands, whose entry is at this place.
    pub(super) fn row_keys(&self, id: RowId, at: usize) -> RowKeys {
        let priority = self.priorities.get(at).copied().unwrap_or(0);
        let (group, key) = (self.groups.get(at).copied(), self.keys.get(at).copied());
        RowKeys { order_key: OrderKey { priority, id }, group: group.unwrap_or(0), key: key.unwrap_or(0) }
    }

    /// Those of the entries that are kept, for an index.
    pub(super) fn listing(&self, kept: impl Iterator<Item = bool> + Clone) -> SegmentIndex {
        let priorities = pick(&self.priorities, kept.clone());
        let (groups, keys) = (pick(&self.groups, kept.clone()), pick(&self.keys, kept));
        SegmentIndex { priorities, groups, keys, ..SegmentIndex::default() }
    }

    /// Forgets the entries that are not kept.
    pub(super) fn retain(&mut self, kept: impl Iterator<Item = bool> + Clone) {
        let SegmentIndex { priorities, groups, keys, .. } = self.listing(kept);
        *self = AttributeColumns { priorities, groups, keys };
    }

    /// Gives memory back that nothing needs.
    pub(super) fn shrink(&mut self) {
        self.priorities.shrink_to_fit();
        self.groups.shrink_to_fit();
        self.keys.shrink_to_fit();
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        let groups =
            self.priorities.capacity() * size_of::<i64>() + self.groups.capacity() * size_of::<u64>();
        groups + self.keys.capacity() * size_of::<u128>()
    }
}

fn pick<T: Copy>(all: &[T], kept: impl Iterator<Item = bool>) -> Vec<T> {
    all.iter().zip(kept).filter_map(|(one, kept)| kept.then_some(*one)).collect()
}
