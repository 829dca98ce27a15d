//! The records of a text in which no byte but the delimiter and the line end has a meaning. Most texts are
//! such for megabytes, and are split in one pass.

use memchr::{memchr, memchr2};

use crate::byte_marks::{Cursor, Marks};
use crate::{Dialect, LineEnd};

/// Goes from record to record of a chunk that begins at a record.
pub(crate) struct Plain<'r> {
    chunk: &'r [u8],
    cursor: Cursor<'r>,
    from: usize,
}

impl<'r> Plain<'r> {
    /// `None` if the chunk has a quote, an escape, or a line end of another kind than its last byte alone.
    pub(crate) fn new(dialect: &Dialect, chunk: &'r [u8]) -> Option<Plain<'r>> {
        let has_marks = match (dialect.quote, dialect.escape_byte()) {
            (None, None) => false,
            (Some(one), None) | (None, Some(one)) => memchr(one, chunk).is_some(),
            (Some(quote), Some(escape)) => memchr2(quote, escape, chunk).is_some(),
        };
        let is_long = matches!(dialect.line_end, LineEnd::CrLf | LineEnd::Any);
        if has_marks || is_long && memchr(b'\r', chunk).is_some() || dialect.line_end == LineEnd::CrLf {
            return None;
        }
        let marks = Marks::new(dialect.delimiter, Some(dialect.line_end.last_byte()), None);
        Some(Plain { chunk, cursor: Cursor::new(marks, chunk), from: 0 })
    }

    /// Calls `take` with each field of the next record. Returns the record, without its line end.
    #[inline]
    pub(crate) fn next(&mut self, delimiter: u8, mut take: impl FnMut(&'r [u8])) -> Option<&'r [u8]> {
        let start = self.from;
        if start >= self.chunk.len() {
            return None;
        }
        while let Some(at) = self.cursor.next() {
            take(&self.chunk[self.from..at]);
            self.from = at + 1;
            if self.chunk[at] != delimiter {
                return Some(&self.chunk[start..at]);
            }
        }
        let rest = &self.chunk[self.from..];
        self.from = self.chunk.len();
        take(rest);
        Some(&self.chunk[start..])
    }
}
