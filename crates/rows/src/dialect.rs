//! The few characters that make a text file a table.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The end of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LineEnd {
    /// `\n`; a `\r` before it is data.
    Lf,
    /// `\r\n` only; a lone `\n` or `\r` is data.
    CrLf,
    /// `\r`, as in files of old Macintosh programs.
    Cr,
    /// `\n` or `\r\n`, for files that mix both.
    Any,
}

impl LineEnd {
    /// The last byte of every line end of this kind, which is the one to search for.
    pub(crate) fn last_byte(self) -> u8 {
        match self {
            LineEnd::Cr => b'\r',
            LineEnd::Lf | LineEnd::CrLf | LineEnd::Any => b'\n',
        }
    }

    /// The bytes to write at the end of a line.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            LineEnd::Lf | LineEnd::Any => b"\n",
            LineEnd::CrLf => b"\r\n",
            LineEnd::Cr => b"\r",
        }
    }
}

impl fmt::Display for LineEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineEnd::Lf => "\\n",
            LineEnd::CrLf => "\\r\\n",
            LineEnd::Cr => "\\r",
            LineEnd::Any => "\\n or \\r\\n",
        })
    }
}

/// How fields and records are separated. All bytes are ASCII and differ from each other; a dialect that
/// breaks this rule still never causes a panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Dialect {
    /// Separates the fields of a record.
    pub delimiter: u8,
    /// Encloses fields that contain delimiters or line ends. It opens a field only as its first byte, and
    /// stands for itself when doubled inside (RFC 4180, section 2).
    pub quote: Option<u8>,
    /// Takes away the special meaning of the next byte, in and out of quotes, as in LOAD DATA. Before `0 b n
    /// r t Z` it makes a control character, alone with `N` it makes NULL, and before any other byte it makes
    /// that byte. An escape equal to the quote means the same as none: quotes are doubled.
    pub escape: Option<u8>,
    /// Ends a record.
    pub line_end: LineEnd,
}

impl Dialect {
    /// What `LOAD DATA` reads and `SELECT ... INTO OUTFILE` writes by default.
    pub const LOAD_DATA: Dialect =
        Dialect { delimiter: b'\t', quote: None, escape: Some(b'\\'), line_end: LineEnd::Lf };

    /// Commas and double quotes, as in RFC 4180, but with Unix line ends.
    pub const CSV: Dialect =
        Dialect { delimiter: b',', quote: Some(b'"'), escape: None, line_end: LineEnd::Lf };

    /// The same with tabs.
    pub const TSV: Dialect =
        Dialect { delimiter: b'\t', quote: Some(b'"'), escape: None, line_end: LineEnd::Lf };

    /// The escape, if it does anything that doubling the quote does not.
    pub(crate) fn escape_byte(&self) -> Option<u8> {
        self.escape.filter(|&byte| Some(byte) != self.quote)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.delimiter {
            b',' => f.write_str("comma")?,
            b'\t' => f.write_str("tab")?,
            b';' => f.write_str("semicolon")?,
            b'|' => f.write_str("pipe")?,
            b' ' => f.write_str("space")?,
            b':' => f.write_str("colon")?,
            other => write!(f, "'{}'", other.escape_ascii())?,
        }
        f.write_str("-separated")?;
        if let Some(quote) = self.quote {
            write!(f, ", quoted with {}", Shown(quote))?;
        }
        if let Some(escape) = self.escape_byte() {
            write!(f, ", escaped with {}", Shown(escape))?;
        }
        write!(f, ", lines end with {}", self.line_end)
    }
}

/// A byte as shown to people, on one line.
struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "{}", char::from(self.0))
        } else {
            write!(f, "'{}'", self.0.escape_ascii())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_as_one_phrase() {
        assert_eq!(Dialect::CSV.to_string(), "comma-separated, quoted with \", lines end with \\n");
        assert_eq!(Dialect::LOAD_DATA.to_string(), "tab-separated, escaped with \\, lines end with \\n");
        let odd = Dialect { delimiter: 1, line_end: LineEnd::CrLf, ..Dialect::CSV };
        assert_eq!(odd.to_string(), "'\\x01'-separated, quoted with \", lines end with \\r\\n");
        let odd = Dialect { quote: Some(b'\n'), ..Dialect::CSV };
        assert_eq!(odd.to_string(), "comma-separated, quoted with '\\n', lines end with \\n");
    }
}
