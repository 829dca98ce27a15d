//! A row of a segment in memory.

use crate::format::record::RowId;
use crate::index::RowState;

/// The upper three bits of `Entry::len` are the row's state.
const GONE: u32 = 1 << 31;
const OWNED: u32 = 1 << 30;
const KEPT: u32 = 1 << 29;
const LATER: u32 = GONE | OWNED;
const STATE: u32 = GONE | OWNED | KEPT;

/// A row: 12 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its id minus the segment's first.
    pub(super) delta: u32,
    pub(super) offset: u32,
    /// Its bytes, and its state.
    pub(super) len: u32,
}

impl Entry {
    pub(super) fn state(self) -> RowState {
        match self.len & STATE {
            0 => RowState::Waiting,
            OWNED => RowState::Owned,
            LATER => RowState::Scheduled,
            KEPT => RowState::Kept,
            _ => RowState::Gone,
        }
    }

    pub(super) fn bytes(self) -> u64 {
        u64::from(self.len & !STATE)
    }

    pub(super) fn set_state(&mut self, row_state: RowState) {
        let bits = match row_state {
            RowState::Waiting => 0,
            RowState::Owned => OWNED,
            RowState::Scheduled => LATER,
            RowState::Kept => KEPT,
            RowState::Gone => GONE,
        };
        self.len = self.len & !STATE | bits;
    }
}

/// The position of a row in the list of a segment whose first id is `base`.
pub(super) fn position(entries: &[Entry], base: u64, id: RowId) -> Option<usize> {
    let delta = u32::try_from(id.0.checked_sub(base)?).ok()?;
    let at = lower_bound(entries, delta);
    entries.get(at).filter(|entry| entry.delta == delta).map(|_| at)
}

/// The position of the first entry with this delta or a greater one.
pub(super) fn lower_bound(entries: &[Entry], delta: u32) -> usize {
    // As long as no row was forgotten the ids are consecutive, and the position is known without a search.
    let skip = entries.first().map_or(0, |first| delta.saturating_sub(first.delta) as usize);
    if entries.get(skip).is_some_and(|entry| entry.delta == delta) {
        return skip;
    }
    entries.partition_point(|entry| entry.delta < delta)
}
