//! Times in the formats of MySQL 5.6 and before.

use crate::error::Flaw;
use crate::wire::{Wire, big};

/// The fraction that the rest of a value is, in microseconds.
fn micros(rest: &[u8]) -> Result<u32, Flaw> {
    let scale = match rest.len() {
        0 | 3 => 1,
        1 => 10_000,
        2 => 100,
        _ => return Err(Flaw("a time has too many bytes")),
    };
    let micros = big(rest) * scale;
    u32::try_from(micros).ok().filter(|micros| *micros < 1_000_000).ok_or(Flaw("a time has no such fraction"))
}

fn fraction(micros: u32, decimals: u8) -> String {
    let digits = format!("{micros:06}");
    match digits.get(..usize::from(decimals)).filter(|digits| !digits.is_empty()) {
        Some(digits) => format!(".{digits}"),
        None => String::new(),
    }
}

/// `2026-11-23`: 3 bytes with day, month and year.
pub(crate) fn date(bytes: &[u8]) -> Result<String, Flaw> {
    let number = Wire(bytes).uint(3)?;
    Ok(format!("{:04}-{:02}-{:02}", number >> 9, number >> 5 & 15, number & 31))
}

/// `2026-11-23 10:00:00.123`
pub(crate) fn datetime(bytes: &[u8], decimals: u8) -> Result<String, Flaw> {
    let mut wire = Wire(bytes);
    let number = wire.uint_be(5)?.checked_sub(1 << 39).ok_or(Flaw("a time is before the year 0"))?;
    let (days, time) = (number >> 17, number & 0x1FFFF);
    let (months, day) = (days >> 5, days & 31);
    let (hour, minute, second) = (time >> 12, time >> 6 & 63, time & 63);
    let micros = fraction(micros(wire.rest())?, decimals);
    let (year, month) = (months / 13, months % 13);
    Ok(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{micros}"))
}

/// `-12:34:56.7`
pub(crate) fn time(bytes: &[u8], decimals: u8) -> Result<String, Flaw> {
    // Whole and fraction are one number of which half of the range was added.
    let bits = 8 * bytes.len();
    let half = 1_i64.checked_shl(u32::try_from(bits.saturating_sub(1)).unwrap_or(0)).unwrap_or(0);
    let number = i64::try_from(big(bytes)).unwrap_or(i64::MAX) - half;
    let (sign, number) = if number < 0 { ("-", number.unsigned_abs()) } else { ("", number.unsigned_abs()) };
    let fraction_bytes = bytes.len().checked_sub(3).ok_or(Flaw("a time is too short"))?;
    let all = number.to_be_bytes();
    let start = all.len() - fraction_bytes;
    let micros = micros(all.get(start..).unwrap_or_default())?;
    let whole = number >> (8 * fraction_bytes);
    let (hour, minute, second) = (whole >> 12 & 1023, whole >> 6 & 63, whole & 63);
    Ok(format!("{sign}{hour:02}:{minute:02}:{second:02}{}", fraction(micros, decimals)))
}

/// Seconds since 1970, microseconds.
pub(crate) fn timestamp(bytes: &[u8]) -> Result<(u32, u32), Flaw> {
    let mut wire = Wire(bytes);
    let seconds = u32::try_from(wire.uint_be(4)?).unwrap_or(0);
    Ok((seconds, micros(wire.rest())?))
}

/// `2026-11-23 10:00:00.123` in UTC, or zeros.
pub(crate) fn timestamp_text(seconds: u32, micros: u32, decimals: u8) -> String {
    let fraction = fraction(micros, decimals);
    if seconds == 0 && micros == 0 {
        return format!("0000-00-00 00:00:00{fraction}");
    }
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}")
}

/// The date of a day since 1970. Years begin in March here, so that a leap day is the last one.
fn civil(days: u32) -> (u32, u32, u32) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u32::from(month <= 2), month, date)
}

/// `2026-11-23 10:00:00`: the digits as one number.
pub(crate) fn old_datetime(bytes: &[u8]) -> Result<String, Flaw> {
    let number = Wire(bytes).u64()?;
    let (date, time) = (number / 1_000_000, number % 1_000_000);
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let (hour, minute, second) = (time / 10_000, time / 100 % 100, time % 100);
    Ok(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"))
}

/// `-12:34:56`: the digits as one number with a sign.
pub(crate) fn old_time(bytes: &[u8]) -> Result<String, Flaw> {
    let number = Wire(bytes).uint(3)?;
    let (sign, number) = if number >= 1 << 23 { ("-", (1 << 24) - number) } else { ("", number) };
    let (hour, minute, second) = (number / 10_000, number / 100 % 100, number % 100);
    Ok(format!("{sign}{hour:02}:{minute:02}:{second:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_signs_and_fractions() {
        // TIME(2): '-00:00:00.01' and '-12:34:56.78'.
        assert_eq!(time(&[0x7F, 0xFF, 0xFF, 0xFF], 2).as_deref(), Ok("-00:00:00.01"));
        assert_eq!(time(&[0x80, 0xC8, 0xB8], 0).as_deref(), Ok("12:34:56"));
        assert_eq!(time(&[0x7F, 0x37, 0x48], 0).as_deref(), Ok("-12:34:56"));
        assert!(time(&[0x80, 0xC8, 0xB8, 100], 2).is_err());
        assert_eq!(datetime(&[0x99, 0xBB, 0x6E, 0xA0, 0x01], 0).as_deref(), Ok("2026-11-23 10:00:01"));
        assert_eq!(old_time(&[0xC0, 0x1D, 0xFE]).as_deref(), Ok("-12:34:56"));
        assert_eq!(date(&[0x77, 0xD5, 0x0F]).as_deref(), Ok("2026-11-23"));
    }

    #[test]
    fn days_are_dates() {
        assert_eq!(timestamp_text(951_782_400, 0, 0), "2000-02-29 00:00:00");
        assert_eq!(timestamp_text(u32::MAX, 5, 6), "2106-02-07 06:28:15.000005");
        assert_eq!(timestamp_text(0, 0, 1), "0000-00-00 00:00:00.0");
        assert_eq!(timestamp_text(0, 1, 6), "1970-01-01 00:00:00.000001");
    }
}
