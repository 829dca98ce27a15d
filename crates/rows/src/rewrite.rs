//! A record as a line for `LOAD DATA`.

use crate::escape::write_load_data;
use crate::field::{Field, each_field};
use crate::{Dialect, Nulls, Ragged};

/// What becomes of one column's fields on their way to the server. In all of them but `Skip`, what [`Nulls`]
/// calls NULL is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
pub struct Rewriter {
    dialect: Dialect,
    nulls: Nulls,
    rules: Vec<FieldRule>,
    columns: usize,
    scratch: Vec<u8>,
}

impl Rewriter {
    /// A rewriter for records of `columns` fields. `rules` has one entry for each of them in the file's order;
    /// where it is shorter, the rest is copied.
    pub fn new(dialect: Dialect, nulls: Nulls, rules: Vec<FieldRule>, columns: usize) -> Rewriter {
        let mut rules = rules;
        rules.resize(columns, FieldRule::Copy);
        Rewriter { dialect, nulls, rules, columns, scratch: Vec::new() }
    }

    /// Appends one line, its newline included.
    ///
    /// # Errors
    ///
    /// The record has not the expected number of fields; `out` is as it was.
    pub fn rewrite(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Ragged> {
        let start = out.len();
        let (mut found, mut first) = (0, true);
        let Rewriter { dialect, nulls, rules, columns, scratch } = self;
        each_field(dialect, record, |field, _| {
            let rule = rules.get(found).copied().unwrap_or(FieldRule::Skip);
            found += 1;
            if rule == FieldRule::Skip {
                return;
            }
            if !first {
                out.push(b'\t');
            }
            first = false;
            write_load_data(value(rule, &field, (dialect, nulls), scratch), out);
        });
        if found != *columns {
            out.truncate(start);
            return Err(Ragged { expected: *columns, found });
        }
        out.push(b'\n');
        Ok(())
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
