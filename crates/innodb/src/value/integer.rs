//! TINYINT to BIGINT: big-endian, with the sign bit inverted if there is one.

use super::{Fault, digits, number, print_digits, put};

pub(super) fn decode(stored: &[u8], unsigned: bool, zerofill: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let value = number(stored);
    let zero = 1 << (8 * stored.len() - 1);
    let size = match unsigned {
        true => value,
        false if value >= zero => value - zero,
        false => {
            out.push(b'-');
            zero - value
        }
    };
    // ZEROFILL has no sign.
    print_digits(out, size, usize::from(zerofill).max(1));
    Ok(())
}

pub(super) fn encode(text: &[u8], bytes: u8, unsigned: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (negative, rest) = sign(text);
    let size = digits(rest).ok_or("not a whole number of this type")?;
    let bits = 8 * u32::from(bytes);
    let zero = if unsigned { 0 } else { 1_u64 << (bits - 1) };
    let stored = if negative { zero.checked_sub(size) } else { size.checked_add(zero) };
    let stored = stored.filter(|stored| *stored <= u64::MAX >> (64 - bits));
    put(stored.ok_or("out of range")?, usize::from(bytes), out);
    Ok(())
}

/// Whether a text begins with a minus, and the text after the sign.
pub(super) fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}
