//! What backslashes in a field say about whether they are escapes.

use memchr::memchr;
use memchr::memmem;

use crate::{Dialect, Field};

/// The backslashes of one field, by what follows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backslashes {
    /// Followed by what a server writes by itself.
    pub(crate) servers: u32,
    /// Followed by letters that other writers of its dialect add, or by a number; but `a\b` is also just that.
    pub(crate) letters: u32,
    /// Followed by anything else.
    pub(crate) others: u32,
    /// The field has a path of Windows in it, or doubled quotes, which a writer that escapes does not need.
    pub(crate) path: bool,
    /// The field is `\N` and nothing else.
    pub(crate) null: bool,
}

impl Backslashes {
    /// Looks at a field as it stands in the file. Without an escape a field ends before an escaped delimiter.
    pub(crate) fn of(field: &Field<'_>, dialect: &Dialect) -> Option<Backslashes> {
        let raw = field.raw;
        memchr(b'\\', raw)?;
        let mut found = Backslashes::default();
        let mut pos = 0;
        while let Some(offset) = memchr(b'\\', raw.get(pos..).unwrap_or_default()) {
            let at = pos + offset;
            match raw.get(at + 1) {
                // A character by its number, as languages write it: a server means a zero byte.
                Some(b'0') if raw.get(at + 2).is_some_and(u8::is_ascii_digit) => found.letters += 1,
                Some(b'\\' | b'0' | b'"' | b'\'' | b'\n' | b'\t' | b'\r') => found.servers += 1,
                Some(b'N') if raw.len() == 2 => {
                    found.servers += 1;
                    found.null = true;
                }
                Some(byte) if *byte == dialect.delimiter => found.servers += 1,
                Some(b'n' | b't' | b'r' | b'b' | b'Z') => found.letters += 1,
                _ => found.others += 1,
            }
            pos = at + 2;
        }
        let path = raw.windows(2).any(|pair| pair == b":\\") && raw.windows(2).all(|pair| pair != b"\\\\");
        // A writer that doubles quotes escapes nothing.
        let doubled = |quote: u8| field.quoted && memmem::find(raw, &[quote, quote]).is_some();
        found.path = path || dialect.quote.is_some_and(doubled);
        Some(found)
    }

    /// Nothing but escapes would be written like this.
    pub(crate) fn are_escapes(self) -> bool {
        self.servers > 0 && !self.are_text()
    }

    /// No writer of escapes would write this.
    pub(crate) fn are_text(self) -> bool {
        self.others > 0 || self.path
    }
}
