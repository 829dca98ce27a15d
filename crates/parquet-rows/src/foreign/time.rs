//! Dates and times as text.

use crate::date::civil;

/// The number of the day 1970-01-01 as astronomers count.
const JULIAN_1970: i64 = 2_440_588;
const SECONDS_OF_DAY: i64 = 86_400;
const NANOSECONDS: i64 = 1_000_000_000;

/// A number with at least so many digits.
fn digits(mut number: u64, count: usize, out: &mut Vec<u8>) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while number > 0 || at > text.len() - count {
        at -= 1;
        let digit = u8::try_from(number % 10).unwrap_or(0);
        if let Some(place) = text.get_mut(at) {
            *place = b'0' + digit;
        }
        number /= 10;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
}

fn positive(number: i64) -> u64 {
    number.unsigned_abs()
}

/// Appends a day, counted from 1970-01-01; false if its year is not one from 0 to 9999.
pub(crate) fn date(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil(days);
    if year < 0 {
        out.push(b'-');
    }
    digits(positive(year), 4, out);
    out.push(b'-');
    digits(positive(month), 2, out);
    out.push(b'-');
    digits(positive(day), 2, out);
    (0..=9999).contains(&year)
}

/// Appends a time of day, with as many digits of its fraction as it needs of 3, 6 and 9.
fn clock(seconds: u64, nanoseconds: u64, out: &mut Vec<u8>) {
    digits(seconds / 3_600, 2, out);
    out.push(b':');
    digits(seconds / 60 % 60, 2, out);
    out.push(b':');
    digits(seconds % 60, 2, out);
    if nanoseconds == 0 {
        return;
    }
    out.push(b'.');
    match (nanoseconds % 1_000_000, nanoseconds % 1_000) {
        (0, _) => digits(nanoseconds / 1_000_000, 3, out),
        (_, 0) => digits(nanoseconds / 1_000, 6, out),
        _ => digits(nanoseconds, 9, out),
    }
}

/// Appends a time since 1970, of which so many units are a second; false if its year is not one from 0 to
/// 9999.
pub(crate) fn timestamp(value: i64, units: i64, out: &mut Vec<u8>) -> bool {
    let (seconds, rest) = (value.div_euclid(units), value.rem_euclid(units));
    let (days, of_day) = (seconds.div_euclid(SECONDS_OF_DAY), seconds.rem_euclid(SECONDS_OF_DAY));
    let in_range = date(days, out);
    out.push(b' ');
    clock(positive(of_day), positive(rest * (NANOSECONDS / units)), out);
    in_range
}

/// Appends a time of day, of which so many units are a second. More than a day and less than none are written
/// too; the server knows what its type holds.
pub(crate) fn time(value: i64, units: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let (value, units) = (positive(value), positive(units));
    clock(value / units, value % units * (positive(NANOSECONDS) / units), out);
}

/// Appends a time of 96 bits: nanoseconds of the day, and the day as astronomers count. False if it is not
/// one, or its year is not one from 0 to 9999.
pub(crate) fn of_96_bits(value: &[u8], out: &mut Vec<u8>) -> bool {
    let parts = value.split_first_chunk::<8>().and_then(|(time, day)| Some((time, day.first_chunk::<4>()?)));
    let Some((time, day)) = parts else { return false };
    let (time, day) = (i64::from_le_bytes(*time), i64::from(i32::from_le_bytes(*day)));
    let in_range = date(day - JULIAN_1970, out);
    out.push(b' ');
    clock(positive(time) / positive(NANOSECONDS), positive(time) % positive(NANOSECONDS), out);
    in_range && (0..SECONDS_OF_DAY * NANOSECONDS).contains(&time)
}

/// Whether a time since 1970 is one that TIMESTAMP holds on every server.
pub(crate) fn is_in_timestamp_range(value: i64, units: i64) -> bool {
    (1..=i64::from(i32::MAX)).contains(&value.div_euclid(units))
}

/// The same for a time of 96 bits.
pub(crate) fn is_96_bits_in_timestamp_range(value: &[u8]) -> bool {
    let parts = value.split_first_chunk::<8>().and_then(|(time, day)| Some((time, day.first_chunk::<4>()?)));
    let Some((time, day)) = parts else { return false };
    let days = i64::from(i32::from_le_bytes(*day)) - JULIAN_1970;
    let seconds = i64::from_le_bytes(*time).div_euclid(NANOSECONDS);
    is_in_timestamp_range(days * SECONDS_OF_DAY + seconds, 1)
}
