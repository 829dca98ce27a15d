//! Converts dates and times in local formats to what a server reads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What comes first in a date with the year at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DateOrder {
    /// Day, month, year: `31.12.1999`.
    Dmy,
    /// Month, day, year: `12/31/1999`.
    Mdy,
}

impl fmt::Display for DateOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DateOrder::Dmy => "day, month, year",
            DateOrder::Mdy => "month, day, year",
        })
    }
}

/// A date with the year at the end, perhaps with a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local<'a> {
    pub(crate) first: u32,
    pub(crate) second: u32,
    pub(crate) year: u32,
    pub(crate) separator: u8,
    /// `HH:MM`, and what follows it.
    pub(crate) clock: Option<&'a [u8]>,
    /// Fractional digits of the seconds.
    pub(crate) fraction: usize,
}

impl Local<'_> {
    /// Whether it is a valid date in this order.
    pub(crate) fn is(&self, order: DateOrder) -> bool {
        let (day, month) = self.day_and_month(order);
        is_day(self.year, month, day)
    }

    fn day_and_month(&self, order: DateOrder) -> (u32, u32) {
        match order {
            DateOrder::Dmy => (self.first, self.second),
            DateOrder::Mdy => (self.second, self.first),
        }
    }
}

/// Whether a month has this day, from the year 1000 on.
pub(crate) fn is_day(year: u32, month: u32, day: u32) -> bool {
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1000..=9999).contains(&year) && (1..=days).contains(&day)
}

/// Splits `D.M.YYYY`, with `.`, `/` or `-` between the numbers, perhaps followed by ` H:MM`, seconds and
/// their fraction.
pub(crate) fn local(bytes: &[u8]) -> Option<Local<'_>> {
    let (first, rest) = number(bytes, 2)?;
    let (&separator, rest) = rest.split_first()?;
    let (second, rest) = number(rest, 2)?;
    let (&other, rest) = rest.split_first()?;
    let (year, rest) = number(rest, 4)?;
    if !matches!(separator, b'.' | b'/' | b'-') || other != separator || year < 1000 {
        return None;
    }
    let (clock, fraction) = match rest.split_first() {
        None => (None, 0),
        Some((b' ' | b'T', clock)) => (Some(clock), clock_fraction(clock)?),
        Some(_) => return None,
    };
    Some(Local { first, second, year, separator, clock, fraction })
}

/// The number of fractional digits in `H:MM`, `H:MM:SS` or `H:MM:SS.ffffff`.
fn clock_fraction(bytes: &[u8]) -> Option<usize> {
    let (hour, rest) = number(bytes, 2)?;
    let (minute, rest) = two_digits(rest.strip_prefix(b":")?)?;
    let (second, fraction) = match rest.strip_prefix(b":") {
        None if rest.is_empty() => (0, 0),
        None => return None,
        Some(rest) => {
            let (second, rest) = two_digits(rest)?;
            match rest.strip_prefix(b".") {
                None if rest.is_empty() => (second, 0),
                Some(digits) if (1..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
                    (second, digits.len())
                }
                _ => return None,
            }
        }
    };
    (hour <= 23 && minute <= 59 && second <= 59).then_some(fraction)
}

/// A number of two digits, and the rest of the text.
fn two_digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    number(bytes, 2).filter(|(_, rest)| bytes.len() - rest.len() == 2)
}

/// A number of up to `digits_max` digits, and the rest of the text.
fn number(bytes: &[u8], digits_max: usize) -> Option<(u32, &[u8])> {
    let digits = bytes.iter().take(digits_max).take_while(|byte| byte.is_ascii_digit()).count();
    let value = bytes.get(..digits)?.iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
    (digits > 0).then(|| (value, &bytes[digits..]))
}

/// Writes a date that [`local`] accepts as `YYYY-MM-DD`, with its time. `None` for anything else.
pub(crate) fn write_local(bytes: &[u8], order: DateOrder, out: &mut Vec<u8>) -> Option<()> {
    let date = local(bytes).filter(|date| date.is(order))?;
    let (day, month) = date.day_and_month(order);
    write_date(date.year, month, day, out);
    if let Some(clock) = date.clock {
        out.push(b' ');
        out.extend_from_slice(clock);
    }
    Some(())
}

fn write_date(year: u32, month: u32, day: u32, out: &mut Vec<u8>) {
    for (value, digits) in [(year, 4), (month, 2), (day, 2)] {
        if digits == 2 {
            out.push(b'-');
        }
        write_number(value, digits, out);
    }
}

fn write_number(value: u32, digits: u32, out: &mut Vec<u8>) {
    for power in (0..digits).rev() {
        let digit = u8::try_from(value / 10_u32.pow(power) % 10).unwrap_or(0);
        out.push(b'0' + digit);
    }
}

/// The offset at the end of a time, in minutes, and how many bytes it has: `+01:00`, `-0130`, `+01`. `Z` is
/// 0.
pub(crate) fn offset(time: &[u8]) -> Option<(i32, usize)> {
    if time.last() == Some(&b'Z') {
        return Some((0, 1));
    }
    // A sign after hours, minutes and seconds.
    let at = time.iter().rposition(|byte| matches!(byte, b'+' | b'-'))?;
    let sign = if time[at] == b'-' { -1 } else { 1 };
    let (hours, minutes) = match &time[at + 1..] {
        [a, b] => ([*a, *b], *b"00"),
        [a, b, c, d] | [a, b, b':', c, d] => ([*a, *b], [*c, *d]),
        _ => return None,
    };
    let (hours, _) = number(&hours, 2).filter(|(_, rest)| rest.is_empty())?;
    let (minutes, _) = number(&minutes, 2).filter(|(_, rest)| rest.is_empty())?;
    // The largest offset in use is 14 hours; servers accept 15.
    let sound = hours <= 15 && minutes <= 59;
    let total = i32::try_from(hours * 60 + minutes).ok()? * sign;
    sound.then_some((total, time.len() - at))
}

/// Writes `YYYY-MM-DD HH:MM:SS.f` followed by `Z` or an offset as the same time in UTC, without either.
/// `None` if there is no offset, or the time is outside the years 1000 to 9999.
pub(crate) fn write_utc(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (date, behind) = bytes.split_at_checked(10)?;
    let (minutes, length) = offset(behind.get(1..)?)?;
    let time = &bytes[..bytes.len() - length];
    if minutes == 0 {
        out.extend_from_slice(time);
        return Some(());
    }
    let (year, rest) = number(date, 4)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?, 2)?;
    let (day, _) = number(rest.strip_prefix(b"-")?, 2)?;
    let (hour, rest) = number(time.get(11..)?, 2)?;
    let (minute, seconds) = number(rest.strip_prefix(b":")?, 2)?;
    let days = days_from(year, month, day);
    let moment = i64::from(days) * 1440 + i64::from(hour * 60 + minute) - i64::from(minutes);
    let (days, within) = (moment.div_euclid(1440), u32::try_from(moment.rem_euclid(1440)).ok()?);
    let (year, month, day) = date_of(i32::try_from(days).ok()?);
    if !is_day(year, month, day) {
        return None;
    }
    write_date(year, month, day, out);
    out.push(b' ');
    write_number(within / 60, 2, out);
    out.push(b':');
    write_number(within % 60, 2, out);
    out.extend_from_slice(seconds);
    Some(())
}

/// Days since 0000-03-01 in the Gregorian calendar, negative before that (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms").
fn days_from(year: u32, month: u32, day: u32) -> i32 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    i32::try_from(days).unwrap_or(i32::MAX)
}

/// The date of such a day.
fn date_of(days: i32) -> (u32, u32, u32) {
    let days = u32::try_from(days).unwrap_or(0);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + era * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// Writes a number with a decimal comma, perhaps with points between its thousands, with a decimal point. A
/// number with neither is copied. `None` for anything else: a lone point may mean either.
pub(crate) fn write_decimal(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let plain = bytes.strip_prefix(b"-").unwrap_or(bytes);
    if !plain.is_empty() && plain.iter().all(u8::is_ascii_digit) {
        out.extend_from_slice(bytes);
        return Some(());
    }
    comma(plain)?;
    out.extend(
        bytes.iter().filter(|byte| **byte != b'.').map(|byte| if *byte == b',' { b'.' } else { *byte }),
    );
    Some(())
}

/// For a number with a decimal comma and without its sign: the number of digits before and after the comma,
/// and whether the comma could also be a thousands separator.
pub(crate) fn comma(bytes: &[u8]) -> Option<(usize, usize, bool)> {
    let at = memchr::memchr(b',', bytes)?;
    let (whole, part) = (&bytes[..at], &bytes[at + 1..]);
    if part.is_empty() || !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let grouped = whole.contains(&b'.');
    if grouped {
        let mut groups = whole.split(|byte| *byte == b'.');
        let first = groups.next().unwrap_or_default();
        let sound = |group: &[u8]| group.iter().all(u8::is_ascii_digit);
        if !(1..=3).contains(&first.len())
            || !sound(first)
            || !groups.all(|group| group.len() == 3 && sound(group))
        {
            return None;
        }
    } else if whole.is_empty() || !whole.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if whole.len() > 1 && whole[0] == b'0' {
        return None;
    }
    let digits = whole.iter().filter(|byte| **byte != b'.').count();
    let thousands = !grouped && part.len() == 3 && digits <= 3 && whole != b"0";
    Some((if whole == b"0" { 0 } else { digits }, part.len(), thousands))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Option<String> {
        let mut out = Vec::new();
        write_utc(text.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn offsets_are_taken_off() {
        for (text, expected) in [
            ("2024-01-01T10:00:00+01:00", "2024-01-01 09:00:00"),
            ("2024-03-01 00:15:00.25+0030", "2024-02-29 23:45:00.25"),
            ("2023-12-31T20:00:00-05", "2024-01-01 01:00:00"),
            ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00"),
            ("2024-01-01T10:00:00+00:00", "2024-01-01T10:00:00"),
        ] {
            assert_eq!(utc(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "2024-01-01T10:00:00",
            "2024-01-01",
            "9999-12-31T23:00:00-02:00",
            "1000-01-01T00:00:00+01:00",
            "",
            "x",
        ] {
            assert_eq!(utc(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_comes_back() {
        let mut day = days_from(1000, 1, 1);
        let mut before = (0, 0, 0);
        while day <= days_from(9999, 12, 31) {
            let date = date_of(day);
            assert!(is_day(date.0, date.1, date.2) && date > before);
            assert_eq!(days_from(date.0, date.1, date.2), day);
            before = date;
            day += 1;
        }
        assert_eq!(before, (9999, 12, 31));
    }

    #[test]
    fn dates_are_read_in_their_order() {
        let read = |text: &str, order| {
            let mut out = Vec::new();
            write_local(text.as_bytes(), order, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        let (dmy, mdy) = (DateOrder::Dmy, DateOrder::Mdy);
        assert_eq!(read("31.12.1999", dmy).as_deref(), Some("1999-12-31"));
        assert_eq!(read("1/2/1999 3:04", mdy).as_deref(), Some("1999-01-02 3:04"));
        assert_eq!(read("1-2-1999 13:04:05.123", dmy).as_deref(), Some("1999-02-01 13:04:05.123"));
        for text in [
            "31.12.1999x",
            "31.12/1999",
            "30.02.2000",
            "1.13.1999",
            "31.12.99",
            "1.1.1999 24:00",
            "1.1.1999 1:2",
            "1.1.1999 10:5",
            "1.1.1999 10:05:7",
            "1.1.1999 10:60",
            "1.1.1999 10:05:60",
            "1.1.1999 10:05:07.",
            "1.1.1999 10:05:07.1234567",
            "1.1.1999 10:05:07.x",
            "1.1.1999 10:05x",
            "1.1.1999 10",
            "1.1.999",
            "1.2.3.4",
        ] {
            assert_eq!(read(text, dmy), None, "{text}");
        }
        assert_eq!(read("31.12.1999", mdy), None);
    }

    #[test]
    fn a_decimal_comma_becomes_a_point() {
        let read = |text: &str| {
            let mut out = Vec::new();
            write_decimal(text.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        for (text, expected) in
            [("1,5", "1.5"), ("-1.234.567,89", "-1234567.89"), ("12", "12"), ("0,123", "0.123")]
        {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["1.5", "1.234", "1,2,3", "1.23,4", "01,5", ",5", "5,", "", "-", "1e5", "1,5x", "1.2345,6"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(comma(b"1,234"), Some((1, 3, true)));
        assert_eq!(comma(b"0,234"), Some((0, 3, false)));
        assert_eq!(comma(b"1234,567"), Some((4, 3, false)));
        assert_eq!(comma(b"1.234,567"), Some((4, 3, false)));
    }
}
