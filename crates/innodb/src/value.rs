//! Values: the stored bytes, and the text that a dump of the server has for them (docs/formats/dump.md),
//! before anything is escaped. Text is in the bytes of its character set.
//!
//! Each type has one stored form and one text. [`encode`] accepts texts a little more freely than [`decode`]
//! writes them, but never one that would lose anything.

mod bytes;
mod decimal;
mod enum_set;
mod float;
mod integer;
pub mod json;
pub mod shared;
mod text;
mod time;
mod uuid_inet;

use std::io::Write;

use crate::Error;
use crate::table::{Column, Length, Type};

/// The reason why a text or bytes are not a value.
pub type Fault = &'static str;

/// Bytes of a text that a message shows.
const SHOWN_BYTES: usize = 80;

/// Writes the text of a stored value, which is not NULL.
///
/// # Errors
/// [`Error::Corrupt`] when these bytes are not a value of the column.
pub fn decode(column: &Column, stored: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let place = || format!("column `{}`", column.name);
    let fits = match column.kind.length() {
        Length::Fixed(bytes) => stored.len() == usize::from(bytes),
        Length::Variable { max, .. } => stored.len() as u64 <= u64::from(max),
    };
    if !fits {
        let what = format!("{} bytes where the type has another length", stored.len());
        return Err(Error::Corrupt { what, place: place() });
    }
    let done = decode_as(&column.kind, stored, out);
    done.map_err(|fault| Error::Corrupt { what: fault.to_owned(), place: place() })
}

/// Writes the text of a stored value of a type, which has a length that the type allows.
///
/// # Errors
/// Why these bytes are not a value of the type.
pub fn decode_as(kind: &Type, stored: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    match kind {
        Type::Int { unsigned, zerofill, .. } => integer::decode(stored, *unsigned, *zerofill, out),
        Type::Float(format) | Type::Double(format) => float::decode(stored, *format, out),
        Type::Decimal { precision, scale, zerofill, .. } => {
            decimal::decode(stored, decimal::DecimalFormat::new(*precision, *scale), *zerofill, out)
        }
        Type::Bit { bits } => bytes::decode_bit(stored, *bits, out),
        Type::Year { short } => time::decode_year(stored, *short, out),
        Type::Date => time::decode_date(stored, out),
        Type::Time { fraction } => time::decode_time(stored, *fraction, out),
        Type::Datetime { fraction } => time::decode_datetime(stored, *fraction, out),
        Type::Timestamp { fraction, .. } => time::decode_timestamp(stored, *fraction, out),
        Type::Char { collation, .. } => text::decode_char(stored, *collation, out),
        Type::Varchar { compressed, .. } | Type::Blob { compressed, .. } => {
            text::decode_variable(stored, text::plain_max(kind), *compressed, out)
        }
        Type::Enum(members) => enum_set::decode_enum(stored, members, out),
        Type::Set(members) => enum_set::decode_set(stored, members, out),
        Type::Uuid { always_swapped } => uuid_inet::decode_uuid(stored, *always_swapped, out),
        Type::Inet4 => uuid_inet::decode_inet4(stored, out),
        Type::Inet6 => uuid_inet::decode_inet6(stored, out),
        Type::Json => json::decode(stored, out),
        Type::Vector { .. } | Type::Geometry(_) => bytes::decode_plain(stored, out),
    }
}

/// Writes the stored bytes for a text, as the server would with STRICT_ALL_TABLES.
///
/// # Errors
/// [`Error::Value`] when the column can't hold exactly this value, or when it is not certain how the server
/// would read the text. `out` may then contain parts of it.
pub fn encode(column: &Column, text: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    encode_as(&column.kind, text, out).map_err(|what| unfit(column, what, text))
}

/// The error for a text that is no value of its column.
pub(crate) fn unfit(column: &Column, what: Fault, text: &[u8]) -> Error {
    Error::Value { column: column.name.clone(), what, text: shown(text) }
}

/// Like [`encode`], for a type. The error does not name the column.
///
/// # Errors
/// As those of [`encode`].
pub fn encode_as(kind: &Type, text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    match kind {
        Type::Int { bytes, unsigned, .. } => integer::encode(text, *bytes, *unsigned, out),
        Type::Float(format) => float::encode_float(text, *format, out),
        Type::Double(format) => float::encode_double(text, *format, out),
        Type::Decimal { precision, scale, unsigned, .. } => {
            decimal::encode(text, decimal::DecimalFormat::new(*precision, *scale), *unsigned, out)
        }
        Type::Bit { bits } => bytes::encode_bit(text, *bits, out),
        Type::Year { short } => time::encode_year(text, *short, out),
        Type::Date => time::encode_date(text, out),
        Type::Time { fraction } => time::encode_time(text, *fraction, out),
        Type::Datetime { fraction } => time::encode_datetime(text, *fraction, out),
        Type::Timestamp { fraction, wide } => time::encode_timestamp(text, *fraction, *wide, out),
        Type::Char { chars, collation } => text::encode_char(text, *chars, *collation, out),
        Type::Varchar { chars, collation, compressed } => {
            text::encode_varchar(text, *chars, *collation, *compressed, out)
        }
        Type::Blob { collation, compressed, .. } => {
            text::encode_blob(text, text::plain_max(kind), *collation, *compressed, out)
        }
        Type::Enum(members) => enum_set::encode_enum(text, members, out),
        Type::Set(members) => enum_set::encode_set(text, members, out),
        Type::Uuid { always_swapped } => uuid_inet::encode_uuid(text, *always_swapped, out),
        Type::Inet4 => uuid_inet::encode_inet4(text, out),
        Type::Inet6 => uuid_inet::encode_inet6(text, out),
        Type::Json => Err("MySQL's JSON, which is not written here"),
        Type::Vector { dimensions } => bytes::encode_vector(text, *dimensions, out),
        Type::Geometry(shape) => bytes::encode_geometry(text, *shape, out),
    }
}

/// The beginning of a text, for a message.
pub(crate) fn shown(text: &[u8]) -> String {
    let start = text.get(..SHOWN_BYTES).unwrap_or(text);
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("{}{more}", start.escape_ascii())
}

/// A number from a text of digits, if it fits.
#[inline]
fn digits(text: &[u8]) -> Option<u64> {
    match text.len() {
        0 => None,
        4..=8 => checked(eight_digits(right_aligned(text)?)),
        // Sixteen digits always fit.
        9..=16 => {
            let (first, last) = text.split_last_chunk::<8>()?;
            let (high, low) = (digits(first)?, checked(eight_digits(*last))?);
            Some(high * 100_000_000 + low)
        }
        _ => text.iter().try_fold(0_u64, |number, byte| {
            let digit = u64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
            number.checked_mul(10)?.checked_add(digit)
        }),
    }
}

#[inline]
fn checked((number, wrong): (u64, u64)) -> Option<u64> {
    (wrong == 0).then_some(number)
}

/// A text of four to eight bytes, with zeros in front.
#[inline]
fn right_aligned(text: &[u8]) -> Option<[u8; 8]> {
    let (first, last) = (text.first_chunk::<4>()?, text.last_chunk::<4>()?);
    // Bytes that are in both have the same place in both.
    let (first, last) = (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)));
    let missing = 8 * (8 - text.len().min(8));
    let zeros = 0x3030_3030 & !(u64::MAX << missing);
    Some((last << 32 | first << missing | zeros).to_le_bytes())
}

/// The number of eight digits, and 0 if they are all digits: pairs are joined, then fours, then all.
#[inline]
fn eight_digits(text: [u8; 8]) -> (u64, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let digits = u64::from_le_bytes(text) ^ (EACH * 0x30);
    // A byte of ten or more carries into the high half when six is added.
    let wrong = (digits | digits.wrapping_add(EACH * 6)) & (EACH * 0xF0);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    let all = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xFFFF_FFFF;
    (all, wrong)
}

/// The number of two digits, if they are some.
#[inline]
fn two_digits(tens: u8, ones: u8) -> Option<u64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
}

/// A number from up to eight bytes, big-endian.
pub(crate) fn number(stored: &[u8]) -> u64 {
    // Most integers have one of these two lengths.
    match *stored {
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => stored.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// The lowest bytes of a number, up to eight, big-endian.
#[inline]
fn put(number: u64, bytes: usize, out: &mut Vec<u8>) {
    let end = out.len() + bytes;
    let first = if bytes == 0 { 0 } else { number << (64 - 8 * bytes) };
    // Always eight bytes are appended: that needs no loop.
    out.extend_from_slice(&first.to_be_bytes());
    out.truncate(end);
}

/// Writes a number with at least `width` digits, up to twenty.
#[inline]
fn print_digits(out: &mut Vec<u8>, number: u64, width: usize) {
    const EIGHT: u64 = 100_000_000;
    let mut width = width.min(20);
    if number >= EIGHT || width > 8 {
        print_digits(out, number / EIGHT, width.saturating_sub(8));
        width = 8;
    }
    let digits = eight_values(number % EIGHT);
    // The first digit is the lowest byte.
    let zeros = (digits.trailing_zeros() as usize / 8).min(8 - width);
    if zeros == 8 {
        return;
    }
    let text = (digits | 0x3030_3030_3030_3030) >> (8 * zeros);
    // Always eight bytes are appended: that needs no loop.
    let end = out.len() + 8 - zeros;
    out.extend_from_slice(&text.to_le_bytes());
    out.truncate(end);
}

/// The digits of a number of up to eight, a byte each, the first one in the lowest: fours are parted into
/// pairs, then into digits.
#[inline]
fn eight_values(number: u64) -> u64 {
    let fours = (number / 10_000) | (number % 10_000) << 32;
    // The quotients by 100 and by 10, as products that are exact for as many digits.
    let hundreds = ((fours * 10_486) >> 20) & 0x7F_0000_007F;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | (pairs - tens * 10) << 8
}

/// Writes formatted text.
fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory can't fail.
    out.write_fmt(text).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_number_however_many_there_are() {
        let all = "98765432101234567890123";
        for len in 0..all.len() {
            for first in 0..all.len() - len {
                let text = &all[first..first + len];
                assert_eq!(digits(text.as_bytes()), text.parse().ok(), "{text}");
                for at in 0..len {
                    // The neighbours of the digits, what differs from one by a bit, and the ends.
                    for other in [b'/', b':', b' ', b'+', b'-', b'.', b'p', 0, 0xB0, 0xFA, 0xFF] {
                        let mut broken = text.as_bytes().to_vec();
                        broken[at] = other;
                        assert_eq!(digits(&broken), None, "{text}, {other} at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_are_printed_as_the_library_prints_them() {
        let mut numbers: Vec<u64> = (0..20_000).chain([u64::MAX, u64::MAX / 2]).collect();
        for power in 0..20 {
            let power = 10_u64.pow(power);
            numbers.extend((1..10).flat_map(|times| {
                let number = power.saturating_mul(times);
                [number - 1, number, number - number / 7]
            }));
        }
        // All that four digits can be, in both halves of eight.
        numbers.extend((0..10_000).map(|four| four * 10_000 + 9_999 - four));
        for number in numbers {
            for width in [0, 1, 2, 4, 7, 8, 9, 16, 20, 30] {
                let mut out = b"-".to_vec();
                print_digits(&mut out, number, width);
                let wanted = if (number, width) == (0, 0) {
                    String::new()
                } else {
                    format!("{number:0w$}", w = width.min(20))
                };
                assert_eq!(out, format!("-{wanted}").into_bytes(), "{number}, {width}");
            }
        }
    }

    #[test]
    fn so_many_low_bytes_are_put() {
        let mut out = vec![9];
        for bytes in 0..=8 {
            put(0x0102_0304_0506_0708, bytes, &mut out);
        }
        let low: Vec<u8> = (0..=8_u8).flat_map(|bytes| 9 - bytes..9).collect();
        assert_eq!(out, [vec![9], low].concat());
    }
}
