//! A generation in the calendar of this machine, for keeping one of each day, week or month.

use block::retention::Stamp;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Days from Monday to the epoch's first day, a Thursday: weeks begin on Monday.
const EPOCH_WEEKDAY: i64 = 3;

fn local(seconds: i64) -> Zoned {
    Timestamp::from_second(seconds).unwrap_or_default().to_zoned(TimeZone::system())
}

/// A generation in the calendar of this machine.
pub fn stamp(number: u64, taken_s: i64) -> Stamp {
    let date = local(taken_s).date();
    let epoch = jiff::civil::date(1970, 1, 1);
    let day = date.since((jiff::Unit::Day, epoch)).map_or(0, |span| i64::from(span.get_days()));
    Stamp {
        number,
        taken_s,
        day,
        week: (day + EPOCH_WEEKDAY).div_euclid(7),
        month: i64::from(date.year()) * 12 + i64::from(date.month()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_monday() {
        // 2026-11-22 is a Sunday; noon, so that the time zone does not matter.
        let sunday = 1_795_348_800;
        let (sunday, monday) = (stamp(1, sunday), stamp(2, sunday + 86_400));
        assert_eq!(sunday.day + 1, monday.day);
        assert_eq!(sunday.week + 1, monday.week);
        assert_eq!(sunday.month, monday.month);
        assert_eq!(stamp(3, 1_795_348_800 - 6 * 86_400).week, sunday.week);
    }
}
