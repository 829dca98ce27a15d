//! Which rows a consumer wants.

use condition::Condition;

/// Selects the rows that a consumer wants. The answer for a row and its tries must not change: a row that
/// did not match is not evaluated again until it returns to the queue.
pub trait Filter: Send + Sync {
    /// Identifies the filter: two filters of a queue with the same text must select the same rows.
    fn text(&self) -> &str;

    /// Whether the consumer wants this row.
    fn matches(&self, row: &[u8]) -> bool;

    /// Whether the answer depends on the tries of the row.
    fn asks_tries(&self) -> bool {
        false
    }

    /// Whether the consumer wants this row, given the number of failed tries and the reason of the last
    /// failure, which may be empty.
    fn matches_tried(&self, row: &[u8], failed: u64, why: &str) -> bool {
        let (_, _) = (failed, why);
        self.matches(row)
    }
}

impl Filter for Condition {
    fn text(&self) -> &str {
        Condition::text(self)
    }

    fn matches(&self, row: &[u8]) -> bool {
        Condition::matches(self, row)
    }

    fn asks_tries(&self) -> bool {
        Condition::asks_tries(self)
    }

    fn matches_tried(&self, row: &[u8], failed: u64, why: &str) -> bool {
        Condition::matches_tried(self, row, failed, why)
    }
}
