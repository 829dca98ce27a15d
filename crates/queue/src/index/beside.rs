//! What the list of a segment has beside where its rows are, in queues that need it.

use super::Arrival;
use crate::format::listing::Listing;
use crate::format::order::{FIFO, PRIORITY};

/// For each entry of a list; what the queue does not need is empty.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Before which others the row is given.
    priorities: Vec<i64>,
    /// In which line it stands.
    lines: Vec<u64>,
}

impl Beside {
    /// Adds what is known of a row, in a segment with these feature flags.
    pub(super) fn push(&mut self, row: &Arrival, features: u64) {
        self.priorities.extend((features & PRIORITY != 0).then_some(row.ranked.priority));
        self.lines.extend((features & FIFO != 0).then_some(row.ranked.line));
    }

    /// Adds what an index says of its row with this number.
    pub(super) fn push_listed(&mut self, listing: &Listing, nth: usize) {
        self.priorities.extend(listing.priorities.get(nth));
        self.lines.extend(listing.lines.get(nth));
    }

    /// The priority and the line of the entry at this place.
    pub(super) fn get(&self, at: usize) -> (i64, u64) {
        let line = self.lines.get(at).copied().unwrap_or(0);
        (self.priorities.get(at).copied().unwrap_or(0), line)
    }

    /// Those of the entries that are kept.
    pub(super) fn kept(&self, kept: impl Iterator<Item = bool> + Clone) -> (Vec<i64>, Vec<u64>) {
        (pick(&self.priorities, kept.clone()), pick(&self.lines, kept))
    }

    /// Forgets the entries that are not kept.
    pub(super) fn retain(&mut self, kept: impl Iterator<Item = bool> + Clone) {
        (self.priorities, self.lines) = self.kept(kept);
    }

    /// Gives memory back that nothing needs.
    pub(super) fn shrink(&mut self) {
        self.priorities.shrink_to_fit();
        self.lines.shrink_to_fit();
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        self.priorities.capacity() * size_of::<i64>() + self.lines.capacity() * size_of::<u64>()
    }
}

fn pick<T: Copy>(all: &[T], kept: impl Iterator<Item = bool>) -> Vec<T> {
    all.iter().zip(kept).filter_map(|(one, kept)| kept.then_some(*one)).collect()
}
