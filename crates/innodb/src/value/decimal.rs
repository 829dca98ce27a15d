//! DECIMAL: nine digits in four bytes, and the remaining digits at both ends in as few bytes as possible. All
//! bits are inverted when it is negative; then the first bit is inverted.

use super::integer::sign;
use super::{Fault, number, put};

const GROUP: usize = 9;

/// How many digits are before and after the point.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    whole: usize,
    scale: usize,
}

impl Shape {
    pub(super) fn new(precision: u8, scale: u8) -> Shape {
        Shape { whole: usize::from(precision.saturating_sub(scale)), scale: usize::from(scale) }
    }

    /// Digits of each group, in storage order.
    fn groups(self) -> impl Iterator<Item = usize> {
        let whole = std::iter::once(self.whole % GROUP).chain(std::iter::repeat_n(GROUP, self.whole / GROUP));
        let scale = std::iter::repeat_n(GROUP, self.scale / GROUP).chain(std::iter::once(self.scale % GROUP));
        whole.chain(scale).filter(|digits| *digits > 0)
    }
}

pub(super) fn decode(stored: &[u8], shape: Shape, zerofill: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let negative = stored.first().is_some_and(|byte| byte & 0x80 == 0);
    let flip = if negative { 0xff } else { 0 };
    let mut bytes: Vec<u8> = stored.iter().map(|byte| byte ^ flip).collect();
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    let mut digits = Vec::with_capacity(shape.whole + shape.scale);
    let mut rest = bytes.as_slice();
    for group in shape.groups() {
        let Some((now, next)) = rest.split_at_checked(group.div_ceil(2).min(4)) else {
            return Err("a DECIMAL that ends early");
        };
        let text = format!("{:0group$}", number(now));
        if text.len() > group {
            return Err("a DECIMAL with more digits than its bytes can have");
        }
        digits.extend_from_slice(text.as_bytes());
        rest = next;
    }
    let (whole, fraction) = digits.split_at(shape.whole);
    let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
    let whole = if zerofill { whole } else { &whole[zeros..] };
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
    Ok(())
}

pub(super) fn encode(text: &[u8], shape: Shape, unsigned: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (negative, text) = sign(text);
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err("not a decimal number");
    }
    let whole = &whole[whole.iter().take_while(|digit| **digit == b'0').count()..];
    if whole.len() > shape.whole {
        return Err("out of range");
    }
    let (kept, lost) = fraction.split_at(fraction.len().min(shape.scale));
    if lost.iter().any(|digit| *digit != b'0') {
        return Err("more decimals than the column has");
    }
    let mut digits = vec![b'0'; shape.whole - whole.len()];
    digits.extend_from_slice(whole);
    digits.extend_from_slice(kept);
    digits.resize(shape.whole + shape.scale, b'0');
    let negative = negative && digits.iter().any(|digit| *digit != b'0');
    if negative && unsigned {
        return Err("out of range");
    }
    let start = out.len();
    let mut rest = digits.as_slice();
    for group in shape.groups() {
        let (now, next) = rest.split_at(group);
        put(super::digits(now).unwrap_or_default(), group.div_ceil(2).min(4), out);
        rest = next;
    }
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
    out[start] ^= 0x80;
    Ok(())
}
