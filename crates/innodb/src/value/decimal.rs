//! DECIMAL: nine digits in four bytes, and the remaining digits at both ends in as few bytes as possible. All
//! bits are inverted when it is negative; then the first bit is inverted.

use super::integer::sign;
use super::{Fault, digits, number, print_digits, put};

const GROUP: usize = 9;
/// Powers of ten.
const POWERS: [u64; GROUP + 1] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

const EARLY: Fault = "a DECIMAL that ends early";
const TOO_LARGE: Fault = "a DECIMAL with more digits than its bytes can have";

/// How many digits are before and after the point.
#[derive(Clone, Copy)]
pub(super) struct DecimalFormat {
    whole: usize,
    scale: usize,
}

impl DecimalFormat {
    pub(super) fn new(precision: u8, scale: u8) -> DecimalFormat {
        DecimalFormat { whole: usize::from(precision.saturating_sub(scale)), scale: usize::from(scale) }
    }

    /// Digits of each group, in storage order.
    fn groups(self) -> impl Iterator<Item = usize> {
        let whole = std::iter::once(self.whole % GROUP).chain(std::iter::repeat_n(GROUP, self.whole / GROUP));
        let scale = std::iter::repeat_n(GROUP, self.scale / GROUP).chain(std::iter::once(self.scale % GROUP));
        whole.chain(scale).filter(|digits| *digits > 0)
    }
}

/// How many bytes a group of so many digits takes.
fn bytes(digits: usize) -> usize {
    digits.div_ceil(2).min(4)
}

/// A value with at most a group of digits on both sides of the point, and at least one before it. Most have.
#[inline]
fn decode_short(
    stored: &[u8],
    format: DecimalFormat,
    zerofill: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (before, behind) = stored.split_at_checked(bytes(format.whole)).ok_or(EARLY)?;
    let behind = behind.get(..bytes(format.scale)).ok_or(EARLY)?;
    let negative = before.first().is_some_and(|byte| byte & 0x80 == 0);
    let part = |part: &[u8], first: u64| {
        let bits = 8 * part.len();
        let flip = if negative { (1 << bits) - 1 } else { 0 };
        number(part) ^ flip ^ (first << bits >> 1)
    };
    let (whole, fraction) = (part(before, 1), part(behind, 0));
    if whole >= POWERS[format.whole] || fraction >= POWERS[format.scale] {
        return Err(TOO_LARGE);
    }
    if negative {
        out.push(b'-');
    }
    print_digits(out, whole, if zerofill { format.whole } else { 1 });
    if format.scale > 0 {
        out.push(b'.');
        print_digits(out, fraction, format.scale);
    }
    Ok(())
}

pub(super) fn decode(
    stored: &[u8],
    format: DecimalFormat,
    zerofill: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    if (1..=GROUP).contains(&format.whole) && format.scale <= GROUP {
        return decode_short(stored, format, zerofill, out);
    }
    if stored.len() < format.groups().map(bytes).sum() {
        return Err(EARLY);
    }
    let begin = out.len();
    let negative = stored.first().is_some_and(|byte| byte & 0x80 == 0);
    let flip = if negative { 0xff } else { 0 };
    if negative {
        out.push(b'-');
    }
    let start = out.len();
    let (mut rest, mut first, mut before) = (stored, 0x80, 0);
    for group in format.groups() {
        let (now, next) = rest.split_at(bytes(group));
        rest = next;
        let value = now
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(byte ^ flip ^ std::mem::take(&mut first)));
        if value >= POWERS[group] {
            out.truncate(begin);
            return Err(TOO_LARGE);
        }
        if before == format.whole {
            point(start, out);
        }
        let leads = out.len() == start && !zerofill;
        match (leads, value) {
            (false, _) => print_digits(out, value, group),
            (true, 0) => {}
            (true, _) => print_digits(out, value, 0),
        }
        before += group;
    }
    if out.len() == start {
        out.push(b'0');
    }
    Ok(())
}

/// Ends the whole digits, which begin at `start`.
fn point(start: usize, out: &mut Vec<u8>) {
    if out.len() == start {
        out.push(b'0');
    }
    out.push(b'.');
}

/// A number as text: its sign, and the digits before and behind the point.
struct Digits<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
}

/// A number with as many digits as the column can have at most on both sides of the point, at most a group
/// each. Most are.
fn encode_short(
    number: &Digits<'_>,
    format: DecimalFormat,
    unsigned: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let Digits { negative, whole, fraction } = *number;
    let part = |text: &[u8]| if text.is_empty() { Some(0) } else { digits(text) };
    let (Some(before), Some(behind)) = (part(whole), part(fraction)) else {
        return Err("not a decimal number");
    };
    let negative = negative && (before | behind) != 0;
    if negative && unsigned {
        return Err("out of range");
    }
    let start = out.len();
    let flip = if negative { u64::MAX } else { 0 };
    put(before ^ flip, bytes(format.whole), out);
    put((behind * POWERS[format.scale - fraction.len()]) ^ flip, bytes(format.scale), out);
    if let Some(first) = out.get_mut(start) {
        *first ^= 0x80;
    }
    Ok(())
}

pub(super) fn encode(
    text: &[u8],
    format: DecimalFormat,
    unsigned: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (negative, text) = sign(text);
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = point.map_or((text, &[][..]), |at| (&text[..at], &text[at + 1..]));
    if format.whole.max(format.scale) <= GROUP
        && (1..=format.whole).contains(&whole.len())
        && fraction.len() <= format.scale
    {
        return encode_short(&Digits { negative, whole, fraction }, format, unsigned, out);
    }
    let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err("not a decimal number");
    }
    let is_zero = |digit: &&u8| **digit == b'0';
    let whole = &whole[whole.iter().take_while(is_zero).count()..];
    let Some(zeros) = format.whole.checked_sub(whole.len()) else {
        return Err("out of range");
    };
    let (kept, lost) = fraction.split_at(fraction.len().min(format.scale));
    if !lost.iter().all(|digit| is_zero(&digit)) {
        return Err("more decimals than the column has");
    }
    let negative = negative && !(whole.is_empty() && kept.iter().all(|digit| is_zero(&digit)));
    if negative && unsigned {
        return Err("out of range");
    }
    let (start, mut before) = (out.len(), 0_usize);
    for group in format.groups() {
        // The digits of this group that the text has: whole ones may lack in front, the others at the end.
        let (digits, from) = match before.checked_sub(format.whole) {
            None => (whole, before.saturating_sub(zeros)..(before + group).saturating_sub(zeros)),
            Some(from) => (kept, from.min(kept.len())..(from + group).min(kept.len())),
        };
        let (is_fraction, count) = (before >= format.whole, from.len());
        let value = digits[from].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        let places = if is_fraction { POWERS[group - count] } else { 1 };
        put(value * places, bytes(group), out);
        before += group;
    }
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
    if let Some(first) = out.get_mut(start) {
        *first ^= 0x80;
    }
    Ok(())
}
