//! A record as a line for `LOAD DATA`.

use crate::escape::{needs_escape, write_load_data};
use crate::field::{Field, each_field};
use crate::{Dialect, Nulls, Ragged};
use serde::{Deserialize, Serialize};

/// What becomes of one column's fields on their way to the server. In all of them but `Skip`, what [`Nulls`]
/// calls NULL is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FieldRule {
    /// The text as it is.
    Copy,
    /// An empty field is an empty string even where [`Nulls`] has `empty`; for columns that are NOT NULL.
    KeepEmpty,
    /// An empty field is NULL, quoted or not; for columns that cannot hold an empty string.
    EmptyIsNull,
    /// `true` and `t` are 1, `false` and `f` are 0, in any case; anything else as it is, for the server to judge.
    Boolean,
    /// A `Z` at the end is left out; the column holds UTC.
    UtcDateTime,
    /// The field does not appear in the line at all.
    Skip,
}

/// Turns records of one dialect into lines of LOAD DATA's default dialect.
///
/// Fields that are the same in both dialects are copied together, as long as they follow each other; only the
/// delimiters between them are changed.
pub struct Rewriter {
    dialect: Dialect,
    nulls: Nulls,
    columns: Vec<Column>,
    scratch: Vec<u8>,
    /// Delimiters to change.
    tabs: Vec<usize>,
    /// A backslash means the same in the file and to the server.
    same_escape: bool,
}

/// What to do with the fields of one column.
#[derive(Clone, Copy)]
struct Column {
    rule: FieldRule,
    /// Bit n: unquoted fields of n bytes need a closer look. The last bit stands for all longer ones.
    lengths: u64,
}

impl Column {
    fn new(rule: FieldRule, nulls: &Nulls) -> Column {
        let words = nulls.words.iter().fold(u64::from(nulls.empty), |bits, word| bits | length_bit(word));
        let lengths = match rule {
            FieldRule::Copy => words,
            FieldRule::KeepEmpty => words & !1,
            FieldRule::EmptyIsNull => words | 1,
            FieldRule::Boolean | FieldRule::UtcDateTime | FieldRule::Skip => u64::MAX,
        };
        Column { rule, lengths }
    }

    #[inline]
    fn is_copied(self, raw: &[u8]) -> bool {
        self.lengths & length_bit(raw) == 0
    }
}

#[inline]
fn length_bit(raw: &[u8]) -> u64 {
    1 << raw.len().min(63)
}

impl Rewriter {
    /// A rewriter for records of `columns` fields. `rules` has one entry for each of them in the file's order;
    /// where it is shorter, the rest is copied.
    pub fn new(dialect: Dialect, nulls: Nulls, rules: Vec<FieldRule>, columns: usize) -> Rewriter {
        let rules = rules.into_iter().chain(std::iter::repeat(FieldRule::Copy)).take(columns);
        let columns = rules.map(|rule| Column::new(rule, &nulls)).collect();
        let same_escape = dialect.escape_byte() == Some(b'\\');
        Rewriter { dialect, nulls, columns, scratch: Vec::new(), tabs: Vec::new(), same_escape }
    }

    /// Appends one line, its newline included.
    ///
    /// # Errors
    ///
    /// The record has not the expected number of fields; `out` is as it was.
    pub fn rewrite(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Ragged> {
        let Rewriter { dialect, nulls, columns, scratch, tabs, same_escape } = self;
        let (start, mut found) = (out.len(), 0);
        // Well-formed unquoted fields have no delimiter in them, and where a backslash is an escape it may stay one.
        let backslash = if *same_escape { b'\\' } else { dialect.delimiter };
        let clean = !needs_escape(record, [dialect.delimiter, backslash]);
        let quoted_clean = clean && dialect.delimiter != b'\t';
        let mut line = Line { record, delimiter: dialect.delimiter, tabs, out, pending: None, first: true };
        each_field(dialect, record, |field, at| {
            let Some(&column) = columns.get(found) else {
                found += 1;
                return;
            };
            found += 1;
            let end = at + field.raw.len();
            // A backslash at the very end would take the newline's meaning.
            let plain = !field.escaped || (*same_escape && end < record.len());
            if clean && plain && !field.quoted && !field.malformed && column.is_copied(field.raw) {
                line.keep(at, end);
            } else if quoted_clean && !field.escaped && field.quoted && column.is_copied(field.raw) {
                line.write(field.raw);
            } else if column.rule != FieldRule::Skip {
                let value = value(column.rule, &field, (dialect, nulls), scratch);
                line.write_value(value);
            }
        });
        line.flush();
        if found != columns.len() {
            out.truncate(start);
            return Err(Ragged { expected: columns.len(), found });
        }
        out.push(b'\n');
        Ok(())
    }
}

/// A line being put together.
struct Line<'a> {
    record: &'a [u8],
    delimiter: u8,
    tabs: &'a mut Vec<usize>,
    out: &'a mut Vec<u8>,
    /// The part of the record that is to be copied before anything else is written.
    pending: Option<(usize, usize)>,
    first: bool,
}

impl Line<'_> {
    /// Takes the field between two places of the record as it is.
    #[inline]
    fn keep(&mut self, from: usize, to: usize) {
        match &mut self.pending {
            Some((_, end)) if *end + 1 == from => {
                if self.delimiter != b'\t' {
                    self.tabs.push(*end);
                }
                *end = to;
            }
            _ => {
                self.flush();
                self.pending = Some((from, to));
            }
        }
    }

    #[inline]
    fn flush(&mut self) {
        let Some((from, to)) = self.pending.take() else { return };
        self.delimit();
        let written = self.out.len();
        self.out.extend_from_slice(&self.record[from..to]);
        for tab in self.tabs.drain(..) {
            self.out[written + tab - from] = b'\t';
        }
    }

    /// Writes a field that needs no escapes.
    #[inline]
    fn write(&mut self, raw: &[u8]) {
        self.flush();
        self.delimit();
        self.out.extend_from_slice(raw);
    }

    #[inline(never)]
    fn write_value(&mut self, value: Option<&[u8]>) {
        self.flush();
        self.delimit();
        write_load_data(value, self.out);
    }

    #[inline]
    fn delimit(&mut self) {
        if !self.first {
            self.out.push(b'\t');
        }
        self.first = false;
    }
}

#[inline]
fn value<'b>(
    rule: FieldRule,
    field: &Field<'b>,
    (dialect, nulls): (&Dialect, &Nulls),
    scratch: &'b mut Vec<u8>,
) -> Option<&'b [u8]> {
    if field.raw.is_empty() {
        match rule {
            FieldRule::KeepEmpty => return Some(b""),
            FieldRule::EmptyIsNull => return None,
            _ => {}
        }
    }
    if field.is_null(nulls) {
        return None;
    }
    let text = field.text(dialect, scratch);
    match rule {
        FieldRule::Boolean => Some(boolean(text)),
        FieldRule::UtcDateTime => Some(text.strip_suffix(b"Z").unwrap_or(text)),
        _ => Some(text),
    }
}

fn boolean(text: &[u8]) -> &[u8] {
    if text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"t") {
        b"1"
    } else if text.eq_ignore_ascii_case(b"false") || text.eq_ignore_ascii_case(b"f") {
        b"0"
    } else {
        text
    }
}
