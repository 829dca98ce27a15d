//! Message groups: of the rows with the same key only the first is delivered, and none while another is
//! owned.

use std::collections::BTreeSet;

use super::RowState;
use crate::format::record::RowId;

/// The message groups of a queue. Every change takes O(log n) in the number of all rows, however large
/// the group is.
#[derive(Debug, Default)]
pub(crate) struct MessageGroups {
    /// The waiting rows, by group.
    waiting: BTreeSet<(u64, RowId)>,
    /// The owned rows, by group.
    busy: BTreeSet<(u64, RowId)>,
}

impl MessageGroups {
    /// The row of a group that can be delivered.
    pub(super) fn head(&self, group: u64) -> Option<RowId> {
        if self.is_busy(group) { None } else { first(&self.waiting, group) }
    }

    /// Whether a row of this group is owned.
    pub(super) fn is_busy(&self, group: u64) -> bool {
        first(&self.busy, group).is_some()
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

fn first(set: &BTreeSet<(u64, RowId)>, group: u64) -> Option<RowId> {
    let first = set.range((group, RowId(0))..).next().filter(|(of, _)| *of == group);
    first.map(|(_, row)| *row)
}
