//! Values of a record on their way to stored bytes.

use innodb::table::collation::Collation;
use innodb::table::{Column, Type, latin1};
use innodb::value::Fault;
use innodb::write::Row;
use rows::{RecordValues, Value};

/// What the server's sql_mode forbids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether a date may have a month or a day of zero.
    zero_dates: bool,
}

impl Rules {
    pub(super) fn of(sql_mode: &str) -> Rules {
        let forbids = |mode: &str| ["NO_ZERO_DATE", "NO_ZERO_IN_DATE", "TRADITIONAL"].contains(&mode.trim());
        Rules { zero_dates: !sql_mode.split(',').any(forbids) }
    }
}

/// The texts of a record, by column.
pub(super) struct Cells<'r> {
    texts: RecordValues<'r>,
    /// A text converted to the column's character set.
    made: Vec<u8>,
}

impl<'r> Cells<'r> {
    pub(super) fn new(columns: usize) -> Cells<'r> {
        Cells { texts: RecordValues::new(columns), made: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.texts.clear();
    }

    #[inline]
    pub(super) fn set(&mut self, column: usize, value: Value<'r, '_>) {
        self.texts.set(column, value);
    }

    #[inline]
    pub(super) fn get(&self, column: usize) -> Option<&[u8]> {
        self.texts.get(column)
    }

    /// Adds the value of a column to a row, or says why that can't be.
    #[inline]
    pub(super) fn push(
        &mut self,
        at: usize,
        column: &Column,
        rules: Rules,
        row: &mut Row,
    ) -> Result<(), Fault> {
        let Some(text) = self.texts.get(at) else {
            if !column.nullable {
                return Err("NULL in a NOT NULL column");
            }
            row.push(None);
            return Ok(());
        };
        let text = match &column.kind {
            Type::Date | Type::Datetime { .. } | Type::Timestamp { .. }
                if !rules.zero_dates && has_zeros(text) =>
            {
                return Err("a date with zeros, which sql_mode forbids");
            }
            Type::Float(_) | Type::Double(_) if is_ambiguous(text) => {
                return Err("a signed zero, or more digits than all servers read alike");
            }
            Type::Char { chars, collation: Collation::BINARY } => {
                filled(text, usize::from(*chars), &mut self.made)
            }
            Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
                in_charset(text, *collation, &mut self.made)
                    .ok_or("characters that only the server can convert")?
            }
            Type::Enum(members) | Type::Set(members) => in_charset(text, members.collation(), &mut self.made)
                .ok_or("characters that only the server can convert")?,
            _ => text,
        };
        row.push_as(&column.kind, text)
    }
}

/// Why values of this type only come from the server.
pub(super) fn unsupported(kind: &Type) -> Option<&'static str> {
    let collation = match kind {
        Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
            *collation
        }
        Type::Enum(members) | Type::Set(members) if members.is_numbered() => {
            return Some("the server tells its members apart");
        }
        Type::Enum(members) | Type::Set(members) => members.collation(),
        Type::Geometry(_) | Type::Bit { .. } | Type::Vector { .. } | Type::Json => {
            return Some("the server reads such values");
        }
        _ => return None,
    };
    (collation.charset().min > 1).then_some("its character set is not like ASCII")
}

/// Whether values are bytes without a character set.
pub(super) fn is_binary(kind: &Type) -> bool {
    match kind {
        Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
            *collation == Collation::BINARY
        }
        _ => false,
    }
}

/// Whether a date has a month or a day of zero.
fn has_zeros(text: &[u8]) -> bool {
    text.get(5..7) == Some(b"00") || text.get(8..10) == Some(b"00")
}

/// Whether servers make more than one number of this text. Of `-0` some make 0; and of more than 30 digits
/// they do not always make the nearest number.
fn is_ambiguous(text: &[u8]) -> bool {
    let mantissa = text.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next().unwrap_or_default();
    let digits = mantissa.iter().filter(|byte| byte.is_ascii_digit()).skip_while(|digit| **digit == b'0');
    let count = digits.count();
    count > 30 || count == 0 && mantissa.contains(&b'-')
}

/// The value of a BINARY: filled up with zeros.
fn filled<'a>(text: &'a [u8], bytes: usize, made: &'a mut Vec<u8>) -> &'a [u8] {
    if text.len() >= bytes {
        return text;
    }
    made.clear();
    made.extend_from_slice(text);
    made.resize(bytes, 0);
    made
}

/// A UTF-8 text converted to a character set; `None` if that is not supported here.
fn in_charset<'a>(text: &'a [u8], collation: Collation, made: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let charset = collation.charset();
    // Character sets that are not like ASCII at all are not met here.
    if text.is_ascii() {
        return charset.is_ascii(text).then_some(text);
    }
    if ["binary", "utf8mb4", "utf8mb3"].contains(&charset.name) {
        return Some(text);
    }
    if charset.name != "latin1" {
        return None;
    }
    made.clear();
    for letter in std::str::from_utf8(text).ok()?.chars() {
        made.push(latin1(letter)?);
    }
    Some(made)
}
