//! FLOAT and DOUBLE: IEEE 754, the least significant byte first, and the text that gives them back exactly.

use super::{Fault, print, print_digits};
use crate::table::Real;

/// Digits of a whole number up to which no exponent is written, and one more than the zeros behind the point.
const PLAIN_DIGITS: i32 = 15;
/// Up to so many digits no two texts stand for one value.
const EXACT_DIGITS: usize = 15;
/// Digits that zeros fill a DOUBLE up to.
const DOUBLE_WIDTH: usize = 22;

pub(super) fn decode(stored: &[u8], real: Real, out: &mut Vec<u8>) -> Result<(), Fault> {
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
        // What makes a negative zero of any server's FLOAT.
        out.extend_from_slice(if single.is_ok() { b"-1e-60" } else { b"-0" });
        return Ok(());
    }
    if !real.zerofill && short(value, out) {
        return Ok(());
    }
    let text = shortest(value);
    let filled = real.zerofill && single.is_err() && real.digits.is_none();
    let width = if filled { DOUBLE_WIDTH } else { 0 };
    print(out, format_args!("{text:0>width$}"));
    Ok(())
}

/// Writes a value with up to seven digits behind the point, as most have, and says whether it is one. No two
/// texts of up to 15 digits stand for one value, so a text that gives it back is the shortest.
fn short(value: f64, out: &mut Vec<u8>) -> bool {
    const SCALE: f64 = 1e7;
    let scaled = (value.abs() * SCALE).round();
    // Both are exact, so this quotient is what the text is read as.
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

/// The shortest text that gives the value back, as the server writes it.
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
        Ok(point) if point >= digits.len() && point > 0 => format!("{sign}{digits:0<point$}"),
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

/// The fewest digits that tell a value from its neighbours, and where the point stands in them.
fn digits(value: f64) -> (String, i32) {
    let short = format!("{value:e}");
    let digits = short.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let mut text = short;
    if digits > EXACT_DIGITS {
        // Two such texts can be equally near: then the server takes the one that ends in an even digit.
        let even = format!("{value:.*e}", digits - 1);
        if even.parse() == Ok(value) {
            text = even;
        }
    }
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.replace('.', ""), exponent.parse::<i32>().unwrap_or_default() + 1)
}

pub(super) fn encode_float(text: &[u8], real: Real, out: &mut Vec<u8>) -> Result<(), Fault> {
    let value = parse(text, real)?;
    if value.abs() > f64::from(f32::MAX) {
        return Err("out of range");
    }
    #[expect(clippy::cast_possible_truncation, reason = "a FLOAT has fewer digits, also in the server")]
    let value = value as f32;
    out.extend_from_slice(&value.to_le_bytes());
    Ok(())
}

pub(super) fn encode_double(text: &[u8], real: Real, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.extend_from_slice(&parse(text, real)?.to_le_bytes());
    Ok(())
}

fn parse(text: &[u8], real: Real) -> Result<f64, Fault> {
    // Rust also takes names: infinity, nan.
    let plain = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let text = std::str::from_utf8(text).ok().filter(|_| plain);
    let value: f64 = text.and_then(|text| text.parse().ok()).ok_or("not a number")?;
    if !value.is_finite() || real.unsigned && value < 0.0 {
        return Err("out of range");
    }
    match real.digits {
        Some((total, decimals)) => rounded(value, total, decimals),
        None => Ok(value),
    }
}

/// As a column with digits has it: the fraction rounded to its decimals.
fn rounded(value: f64, total: u8, decimals: u8) -> Result<f64, Fault> {
    let unit = 10_f64.powi(i32::from(decimals));
    let max = 10_f64.powi(i32::from(total.saturating_sub(decimals))) - 1.0 / unit;
    let floor = value.floor();
    let value = floor + ((value - floor) * unit).round_ties_even() / unit;
    if value.abs() > max { Err("out of range") } else { Ok(value) }
}
