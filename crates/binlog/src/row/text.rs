//! Values as text, as SELECT shows them.

use std::fmt::{self, Display};

use crate::event::table::BINARY;
use crate::row::value::Value;

/// The collations of latin1, whose bytes are no UTF-8. MariaDB's reads bytes from 0x80 on as Windows does,
/// so only those that are the same everywhere are shown as characters.
const LATIN1: [u64; 10] = [5, 8, 15, 31, 47, 48, 49, 94, 1032, 1071];

impl Value<'_> {
    /// The text of a value that is text, if it can be shown as such.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self {
            Value::Bytes(bytes, collation) => text(bytes, *collation),
            Value::Enum(_, Some(name)) => text(name, None),
            Value::Set(_, Some(names)) => text(&names.join(&b","[..]), None),
            Value::Time(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The bytes of a value that may be no text.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes, _) => Some(bytes),
            Value::Json(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether somebody who types this text means the value: without quotes, or NULL; bytes also in
    /// hexadecimal, as `0x41`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Value::Null => text.eq_ignore_ascii_case("NULL"),
            Value::Either(signed, unsigned) => text == signed.to_string() || text == unsigned.to_string(),
            Value::Float(value) => text.parse::<f32>().is_ok_and(|wanted| wanted == *value),
            Value::Double(value) => text.parse::<f64>().is_ok_and(|wanted| wanted == *value),
            Value::Decimal(value) => same_decimal(text, value),
            Value::Enum(number, _) if text == number.to_string() => true,
            Value::Set(bits, _) if text == bits.to_string() => true,
            Value::Bit(value, _) if text == value.to_string() => true,
            Value::Bytes(bytes, _) if text.as_bytes() == &**bytes => true,
            _ => match (self.as_text(), self.as_bytes()) {
                (Some(own), _) if own == text => true,
                (_, Some(bytes)) => {
                    text.strip_prefix("0x").is_some_and(|wanted| wanted.eq_ignore_ascii_case(&hex(bytes)))
                }
                (Some(_), None) => false,
                (None, None) => self.to_string() == text,
            },
        }
    }
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

fn text(bytes: &[u8], collation: Option<u64>) -> Option<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) if collation != Some(BINARY) || !text.contains(|c: char| c.is_control()) => {
            Some(text.to_owned())
        }
        Err(_) if collation.is_some_and(|number| LATIN1.contains(&number)) => {
            let is_plain = |byte: &u8| !(0x80..0xA0).contains(byte);
            bytes.iter().all(is_plain).then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02X}").ok();
        text
    })
}

/// A number with as few digits as give the same value again.
pub fn number(value: f64) -> String {
    trimmed(format!("{value:?}"))
}

fn trimmed(mut text: String) -> String {
    if text.ends_with(".0") {
        text.truncate(text.len() - 2);
    }
    text
}

/// A text in single quotes; what is not shown as it is stands behind a backslash.
fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("'")?;
    for c in text.chars() {
        match c {
            '\'' => f.write_str("\\'")?,
            '\\' => f.write_str("\\\\")?,
            '\0' => f.write_str("\\0")?,
            c if c.is_control() => write!(f, "{}", c.escape_default())?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("'")
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Unsigned(value) => write!(f, "{value}"),
            Value::Either(signed, unsigned) => write!(f, "{signed} ({unsigned})"),
            Value::Float(value) => f.write_str(&trimmed(format!("{value:?}"))),
            Value::Double(value) => f.write_str(&number(*value)),
            Value::Decimal(text) => f.write_str(text),
            Value::Bit(value, bits) => write!(f, "b'{value:0width$b}'", width = usize::from(*bits)),
            Value::Year(year) => write!(f, "{year:04}"),
            Value::Enum(number, None) => write!(f, "{number}"),
            Value::Set(bits, None) => write!(f, "{bits}"),
            _ => match (self.as_text(), self.as_bytes()) {
                (Some(text), _) => quoted(&text, f),
                (None, Some(bytes)) => write!(f, "0x{}", hex(bytes)),
                (None, None) => match self {
                    Value::Enum(number, _) => write!(f, "{number}"),
                    Value::Set(bits, _) => write!(f, "{bits}"),
                    _ => Ok(()),
                },
            },
        }
    }
}
