//! Times of samples, for people in the zone of this machine, and for programs.

use std::time::Duration;

use status::counter::sample::Sample;

/// The time of day of a sample, in the local zone.
pub fn clock(sample: &Sample) -> String {
    let at = jiff::Timestamp::from_millisecond(sample.unix_ms).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// The time of a sample for programs: UTC, with milliseconds.
pub fn stamp(sample: &Sample) -> String {
    let at = jiff::Timestamp::from_millisecond(sample.unix_ms).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn shown(unix_ms: i64, format: &str) -> String {
    let at = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime(format).to_string()
}

/// Date and time of day, in the zone of this machine.
pub fn full(unix_ms: i64) -> String {
    shown(unix_ms, "%Y-%m-%d %H:%M:%S %:z")
}

/// A label below a plot: over minutes it needs seconds, over weeks it needs days.
pub fn tick(unix_ms: i64, span_ms: i64) -> String {
    let span = Duration::from_millis(span_ms.unsigned_abs());
    let format = match span.as_secs() {
        0..=1800 => "%H:%M:%S",
        1801..=172_800 => "%H:%M",
        _ => "%m-%d %H:%M",
    };
    shown(unix_ms, format)
}
