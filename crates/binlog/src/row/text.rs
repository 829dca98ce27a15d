//! Values as text, as SELECT shows them.

use std::fmt::{self, Display};

use innodb::table::collation::{Charset, Collation};

use crate::row::value::Value;

impl Value<'_> {
    /// The text of a value that is text, if it can be shown as such.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self {
            Value::Bytes(bytes, collation) => text(bytes, *collation),
            Value::Enum(_, Some(name)) => text(name, None),
            Value::Set(_, Some(names)) => text(&names.join(&b","[..]), None),
            Value::Time(text) => Some(text.clone()),
            Value::Json(json) => Some(json.to_string()),
            _ => None,
        }
    }

    /// The bytes of a value that may be no text.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes, _) => Some(bytes),
            _ => None,
        }
    }
}

fn text(bytes: &[u8], collation: Option<u64>) -> Option<String> {
    match charset(collation) {
        Some(charset) if charset.name != "binary" => charset.text(bytes),
        charset => {
            let text = std::str::from_utf8(bytes).ok()?;
            let is_shown = charset.is_none() || !text.contains(|c: char| c.is_control());
            is_shown.then(|| text.to_owned())
        }
    }
}

/// The character set of a collation, if both are known.
pub(super) fn charset(collation: Option<u64>) -> Option<Charset> {
    let number = u16::try_from(collation?).ok()?;
    Collation::of_number(number).map(Collation::charset)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    digits(bytes, &mut text);
    text
}

/// Appends two hexadecimal digits for each byte. Rows may have megabytes of them.
pub(crate) fn digits(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |number: u8| char::from(DIGITS[usize::from(number & 0xf)]);
    out.reserve(2 * bytes.len());
    bytes.iter().for_each(|byte| out.extend([digit(byte >> 4), digit(*byte)]));
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
            Value::JsonChanges(changes) => f.write_str(changes),
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
