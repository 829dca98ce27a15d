//! The text of a document.

use std::fmt::{self, Display, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Json;

/// Characters in a line of base64.
const LINE_CHARS: usize = 76;
/// Numbers with more digits before the point, or more zeros after it, have an exponent.
const PLAIN_DIGITS: i32 = 15;

impl Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Int(value) => write!(f, "{value}"),
            Json::Unsigned(value) => write!(f, "{value}"),
            Json::Double(value) => double(*value, f),
            Json::Text(text) => quoted(text, f),
            Json::Decimal(text) => f.write_str(text),
            Json::Time(text) => write!(f, "\"{text}\""),
            Json::Bytes(kind, bytes) => {
                write!(f, "\"base64:type{kind}:")?;
                let digits = STANDARD.encode(bytes);
                for (at, digit) in digits.chars().enumerate() {
                    if at > 0 && at % LINE_CHARS == 0 {
                        f.write_str("\\n")?;
                    }
                    f.write_char(digit)?;
                }
                f.write_char('"')
            }
            Json::Array(items) => {
                f.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    f.write_str(if at > 0 { ", " } else { "" })?;
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (at, (name, value)) in members.iter().enumerate() {
                    f.write_str(if at > 0 { ", " } else { "" })?;
                    quoted(name, f)?;
                    write!(f, ": {value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\u{8}' => f.write_str("\\b")?,
            '\t' => f.write_str("\\t")?,
            '\n' => f.write_str("\\n")?,
            '\u{c}' => f.write_str("\\f")?,
            '\r' => f.write_str("\\r")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// As few digits as give the same number again, and a point or an exponent, by which it is no integer.
fn double(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let short = format!("{value:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let digits = digits.bytes().filter(u8::is_ascii_digit).count();
    let before_point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let has_fraction = i32::try_from(digits).unwrap_or(i32::MAX) > before_point;
    if before_point <= -PLAIN_DIGITS || before_point > PLAIN_DIGITS && !has_fraction {
        return f.write_str(&short);
    }
    write!(f, "{value}")?;
    if has_fraction { Ok(()) } else { f.write_str(".0") }
}
