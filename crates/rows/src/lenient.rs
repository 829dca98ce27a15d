//! Lenient text: longer delimiters, spaces around fields, comments, short rows.
//!
//! Text that a splitter of single bytes can't read is converted to text that it can, line by line, so that
//! line numbers stay the same. Fields do not change, except for blanks around them if that is requested.

use serde::{Deserialize, Serialize};

use crate::error::BadLine;
use crate::{Dialect, LineEnd};

/// Replaces a delimiter of several characters: ASCII's own separator, which does not occur in text.
pub(crate) const UNIT_SEPARATOR: u8 = 0x1f;

/// How a text deviates from strict delimited text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lenient {
    /// The delimiter, if it has more than one byte.
    pub delimiter: Option<String>,
    /// Whether any run of spaces and tabs is one delimiter; at the ends of a line they are none.
    pub blanks: bool,
    /// Whether spaces and tabs around unquoted fields do not belong to them.
    pub trim: bool,
    /// Whether spaces between a delimiter and a quote do not belong to the field.
    pub space_before_quote: bool,
    /// Lines that begin with this byte are left out.
    pub comment: Option<u8>,
    /// Rows with fewer fields get empty ones at the end.
    pub pad: Option<usize>,
}

impl Lenient {
    /// Whether the text deviates at all.
    pub(crate) fn any(&self) -> bool {
        *self != Lenient::default()
    }

    /// The byte that replaces the delimiter in the converted text.
    pub(crate) fn delimiter_byte(&self) -> Option<u8> {
        let blank = self.blanks.then_some(b' ');
        self.delimiter.as_ref().map(|_| UNIT_SEPARATOR).or(blank)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// In lines that are passed on unchanged.
    Passed(u64),
    LineStart,
    Comment,
    FieldStart,
    Bare,
    Quoted,
    /// After a quote in a quoted field.
    QuoteSeen,
}

/// Converts lenient text to strict text, in pieces of any size.
pub(crate) struct Normalizer {
    lenient: Lenient,
    dialect: Dialect,
    mode: Mode,
    /// Whether the byte before was an escape.
    escaped: bool,
    /// Blanks and a `\r` whose meaning depends on the next byte.
    held: Vec<u8>,
    /// The beginning of a possible delimiter.
    tail: Vec<u8>,
    /// Fields of the line so far.
    fields: usize,
    /// Line ends so far.
    lines: u64,
}

impl Normalizer {
    /// `skip_lines` lines at the start are passed on unchanged.
    pub(crate) fn new(lenient: Lenient, dialect: Dialect, skip_lines: u64) -> Normalizer {
        let mode = if skip_lines > 0 { Mode::Passed(skip_lines) } else { Mode::LineStart };
        Normalizer {
            lenient,
            dialect,
            mode,
            escaped: false,
            held: Vec::new(),
            tail: Vec::new(),
            fields: 0,
            lines: 0,
        }
    }

    pub(crate) fn translate(&mut self, text: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), BadLine> {
        let joined;
        let text = if self.tail.is_empty() {
            text
        } else {
            self.tail.extend_from_slice(text);
            joined = std::mem::take(&mut self.tail);
            &joined
        };
        let delimiter = self.lenient.delimiter.clone().unwrap_or_default().into_bytes();
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let rest = &text[at..];
            if delimiter.len() > 1 && byte == delimiter[0] && self.outside() {
                if rest.starts_with(&delimiter) {
                    self.delimit(out);
                    at += delimiter.len();
                    continue;
                }
                if !last && delimiter.starts_with(rest) {
                    self.tail = rest.to_vec();
                    return Ok(());
                }
            }
            self.step(byte, out)?;
            at += 1;
        }
        if last {
            self.end_line(None, out);
        }
        Ok(())
    }

    /// Whether a delimiter has its meaning here.
    fn outside(&self) -> bool {
        !self.escaped
            && matches!(self.mode, Mode::LineStart | Mode::FieldStart | Mode::Bare | Mode::QuoteSeen)
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), BadLine> {
        let eol = self.dialect.line_end.last_byte();
        if let Mode::Passed(left) = self.mode {
            out.push(byte);
            if byte == eol {
                self.lines += 1;
                self.mode = if left > 1 { Mode::Passed(left - 1) } else { Mode::LineStart };
            }
            return Ok(());
        }
        if self.mode == Mode::Comment {
            if byte == eol {
                self.end_line(Some(byte), out);
            } else if byte == b'\r' {
                self.held = vec![byte];
            } else {
                self.held.clear();
            }
            return Ok(());
        }
        if std::mem::take(&mut self.escaped) {
            out.push(byte);
            self.lines += u64::from(byte == eol);
            return Ok(());
        }
        if self.mode == Mode::Quoted {
            if Some(byte) == self.dialect.quote {
                self.mode = Mode::QuoteSeen;
            } else {
                self.escaped = Some(byte) == self.dialect.escape_byte();
                self.lines += u64::from(byte == eol);
            }
            out.push(byte);
            return Ok(());
        }
        self.outside_step(byte, eol, out)
    }

    fn outside_step(&mut self, byte: u8, eol: u8, out: &mut Vec<u8>) -> Result<(), BadLine> {
        if byte == eol {
            self.end_line(Some(byte), out);
            return Ok(());
        }
        if self.mode == Mode::LineStart {
            if Some(byte) == self.lenient.comment {
                self.mode = Mode::Comment;
                return Ok(());
            }
            self.mode = Mode::FieldStart;
        }
        let may_be_end = byte == b'\r' && matches!(self.dialect.line_end, LineEnd::CrLf | LineEnd::Any);
        let blank = matches!(byte, b' ' | b'\t') && byte != self.single_delimiter();
        if may_be_end
            || (blank && (self.lenient.trim || self.lenient.blanks || self.lenient.space_before_quote))
        {
            self.held.push(byte);
            return Ok(());
        }
        if self.lenient.blanks && self.held.iter().any(|held| *held != b'\r') && self.fields > 0 {
            self.delimit(out);
        }
        if self.lenient.delimiter.is_none() && !self.lenient.blanks && byte == self.dialect.delimiter {
            self.delimit(out);
            return Ok(());
        }
        if self.lenient.delimiter.is_some() && byte == UNIT_SEPARATOR {
            let what =
                "a field contains the control character 1f; it can't be read with a delimiter of several \
                        characters"
                    .to_owned();
            return Err(BadLine { line: self.lines + 1, what });
        }
        self.fields = self.fields.max(1);
        let quote = Some(byte) == self.dialect.quote;
        match self.mode {
            Mode::FieldStart if quote => {
                // Here blanks before a quote do not belong to the field.
                self.held.clear();
                self.mode = Mode::Quoted;
            }
            Mode::QuoteSeen if quote && self.held.is_empty() => self.mode = Mode::Quoted,
            mode => {
                let leading = mode == Mode::FieldStart && (self.lenient.trim || self.lenient.blanks);
                self.flush(leading, out);
                self.mode = Mode::Bare;
                self.escaped = Some(byte) == self.dialect.escape_byte();
            }
        }
        out.push(byte);
        Ok(())
    }

    /// The delimiter, if it is a single byte in the text.
    fn single_delimiter(&self) -> u8 {
        match self.lenient.delimiter_byte() {
            None => self.dialect.delimiter,
            Some(_) => 0,
        }
    }

    /// Writes what was held back, or drops its blanks.
    fn flush(&mut self, drop_blanks: bool, out: &mut Vec<u8>) {
        let keep = |byte: &u8| !drop_blanks || !matches!(byte, b' ' | b'\t');
        out.extend(self.held.drain(..).filter(keep));
    }

    /// Ends a field. Blanks at its end are dropped if fields are trimmed, and after a closing quote.
    fn end_field(&mut self, out: &mut Vec<u8>) {
        let drop = self.lenient.trim || self.lenient.blanks || self.mode == Mode::QuoteSeen;
        self.flush(drop, out);
    }

    fn delimit(&mut self, out: &mut Vec<u8>) {
        self.end_field(out);
        out.push(self.lenient.delimiter_byte().unwrap_or(self.dialect.delimiter));
        self.fields = self.fields.max(1) + 1;
        self.mode = Mode::FieldStart;
    }

    /// Ends a line, or the text if there is no byte.
    fn end_line(&mut self, eol: Option<u8>, out: &mut Vec<u8>) {
        let long = self.held.last() == Some(&b'\r');
        if long {
            self.held.pop();
        }
        if self.mode == Mode::Comment {
            self.held.clear();
        }
        self.end_field(out);
        if let (Some(wanted), 1..) = (self.lenient.pad, self.fields) {
            let missing = wanted.saturating_sub(self.fields);
            out.extend(std::iter::repeat_n(
                self.lenient.delimiter_byte().unwrap_or(self.dialect.delimiter),
                missing,
            ));
        }
        out.extend(long.then_some(b'\r'));
        out.extend(eol);
        self.lines += u64::from(eol.is_some());
        self.fields = 0;
        self.mode = Mode::LineStart;
    }
}
