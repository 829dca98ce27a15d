//! Times on the command line.

use anyhow::{Context, Result};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::calendar;

/// A time, in seconds since 1970: in this machine's time zone unless it has one, or so long ago as `-10m`.
pub(crate) fn parse(text: &str) -> Result<i64> {
    if let Some(ago) = text.strip_prefix('-') {
        let ago = i64::try_from(calendar::duration_s(ago)?)?;
        return Ok(calendar::now_s() - ago);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_second());
    }
    let civil = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from));
    let civil = civil.ok().with_context(|| {
        format!("{text} is no time; write 2026-11-22, '2026-11-22 19:05:17', 2026-11-22T18:05:17Z or -10m")
    })?;
    Ok(civil.to_zoned(TimeZone::system())?.timestamp().as_second())
}

/// The time zone of this machine, for people.
pub(crate) fn zone() -> String {
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
        assert!((calendar::now_s() - 600 - parse("-10m").unwrap()).abs() <= 1);
        assert!(parse("yesterday").is_err() && parse("-x").is_err());
    }
}
