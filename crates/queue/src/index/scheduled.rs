//! Scheduled rows, ordered by due time: 16 bytes each.
//!
//! The index has their state. So a row that is removed meanwhile stays in the list until it would be due, or
//! until more than half of the list is such rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::Error;
use crate::format::record::RowId;
use crate::format::segment_index::DueTime;
use crate::index::{Index, RowState};

/// Lists shorter than this keep rows that are gone.
const TRIM_MIN: usize = 1024;

/// The longest time between two looks at the clock: it may be set forward.
const LOOK_MS: u64 = 60_000;

/// The scheduled rows of a queue.
#[derive(Debug, Default)]
pub(crate) struct ScheduledRows {
    /// Those that nobody owns, by when they are due. Times are those of the wall clock, milliseconds since
    /// 1970, because that is what the rows say.
    rows: BinaryHeap<Reverse<(u64, RowId)>>,
    /// Those of transactions and statements that have not ended.
    owned: BTreeMap<RowId, u64>,
}

impl ScheduledRows {
    /// Whether there is no row that nobody owns.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row that nobody owns.
    pub(crate) fn add(&mut self, row: RowId, due_ms: u64) {
        self.rows.push(Reverse((due_ms, row)));
    }

    /// Notes when a row is due that somebody owns who adds or deletes it.
    pub(crate) fn keep(&mut self, row: RowId, due_ms: u64) {
        self.owned.insert(row, due_ms);
    }

    /// When a row is due that had an owner who added or deleted it; `None` for others.
    pub(crate) fn take_kept(&mut self, row: RowId) -> Option<u64> {
        if self.owned.is_empty() { None } else { self.owned.remove(&row) }
    }

    /// Whether a row of this range is due later and somebody owns it.
    pub(crate) fn has_owned_in(&self, rows: std::ops::Range<RowId>) -> bool {
        self.owned.range(rows).next().is_some()
    }

    /// Takes a row that is due.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<RowId> {
        self.is_due(now_ms).then(|| self.rows.pop()).flatten().map(|Reverse((_, row))| row)
    }

    /// Whether a row is due.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.rows.peek().is_some_and(|Reverse((due_ms, _))| *due_ms <= now_ms)
    }

    /// After how many milliseconds to look whether a row is due.
    pub(crate) fn look_after(&self, now_ms: impl Fn() -> u64) -> Option<u64> {
        self.rows.peek().map(|Reverse((due_ms, _))| due_ms.saturating_sub(now_ms()).min(LOOK_MS))
    }

    /// Forgets rows that are gone when they are more than half of the list.
    pub(crate) fn trim(&mut self, index: &mut Index) -> Result<(), Error> {
        let there = usize::try_from(index.scheduled()).unwrap_or(usize::MAX);
        if self.rows.len() < TRIM_MIN || self.rows.len() / 2 <= there {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(there);
        for Reverse((due_ms, row)) in std::mem::take(&mut self.rows) {
            if index.row_state(row)? == RowState::Scheduled {
                kept.push(Reverse((due_ms, row)));
            }
        }
        self.rows = kept.into();
        Ok(())
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<(u64, RowId)>() + self.owned.len() * size_of::<(RowId, u64)>()
    }
}

/// Has rows that are due after `now_ms` wait until then. Those that are `held` may come back before.
pub(crate) fn postpone_all(
    index: &mut Index,
    dues: &[DueTime],
    now_ms: u64,
    held: &BTreeSet<RowId>,
) -> Result<ScheduledRows, Error> {
    let (mut scheduled, mut rows) = (ScheduledRows::default(), Vec::with_capacity(dues.len()));
    for DueTime { id, due_ms } in dues.iter().filter(|due| due.due_ms > now_ms) {
        match index.row_state(*id)? {
            RowState::Waiting => {
                index.postpone(*id)?;
                rows.push(Reverse((*due_ms, *id)));
            }
            RowState::Owned if held.contains(id) => scheduled.keep(*id, *due_ms),
            // A lease has it: it was due when it was given.
            RowState::Owned | RowState::Scheduled | RowState::Kept | RowState::Gone => {}
        }
    }
    rows.shrink_to_fit();
    scheduled.rows = rows.into();
    Ok(scheduled)
}

#[cfg(test)]
mod tests {
    use super::{LOOK_MS, ScheduledRows};
    use crate::format::record::RowId;

    #[test]
    fn the_clock_is_looked_at_when_the_first_row_is_due_and_every_minute() {
        let mut scheduled = ScheduledRows::default();
        assert_eq!(scheduled.look_after(|| 1000), None);
        scheduled.add(RowId(1), 500_000);
        assert_eq!(scheduled.look_after(|| 1000), Some(LOOK_MS));
        scheduled.add(RowId(2), 9000);
        assert_eq!(scheduled.look_after(|| 1000), Some(8000));
        assert_eq!(scheduled.look_after(|| 9500), Some(0));
        assert_eq!(
            (scheduled.take_due(8999), scheduled.take_due(9000), scheduled.take_due(9000)),
            (None, Some(RowId(2)), None)
        );
    }
}
