//! Rows whose key is there already: how many, and what became of them.

use serde::{Deserialize, Serialize};

/// Counts of rows whose key was there already. All zero where such a row is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    /// Rows of the files that were left out.
    pub ignored: u64,
    /// Rows of the table that gave way to rows of the files.
    pub replaced: u64,
    /// Rows of the table that took values from rows of the files.
    pub updated: u64,
    /// Rows of the files that were in the table just so.
    pub unchanged: u64,
}

impl Duplicates {
    /// Adds other counts.
    pub(crate) fn add(&mut self, other: &Duplicates) {
        self.ignored += other.ignored;
        self.replaced += other.replaced;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
    }

    /// Rows of the files that are in, but did not make the table longer.
    pub(crate) fn in_place_of_others(&self) -> u64 {
        self.replaced + self.updated + self.unchanged
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Duplicates::default()
    }
}
