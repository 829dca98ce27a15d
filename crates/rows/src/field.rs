//! Splits a record into fields.

use memchr::{memchr, memchr2};
use serde::{Deserialize, Serialize};

use crate::Dialect;
use crate::byte_marks::{Cursor, Marks};

/// Words that mean NULL only if no other words are among the numbers, dates and the like of the column: `NA`
/// is also Namibia.
pub(crate) const AMONG_TYPED: [&[u8]; 9] =
    [b"null", b"(null)", b"NA", b"N/A", b"n/a", b"#N/A", b"None", b"NaN", b"nan"];

/// Whether a text is a word that means NULL only if its column has no other words.
pub(crate) fn is_among_typed(text: &[u8]) -> bool {
    AMONG_TYPED.contains(&text)
}

/// One field of a record, unchanged from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// The bytes without the enclosing quotes.
    pub raw: &'a [u8],
    /// Whether the field was enclosed in quotes.
    pub quoted: bool,
    /// Whether `raw` contains doubled quotes or escapes, so that [`text`](Field::text) differs from it.
    pub escaped: bool,
    /// Whether the quoting is invalid: text follows the closing quote, or there is no closing quote.
    /// [`fields`] says how such a field is read.
    pub malformed: bool,
}

/// Which fields mean NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nulls {
    /// Whether an unquoted empty field is NULL.
    pub empty: bool,
    /// Words that are NULL as an unquoted field, byte for byte. The dialect's own NULL (`\N`, if there is an
    /// escape) need not be listed.
    pub words: Vec<Vec<u8>>,
}

impl Nulls {
    /// Whether an unquoted field with these bytes is NULL. Escapes are not considered.
    #[inline]
    pub(crate) fn holds(&self, raw: &[u8]) -> bool {
        if raw.is_empty() {
            return self.empty || self.words.iter().any(Vec::is_empty);
        }
        self.words.iter().any(|word| word.as_slice() == raw)
    }
}

impl<'a> Field<'a> {
    /// Whether the field is NULL: one of `nulls`, or exactly the escape followed by `N`. The latter is NULL
    /// in quotes too, because LOAD DATA reads it so.
    #[inline]
    pub fn is_null(&self, nulls: &Nulls) -> bool {
        if self.escaped && self.raw.len() == 2 && self.raw[1] == b'N' {
            return true;
        }
        !self.quoted && nulls.holds(self.raw)
    }

    /// The value: `raw` with doubled quotes and escapes resolved. It is built in `scratch` only if it differs
    /// from `raw`. `dialect` must be the one that the field was read with.
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

/// What a byte after an escape stands for.
#[inline]
fn unescape_byte(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'b' => 8,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'Z' => 26,
        other => other,
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
            // An escape with nothing after it is data, and so is a quote that is not doubled.
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

/// Splits a record into `out`, which is cleared first. An empty record is one empty field.
///
/// This never fails. A field with invalid quoting is marked as `malformed` and keeps every byte:
///
/// * with text after the closing quote, if the field ends with a quote (`"say "hi""`): the value is
///   everything between the first and the last quote, with doubled quotes halved;
/// * with other text after the closing quote (`"abc" x`), or without a closing quote: the value is
///   everything, including quotes, as if the field were not quoted.
///
/// In both cases the field ends at the first delimiter after the closing quote, so a delimiter in the middle
/// of such a field splits it. In a field that does not begin with a quote, a quote is data and valid.
pub fn fields<'a>(dialect: &Dialect, record: &'a [u8], out: &mut Vec<Field<'a>>) {
    out.clear();
    each_field(dialect, record, |field, _| out.push(field));
}

/// Like [`fields`], but passes each field and its offset to `take` instead.
#[inline]
pub(crate) fn each_field<'a>(dialect: &Dialect, record: &'a [u8], mut take: impl FnMut(Field<'a>, usize)) {
    let escape = dialect.escape_byte();
    let mut cursor = Cursor::new(Marks::new(dialect.delimiter, dialect.quote, escape), record);
    let (mut from, mut escaped) = (0, false);
    while let Some(at) = cursor.next() {
        let byte = record[at];
        if byte == dialect.delimiter {
            take(Field { raw: &record[from..at], quoted: false, escaped, malformed: false }, from);
            (from, escaped) = (at + 1, false);
        } else if Some(byte) == escape {
            escaped = true;
            cursor.skip_to(at + 2);
        } else if at == from {
            let (field, next) = quoted_field(dialect, record, from, &mut cursor);
            take(field, from);
            let Some(next) = next else { return };
            from = next;
        }
        // Any other quote is in the middle of a field, and data.
    }
    take(Field { raw: &record[from..], quoted: false, escaped, malformed: false }, from);
}

/// Reads the field that begins with a quote at `from`. Returns it and where the next one begins; the cursor
/// moves there.
#[inline]
fn quoted_field<'a>(
    dialect: &Dialect,
    record: &'a [u8],
    from: usize,
    cursor: &mut Cursor<'_>,
) -> (Field<'a>, Option<usize>) {
    let mut escaped = false;
    while let Some(at) = cursor.next() {
        let (byte, behind) = (record[at], record.get(at + 1).copied());
        if Some(byte) == dialect.quote {
            if behind == dialect.quote {
                escaped = true;
                cursor.skip_to(at + 2);
            } else if behind.is_none() || behind == Some(dialect.delimiter) {
                cursor.skip_to(at + 2);
                let field = Field { raw: &record[from + 1..at], quoted: true, escaped, malformed: false };
                return (field, after(record, at + 1));
            } else {
                return malformed_field(dialect, record, from, cursor);
            }
        } else if byte != dialect.delimiter {
            escaped = true;
            cursor.skip_to(at + 2);
        }
    }
    let escaped = escaped && dialect.escape_byte().is_some();
    (Field { raw: &record[from..], quoted: false, escaped, malformed: true }, None)
}

/// Reads a field that begins with a quote at `from` and has text after its closing quote, where the cursor
/// is.
#[cold]
fn malformed_field<'a>(
    dialect: &Dialect,
    record: &'a [u8],
    from: usize,
    cursor: &mut Cursor<'_>,
) -> (Field<'a>, Option<usize>) {
    let mut to = record.len();
    while let Some(at) = cursor.next() {
        if record[at] == dialect.delimiter {
            to = at;
            break;
        }
        if Some(record[at]) == dialect.escape_byte() {
            cursor.skip_to(at + 2);
        }
    }
    // There is at least a byte between the two quotes, or the field would be valid.
    let field = if Some(record[to - 1]) == dialect.quote {
        Field { raw: &record[from + 1..to - 1], quoted: true, escaped: true, malformed: true }
    } else {
        let raw = &record[from..to];
        let escaped = dialect.escape_byte().is_some_and(|escape| memchr(escape, raw).is_some());
        Field { raw, quoted: false, escaped, malformed: true }
    };
    (field, after(record, to))
}

/// Where the field after a delimiter at `to` begins; `None` when the record ends there.
#[inline]
fn after(record: &[u8], to: usize) -> Option<usize> {
    (to < record.len()).then_some(to + 1)
}
