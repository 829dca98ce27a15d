//! Decides whether backslashes in a field are escapes.

use memchr::{memchr, memchr_iter, memmem};

use crate::{Dialect, Field};

/// The backslashes of one field, counted by what follows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backslashes {
    /// Followed by a character that a server itself escapes.
    pub(crate) servers: u32,
    /// Followed by a letter that other programs escape in this dialect, or by a number; but `a\b` may also be
    /// plain text.
    pub(crate) letters: u32,
    /// Followed by anything else.
    pub(crate) others: u32,
    /// Whether the field contains a Windows path, or doubled quotes, which a program that uses escapes does
    /// not need.
    pub(crate) path: bool,
    /// Whether the field is exactly `\N`.
    pub(crate) null: bool,
}

impl Backslashes {
    /// Examines a field as it is in the file. If there is no escape, a field ends at an escaped delimiter.
    pub(crate) fn of(field: &Field<'_>, dialect: &Dialect) -> Option<Backslashes> {
        let raw = field.raw;
        memchr(b'\\', raw)?;
        let mut found = Backslashes::default();
        let mut pos = 0;
        while let Some(offset) = memchr(b'\\', raw.get(pos..).unwrap_or_default()) {
            let at = pos + offset;
            match raw.get(at + 1) {
                // Programming languages write a character by its number so; a server writes a zero byte.
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
        let drive = memchr_iter(b'\\', raw).any(|at| is_behind_drive(raw, at));
        let path = drive && memmem::find(raw, b"\\\\").is_none();
        // A program that doubles quotes does not use escapes.
        let doubled = |quote: u8| field.quoted && memmem::find(raw, &[quote, quote]).is_some();
        found.path = path || dialect.quote.is_some_and(doubled);
        Some(found)
    }

    /// Whether they can only be escapes.
    pub(crate) fn are_escapes(self) -> bool {
        self.servers > 0 && !self.are_text()
    }

    /// Whether no program that uses escapes would write this.
    pub(crate) fn are_text(self) -> bool {
        self.others > 0 || self.path
    }
}

/// Whether the letter of a drive and a colon are before this offset, as in `C:\new`.
pub(crate) fn is_behind_drive(bytes: &[u8], at: usize) -> bool {
    match &bytes[..at] {
        [letter, b':'] => letter.is_ascii_alphabetic(),
        [.., before, letter, b':'] => letter.is_ascii_alphabetic() && !before.is_ascii_alphanumeric(),
        _ => false,
    }
}
