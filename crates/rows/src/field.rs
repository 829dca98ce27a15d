//! A record taken apart.

use memchr::{memchr, memchr_iter, memchr2};
use serde::{Deserialize, Serialize};

use crate::Dialect;
use crate::escape::unescape_byte;

/// One field of a record, still as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// The bytes without the enclosing quotes.
    pub raw: &'a [u8],
    /// The field was enclosed in quotes.
    pub quoted: bool,
    /// There are doubled quotes or escapes in `raw`, so that [`text`](Field::text) differs from it.
    pub escaped: bool,
    /// The quoting breaks the rules: text follows the closing quote, or there is none. See [`fields`] for what
    /// becomes of such a field.
    pub malformed: bool,
}

/// Which fields stand for NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nulls {
    /// An empty field that is not quoted is NULL.
    pub empty: bool,
    /// So is an unquoted field with one of these words, byte for byte. What stands for NULL in the dialect
    /// itself (`\N`, where there is an escape) needs no mention.
    pub words: Vec<Vec<u8>>,
}

impl Nulls {
    /// Whether an unquoted field with these bytes is NULL. Escapes are not looked at.
    #[inline]
    pub(crate) fn holds(&self, raw: &[u8]) -> bool {
        if raw.is_empty() {
            return self.empty || self.words.iter().any(Vec::is_empty);
        }
        self.words.iter().any(|word| word.as_slice() == raw)
    }
}

impl<'a> Field<'a> {
    /// Whether the field is NULL: one of `nulls`, or the escape followed by `N` and nothing else. The latter
    /// holds in quotes too, because LOAD DATA reads it so.
    #[inline]
    pub fn is_null(&self, nulls: &Nulls) -> bool {
        if self.escaped && self.raw.len() == 2 && self.raw[1] == b'N' {
            return true;
        }
        !self.quoted && nulls.holds(self.raw)
    }

    /// The value: `raw` with doubled quotes and escapes resolved. It is put together in `scratch` only when it
    /// differs from `raw`. `dialect` is the one the field was read with.
    #[inline]
    pub fn text<'b>(&self, dialect: &Dialect, scratch: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.escaped {
            return self.raw;
        }
        scratch.clear();
        let quote = dialect.quote.filter(|_| self.quoted);
        resolve(self.raw, quote, dialect.escape_byte(), scratch);
        scratch
    }
}

/// Appends `raw` to `out` with each doubled `quote` halved and each escape resolved.
pub(crate) fn resolve(raw: &[u8], quote: Option<u8>, escape: Option<u8>, out: &mut Vec<u8>) {
    let mut rest = raw;
    loop {
        let found = match (quote, escape) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => memchr(one, rest),
            (Some(quote), Some(escape)) => memchr2(quote, escape, rest),
        };
        let Some(at) = found else { break };
        out.extend_from_slice(&rest[..at]);
        let is_escape = Some(rest[at]) == escape;
        match rest.get(at + 1) {
            // An escape with nothing behind it is data, and so is a quote that is not doubled.
            None => out.push(rest[at]),
            Some(&next) if is_escape => out.push(unescape_byte(next)),
            Some(&next) if Some(next) == quote => out.push(next),
            Some(_) => {
                out.push(rest[at]);
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// Takes a record apart into `out`, which is cleared first. An empty record is one empty field.
///
/// This never fails. A field whose quoting breaks the rules is marked as `malformed` and keeps every byte:
///
/// * text behind the closing quote, and the field ends with a quote (`"say "hi""`): everything between the
///   first and the last quote is the value, doubled quotes halved;
/// * text behind the closing quote otherwise (`"abc" x`), or no closing quote: all of it is the value, quotes
///   included, as if the field were not quoted.
///
/// Either way the field ends at the first delimiter behind the closing quote, so a delimiter in the middle of
/// such a field splits it. A quote in a field that does not start with one is data and breaks no rule.
pub fn fields<'a>(dialect: &Dialect, record: &'a [u8], out: &mut Vec<Field<'a>>) {
    out.clear();
    each_field(dialect, record, |field| out.push(field));
}

/// As [`fields`], but hands each field to `take` instead.
#[inline]
pub(crate) fn each_field<'a>(dialect: &Dialect, record: &'a [u8], mut take: impl FnMut(Field<'a>)) {
    if is_plain(dialect, record) {
        let mut from = 0;
        for at in memchr_iter(dialect.delimiter, record) {
            take(Field { raw: &record[from..at], quoted: false, escaped: false, malformed: false });
            from = at + 1;
        }
        take(Field { raw: &record[from..], quoted: false, escaped: false, malformed: false });
        return;
    }
    let mut pos = Some(0);
    while let Some(from) = pos {
        let (field, next) = field_at(dialect, record, from);
        take(field);
        pos = next;
    }
}

/// Whether only delimiters have a meaning in this record.
#[inline]
pub(crate) fn is_plain(dialect: &Dialect, record: &[u8]) -> bool {
    let found = match (dialect.quote, dialect.escape_byte()) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => memchr(one, record),
        (Some(quote), Some(escape)) => memchr2(quote, escape, record),
    };
    found.is_none()
}

/// The field that starts at `from`, and where the next one does.
#[inline]
pub(crate) fn field_at<'a>(dialect: &Dialect, record: &'a [u8], from: usize) -> (Field<'a>, Option<usize>) {
    if dialect.quote.is_some() && record.get(from).copied() == dialect.quote {
        return quoted_field(dialect, record, from);
    }
    let (to, escaped) = bare_end(dialect, record, from);
    (Field { raw: &record[from..to], quoted: false, escaped, malformed: false }, after(record, to))
}

/// Where the field behind a delimiter at `to` starts; `None` when the record ends there.
#[inline]
fn after(record: &[u8], to: usize) -> Option<usize> {
    (to < record.len()).then_some(to + 1)
}

/// The first unescaped delimiter from `from` on, or the end; and whether there were escapes before it.
#[inline]
fn bare_end(dialect: &Dialect, record: &[u8], from: usize) -> (usize, bool) {
    let Some(escape) = dialect.escape_byte() else {
        let found = memchr(dialect.delimiter, &record[from..]);
        return (found.map_or(record.len(), |offset| from + offset), false);
    };
    let (mut pos, mut escaped) = (from, false);
    while let Some(offset) = memchr2(escape, dialect.delimiter, record.get(pos..).unwrap_or_default()) {
        let at = pos + offset;
        if record[at] != escape {
            return (at, escaped);
        }
        escaped = true;
        pos = at + 2;
    }
    (record.len(), escaped)
}

fn quoted_field<'a>(dialect: &Dialect, record: &'a [u8], from: usize) -> (Field<'a>, Option<usize>) {
    let (close, escaped) = closing_quote(dialect, record, from + 1);
    let Some(close) = close else {
        let field = Field { raw: &record[from..], quoted: false, escaped, malformed: true };
        return (field, None);
    };
    let behind = record.get(close + 1).copied();
    if behind.is_none() || behind == Some(dialect.delimiter) {
        let field = Field { raw: &record[from + 1..close], quoted: true, escaped, malformed: false };
        return (field, after(record, close + 1));
    }
    let (to, escaped_behind) = bare_end(dialect, record, close + 1);
    let field = if to > close + 1 && record.get(to - 1).copied() == dialect.quote {
        Field { raw: &record[from + 1..to - 1], quoted: true, escaped: true, malformed: true }
    } else {
        let escaped = dialect.escape_byte().is_some() && (escaped || escaped_behind);
        Field { raw: &record[from..to], quoted: false, escaped, malformed: true }
    };
    (field, after(record, to))
}

/// The quote that closes a field whose text starts at `from`, and whether doubled quotes or escapes precede it.
fn closing_quote(dialect: &Dialect, record: &[u8], from: usize) -> (Option<usize>, bool) {
    let quote = dialect.quote.unwrap_or(b'"');
    let escape = dialect.escape_byte();
    let (mut pos, mut escaped) = (from, false);
    loop {
        let rest = record.get(pos..).unwrap_or_default();
        let found = match escape {
            None => memchr(quote, rest),
            Some(escape) => memchr2(quote, escape, rest),
        };
        let Some(offset) = found else { return (None, escaped && escape.is_some()) };
        let at = pos + offset;
        if rest[offset] == quote && record.get(at + 1) != Some(&quote) {
            return (Some(at), escaped);
        }
        escaped = true;
        pos = at + 2;
    }
}
