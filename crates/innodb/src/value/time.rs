//! YEAR, DATE, TIME, DATETIME, TIMESTAMP, in the formats of MySQL 5.6 and MariaDB 10.1 and later.

use super::{Fault, digits, number, print_digits, put, two_digits};

/// The first year of YEAR.
const YEAR_FIRST: u64 = 1900;
const DATETIME_BIAS: u64 = 0x80_0000_0000;
const TIME_BIAS: u64 = 0x80_0000;
const HOURS_MAX: u64 = 838;
const DAY_SECONDS: u64 = 86_400;
/// 2038-01-19 03:14:07 in seconds.
const TIMESTAMP_MAX: u64 = i32::MAX as u64;
const IMPOSSIBLE: Fault = "a time with parts that no time has";
const RANGE: Fault = "out of range";

/// Bytes of a fraction with this many digits.
fn fraction_bytes(fraction: u8) -> usize {
    usize::from(fraction.div_ceil(2))
}

/// Units of a stored fraction per second.
fn fraction_units(fraction: u8) -> u64 {
    100_u64.pow(u32::from(fraction.div_ceil(2)))
}

/// Writes a point and the digits of a stored fraction; a fraction with an odd number of digits is stored with
/// a zero appended.
fn print_fraction(stored: u64, fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let odd = if fraction.is_multiple_of(2) { 1 } else { 10 };
    if stored >= fraction_units(fraction) || !stored.is_multiple_of(odd) {
        return Err("a fraction of a second that has no such digits");
    }
    if fraction > 0 {
        out.push(b'.');
        print_digits(out, stored / odd, usize::from(fraction));
    }
    Ok(())
}

/// The text before the point, and the fraction as it is stored.
#[inline]
fn split_fraction(text: &[u8], fraction: u8) -> Result<(&[u8], u64), Fault> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else { return Ok((text, 0)) };
    let (whole, behind) = (&text[..point], &text[point + 1..]);
    if behind.is_empty() || !behind.iter().all(u8::is_ascii_digit) {
        return Err("a fraction of a second that is no number");
    }
    let (kept, lost) = behind.split_at(behind.len().min(usize::from(fraction)));
    if lost.iter().any(|digit| *digit != b'0') {
        return Err("more digits behind the second than the column has");
    }
    // As many digits as the stored bytes have.
    let missing = (2 * fraction_bytes(fraction)).saturating_sub(kept.len());
    let value = digits(kept).unwrap_or_default();
    Ok((whole, (0..missing).fold(value, |value, _| value * 10)))
}

pub(super) fn decode_year(stored: &[u8], short: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let year = number(stored);
    // A year of two digits has no 0: a stored 0 means 1900.
    print_digits(out, if year > 0 || short { YEAR_FIRST + year } else { 0 }, 4);
    Ok(())
}

pub(super) fn encode_year(text: &[u8], short: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let year = digits(text).filter(|_| text.len() == 4).ok_or("not a year of four digits")?;
    let stored = match year.checked_sub(YEAR_FIRST) {
        Some(stored @ 1..=255) => stored,
        Some(0) if short => 0,
        None if year == 0 && !short => 0,
        _ => return Err(RANGE),
    };
    put(stored, 1, out);
    Ok(())
}

/// The two digits of a number below a hundred.
#[inline]
fn pair(number: u64) -> [u8; 2] {
    let [tens, ones] = [number / 10, number % 10].map(|digit| digit.to_le_bytes()[0] | b'0');
    [tens, ones]
}

/// A day of the calendar, or one with zero parts.
#[derive(Clone, Copy)]
struct Day {
    year: u64,
    month: u64,
    day: u64,
}

impl Day {
    /// A stored value may also be a day that no month has, because ALLOW_INVALID_DATES allows that.
    fn print(self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.year > 9999 || self.month > 12 || self.day > 31 {
            return Err("a date with parts that no date has");
        }
        let ([a, b], [c, d]) = (pair(self.year / 100), pair(self.year % 100));
        let ([e, f], [g, h]) = (pair(self.month), pair(self.day));
        out.extend_from_slice(&[a, b, c, d, b'-', e, f, b'-', g, h]);
        Ok(())
    }

    /// A date in the calendar, or one with a month or day of zero.
    #[inline]
    fn parse(text: &[u8]) -> Result<Day, Fault> {
        const BROKEN: Fault = "not a date: YYYY-MM-DD";
        let &[a, b, c, d, b'-', e, f, b'-', g, h] = text else { return Err(BROKEN) };
        let part = |tens, ones| two_digits(tens, ones).ok_or(BROKEN);
        let day = Day { year: part(a, b)? * 100 + part(c, d)?, month: part(e, f)?, day: part(g, h)? };
        let of = |years| day.year.is_multiple_of(years);
        let leap = of(4) && day.year > 0 && (!of(100) || of(400));
        let last = match day.month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if day.month > 12 || day.day > last { Err("a date that the calendar has not") } else { Ok(day) }
    }
}

pub(super) fn decode_date(stored: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let packed = number(stored) ^ 0x80_0000;
    Day { year: packed >> 9, month: packed >> 5 & 15, day: packed & 31 }.print(out)
}

pub(super) fn encode_date(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let Day { year, month, day } = Day::parse(text)?;
    put((year << 9 | month << 5 | day) ^ 0x80_0000, 3, out);
    Ok(())
}

/// Hours, minutes and seconds in one number, as stored.
fn print_clock(packed: u64, hours_max: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (hours, minutes, seconds) = (packed >> 12, packed >> 6 & 63, packed & 63);
    if hours > hours_max || minutes > 59 || seconds > 59 {
        return Err(IMPOSSIBLE);
    }
    if hours > 99 {
        out.push(pair(hours / 100)[1]);
    }
    let ([a, b], [c, d], [e, f]) = (pair(hours % 100), pair(minutes), pair(seconds));
    out.extend_from_slice(&[a, b, b':', c, d, b':', e, f]);
    Ok(())
}

#[inline]
fn parse_clock(text: &[u8], hours_max: u64) -> Result<u64, Fault> {
    const BROKEN: Fault = "not a time: HH:MM:SS";
    let Some((hours, &[b':', a, b, b':', c, d])) = text.split_last_chunk::<6>() else {
        return Err(BROKEN);
    };
    let part = |tens, ones| two_digits(tens, ones).ok_or(BROKEN);
    let hours = digits(hours).ok_or(BROKEN)?;
    let (minutes, seconds) = (part(a, b)?, part(c, d)?);
    if hours > hours_max || minutes > 59 || seconds > 59 {
        return Err(RANGE);
    }
    Ok(hours << 12 | minutes << 6 | seconds)
}

pub(super) fn decode_time(stored: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let bits = 8 * fraction_bytes(fraction);
    let (value, bias) = (number(stored), TIME_BIAS << bits);
    if value < bias {
        out.push(b'-');
    }
    let value = value.abs_diff(bias);
    print_clock(value >> bits, HOURS_MAX, out)?;
    print_fraction(value & !(u64::MAX << bits), fraction, out)
}

pub(super) fn encode_time(text: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (negative, text) = super::integer::sign(text);
    let (clock, behind) = split_fraction(text, fraction)?;
    let bits = 8 * fraction_bytes(fraction);
    let value = parse_clock(clock, HOURS_MAX)? << bits | behind;
    let bias = TIME_BIAS << bits;
    put(if negative { bias - value } else { bias + value }, 3 + fraction_bytes(fraction), out);
    Ok(())
}

pub(super) fn decode_datetime(stored: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (whole, behind) = stored.split_at_checked(5).ok_or(IMPOSSIBLE)?;
    let packed = number(whole).checked_sub(DATETIME_BIAS).ok_or(IMPOSSIBLE)?;
    let months = packed >> 22;
    Day { year: months / 13, month: months % 13, day: packed >> 17 & 31 }.print(out)?;
    out.push(b' ');
    print_clock(packed & 0x1_ffff, 23, out)?;
    print_fraction(number(behind), fraction, out)
}

/// A date and a time, and the fraction as stored.
fn parse_datetime(text: &[u8], fraction: u8) -> Result<(Day, u64, u64), Fault> {
    const BROKEN: Fault = "not a date and a time: YYYY-MM-DD HH:MM:SS";
    let (text, behind) = split_fraction(text, fraction)?;
    let (day, rest) = text.split_at_checked(10).ok_or(BROKEN)?;
    let clock = match rest.split_first() {
        None if behind == 0 => 0,
        Some((b' ' | b'T', clock)) if clock.len() == 8 => parse_clock(clock, 23)?,
        _ => return Err(BROKEN),
    };
    Ok((Day::parse(day)?, clock, behind))
}

pub(super) fn encode_datetime(text: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (Day { year, month, day }, clock, behind) = parse_datetime(text, fraction)?;
    put(((year * 13 + month) << 22 | day << 17 | clock) + DATETIME_BIAS, 5, out);
    put(behind, fraction_bytes(fraction), out);
    Ok(())
}

/// Days from 1970-01-01 to a later day of the calendar.
fn days(day: Day) -> u64 {
    // If a year begins in March, the leap day is its last.
    let year = if day.month > 2 { day.year } else { day.year - 1 };
    let month = (day.month + 9) % 12;
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day.day - 1 - 719_468
}

/// The day of the calendar this many days after 1970-01-01.
fn day(days: u64) -> Day {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let within = shifted % 146_097;
    let year = (within - within / 1460 + within / 36_524 - within / 146_096) / 365;
    let rest = within - (365 * year + year / 4 - year / 100);
    let month = (5 * rest + 2) / 153;
    let day = rest - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    Day { year: 400 * era + year + u64::from(month < 3), month, day }
}

pub(super) fn decode_timestamp(stored: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (whole, behind) = stored.split_at_checked(4).ok_or(IMPOSSIBLE)?;
    let (seconds, behind) = (number(whole), number(behind));
    if seconds == 0 && behind == 0 {
        out.extend_from_slice(b"0000-00-00");
    } else {
        day(seconds / DAY_SECONDS).print(out)?;
    }
    out.push(b' ');
    let (minutes, seconds) = (seconds % DAY_SECONDS / 60, seconds % 60);
    print_clock((minutes / 60) << 12 | (minutes % 60) << 6 | seconds, 23, out)?;
    print_fraction(behind, fraction, out)
}

pub(super) fn encode_timestamp(
    text: &[u8],
    fraction: u8,
    wide: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (date, clock, behind) = parse_datetime(text, fraction)?;
    let zero = [date.year, date.month, date.day, clock, behind] == [0; 5];
    let seconds = if zero {
        0
    } else {
        if date.year < 1970 || date.month == 0 || date.day == 0 {
            return Err(RANGE);
        }
        let clock = (clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63);
        let seconds = days(date) * DAY_SECONDS + clock;
        let max = if wide { u64::from(u32::MAX) } else { TIMESTAMP_MAX };
        if !(1..=max).contains(&seconds) {
            return Err(RANGE);
        }
        seconds
    };
    put(seconds, 4, out);
    put(behind, fraction_bytes(fraction), out);
    Ok(())
}
