//! FLOAT and DOUBLE: IEEE 754, little-endian, and the text that restores them exactly.

use super::{Fault, print, print_digits};
use crate::table::FloatFormat;

/// The most digits of a whole number without an exponent; also one more than the most zeros after the point.
const PLAIN_DIGITS: i32 = 15;
/// With at most this many digits no two texts mean the same value.
const EXACT_DIGITS: usize = 15;
/// The width to which zeros fill a DOUBLE.
const DOUBLE_WIDTH: usize = 22;

pub(super) fn decode(stored: &[u8], format: FloatFormat, out: &mut Vec<u8>) -> Result<(), Fault> {
    let single = <[u8; 4]>::try_from(stored).map(|bytes| f64::from(f32::from_le_bytes(bytes)));
    let value = match (single, <[u8; 8]>::try_from(stored)) {
        (Ok(value), _) => value,
        (_, Ok(bytes)) => f64::from_le_bytes(bytes),
        _ => return Err("neither a FLOAT nor a DOUBLE"),
    };
    if !value.is_finite() {
        return Err("infinity, or not a number, which the server does not store");
    }
    if value == 0.0 && value.is_sign_negative() {
        // A text that any server's FLOAT reads as negative zero.
        out.extend_from_slice(if single.is_ok() { b"-1e-60" } else { b"-0" });
        return Ok(());
    }
    if !format.zerofill && short(value, out) {
        return Ok(());
    }
    let text = shortest(value);
    let filled = format.zerofill && single.is_err() && format.digits.is_none();
    let width = if filled { DOUBLE_WIDTH } else { 0 };
    print(out, format_args!("{text:0>width$}"));
    Ok(())
}

/// Writes a value with up to seven digits after the point, like most values; returns whether it is one. No
/// two texts of up to 15 digits mean the same value, so a text that restores it is the shortest.
fn short(value: f64, out: &mut Vec<u8>) -> bool {
    const SCALE: f64 = 1e7;
    let scaled = (value.abs() * SCALE).round();
    // Both are exact, so this quotient is the value that the text has.
    if scaled >= 1e15 || scaled / SCALE != value.abs() {
        return false;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number below 1e15")]
    let whole = scaled as u64;
    if value < 0.0 {
        out.push(b'-');
    }
    print_digits(out, whole / 10_000_000, 1);
    let fraction = whole % 10_000_000;
    if fraction > 0 {
        out.push(b'.');
        print_digits(out, fraction, 7);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    true
}

/// The shortest text that restores the value, in the server's form.
fn shortest(value: f64) -> String {
    let (digits, point) = digits(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let length = i32::try_from(digits.len()).unwrap_or_default();
    if point < 1 - PLAIN_DIGITS || point > PLAIN_DIGITS && length <= point {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{dot}{rest}e{}", point - 1);
    }
    match usize::try_from(point) {
        Ok(point) if point >= digits.len() => format!("{sign}{digits:0<point$}"),
        Ok(point) if point > 0 => {
            let (whole, fraction) = digits.split_at(point);
            format!("{sign}{whole}.{fraction}")
        }
        _ => {
            let zeros = usize::try_from(-point).unwrap_or_default();
            format!("{sign}0.{:0<zeros$}{digits}", "")
        }
    }
}

/// The fewest digits that distinguish a value from its neighbours, and the position of the point in them.
fn digits(value: f64) -> (String, i32) {
    let short = format!("{value:e}");
    let digits = short.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let mut text = short;
    if digits > EXACT_DIGITS {
        // Two such texts can be equally near: the server then prints the one that ends in an even digit.
        let even = format!("{value:.*e}", digits - 1);
        if even.parse() == Ok(value) {
            text = even;
        }
    }
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.replace('.', ""), exponent.parse::<i32>().unwrap_or_default() + 1)
}

pub(super) fn encode_float(text: &[u8], format: FloatFormat, out: &mut Vec<u8>) -> Result<(), Fault> {
    let value = parse(text, format)?;
    if value.abs() > f64::from(f32::MAX) {
        return Err("out of range");
    }
    #[expect(clippy::cast_possible_truncation, reason = "a FLOAT has fewer digits, also in the server")]
    let value = value as f32;
    out.extend_from_slice(&value.to_le_bytes());
    Ok(())
}

pub(super) fn encode_double(text: &[u8], format: FloatFormat, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.extend_from_slice(&parse(text, format)?.to_le_bytes());
    Ok(())
}

fn parse(text: &[u8], format: FloatFormat) -> Result<f64, Fault> {
    // Rust also accepts names: infinity, nan.
    let plain = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let text = std::str::from_utf8(text).ok().filter(|_| plain);
    let value: f64 = text.and_then(|text| text.parse().ok()).ok_or("not a number")?;
    if !value.is_finite() || format.unsigned && value < 0.0 {
        return Err("out of range");
    }
    match format.digits {
        Some((total, decimals)) => rounded(value, total, decimals),
        None => Ok(value),
    }
}

/// The value in a column with declared digits: the fraction is rounded to its decimals.
fn rounded(value: f64, total: u8, decimals: u8) -> Result<f64, Fault> {
    let unit = 10_f64.powi(i32::from(decimals));
    let max = 10_f64.powi(i32::from(total.saturating_sub(decimals))) - 1.0 / unit;
    let floor = value.floor();
    let value = floor + ((value - floor) * unit).round_ties_even() / unit;
    if value.abs() > max { Err("out of range") } else { Ok(value) }
}
