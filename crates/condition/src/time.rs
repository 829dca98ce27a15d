//! Temporal values as numbers: how rows store them, and how literals are written.

use crate::number::Number;

/// Reads a big-endian number, as in the server's packed times.
fn big_endian(bytes: &[u8]) -> i128 {
    bytes.iter().fold(0, |value, byte| value << 8 | i128::from(*byte))
}

/// Microseconds from a fraction of `digits` digits, which is stored in half as many bytes.
fn micros(bytes: &[u8]) -> i128 {
    let scale = [1_000_000, 10_000, 100, 1];
    big_endian(bytes) * scale.get(bytes.len()).copied().unwrap_or(1)
}

/// Puts a time, which is not negative, and its microseconds into one number, with as many digits after the
/// decimal point as the column has.
fn with_fraction(whole: i128, micros: i128, digits: u8) -> Number {
    let digits = digits.min(6);
    let unit = 10i128.pow(u32::from(6 - digits));
    Number { digits: whole * 10i128.pow(u32::from(digits)) + micros / unit, scale: digits }
}

/// YEAR: 1901 to 2155, and 0.
pub(crate) fn year(bytes: &[u8]) -> Option<Number> {
    let year = i128::from(*bytes.first()?);
    Some(Number::from(if year == 0 { 0 } else { 1900 + year }))
}

/// DATE: 3 bytes, little-endian; day 5 bits, month 4, year.
pub(crate) fn date(bytes: &[u8]) -> Option<Number> {
    let [low, middle, high] = *bytes.first_chunk::<3>()?;
    let packed = i128::from(low) | i128::from(middle) << 8 | i128::from(high) << 16;
    Some(Number::from((packed >> 9) * 10_000 + (packed >> 5 & 15) * 100 + (packed & 31)))
}

/// DATETIME: 5 bytes, big-endian, biased; then the fraction.
pub(crate) fn date_time(bytes: &[u8], digits: u8) -> Option<Number> {
    let (whole, fraction) = bytes.split_at_checked(5)?;
    let packed = big_endian(whole) - 0x80_0000_0000;
    let (days, time) = (packed >> 17, packed & 0x1_ffff);
    let (months, day) = (days >> 5, days & 31);
    let date = (months / 13) * 10_000 + (months % 13) * 100 + day;
    Some(with_fraction(date * 1_000_000 + clock(time), micros(fraction), digits))
}

/// Turns hours, minutes and seconds of 6 bits each into two decimal digits each.
fn clock(time: i128) -> i128 {
    (time >> 12) * 10_000 + (time >> 6 & 63) * 100 + (time & 63)
}

/// Seconds from 1970 to a DATETIME, which is UTC, with as many digits after the point.
pub(crate) fn since_1970(number: Number) -> Option<Number> {
    let unit = 10i128.checked_pow(u32::from(number.scale))?;
    let (whole, fraction) = (number.digits.div_euclid(unit), number.digits.rem_euclid(unit));
    let (date, time) = (whole / 1_000_000, whole % 1_000_000);
    let day = Day { year: date / 10_000, month: date / 100 % 100, day: date % 100 };
    let seconds = day.since_1970() * 86_400 + time / 10_000 * 3600 + time / 100 % 100 * 60 + time % 100;
    Some(Number { digits: seconds.checked_mul(unit)?.checked_add(fraction)?, scale: number.scale })
}

/// TIMESTAMP: 4 bytes, big-endian, seconds since 1970; then the fraction.
pub(crate) fn timestamp(bytes: &[u8], digits: u8) -> Option<Number> {
    let (whole, fraction) = bytes.split_at_checked(4)?;
    Some(with_fraction(big_endian(whole), micros(fraction), digits))
}

/// TIME: 3 bytes and the fraction, big-endian and biased as one number.
pub(crate) fn time(bytes: &[u8], digits: u8) -> Option<Number> {
    let fraction = bytes.len().checked_sub(3)?;
    let bits = 8 * u32::try_from(bytes.len()).ok()?;
    let packed = big_endian(bytes) - (1i128 << (bits - 1));
    let unit = 8 * u32::try_from(fraction).ok()?;
    let size = packed.abs();
    let below = (size & ((1i128 << unit) - 1)) * [1_000_000, 10_000, 100, 1].get(fraction)?;
    let number = with_fraction(clock(size >> unit), below, digits);
    Some(Number { digits: number.digits * packed.signum(), ..number })
}

/// The number of a temporal column as SQL shows it; a TIMESTAMP in UTC.
pub(crate) fn text(number: Number, shape: Shape) -> String {
    let unit = 10i128.pow(u32::from(number.scale));
    let (sign, size) = (if number.digits < 0 { "-" } else { "" }, number.digits.abs());
    let (whole, fraction) = (size / unit, size % unit);
    let fraction = match usize::from(number.scale) {
        0 => String::new(),
        digits => format!(".{fraction:0digits$}"),
    };
    let day = |date: i128| format!("{:04}-{:02}-{:02}", date / 10_000, date / 100 % 100, date % 100);
    let clock = |time: i128| format!("{:02}:{:02}:{:02}", time / 10_000, time / 100 % 100, time % 100);
    match shape {
        Shape::Date => day(whole),
        Shape::Time => format!("{sign}{}{fraction}", clock(whole)),
        Shape::DateTime => format!("{} {}{fraction}", day(whole / 1_000_000), clock(whole % 1_000_000)),
        // MariaDB's zero timestamp.
        Shape::Timestamp if number.is_zero() => format!("0000-00-00 00:00:00{fraction}"),
        Shape::Timestamp => {
            let seconds = whole % 86_400;
            let time = seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
            format!("{} {}{fraction}", day(Day::of(whole / 86_400).number()), clock(time))
        }
    }
}

/// The type of a temporal column, which decides what its literals may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Date,
    DateTime,
    Time,
    Timestamp,
}

/// Reads a literal: `YYYY-MM-DD`, `YYYY-MM-DD hh:mm:ss[.f]`, `[-]h..h:mm:ss[.f]`.
pub(crate) fn literal(text: &str, shape: Shape) -> Option<Number> {
    match shape {
        Shape::Date => Some(Number::from(day(text)?.number())),
        Shape::Time => {
            let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
            let (hours, minutes, seconds, fraction) = hours(text, 838)?;
            let number = fraction.add(Number::from(hours * 10_000 + minutes * 100 + seconds))?;
            if negative { number.negated() } else { Some(number) }
        }
        Shape::DateTime | Shape::Timestamp => {
            let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
            let (date, (hours, minutes, seconds, fraction)) = (day(date)?, hours(time, 23)?);
            let whole = if shape == Shape::DateTime {
                date.number() * 1_000_000 + hours * 10_000 + minutes * 100 + seconds
            } else {
                date.since_1970() * 86_400 + hours * 3600 + minutes * 60 + seconds
            };
            fraction.add(Number::from(whole))
        }
    }
}

struct Day {
    year: i128,
    month: i128,
    day: i128,
}

impl Day {
    fn number(&self) -> i128 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    /// The opposite of [`Day::since_1970`].
    fn of(days: i128) -> Day {
        let days = days + 719_468;
        // Eras of 400 years all have as many days.
        let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * year + year / 4 - year / 100);
        let month = (5 * in_year + 2) / 153;
        let day = in_year - (153 * month + 2) / 5 + 1;
        let month = (month + 2) % 12 + 1;
        Day { year: era * 400 + year + i128::from(month <= 2), month, day }
    }

    /// Days since 1970-01-01 in the Gregorian calendar. A year begins in March here, so that the leap day is
    /// its last.
    fn since_1970(&self) -> i128 {
        let year = self.year - i128::from(self.month <= 2);
        let month = (self.month + 9) % 12;
        let in_year = (153 * month + 2) / 5 + self.day - 1;
        let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        year * 365 + leaps + in_year - 719_468
    }
}

fn digits(text: &str, most: i128) -> Option<i128> {
    let plain = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|value| plain && *value <= most)
}

fn day(text: &str) -> Option<Day> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let date = Day { year: digits(year, 9999)?, month: digits(month, 12)?, day: digits(day, 31)? };
    (year.len() == 4 && parts.next().is_none()).then_some(date)
}

fn hours(text: &str, most: i128) -> Option<(i128, i128, i128, Number)> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = text.split(':');
    let clock = (digits(parts.next()?, most)?, digits(parts.next()?, 59)?, digits(parts.next()?, 59)?);
    let plain = fraction.len() <= 6 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !plain {
        return None;
    }
    let scale = u8::try_from(fraction.len()).ok()?;
    let fraction = Number { digits: fraction.parse().unwrap_or(0), scale };
    Some((clock.0, clock.1, clock.2, fraction))
}
