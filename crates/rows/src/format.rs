//! Record formats: everything that is not plain delimited text is converted to it on the way in.
//!
//! A format is added only here: a variant, how to recognise it, and how to turn it into lines. All later
//! steps read delimited text and know nothing of formats.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::BadLine;
use crate::json::{self, JsonLines};
use crate::lenient::Normalizer;
use crate::{Dialect, Field, Lenient, Nulls, fields};

/// How records are written in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// Delimited text that is read unchanged.
    #[default]
    Plain,
    /// Delimited text that must be made strict first.
    Lenient(Lenient),
    /// A JSON object on each line; see [`Json`].
    JsonLines(Json),
    /// A JSON array on each line, of so many values.
    JsonArrays(usize),
    /// Rows of a file with typed columns; see [`Typed`].
    Typed(Typed),
}

/// A file with typed columns, which another program turns into lines of LOAD DATA's dialect before anything
/// here sees them. A line with a field too many is a bad row; the last field says why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typed {
    /// The name of the format, for people.
    pub name: String,
    /// How the values of each column are written.
    pub forms: Vec<ValueForm>,
}

/// How the values of a typed column are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueForm {
    /// As a server reads them.
    Text,
    /// Times in UTC, without saying so.
    Utc,
    /// Bytes, as hexadecimal digits.
    Hexadecimal,
    /// Shapes in well-known binary, as hexadecimal digits.
    Shape,
}

/// Which keys of the objects are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Json {
    /// The keys, in the order of the columns.
    pub keys: Vec<String>,
    /// Whether other keys are left out; otherwise they are an error.
    pub leave_out: bool,
}

/// Converts a file to delimited text, in pieces of any size.
pub struct Translator(Kind);

enum Kind {
    Lenient(Box<Normalizer>),
    Json(Box<JsonLines>),
}

impl Format {
    /// Converts this format to text in `dialect`; `None` if no conversion is needed. The first `skip_lines`
    /// lines do not belong to the format.
    #[must_use]
    pub fn translator(&self, dialect: Dialect, skip_lines: u64) -> Option<Translator> {
        match self {
            Format::Plain | Format::Typed(_) => None,
            Format::Lenient(lenient) => Some(Translator(Kind::Lenient(Box::new(Normalizer::new(
                lenient.clone(),
                dialect,
                skip_lines,
            ))))),
            Format::JsonLines(json) => {
                let lines = JsonLines::new(&json.keys, json.leave_out, skip_lines);
                Some(Translator(Kind::Json(Box::new(lines))))
            }
            Format::JsonArrays(columns) => {
                Some(Translator(Kind::Json(Box::new(JsonLines::arrays(*columns, skip_lines)))))
            }
        }
    }

    /// A record of the converted text as it was in the file, as far as possible: delimiters are restored, and
    /// in objects all values are strings.
    #[must_use]
    pub fn restore(&self, dialect: &Dialect, record: &[u8]) -> Vec<u8> {
        if let Some(columns) = self.json_columns() {
            let fields = values(dialect, record);
            let texts: Vec<Vec<u8>> = fields.iter().cloned().map(Option::unwrap_or_default).collect();
            return match (json::bad(&texts, columns), self) {
                (Some((line, _)), _) => line.to_vec(),
                (None, Format::JsonLines(json)) => json::object(&json.keys, &fields),
                (None, _) => json::array(&fields),
            };
        }
        if self.reason(dialect, record).is_some() {
            // The reason has no tab, as a field of this dialect.
            let end = memchr::memrchr(dialect.delimiter, record).unwrap_or(record.len());
            return record.get(..end).unwrap_or_default().to_vec();
        }
        let Format::Lenient(Lenient { delimiter: Some(delimiter), .. }) = self else {
            return record.to_vec();
        };
        let (mut out, mut quoted, mut escaped) = (Vec::new(), false, false);
        for &byte in record {
            let is_escaped = std::mem::take(&mut escaped);
            if !is_escaped && !quoted && byte == dialect.delimiter {
                out.extend_from_slice(delimiter.as_bytes());
                continue;
            }
            quoted ^= !is_escaped && Some(byte) == dialect.quote;
            escaped = !is_escaped && Some(byte) == dialect.escape_byte();
            out.push(byte);
        }
        out
    }

    /// Why a record of the converted text is not a row, if the translator has marked it so.
    #[must_use]
    pub fn reason(&self, dialect: &Dialect, record: &[u8]) -> Option<String> {
        let columns = match self {
            Format::Typed(typed) => Some(typed.forms.len()),
            other => other.json_columns(),
        }?;
        let fields: Vec<_> = values(dialect, record).into_iter().map(Option::unwrap_or_default).collect();
        let (_, what) = json::bad(&fields, columns)?;
        Some(String::from_utf8_lossy(what).into_owned())
    }

    /// Whether it is JSON: its numbers have points, whatever the delimiter of the converted text is.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json_columns().is_some()
    }

    /// How many values a line of JSON has.
    fn json_columns(&self) -> Option<usize> {
        match self {
            Format::JsonLines(json) => Some(json.keys.len()),
            Format::JsonArrays(columns) => Some(*columns),
            Format::Plain | Format::Lenient(_) | Format::Typed(_) => None,
        }
    }

    /// How the values of a field are written.
    #[must_use]
    pub fn form(&self, field: usize) -> ValueForm {
        match self {
            Format::Typed(typed) => typed.forms.get(field).copied().unwrap_or(ValueForm::Text),
            _ => ValueForm::Text,
        }
    }

    /// Whether a file of this format can have a header. Objects have none; one is made for them.
    #[must_use]
    pub fn has_header(&self) -> bool {
        !matches!(self, Format::JsonLines(_))
    }

    /// How many lines the translator adds at the start of the text.
    #[must_use]
    pub fn lines_added(&self) -> u64 {
        u64::from(matches!(self, Format::JsonLines(_) | Format::Typed(_)))
    }
}

/// A record's values; `None` for NULL as in LOAD DATA.
fn values(dialect: &Dialect, record: &[u8]) -> Vec<Option<Vec<u8>>> {
    let (mut row, mut scratch) = (Vec::new(), Vec::new());
    fields(dialect, record, &mut row);
    let value = |field: &Field<'_>| {
        (!field.is_null(&Nulls::default())).then(|| field.text(dialect, &mut scratch).to_vec())
    };
    row.iter().map(value).collect()
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::Plain => Ok(()),
            Format::Typed(typed) => f.write_str(&typed.name),
            Format::JsonLines(_) => f.write_str("JSON lines"),
            Format::JsonArrays(_) => f.write_str("JSON arrays on lines"),
            Format::Lenient(lenient) => {
                if lenient.blanks {
                    f.write_str(", runs of blanks are one")?;
                }
                if lenient.trim {
                    f.write_str(", trimmed")?;
                } else if lenient.space_before_quote {
                    f.write_str(", spaces before quotes are ignored")?;
                }
                if let Some(comment) = lenient.comment {
                    write!(f, ", comments begin with {}", char::from(comment))?;
                }
                if lenient.pad.is_some() {
                    f.write_str(", short rows are padded")?;
                }
                Ok(())
            }
        }
    }
}

impl Translator {
    /// Appends the converted `text` to `out`. An incomplete part at the end is kept for the next call; with
    /// `last` there is none.
    ///
    /// # Errors
    /// A line that is invalid in the format; the translator can't be used any more.
    pub fn translate(&mut self, text: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), BadLine> {
        match &mut self.0 {
            Kind::Lenient(tightener) => tightener.translate(text, last, out),
            Kind::Json(lines) => {
                lines.translate(text, last, out);
                Ok(())
            }
        }
    }
}
