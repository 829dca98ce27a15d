//! Rows of the same key stand in line: only the first that waits is given, and none while somebody has one.

use std::collections::BTreeSet;

use super::RowState;
use crate::format::record::RowId;

/// The lines of a queue. Whatever becomes of a row takes O(log n) in the number of all rows, however long its
/// line is.
#[derive(Debug, Default)]
pub(crate) struct MessageGroups {
    /// The rows that wait, by their line.
    waiting: BTreeSet<(u64, RowId)>,
    /// The rows that somebody has, by their line.
    busy: BTreeSet<(u64, RowId)>,
}

impl MessageGroups {
    /// The row of a line that may be given.
    pub(super) fn head(&self, group: u64) -> Option<RowId> {
        if self.is_busy(group) { None } else { first(&self.waiting, group) }
    }

    /// Whether somebody has a row of this line.
    pub(super) fn is_busy(&self, group: u64) -> bool {
        first(&self.busy, group).is_some()
    }

    /// How many lines there are of which somebody has a row.
    pub(super) fn busy(&self) -> u64 {
        let mut before = None;
        self.busy.iter().filter(|(group, _)| before.replace(*group) != Some(*group)).count() as u64
    }

    /// Notes what a row of a line is doing now.
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
