//! Chooses which generations to keep.

use std::collections::BTreeSet;

/// How many generations to keep: the last ones, and the last one of each day, week and month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// This many of the newest.
    pub last: usize,
    /// The newest of each of this many days that have one.
    pub daily: usize,
    /// The newest of each of this many weeks that have one.
    pub weekly: usize,
    /// The newest of each of this many months that have one.
    pub monthly: usize,
    /// All that were made at this time or later, in seconds since 1970. Unlike counts, this can't be used up
    /// by making more of them.
    pub since_s: Option<i64>,
}

/// A generation in the caller's calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the generation.
    pub number: u64,
    /// When it was made, in seconds since 1970.
    pub taken_s: i64,
    /// Its day, week and month, each counted from any fixed one.
    pub day: i64,
    /// See `day`.
    pub week: i64,
    /// See `day`.
    pub month: i64,
}

impl Policy {
    /// The generations to keep, always including the newest. `stamps` are in the order of their numbers: if a
    /// clock went backwards, the higher number counts as the newer.
    #[must_use]
    pub fn keep(&self, stamps: &[Stamp]) -> BTreeSet<u64> {
        let mut keep: BTreeSet<u64> = stamps.iter().rev().take(self.last.max(1)).map(|s| s.number).collect();
        if let Some(since_s) = self.since_s {
            keep.extend(stamps.iter().filter(|s| s.taken_s >= since_s).map(|s| s.number));
        }
        let periods: [fn(&Stamp) -> i64; 3] = [|s| s.day, |s| s.week, |s| s.month];
        for (count, period) in [self.daily, self.weekly, self.monthly].into_iter().zip(periods) {
            let mut seen = BTreeSet::new();
            for stamp in stamps.iter().rev() {
                if seen.len() < count && seen.insert(period(stamp)) {
                    keep.insert(stamp.number);
                }
            }
        }
        keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: &[i64]) -> Vec<Stamp> {
        let stamp = |(number, day): (u64, &i64)| Stamp {
            number,
            taken_s: day * 86_400,
            day: *day,
            week: day / 7,
            month: day / 30,
        };
        (1..).zip(days).map(stamp).collect()
    }

    fn kept(policy: Policy, stamps: &[Stamp]) -> Vec<u64> {
        policy.keep(stamps).into_iter().collect()
    }

    #[test]
    fn the_newest_of_each_period_is_kept() {
        let stamps = days(&[0, 1, 1, 2, 8, 9, 31]);
        assert_eq!(kept(Policy { daily: 3, ..Policy::default() }, &stamps), [5, 6, 7]);
        assert_eq!(kept(Policy { daily: 5, ..Policy::default() }, &stamps), [3, 4, 5, 6, 7]);
        assert_eq!(kept(Policy { weekly: 3, ..Policy::default() }, &stamps), [4, 6, 7]);
        assert_eq!(kept(Policy { monthly: 9, last: 2, ..Policy::default() }, &stamps), [6, 7]);
        assert_eq!(kept(Policy { monthly: 2, daily: 1, ..Policy::default() }, &stamps), [6, 7]);
    }

    #[test]
    fn all_since_a_time_are_kept() {
        let stamps = days(&[0, 1, 2, 2, 2]);
        assert_eq!(
            kept(Policy { since_s: Some(86_400), last: 1, ..Policy::default() }, &stamps),
            [2, 3, 4, 5]
        );
        assert_eq!(kept(Policy { since_s: Some(86_401), ..Policy::default() }, &stamps), [3, 4, 5]);
        assert_eq!(kept(Policy { since_s: Some(i64::MAX), ..Policy::default() }, &stamps), [5]);
    }

    #[test]
    fn the_newest_generation_is_always_kept() {
        assert_eq!(kept(Policy::default(), &days(&[0, 1, 2])), [3]);
        assert_eq!(kept(Policy::default(), &[]), Vec::<u64>::new());
    }

    #[test]
    fn a_clock_that_went_backwards_does_not_lose_the_newest_generation() {
        assert_eq!(kept(Policy { daily: 2, ..Policy::default() }, &days(&[5, 6, 1])), [2, 3]);
    }
}
