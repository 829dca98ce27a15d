//! Whether a value is the one that somebody types, as SELECT shows it.

use innodb::table::Type as Defined;
use innodb::table::collation::Charset;
use innodb::value::encode_as;

use super::text::charset;
use super::{Cell, Value};
use crate::Corrupt;
use crate::column::Type;
use crate::event::table::{BINARY, Column};

impl Column {
    /// Why it can't be known which values are the one that somebody types, if it can't.
    #[must_use]
    pub fn incomparable(&self, typed: &str) -> Option<&'static str> {
        let is_known = typed.eq_ignore_ascii_case("NULL") || typed.starts_with("0x");
        match self.kind {
            Type::Enum(_) | Type::Set(_) if self.members.is_none() => {
                let is_number = typed.parse::<u64>().is_ok();
                (!typed.is_empty() && !is_number && !typed.eq_ignore_ascii_case("NULL")).then_some(
                    "the names of its members are not in the log: write the member's number, of a SET the sum of their \
                     bits, or give the table's CREATE TABLE with --schema",
                )
            }
            Type::Geometry(_) if !is_known => {
                Some("it is GEOMETRY: write the value's bytes as 0x..., as --rows shows them")
            }
            Type::Vector(_) if !is_known => {
                Some("it is VECTOR: write the value's bytes as 0x..., as --rows shows them")
            }
            _ => None,
        }
    }
}

impl Cell<'_> {
    /// [`Value::matches`] for the value of this cell.
    ///
    /// # Errors
    /// As those of [`Cell::value`].
    pub fn matches(&self, typed: &str) -> Result<bool, Corrupt> {
        Ok(self.value()?.matches(typed, self.column))
    }
}

impl Value<'_> {
    /// Whether somebody who types this text means the value of this column: as SELECT shows it, without
    /// quotes, or NULL; bytes also in hexadecimal, as `0x41`. What the log does not say of the column counts
    /// for the value: bytes of an unknown character set are the text if they are in any.
    #[must_use]
    pub fn matches(&self, typed: &str, column: &Column) -> bool {
        match self {
            Value::Null => typed.eq_ignore_ascii_case("NULL"),
            Value::Int(value) => number(typed) == Some((*value).into()),
            Value::Unsigned(value) => number(typed) == Some((*value).into()),
            Value::Either(signed, unsigned) => number(typed)
                .is_some_and(|typed| [i128::from(*signed), i128::from(*unsigned)].contains(&typed)),
            Value::Year(year) => number(typed) == Some((*year).into()),
            Value::Bit(value, _) => {
                let digits = typed.strip_prefix("b'").and_then(|typed| typed.strip_suffix('\''));
                let bits = digits.and_then(|digits| i128::from_str_radix(digits, 2).ok());
                bits.or_else(|| number(typed)) == Some((*value).into())
            }
            Value::Float(value) => same_float(typed, *value),
            Value::Double(value) => typed.parse::<f64>().is_ok_and(|typed| typed == *value),
            Value::Decimal(value) => same_decimal(typed, value),
            Value::Time(value) => without_fraction_zeros(typed) == without_fraction_zeros(value),
            Value::Enum(number, name) => {
                typed == number.to_string() || name.is_some_and(|name| is_in_any(typed, name))
            }
            Value::Set(bits, names) => {
                typed == bits.to_string() || names.as_ref().is_some_and(|names| are_members(typed, names))
            }
            Value::Bytes(bytes, collation) => is_bytes(typed, bytes, *collation, column),
            Value::Json(json) => json.to_string() == typed,
            // What it is now is not known.
            Value::JsonChanges(_) => false,
        }
    }
}

fn is_bytes(typed: &str, bytes: &[u8], collation: Option<u64>, column: &Column) -> bool {
    // BINARY(n) is written without the zeros at its end.
    let is_padded = matches!(column.kind, Type::Char(_)) && collation.is_none_or(|number| number == BINARY);
    let is_same = |typed: &[u8]| typed == bytes || is_padded && trimmed(typed) == trimmed(bytes);
    if unhex(typed).is_some_and(|typed| is_same(&typed)) {
        return true;
    }
    match charset(collation) {
        Some(charset) if charset.name != "binary" => charset.text(bytes).is_some_and(|text| text == typed),
        Some(_) => is_same(typed.as_bytes()) || is_address(typed, bytes, column),
        None => is_same(typed.as_bytes()) || is_address(typed, bytes, column) || is_in_any(typed, bytes),
    }
}

/// Whether it is a UUID or an address. The log has them as BINARY: newer servers write the parts of a UUID
/// in the order of its text, older ones in that in which they store them.
fn is_address(typed: &str, bytes: &[u8], column: &Column) -> bool {
    let kinds = match column.kind {
        Type::Char(4) => vec![Defined::Inet4],
        Type::Char(16) => {
            let uuid = |always_swapped| Defined::Uuid { always_swapped };
            vec![uuid(false), uuid(true), Defined::Inet6]
        }
        _ => return false,
    };
    let is_same = |stored: &[u8]| trimmed(stored) == trimmed(bytes);
    kinds.iter().any(|kind| {
        let mut stored = Vec::new();
        encode_as(kind, typed.as_bytes(), &mut stored).is_ok()
            && (is_same(&stored) || matches!(kind, Defined::Uuid { .. }) && is_same(&plain(typed)))
    })
}

/// The bytes of a UUID, in the order of its text.
fn plain(uuid: &str) -> Vec<u8> {
    unhex(&format!("0x{}", uuid.replace('-', ""))).unwrap_or_default()
}

/// Whether bytes are a text in any character set.
fn is_in_any(typed: &str, bytes: &[u8]) -> bool {
    // Almost every character set has ASCII as it is.
    let is_plain = bytes.is_ascii() && !bytes.contains(&0) && typed.is_ascii();
    typed.as_bytes() == bytes
        || !is_plain && Charset::all().any(|charset| charset.text(bytes).is_some_and(|text| text == typed))
}

fn are_members(typed: &str, names: &[&[u8]]) -> bool {
    let mut typed = typed.split(',').filter(|name| !name.is_empty());
    names.iter().all(|name| typed.next().is_some_and(|typed| is_in_any(typed, name)))
        && typed.next().is_none()
}

fn number(typed: &str) -> Option<i128> {
    typed.parse().ok()
}

/// The bytes of `0x41`.
fn unhex(typed: &str) -> Option<Vec<u8>> {
    let digits = typed.strip_prefix("0x")?.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    pairs.iter().map(byte).collect()
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

/// A FLOAT is shown with six digits.
fn same_float(typed: &str, value: f32) -> bool {
    let shown = format!("{value:.5e}").parse::<f64>();
    typed.parse::<f32>().is_ok_and(|typed| typed == value)
        || typed.parse::<f64>().is_ok_and(|typed| shown.is_ok_and(|shown| shown == typed))
}

/// A time is shown with as many decimals as its column has.
fn without_fraction_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Whether two decimal numbers are equal, with different zeros at their ends.
fn same_decimal(a: &str, b: &str) -> bool {
    fn plain(text: &str) -> (bool, &str, &str) {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (front, behind) = digits.split_once('.').unwrap_or((digits, ""));
        (is_negative, front.trim_start_matches('0'), behind.trim_end_matches('0'))
    }
    let is_number = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    is_number(a) && is_number(b) && plain(a) == plain(b)
}
