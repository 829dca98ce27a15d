//! JSON of MySQL: documents in its binary form, and their text as SELECT shows it. The form is the same in
//! pages and in the binary log.
//!
//! Facts: `json_binary.h` and `json_dom.cc` of MySQL's source.

mod binary;
mod text;

pub use binary::document;

use super::Fault;

/// The deepest nesting that a server takes.
const DEPTH_MAX: usize = 100;

/// A JSON document, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that is not negative, made of an unsigned one.
    Unsigned(u64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A text.
    Text(String),
    /// A DECIMAL, as text. The text of JSON does not say that it is one.
    Decimal(String),
    /// DATE, TIME, DATETIME or TIMESTAMP, as text. The text of JSON does not say which.
    Time(String),
    /// Bytes, and MySQL's number of their type.
    Bytes(u8, Vec<u8>),
    /// An array.
    Array(Vec<Json>),
    /// An object: keys in the server's order, shorter ones first.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Whether its text means the same again to a server: it has no DECIMAL, time or bytes, which that text
    /// has as numbers or strings.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        match self {
            Json::Decimal(_) | Json::Time(_) | Json::Bytes(..) => false,
            Json::Array(items) => items.iter().all(Json::is_plain),
            Json::Object(members) => members.iter().all(|(_, value)| value.is_plain()),
            _ => true,
        }
    }
}

/// Writes the text of a stored document.
pub(super) fn decode(stored: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    super::print(out, format_args!("{}", document(stored)?));
    Ok(())
}
