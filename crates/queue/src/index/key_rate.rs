//! Keeps the rate of each key: only so many rows of it are given within any span of its length.

use std::collections::{BTreeMap, VecDeque};

use crate::format::delivery_rate::DeliveryRate;

/// The rows that were given within the last span, of all keys: the span is the same for all of them, so they
/// leave it in the order in which they were given. A key of which none was given takes no memory. It is not
/// written down: a restart begins a new span.
#[derive(Debug)]
pub(super) struct KeyRate {
    rate: DeliveryRate,
    /// When rows were given, milliseconds of the clock that is never set, and their groups.
    given: VecDeque<(u64, u64)>,
    /// How many of each group these are.
    counts: BTreeMap<u64, u64>,
    /// How many groups have no row left to give.
    exhausted: usize,
}

impl KeyRate {
    /// None was given yet.
    pub(super) fn new(rate: DeliveryRate) -> KeyRate {
        KeyRate { rate, given: VecDeque::new(), counts: BTreeMap::new(), exhausted: 0 }
    }

    /// How many rows of a group may be given now.
    pub(super) fn left(&self, group: u64) -> usize {
        let given = self.counts.get(&group).copied().unwrap_or(0);
        usize::try_from(self.rate.rows.saturating_sub(given)).unwrap_or(usize::MAX)
    }

    /// Notes that a row of a group is given.
    pub(super) fn note(&mut self, group: u64, up_ms: u64) {
        self.given.push_back((up_ms, group));
        let count = self.counts.entry(group).or_default();
        *count += 1;
        self.exhausted += usize::from(*count == self.rate.rows);
    }

    /// Forgets the first row that was given a span ago. Returns its group, of which one more may be given.
    pub(super) fn forget_one(&mut self, up_ms: u64) -> Option<u64> {
        let (_, group) = self.given.pop_front_if(|(at, _)| *at + self.rate.span_ms <= up_ms)?;
        let count = self.counts.entry(group).or_default();
        self.exhausted -= usize::from(*count == self.rate.rows);
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&group);
        }
        Some(group)
    }

    /// When to look again: when the next row leaves its span if a group waits for one, else when all have.
    pub(super) fn due(&self) -> Option<u64> {
        let next = if self.exhausted > 0 { self.given.front() } else { self.given.back() };
        next.map(|(at, _)| at + self.rate.span_ms)
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory(&self) -> usize {
        // Nodes of the map are half full.
        (self.given.capacity() + 2 * self.counts.len()) * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_rate_and_quiet_ones_are_forgotten() {
        let mut rate = KeyRate::new(DeliveryRate { rows: 2, span_ms: 1000 });
        assert_eq!((rate.left(7), rate.due()), (2, None));
        rate.note(7, 0);
        rate.note(8, 100);
        assert_eq!((rate.left(7), rate.left(8), rate.due()), (1, 1, Some(1100)), "when all have left it");
        rate.note(7, 200);
        assert_eq!((rate.left(7), rate.left(8), rate.due()), (0, 1, Some(1000)), "when the next has");
        assert_eq!(
            (rate.forget_one(999), rate.forget_one(1000), rate.forget_one(1099)),
            (None, Some(7), None)
        );
        assert_eq!((rate.left(7), rate.due()), (1, Some(1200)));
        assert_eq!((rate.forget_one(5000), rate.forget_one(5000)), (Some(8), Some(7)));
        assert_eq!((rate.forget_one(5000), rate.due(), rate.counts.len()), (None, None, 0));
    }
}
