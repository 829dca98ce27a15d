//! Message groups: of the rows with the same key only the first ones are delivered, as many as may be owned
//! at the same time: usually one.

use std::collections::BTreeSet;

use super::RowState;
use crate::format::record::RowId;

/// The message groups of a queue. Every change takes O(log n) in the number of all rows, however large
/// the group is, for each row of it that may be owned at once.
#[derive(Debug)]
pub(crate) struct MessageGroups {
    /// How many rows of a group may be owned at the same time.
    concurrency: usize,
    /// The waiting rows, by group.
    waiting: BTreeSet<(u64, RowId)>,
    /// The owned rows, by group.
    busy: BTreeSet<(u64, RowId)>,
}

impl MessageGroups {
    /// No rows yet.
    pub(super) fn new(concurrency: u32) -> MessageGroups {
        let concurrency = usize::try_from(concurrency).unwrap_or(usize::MAX).max(1);
        MessageGroups { concurrency, waiting: BTreeSet::new(), busy: BTreeSet::new() }
    }

    /// The rows of a group that can be delivered, in order.
    pub(super) fn heads(&self, group: u64) -> Vec<RowId> {
        let free = self.concurrency - of_group(&self.busy, group).take(self.concurrency).count();
        of_group(&self.waiting, group).take(free).collect()
    }

    /// Whether as many rows of this group are owned as may be.
    pub(super) fn is_busy(&self, group: u64) -> bool {
        of_group(&self.busy, group).nth(self.concurrency - 1).is_some()
    }

    /// The number of groups with an owned row.
    pub(super) fn busy(&self) -> u64 {
        let mut before = None;
        self.busy.iter().filter(|(group, _)| before.replace(*group) != Some(*group)).count() as u64
    }

    /// Notes the state of a row of a group.
    pub(super) fn set(&mut self, group: u64, row: RowId, row_state: RowState) {
        let change = |set: &mut BTreeSet<(u64, RowId)>, there: bool| {
            if there {
                set.insert((group, row))
            } else {
                set.remove(&(group, row))
            };
        };
        change(&mut self.waiting, row_state == RowState::Waiting);
        change(&mut self.busy, row_state == RowState::Owned);
    }

    /// Bytes of memory that they take, about.
    pub(super) fn memory(&self) -> usize {
        // Nodes of the sets are half full.
        (self.waiting.len() + self.busy.len()) * 2 * size_of::<(u64, RowId)>()
    }
}

fn of_group(set: &BTreeSet<(u64, RowId)>, group: u64) -> impl Iterator<Item = RowId> {
    set.range((group, RowId(0))..=(group, RowId(u64::MAX))).map(|(_, row)| *row)
}
