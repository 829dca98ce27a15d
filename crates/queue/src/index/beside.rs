//! What the list of a segment has beside where its rows are, in queues that need it.

use super::{Arrival, Standing, Turn};
use crate::format::dedupe::DEDUPE;
use crate::format::listing::Listing;
use crate::format::order::{FIFO, PRIORITY};
use crate::format::record::RowId;

/// For each entry of a list; what the queue does not need is empty.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Before which others the row is given.
    priorities: Vec<i64>,
    /// In which line it stands.
    lines: Vec<u64>,
    /// Its key, in a queue that leaves doubles out.
    keys: Vec<u128>,
}

impl Beside {
    /// Adds what is known of a row, in a segment with these feature flags.
    pub(super) fn push(&mut self, row: &Arrival, features: u64) {
        self.priorities.extend((features & PRIORITY != 0).then_some(row.ranked.priority));
        self.lines.extend((features & FIFO != 0).then_some(row.ranked.line));
        self.keys.extend((features & DEDUPE != 0).then_some(row.ranked.key));
    }

    /// Adds what an index says of its row with this number.
    pub(super) fn push_listed(&mut self, listing: &Listing, nth: usize) {
        self.priorities.extend(listing.priorities.get(nth));
        self.lines.extend(listing.lines.get(nth));
        self.keys.extend(listing.keys.get(nth));
    }

    /// Where the row with this id stands, whose entry is at this place.
    pub(super) fn standing(&self, id: RowId, at: usize) -> Standing {
        let priority = self.priorities.get(at).copied().unwrap_or(0);
        let (line, key) = (self.lines.get(at).copied(), self.keys.get(at).copied());
        Standing { turn: Turn { priority, id }, line: line.unwrap_or(0), key: key.unwrap_or(0) }
    }

    /// Those of the entries that are kept, for an index.
    pub(super) fn listing(&self, kept: impl Iterator<Item = bool> + Clone) -> Listing {
        let priorities = pick(&self.priorities, kept.clone());
        let (lines, keys) = (pick(&self.lines, kept.clone()), pick(&self.keys, kept));
        Listing { priorities, lines, keys, ..Listing::default() }
    }

    /// Forgets the entries that are not kept.
    pub(super) fn retain(&mut self, kept: impl Iterator<Item = bool> + Clone) {
        let Listing { priorities, lines, keys, .. } = self.listing(kept);
        *self = Beside { priorities, lines, keys };
    }

    /// Gives memory back that nothing needs.
    pub(super) fn shrink(&mut self) {
        self.priorities.shrink_to_fit();
        self.lines.shrink_to_fit();
        self.keys.shrink_to_fit();
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        let lines = self.priorities.capacity() * size_of::<i64>() + self.lines.capacity() * size_of::<u64>();
        lines + self.keys.capacity() * size_of::<u128>()
    }
}

fn pick<T: Copy>(all: &[T], kept: impl Iterator<Item = bool>) -> Vec<T> {
    all.iter().zip(kept).filter_map(|(one, kept)| kept.then_some(*one)).collect()
}
