//! Errors in the bytes of a file of rows.

use std::fmt::Display;

use crate::encoding::{BadBytes, UnknownEncoding};

/// A number of things in words: `1 field`, `2 fields`. It would be `progress::count` if this crate used other
/// crates of ours.
pub(crate) fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!("{number} {noun}{}", if number == N::from(1) { "" } else { "s" })
}

/// Every error of this crate. The functions return the individual types, because each fails in only one way;
/// this enum is for callers that pass on several of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// See [`UnclosedQuote`].
    #[error(transparent)]
    UnclosedQuote(#[from] UnclosedQuote),
    /// See [`BadBytes`].
    #[error(transparent)]
    BadBytes(#[from] BadBytes),
    /// See [`Ragged`].
    #[error(transparent)]
    Ragged(#[from] Ragged),
    /// See [`UnknownEncoding`].
    #[error(transparent)]
    UnknownEncoding(#[from] UnknownEncoding),
}

/// The input ended inside a quoted field: a quote is missing, or the file does not use quotes at all and a
/// field happens to begin with the quote character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the quote opened in record {record} on line {line} is never closed; close it, or read the file without quoting"
)]
pub struct UnclosedQuote {
    /// The record that holds the opening quote, counted from 1.
    pub record: u64,
    /// The physical line of the opening quote, counted from 1.
    pub line: u64,
}

/// A record with more or fewer fields than the file has columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} where {expected} {} expected", count(*.found, "field"), if *.expected == 1 { "is" } else { "are" })]
pub struct Ragged {
    /// How many fields every record should have.
    pub expected: usize,
    /// How many this one has.
    pub found: usize,
}

/// A record that can't be written for a server as the rules for its columns require.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It has more or fewer fields than it should.
    #[error(transparent)]
    Ragged(#[from] Ragged),
    /// A value differs in kind from the others of its column.
    #[error("field {field}, value '{}': {what}", shown(value))]
    Value {
        /// Which field of the record, from 1.
        field: usize,
        /// Its text.
        value: Vec<u8>,
        /// What it should have been.
        what: &'static str,
    },
}

/// The beginning of a value, on one line.
fn shown(value: &[u8]) -> String {
    const CHARS: usize = 80;
    let text = String::from_utf8_lossy(value);
    let more = if text.chars().nth(CHARS).is_some() { "..." } else { "" };
    text.chars().take(CHARS).flat_map(char::escape_debug).collect::<String>() + more
}

/// A line that is invalid in its format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadLine {
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}
