//! How often something happens per second.

/// The length of a window; an event counts for at most two.
const WINDOW_MS: u64 = 10_000;

/// Counts over the last ten seconds: those of the current window, and the part of the one before it that is
/// still within ten seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    since_ms: u64,
    before: u64,
    now: u64,
}

impl Rate {
    pub(crate) fn count(&mut self, now_ms: u64, times: u64) {
        self.advance(now_ms);
        self.now += times;
    }

    /// Events per second, rounded up: 0 only when there were none.
    pub(crate) fn per_second(&mut self, now_ms: u64) -> u64 {
        self.advance(now_ms);
        let left = WINDOW_MS - now_ms.saturating_sub(self.since_ms).min(WINDOW_MS);
        (self.before * left).div_ceil(WINDOW_MS).saturating_add(self.now).div_ceil(WINDOW_MS / 1000)
    }

    fn advance(&mut self, now_ms: u64) {
        match now_ms.saturating_sub(self.since_ms) / WINDOW_MS {
            0 => {}
            1 => *self = Rate { since_ms: self.since_ms + WINDOW_MS, before: self.now, now: 0 },
            _ => *self = Rate { since_ms: now_ms, before: 0, now: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_of_the_last_ten_seconds() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(1_000_000), 0);
        for second in 0..30 {
            rate.count(1_000_000 + second * 1000, 50);
        }
        assert_eq!(rate.per_second(1_030_000), 50);
        assert_eq!(rate.per_second(1_035_000), 25);
        assert_eq!(rate.per_second(1_039_999), 1);
        assert_eq!(rate.per_second(1_040_000), 0);
        rate.count(2_000_000, 1);
        assert_eq!(rate.per_second(2_000_000), 1);
        // A clock that goes backwards does no harm.
        assert_eq!(rate.per_second(1_000_000), 1);
    }
}
