//! The rows that a session owns, even after their queue was replaced.

use std::sync::Arc;

use crate::format::record::RowId;
use crate::queue::Queue;

/// Rows that a session owns.
pub(super) struct Held {
    pub(super) queue: Arc<Queue>,
    pub(super) epoch: u64,
    pub(super) rows: Vec<RowId>,
}

impl Held {
    /// The same rows in the queue that replaced theirs.
    pub(super) fn moved(&self) -> Option<Held> {
        let successor = self.queue.successor.get()?;
        let rows = successor.translate(self.epoch, &self.rows)?;
        let queue = successor.queue.clone();
        let here = Held { queue, epoch: successor.epoch, rows };
        Some(here.moved().unwrap_or(here))
    }
}
