//! Rows as JSON, for those who have no table to unpack them with. Only ASCII is written, so that no character
//! set of a connection can change it.

use crate::collate::Collate;
use crate::number::Number;
use crate::schema::{Column, ColumnLayout, Kind, Schema, Value};
use crate::time::{self, Shape};

/// The collation of bytes that are no text.
const BINARY: u32 = 63;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Schema {
    /// The first column of a type that [`Schema::json`] can't show.
    #[must_use]
    pub fn not_json(&self) -> Option<&str> {
        let opaque = self.columns.iter().find(|column| column.kind == Kind::Opaque);
        opaque.map(|column| column.name.as_str())
    }

    /// Appends a row as a JSON object. Numbers are numbers, times are text as SQL shows them, a TIMESTAMP in
    /// UTC, bytes that are no text are base64. A value that can't be read is null. With `strings` numbers are
    /// text too, for readers who have only floating-point numbers.
    pub fn json(&self, row: &[u8], strings: bool, collate: &dyn Collate, out: &mut String) {
        out.push('{');
        let values = self.read(row);
        for (nth, column) in self.columns.iter().enumerate() {
            if nth > 0 {
                out.push(',');
            }
            quote(&column.name, out);
            out.push(':');
            match values.as_ref().map(|values| values.get(nth)) {
                Some(Value::Number(number)) => put_number(column, number, strings, collate, out),
                Some(Value::Text(text)) => put_text(column, text, collate, out),
                Some(Value::Null | Value::Opaque) | None => out.push_str("null"),
            }
        }
        out.push('}');
    }
}

/// Appends a text as a JSON string in ASCII.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    let mut rest = text;
    // All bytes are looked at together, and most texts are plain.
    let all_plain = text.bytes().fold(true, |plain, byte| plain & is_plain(byte));
    while let Some(at) = if all_plain { None } else { rest.bytes().position(|byte| !is_plain(byte)) } {
        let (plain, other) = rest.split_at(at);
        out.push_str(plain);
        let mut letters = other.chars();
        match letters.next() {
            Some(letter @ ('"' | '\\')) => out.extend(['\\', letter]),
            Some('\n') => out.push_str("\\n"),
            Some(letter) => {
                let mut units = [0; 2];
                let units = letter.encode_utf16(&mut units).iter();
                units.for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            None => {}
        }
        rest = letters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

fn put_text(column: &Column, text: &[u8], collate: &dyn Collate, out: &mut String) {
    let Kind::Text(collation) = column.kind else { return out.push_str("null") };
    if collation == BINARY {
        return put_base64(text, out);
    }
    match collate.decode(collation, text) {
        // The spaces at the end of a CHAR do not belong to it.
        Some(text) if matches!(column.layout, ColumnLayout::Fixed(..)) => {
            quote(text.trim_end_matches(' '), out)
        }
        Some(text) => quote(&text, out),
        None => out.push_str("null"),
    }
}

fn put_base64(bytes: &[u8], out: &mut String) {
    out.push('"');
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            let at = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or_default();
            let known = BASE64.get(at).filter(|_| digit <= group.len());
            out.push(known.map_or('=', |byte| char::from(*byte)));
        }
    }
    out.push('"');
}

fn put_number(column: &Column, number: Number, strings: bool, collate: &dyn Collate, out: &mut String) {
    match column.kind {
        Kind::Enum(collation) => {
            // 0 stands for a value that was none of the members.
            let member = usize::try_from(number.digits - 1).ok().and_then(|at| column.members.get(at));
            let member = member.and_then(|member| collate.decode(collation, member));
            quote(&member.unwrap_or_default(), out);
        }
        Kind::Date => put_time(number, Shape::Date, out),
        Kind::Time(_) => put_time(number, Shape::Time, out),
        Kind::DateTime(_) => put_time(number, Shape::DateTime, out),
        Kind::Timestamp(_) => put_time(number, Shape::Timestamp, out),
        _ if strings => quote(&number.text(), out),
        _ => out.push_str(&number.text()),
    }
}

fn put_time(number: Number, shape: Shape, out: &mut String) {
    out.push('"');
    out.push_str(&time::text(number, shape));
    out.push('"');
}
