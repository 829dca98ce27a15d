//! Keeps the rate of a queue: only so many rows are given within any span of its length.

use std::collections::VecDeque;

use crate::format::delivery_rate::DeliveryRate;

/// The rows that were given within the last span. It is not written down: a restart begins a new span.
#[derive(Debug)]
pub(crate) struct RateLimit {
    rate: DeliveryRate,
    /// When rows were given, milliseconds of the clock that is never set, and how many.
    given: VecDeque<(u64, u64)>,
    /// How many these are.
    count: u64,
    /// Somebody found that no more may be given now. Who waits is woken when that is over.
    is_stalled: bool,
}

impl RateLimit {
    pub(crate) fn new(rate: DeliveryRate) -> RateLimit {
        RateLimit { rate, given: VecDeque::new(), count: 0, is_stalled: false }
    }

    /// How many rows may be given now.
    pub(crate) fn left(&mut self, up_ms: u64) -> u64 {
        while let Some((_, rows)) = self.given.pop_front_if(|(at, _)| *at + self.rate.span_ms <= up_ms) {
            self.count -= rows;
        }
        self.rate.rows.saturating_sub(self.count)
    }

    /// Notes that rows are given.
    pub(crate) fn note(&mut self, up_ms: u64, rows: u64) {
        self.given.push_back((up_ms, rows));
        self.count += rows;
    }

    /// Notes that somebody found that none may be given now.
    pub(crate) fn stall(&mut self) {
        self.is_stalled = true;
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// When a row may be given again, if somebody found that none may.
    pub(crate) fn due(&self) -> Option<u64> {
        self.given.front().filter(|_| self.is_stalled).map(|(at, _)| at + self.rate.span_ms)
    }

    /// Whether one may be given again, since somebody found that none may. Says so once.
    pub(crate) fn end_stall(&mut self, up_ms: u64) -> bool {
        let is_over = self.is_stalled && self.left(up_ms) > 0;
        self.is_stalled &= !is_over;
        is_over
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        self.given.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_has_more_than_the_rate() {
        let mut limit = RateLimit::new(DeliveryRate { rows: 5, span_ms: 1000 });
        assert_eq!(limit.left(0), 5);
        limit.note(0, 3);
        limit.note(400, 2);
        assert_eq!((limit.left(999), limit.due()), (0, None));
        limit.stall();
        assert_eq!((limit.due(), limit.end_stall(999), limit.is_stalled()), (Some(1000), false, true));
        assert_eq!((limit.end_stall(1000), limit.end_stall(1000), limit.is_stalled()), (true, false, false));
        assert_eq!((limit.left(1000), limit.left(1399), limit.left(1400)), (3, 3, 5));
        // Whenever somebody asks, in steps of 70 ms, and takes up to two.
        let (mut limit, mut taken) = (RateLimit::new(DeliveryRate { rows: 5, span_ms: 1000 }), Vec::new());
        for up_ms in (0..20_000).step_by(70) {
            let rows = limit.left(up_ms).min(2);
            limit.note(up_ms, rows);
            taken.extend((0..rows).map(|_| up_ms));
        }
        assert!(taken.len() > 80, "{}", taken.len());
        assert!(taken.windows(6).all(|six| six[5] - six[0] >= 1000), "{taken:?}");
    }
}
