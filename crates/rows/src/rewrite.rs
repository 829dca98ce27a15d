//! Rewrites a record as a line for `LOAD DATA`.

use crate::date_time::{write_decimal, write_local, write_utc};
use crate::escape::{needs_escape, write_load_data};
use crate::field::{Field, each_field};
use crate::split::{Records, records};
use crate::unquoted::Plain;
use crate::{DateOrder, Dialect, Exact, Nulls, Ragged, Unfit};
use serde::{Deserialize, Serialize};

/// How the fields of one column are changed on their way to the server. Except for `Skip`, what [`Nulls`]
/// calls NULL is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FieldRule {
    /// The text is unchanged.
    Copy,
    /// An empty field is an empty string even if [`Nulls`] has `empty`; for columns that are NOT NULL.
    KeepEmpty,
    /// An empty field is NULL, quoted or not; for columns that can't hold an empty string.
    EmptyIsNull,
    /// `true` and `t` become 1, `false` and `f` become 0, in any case; anything else is unchanged, for the
    /// server to judge.
    Boolean,
    /// A time with `Z` or an offset at its end becomes the same time in UTC; one without is [`Unfit`].
    UtcDateTime,
    /// A decimal comma becomes a point; a number that may mean something else is [`Unfit`].
    DecimalComma,
    /// A date with the year at the end becomes `YYYY-MM-DD`; any other is [`Unfit`].
    LocalDate(DateOrder),
    /// The field is left out of the line.
    Skip,
}

impl FieldRule {
    /// Whether the written text differs from that in the file.
    pub fn changes_text(self) -> bool {
        matches!(
            self,
            FieldRule::Boolean | FieldRule::UtcDateTime | FieldRule::DecimalComma | FieldRule::LocalDate(_)
        )
    }
}

/// Memory that is used again for each value.
#[derive(Default)]
struct Buffers {
    /// A value without its quotes and escapes.
    scratch: Vec<u8>,
    /// A value in its new form.
    made: Vec<u8>,
}

/// Turns records of one dialect into lines of LOAD DATA's default dialect.
///
/// Adjacent fields that are the same in both dialects are copied together; only the delimiters between them
/// are changed.
pub struct Rewriter {
    dialect: Dialect,
    nulls: Nulls,
    columns: Vec<Column>,
    buffers: Buffers,
    /// Delimiters to change.
    tabs: Vec<usize>,
    /// Whether a backslash means the same in the file and to the server.
    same_escape: bool,
}

/// What to do with the fields of one column.
struct Column {
    rule: FieldRule,
    /// What the column would change of a value.
    exact: Exact,
    /// Bit n: unquoted fields of n bytes need a closer look. The last bit stands for all longer ones.
    lengths: u64,
}

impl Column {
    fn new(rule: FieldRule, nulls: &Nulls) -> Column {
        let words = nulls.words.iter().fold(u64::from(nulls.empty), |bits, word| bits | length_bit(word));
        let lengths = match rule {
            FieldRule::KeepEmpty => words & !1,
            FieldRule::EmptyIsNull => words | 1,
            FieldRule::Skip => u64::MAX,
            rule if rule.changes_text() => u64::MAX,
            _ => words,
        };
        Column { rule, exact: Exact::Server, lengths }
    }

    #[inline]
    fn is_copied(&self, raw: &[u8]) -> bool {
        self.lengths & length_bit(raw) == 0 && self.exact.is_plain(raw)
    }
}

#[inline]
fn length_bit(raw: &[u8]) -> u64 {
    1 << raw.len().min(63)
}

impl Rewriter {
    /// A rewriter for records with `columns` fields. `rules` has one entry for each, in the file's order;
    /// fields beyond its end are copied.
    pub fn new(dialect: Dialect, nulls: Nulls, rules: Vec<FieldRule>, columns: usize) -> Rewriter {
        let rules = rules.into_iter().chain(std::iter::repeat(FieldRule::Copy)).take(columns);
        let columns = rules.map(|rule| Column::new(rule, &nulls)).collect();
        let same_escape = dialect.escape_byte() == Some(b'\\');
        Rewriter { dialect, nulls, columns, buffers: Buffers::default(), tabs: Vec::new(), same_escape }
    }

    /// The same, for columns that may change values: such a value is [`Unfit`]. `exact` has one entry for
    /// each field, in the file's order.
    #[must_use]
    pub fn exact(mut self, exact: Vec<Exact>) -> Rewriter {
        for (column, exact) in self.columns.iter_mut().zip(exact) {
            column.exact = exact;
        }
        self
    }

    /// Whether no value of a chunk of whole records breaks its rule or is changed by its column.
    #[must_use]
    pub fn is_exact(&mut self, chunk: &[u8]) -> bool {
        let mut values = self.values(chunk);
        while let Some((_, read)) = values.next(|_, _| {}) {
            if matches!(read, Err(Unfit::Value { .. })) {
                return false;
            }
        }
        true
    }

    /// Appends one line, including its newline.
    ///
    /// # Errors
    ///
    /// The record does not have the expected number of fields, or a value breaks its rule; `out` is
    /// unchanged.
    pub fn rewrite(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Unfit> {
        let Rewriter { dialect, nulls, columns, buffers, tabs, same_escape } = self;
        let (start, mut found, mut unfit) = (out.len(), 0, None);
        // Well-formed unquoted fields contain no delimiter, and where a backslash is an escape it may remain
        // one.
        let backslash = if *same_escape { b'\\' } else { dialect.delimiter };
        let clean = !needs_escape(record, [dialect.delimiter, backslash]);
        let quoted_clean = clean && dialect.delimiter != b'\t';
        let mut line = Line { record, delimiter: dialect.delimiter, tabs, out, pending: None, first: true };
        each_field(dialect, record, |field, at| {
            let Some(column) = columns.get(found) else {
                found += 1;
                return;
            };
            found += 1;
            let end = at + field.raw.len();
            // A backslash at the very end would escape the newline.
            let plain = !field.escaped || (*same_escape && end < record.len());
            if clean && plain && !field.quoted && !field.malformed && column.is_copied(field.raw) {
                line.keep(at, end);
            } else if quoted_clean && !field.escaped && field.quoted && column.is_copied(field.raw) {
                line.write(field.raw);
            } else if column.rule != FieldRule::Skip {
                match value(column, &field, (dialect, nulls), buffers) {
                    Ok(value) => line.write_value(value),
                    Err(what) => {
                        let value = field.text(dialect, &mut buffers.scratch).to_vec();
                        unfit.get_or_insert(Unfit::Value { field: found, value, what });
                    }
                }
            }
        });
        line.flush();
        if found != columns.len() {
            out.truncate(start);
            return Err(Ragged { expected: columns.len(), found }.into());
        }
        if let Some(unfit) = unfit {
            out.truncate(start);
            return Err(unfit);
        }
        out.push(b'\n');
        Ok(())
    }

    /// Reads the records of a chunk, which begins at one, as values.
    pub fn values<'r>(&mut self, chunk: &'r [u8]) -> Values<'_, 'r> {
        let way = match Plain::new(&self.dialect, chunk) {
            Some(plain) => RecordReader::Plain(plain, 0),
            None => RecordReader::Marked(records(&self.dialect, chunk)),
        };
        Values { rewriter: self, way }
    }
}

/// How the records of a chunk are found.
enum RecordReader<'r> {
    /// With the number of records so far, which is also that of lines.
    Plain(Plain<'r>, u64),
    Marked(Records<'r>),
}

/// The records of a chunk as values; see [`Rewriter::values`].
pub struct Values<'w, 'r> {
    rewriter: &'w mut Rewriter,
    way: RecordReader<'r>,
}

impl<'r> Values<'_, 'r> {
    /// How many physical lines of the chunk are before the next record.
    pub fn lines(&self) -> u64 {
        match &self.way {
            RecordReader::Plain(_, lines) => *lines,
            RecordReader::Marked(records) => records.lines(),
        }
    }

    /// Calls `each` with the values that the line of the next record would have: the number of the field,
    /// from 0, and its value. It is not called for fields that are left out.
    ///
    /// Returns the record, with an error as those of [`Rewriter::rewrite`], after which some values may be
    /// missing; `None` after the last record.
    #[inline]
    pub fn next(
        &mut self,
        mut each: impl FnMut(usize, Value<'r, '_>),
    ) -> Option<(&'r [u8], Result<(), Unfit>)> {
        let Rewriter { dialect, nulls, columns, buffers, .. } = &mut *self.rewriter;
        let (mut found, mut unfit) = (0, None);
        let mut take = |field: Field<'r>| {
            let column = columns.get(found);
            found += 1;
            let Some(column) = column else { return };
            if !field.escaped && !field.quoted && !field.malformed && column.is_copied(field.raw) {
                return each(found - 1, Value::Same(field.raw));
            }
            if column.rule == FieldRule::Skip {
                return;
            }
            match value(column, &field, (dialect, nulls), buffers) {
                Ok(value) => each(found - 1, value.map_or(Value::Null, Value::Made)),
                Err(what) => {
                    let value = field.text(dialect, &mut buffers.scratch).to_vec();
                    unfit.get_or_insert(Unfit::Value { field: found, value, what });
                }
            }
        };
        let record = match &mut self.way {
            RecordReader::Plain(plain, lines) => {
                *lines += 1;
                let field = |raw| Field { raw, quoted: false, escaped: false, malformed: false };
                plain.next(dialect.delimiter, |raw| take(field(raw)))?
            }
            RecordReader::Marked(records) => {
                let record = records.next()?;
                each_field(dialect, record, |field, _| take(field));
                record
            }
        };
        if found != columns.len() {
            return Some((record, Err(Ragged { expected: columns.len(), found }.into())));
        }
        Some((record, unfit.map_or(Ok(()), Err)))
    }
}

/// A value that [`Values::next`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'r, 'v> {
    /// NULL.
    Null,
    /// A part of the record.
    Same(&'r [u8]),
    /// Another text, which is gone when the next value comes.
    Made(&'v [u8]),
}

/// A line under construction.
struct Line<'a> {
    record: &'a [u8],
    delimiter: u8,
    tabs: &'a mut Vec<usize>,
    out: &'a mut Vec<u8>,
    /// The part of the record to copy before anything else is written.
    pending: Option<(usize, usize)>,
    first: bool,
}

impl Line<'_> {
    /// Takes the bytes between two offsets of the record unchanged.
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

/// The value to write, or what is wrong with it.
#[inline]
fn value<'b>(
    column: &Column,
    field: &Field<'b>,
    nulls: (&Dialect, &Nulls),
    buffers: &'b mut Buffers,
) -> Result<Option<&'b [u8]>, &'static str> {
    let value = converted(column.rule, field, nulls, buffers)?;
    match value.and_then(|text| column.exact.change(text)) {
        Some(what) => Err(what),
        None => Ok(value),
    }
}

/// The value as its rule says.
#[inline]
fn converted<'b>(
    rule: FieldRule,
    field: &Field<'b>,
    (dialect, nulls): (&Dialect, &Nulls),
    Buffers { scratch, made }: &'b mut Buffers,
) -> Result<Option<&'b [u8]>, &'static str> {
    if field.raw.is_empty() {
        match rule {
            FieldRule::KeepEmpty => return Ok(Some(b"")),
            FieldRule::EmptyIsNull => return Ok(None),
            // As for any other number or date.
            rule if rule.changes_text() && nulls.empty => return Ok(None),
            _ => {}
        }
    }
    if field.is_null(nulls) {
        return Ok(None);
    }
    let text = field.text(dialect, scratch);
    made.clear();
    let written = match rule {
        FieldRule::Boolean => return Ok(Some(boolean(text))),
        FieldRule::UtcDateTime => {
            write_utc(text, made).ok_or("not a time with Z or an offset like the others of its column")
        }
        FieldRule::DecimalComma => write_decimal(text, made).ok_or("not a number with a decimal comma"),
        FieldRule::LocalDate(order) => write_local(text, order, made).ok_or(match order {
            DateOrder::Dmy => "not a date in the order day, month, year",
            DateOrder::Mdy => "not a date in the order month, day, year",
        }),
        _ => return Ok(Some(text)),
    };
    written.map(|()| Some(made.as_slice()))
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
