//! Rows whose key already exists: how many, and what happened to them.

use serde::{Deserialize, Serialize};

/// Counts of rows whose key already existed. All are zero when such a row is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    /// Rows of the files that were left out.
    pub ignored: u64,
    /// Rows of the table that were replaced by rows of the files.
    pub replaced: u64,
    /// Rows of the table that took values from rows of the files.
    pub updated: u64,
    /// Rows of the files that the table already had unchanged.
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

    /// Rows of the files that are in the table but did not make it longer.
    pub(crate) fn in_place_of_others(&self) -> u64 {
        self.replaced + self.updated + self.unchanged
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Duplicates::default()
    }
}
