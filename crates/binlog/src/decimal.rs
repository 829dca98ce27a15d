//! DECIMAL: groups of nine digits in four bytes, so that values are ordered as their bytes are.

use crate::error::Flaw;
use crate::wire::{Wire, big};

/// Bytes of the digits that do not fill a group.
const PART_BYTES: [u8; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
const GROUP: usize = 9;

/// The lengths of the groups in front of the point, and behind it.
fn groups(digits: usize, is_front: bool) -> impl Iterator<Item = usize> {
    let part = digits % GROUP;
    let (first, last) = if is_front { (part, 0) } else { (0, part) };
    std::iter::once(first)
        .chain(std::iter::repeat_n(GROUP, digits / GROUP))
        .chain(std::iter::once(last))
        .filter(|digits| *digits > 0)
}

fn bytes_of(digits: usize) -> usize {
    PART_BYTES.get(digits).copied().unwrap_or(4).into()
}

fn parts(precision: u8, scale: u8) -> (usize, usize) {
    (usize::from(precision.saturating_sub(scale)), scale.into())
}

/// Bytes of a value.
pub(crate) fn stored_len(precision: u8, scale: u8) -> usize {
    let (front, behind) = parts(precision, scale);
    groups(front, true).chain(groups(behind, false)).map(bytes_of).sum()
}

/// The value as text.
pub(crate) fn text(bytes: &[u8], precision: u8, scale: u8) -> Result<String, Flaw> {
    let first = *bytes.first().ok_or(Flaw("a value is too short"))?;
    let is_negative = first & 0x80 == 0;
    let mut plain: Vec<u8> = bytes.iter().map(|byte| if is_negative { !byte } else { *byte }).collect();
    if let Some(first) = plain.first_mut() {
        *first ^= 0x80;
    }
    let mut wire = Wire(&plain);
    let mut digits = |count: usize, is_front| {
        let mut text = String::with_capacity(count);
        for len in groups(count, is_front) {
            let number = big(wire.take(bytes_of(len))?).to_string();
            if number.len() > len {
                return Err(Flaw("a value has too many digits"));
            }
            text.extend(std::iter::repeat_n('0', len - number.len()));
            text.push_str(&number);
        }
        Ok(text)
    };
    let (front, behind) = parts(precision, scale);
    let (front, behind) = (digits(front, true)?, digits(behind, false)?);
    let front = front.trim_start_matches('0');
    let front = if front.is_empty() { "0" } else { front };
    let sign = if is_negative { "-" } else { "" };
    let point = if behind.is_empty() { "" } else { "." };
    Ok(format!("{sign}{front}{point}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_in_groups() {
        // The example of MariaDB's source: 1234567890.1234, precision 14, scale 4.
        let bytes = [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2];
        assert_eq!(stored_len(14, 4), bytes.len());
        assert_eq!(text(&bytes, 14, 4).as_deref(), Ok("1234567890.1234"));
        let negative = bytes.map(|byte| !byte);
        assert_eq!(text(&negative, 14, 4).as_deref(), Ok("-1234567890.1234"));
        assert_eq!(text(&[0x80, 0x05], 3, 2).as_deref(), Ok("0.05"));
        assert!(text(&[0xFF, 0xFF, 0xFF], 3, 2).is_err());
    }
}
