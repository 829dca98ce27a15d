//! When transactions ended: as they say it themselves, unless it can't be so by when they came.

use std::fmt;

use humanize::date_time;
use progress::Progress;

/// How far what a transaction says may be from when it came, in seconds: it takes its time to commit and to
/// come, and clocks differ.
pub const TOLERANCE_S: i64 = 5;

/// When a transaction ended, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndTime {
    /// Then: it says so, and nothing speaks against it.
    Then(i64),
    /// Between these times, whatever it says: not before the first, and not behind the second.
    Between(i64, i64),
}

impl EndTime {
    /// With what a transaction says, and what shows between which times the server wrote it.
    pub fn new(says: i64, (after, until): (Option<i64>, Option<i64>)) -> EndTime {
        let (after, until) = (after.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
        let can_be = after.saturating_sub(TOLERANCE_S)..=until.saturating_add(TOLERANCE_S);
        // Between two times of which the second is the earlier one a clock was put back: they show nothing.
        if after > until || can_be.contains(&says) {
            EndTime::Then(says)
        } else {
            EndTime::Between(after, until)
        }
    }

    /// The earliest time at which it can have been.
    pub fn earliest(self) -> i64 {
        let (EndTime::Then(time) | EndTime::Between(time, _)) = self;
        time
    }

    /// The latest time at which it can have been.
    pub fn latest(self) -> i64 {
        let (EndTime::Then(time) | EndTime::Between(_, time)) = self;
        time
    }

    /// Whether it was at a time or before. None if nobody knows.
    pub fn is_by(self, time: i64) -> Option<bool> {
        match self {
            _ if self.latest() <= time => Some(true),
            _ if self.earliest() > time => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for EndTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = date_time::shown;
        match *self {
            EndTime::Then(time) => write!(f, "at {}", shown(time)),
            EndTime::Between(i64::MIN, until) => write!(f, "at {} or before", shown(until)),
            EndTime::Between(after, i64::MAX) => write!(f, "at {} or later", shown(after)),
            EndTime::Between(after, until) => write!(f, "between {} and {}", shown(after), shown(until)),
        }
    }
}

/// So many transactions are named.
const NAMED_MAX: u64 = 10;

/// Transactions that are taken for other times than they say, where that makes a difference.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    named: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl Judged {
    /// One more, with its name.
    pub fn add(&mut self, name: &str, says: i64, ended: EndTime) {
        self.count += 1;
        if self.count <= NAMED_MAX {
            let says = date_time::shown(says);
            self.named
                .push(format!("{name} says that it ended at {says}; by when it came, that was {ended}"));
        }
    }

    /// What is said of them.
    pub fn tell(&self, report: &dyn Progress) {
        self.named.iter().for_each(|line| report.note(line));
        if self.count > NAMED_MAX {
            report.note(&format!("and {} more like that", self.count - NAMED_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EndTime::{self, Between, Then};

    #[test]
    fn a_plausible_time_of_a_transaction_is_used() {
        for says in [95, 100, 110, 115] {
            assert_eq!(EndTime::new(says, (Some(100), Some(110))), Then(says));
        }
        for says in [0, 94, 116, 4_000_000_000] {
            assert_eq!(EndTime::new(says, (Some(100), Some(110))), Between(100, 110));
        }
        // Nothing is known of one side, or of both.
        assert_eq!(EndTime::new(0, (None, Some(110))), Then(0));
        assert_eq!(EndTime::new(116, (None, Some(110))), Between(i64::MIN, 110));
        assert_eq!(EndTime::new(116, (Some(100), None)), Then(116));
        assert_eq!(EndTime::new(94, (Some(100), None)), Between(100, i64::MAX));
        assert_eq!(EndTime::new(7, (None, None)), Then(7));
        // The server had nothing more before and everything behind within one second.
        assert_eq!(EndTime::new(7, (Some(110), Some(110))), Between(110, 110));
        // A clock was put back.
        assert_eq!(EndTime::new(7, (Some(110), Some(100))), Then(7));
    }

    #[test]
    fn people_read_from_when_to_when_it_can_have_been() {
        let [first, second] = [100, 110].map(humanize::date_time::shown);
        for (ended, shown) in [
            (Then(100), format!("at {first}")),
            (Between(i64::MIN, 110), format!("at {second} or before")),
            (Between(100, i64::MAX), format!("at {first} or later")),
            (Between(100, 110), format!("between {first} and {second}")),
        ] {
            assert_eq!(ended.to_string(), shown);
        }
    }

    #[test]
    fn only_proven_bounds_of_a_time_are_reported() {
        assert_eq!([99, 100, 101].map(|time| Then(100).is_by(time)), [Some(false), Some(true), Some(true)]);
        let by = [99, 100, 109, 110].map(|time| Between(100, 110).is_by(time));
        assert_eq!(by, [Some(false), None, None, Some(true)]);
        assert_eq!(Between(i64::MIN, 110).is_by(-5), None);
        assert_eq!(Between(100, i64::MAX).is_by(500), None);
    }
}
