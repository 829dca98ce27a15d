//! Values as SQL that means exactly them, whatever the column's character set.
//!
//! The session has NAMES utf8mb4, the time zone +00:00, and an `sql_mode` in which a backslash escapes.

use std::fmt::Write;

use innodb::table::collation::Collation;
use memchr::memchr2;

use crate::column::Type;
use crate::event::table::{BINARY, Column};
use crate::row::{Value, digits};

/// Why a value can't be written.
pub type Fault = &'static str;

/// Character sets in which bytes of ASCII are its letters.
const LIKE_ASCII: [&str; 13] = [
    "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "greek", "hebrew", "koi8r", "koi8u", "latin1", "latin2",
    "latin5", "latin7",
];

/// How the texts of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Their bytes are UTF-8.
    Utf8,
    /// Those that are ASCII are.
    Ascii,
    /// As bytes.
    None,
}

impl Letters {
    /// Those of a column whose collation is known.
    #[must_use]
    pub fn of(column: &Column) -> Letters {
        if matches!(column.kind, Type::Geometry(_) | Type::Vector(_)) {
            return Letters::None;
        }
        let collation = column.collation.and_then(|number| u16::try_from(number).ok());
        match collation.and_then(Collation::of_number).map(|collation| collation.charset().name) {
            Some("utf8mb4" | "utf8mb3" | "binary") => Letters::Utf8,
            Some(name) if LIKE_ASCII.contains(&name) => Letters::Ascii,
            _ => Letters::None,
        }
    }
}

/// Whether a column is to be compared as bytes: its collation takes different texts for equal, JSON takes 1
/// and 1.0 for equal, and VECTOR is not comparable otherwise.
#[must_use]
pub fn is_loose(column: &Column) -> bool {
    let is_text = matches!(
        column.kind,
        Type::Char(_) | Type::Varchar(_) | Type::PackedVarchar(_) | Type::Blob(_) | Type::PackedBlob(_)
    );
    is_text && column.collation != Some(BINARY) || matches!(column.kind, Type::Json(_) | Type::Vector(_))
}

/// Appends a value that is to be compared with a column, or stored in it.
///
/// # Errors
/// Why it has no such SQL.
pub fn write(value: &Value<'_>, letters: Letters, out: &mut String) -> Result<(), Fault> {
    match value {
        Value::Null => out.push_str("NULL"),
        Value::Int(number) => print(out, number),
        Value::Unsigned(number) | Value::Bit(number, _) | Value::Enum(number, _) | Value::Set(number, _) => {
            print(out, number);
        }
        Value::Year(year) => print(out, year),
        Value::Decimal(text) => out.push_str(text),
        // Servers of some builds store 0 for -0, but the nearest number of a FLOAT for a smaller one.
        Value::Float(number) if *number == 0.0 && number.is_sign_negative() => out.push_str("-1e-60"),
        // A FLOAT is compared as the DOUBLE that it is exactly.
        Value::Float(number) => real(f64::from(*number), out)?,
        Value::Double(number) => real(*number, out)?,
        Value::Time(text) => quote(text, out),
        Value::Bytes(bytes, _) => match std::str::from_utf8(bytes) {
            Ok(text) if is_plain(text, letters) => quote(text, out),
            _ => hex(bytes, out),
        },
        Value::Either(..) => return Err("it is unknown whether it is signed"),
        Value::Json(json) => json_text(&json.to_string(), out),
        Value::JsonChanges(_) => {
            return Err(
                "the log has only the changed parts of the JSON document (binlog_row_value_options=PARTIAL_JSON)",
            );
        }
    }
    Ok(())
}

/// A name, to be compared with one.
#[must_use]
pub fn name(name: &str) -> String {
    let mut out = String::new();
    match is_plain(name, Letters::Utf8) {
        true => quote(name, &mut out),
        false => hex(name.as_bytes(), &mut out),
    }
    out
}

/// Why a value that can be compared can't be stored again.
#[must_use]
pub fn unstorable(value: &Value<'_>) -> Option<Fault> {
    match value {
        // In strict mode.
        Value::Enum(0, _) => Some("it is no member of the ENUM, and servers refuse to store that"),
        Value::Json(json) if !json.is_plain() => {
            Some("the JSON document has a DECIMAL, a time or bytes, which its text does not say")
        }
        _ => None,
    }
}

fn print(out: &mut String, number: impl std::fmt::Display) {
    // Writing to memory can't fail.
    write!(out, "{number}").ok();
}

/// With an exponent, so that it is no DECIMAL, and as many digits as give the same number again.
fn real(number: f64, out: &mut String) -> Result<(), Fault> {
    if !number.is_finite() {
        return Err("it is no number");
    }
    write!(out, "{number:e}").ok();
    Ok(())
}

fn is_plain(text: &str, letters: Letters) -> bool {
    let fits = match letters {
        Letters::Utf8 => true,
        Letters::Ascii => text.is_ascii(),
        Letters::None => text.is_empty(),
    };
    // Clients change line ends, and end at zeros.
    fits && !has_control(text)
}

fn has_control(text: &str) -> bool {
    // Without an early end the compiler looks at many bytes at once.
    let in_ascii = text.bytes().fold(false, |found, byte| found | byte.is_ascii_control());
    in_ascii || !text.is_ascii() && text.chars().any(char::is_control)
}

/// Bytes would be no JSON, so they get a character set.
fn json_text(text: &str, out: &mut String) {
    if is_plain(text, Letters::Utf8) {
        return quote(text, out);
    }
    out.push_str("_utf8mb4 ");
    hex(text.as_bytes(), out);
}

fn quote(text: &str, out: &mut String) {
    out.push('\'');
    let mut rest = text;
    while let Some((before, special)) = memchr2(b'\'', b'\\', rest.as_bytes()).map(|at| rest.split_at(at)) {
        out.push_str(before);
        out.push('\\');
        let (first, after) = special.split_at(1);
        out.push_str(first);
        rest = after;
    }
    out.push_str(rest);
    out.push('\'');
}

fn hex(bytes: &[u8], out: &mut String) {
    out.push_str("x'");
    digits(bytes, out);
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Value<'_>, letters: Letters) -> String {
        let mut out = String::new();
        write(value, letters, &mut out).unwrap();
        out
    }

    #[test]
    fn numbers_mean_the_same_again() {
        let real = |value| text(&value, Letters::None);
        assert_eq!(real(Value::Float(0.1)), "1.0000000149011612e-1");
        assert_eq!(real(Value::Float(-0.0)), "-1e-60");
        assert_eq!(real(Value::Float(0.0)), "0e0");
        assert_eq!(real(Value::Double(0.1)), "1e-1");
        assert_eq!(real(Value::Double(-0.0)), "-0e0");
        assert_eq!(real(Value::Double(1.797_693_134_862_315_7e308)), "1.7976931348623157e308");
        assert_eq!(real(Value::Set(u64::MAX, None)), "18446744073709551615");
        assert!(write(&Value::Double(f64::NAN), Letters::None, &mut String::new()).is_err());
        assert!(write(&Value::Either(-1, 255), Letters::None, &mut String::new()).is_err());
    }

    #[test]
    fn texts_are_quoted_only_where_nothing_changes_them() {
        let bytes = |bytes: &'static [u8], letters| text(&Value::Bytes(bytes.into(), None), letters);
        assert_eq!(bytes("it's a \\ \u{e4}".as_bytes(), Letters::Utf8), "'it\\'s a \\\\ \u{e4}'");
        assert_eq!(bytes("\u{e4}".as_bytes(), Letters::Ascii), "x'C3A4'");
        assert_eq!(bytes(b"plain", Letters::Ascii), "'plain'");
        assert_eq!(bytes(b"plain", Letters::None), "x'706C61696E'");
        assert_eq!(bytes(b"", Letters::None), "''");
        assert_eq!(bytes(b"a\r\nb", Letters::Utf8), "x'610D0A62'");
        assert_eq!(bytes(b"\xff\x0a", Letters::Utf8), "x'FF0A'");
        assert_eq!(bytes("\u{85}".as_bytes(), Letters::Utf8), "x'C285'");
        assert_eq!(bytes(b"'\\'", Letters::Utf8), "'\\'\\\\\\''");
    }
}
