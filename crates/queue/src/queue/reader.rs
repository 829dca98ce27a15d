//! A reader of a queue: which rows it has ended, and which it was given.
//!
//! Where a reader is, is the set of the rows that it has ended and another one has not. There is no position
//! that rows could slip behind: a row that is seen late, because its transaction was long, is not in the set.

use std::collections::BTreeMap;

use crate::format::readers::RowIdSet;
use crate::format::record::RowId;
use crate::queue::owner::Ownership;
use crate::queue::scan_progress::ConditionCache;

/// One of the readers of a queue.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Rows that it has ended, and another reader has not.
    pub(crate) ended: RowIdSet,
    /// Rows that it was given and has not ended.
    pub(crate) owned: BTreeMap<RowId, Ownership>,
    pub(crate) conditions: ConditionCache,
}

impl Reader {
    /// Whether it was given a row or has ended it.
    pub(crate) fn has(&self, id: RowId) -> bool {
        self.owned.contains_key(&id) || self.ended.end_of(id.0).is_some()
    }
}
