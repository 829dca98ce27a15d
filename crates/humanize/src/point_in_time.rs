//! Times on the command line.

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use crate::date_time;

/// A time, in seconds since 1970: in this machine's time zone unless it has one, or so long ago as `-10m`.
pub fn parse(text: &str) -> Result<i64> {
    if let Some(ago) = text.strip_prefix('-') {
        let ago = i64::try_from(date_time::duration_s(ago)?)?;
        return Ok(date_time::now_s() - ago);
    }
    in_zone(text, &TimeZone::system())
}

/// A time in a zone, unless it has one.
fn in_zone(text: &str, zone: &TimeZone) -> Result<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_second());
    }
    if let (true, Ok(date)) = (is_date(text), text.parse::<Date>()) {
        return Ok(date.to_zoned(zone.clone())?.start_of_day()?.timestamp().as_second());
    }
    let civil = text.parse::<DateTime>().ok().with_context(|| {
        format!(
            "{text} is no time; write 2026-11-22, '2026-11-22 19:05:17', '2026-11-22 19:05:17+01:00', 2026-11-22T18:05:17Z or -10m"
        )
    })?;
    let (why, before, after) = match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => return Ok(offset.to_timestamp(civil)?.as_second()),
        AmbiguousOffset::Fold { before, after } => ("comes twice", before, after),
        AmbiguousOffset::Gap { before, after } => ("does not exist", before, after),
    };
    let shown =
        |offset: Offset| Ok(date_time::shown_in(zone.clone(), offset.to_timestamp(civil)?.as_second()));
    let (first, second): (Result<String>, Result<String>) = (shown(before), shown(after));
    bail!("the time {text} {why}, because the clock is changed then: write '{}' or '{}'", first?, second?)
}

/// Whether a text is only a date.
fn is_date(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Whether a text is meant for a time, right or wrong: a year, a month and a day, or a time of the day alone.
/// So could be a GTID or a position of a log, but servers are not numbered like that.
pub fn is_like_time(text: &str) -> bool {
    let digits = |part: &str, len: std::ops::RangeInclusive<usize>| {
        len.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let mut parts = date.split('-');
    let is_date = parts
        .next()
        .is_some_and(|year| digits(year, 4..=4) && ["19", "20"].iter().any(|it| year.starts_with(it)))
        && [parts.next(), parts.next()].iter().all(|part| part.is_some_and(|part| digits(part, 2..=2)))
        && parts.next().is_none();
    let is_of_day = text.contains(':') && text.split(':').all(|part| digits(part, 1..=2));
    is_date || is_of_day
}

/// The time zone of this machine, for people.
pub fn zone() -> String {
    let zone = TimeZone::system();
    zone.iana_name().map_or_else(|| "this machine's time zone".to_owned(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil_absolute_or_ago() {
        assert_eq!(parse("1970-01-02T00:00:01Z").unwrap(), 86_401);
        assert_eq!(parse("1970-01-02T01:00:01+01:00").unwrap(), 86_401);
        let local = TimeZone::system();
        let expected = jiff::civil::date(2026, 11, 22).at(19, 5, 0, 0).to_zoned(local).unwrap().timestamp();
        assert_eq!(parse("2026-11-22 19:05").unwrap(), expected.as_second());
        assert_eq!(parse("2026-11-22T19:05:00").unwrap(), expected.as_second());
        assert_eq!(parse("2026-11-22").unwrap(), expected.as_second() - (19 * 60 + 5) * 60);
        assert!((date_time::now_s() - 600 - parse("-10m").unwrap()).abs() <= 1);
        assert!(parse("yesterday").is_err() && parse("-x").is_err());
        // What is shown can be given.
        assert_eq!(parse(&date_time::shown(86_401)).unwrap(), 86_401);
    }

    #[test]
    fn an_hour_that_comes_twice_or_never_is_refused_with_both_times() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let read = |text: &str| in_zone(text, &berlin).map_err(|error| error.to_string());
        let twice = read("2026-10-25 02:30:00").unwrap_err();
        assert!(twice.contains("comes twice"), "{twice}");
        for (shown, seconds) in
            [("2026-10-25 02:30:00+02:00", 1_792_888_200), ("2026-10-25 02:30:00+01:00", 1_792_891_800)]
        {
            assert!(twice.contains(shown), "{twice}");
            assert_eq!(read(shown), Ok(seconds));
        }
        let never = read("2026-03-29T02:30").unwrap_err();
        assert!(never.contains("does not exist") && never.contains("2026-03-29 01:30:00+01:00"), "{never}");
        assert!(never.contains("2026-03-29 03:30:00+02:00"), "{never}");
        assert_eq!(read("2026-10-25 03:00"), Ok(1_792_893_600));
        assert_eq!(read("2026-10-25"), Ok(1_792_879_200));
    }

    #[test]
    fn a_day_whose_midnight_does_not_exist_begins_later() {
        let brasilia = TimeZone::posix("<-03>3<-02>,M11.1.0/0,M2.3.0/0").unwrap();
        let read = |text: &str| in_zone(text, &brasilia).map_err(|error| error.to_string());
        assert_eq!(read("2026-11-01"), read("2026-11-01 01:00"));
        assert!(read("2026-11-01 00:00").unwrap_err().contains("does not exist"));
    }

    #[test]
    fn a_wrong_time_is_known_as_one() {
        for text in ["2026-02-30", "2026-13-01 10:00", "2026-11-22T99:00", "25:00:00", "7:61", "2026-11-22"] {
            assert!(is_like_time(text), "{text}");
        }
        for text in ["0-1-42", "2026-1-7", "2026-01-123", "0-2026-11", "bin.000001:25", "1-2026-11-22", "end"]
        {
            assert!(!is_like_time(text), "{text}");
        }
    }
}
