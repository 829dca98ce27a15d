//! Formats a row as a line of text.

use innodb::table::{Column, Generated, Type};
use innodb::value;

use crate::Error;

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// What LOAD DATA reads with the defaults for FIELDS and LINES.
    #[default]
    Tsv,
    /// Comma-separated, with quotes where necessary; NULL is nothing, an empty text is `""`.
    Csv,
}

/// Whether a column is written: only if the user gave it values.
pub(crate) fn is_written(column: &Column) -> bool {
    !column.hidden && column.generated == Generated::No
}

/// Writes values one after the other.
pub(crate) struct Values {
    format: Format,
    /// A value that needs escapes.
    scratch: Vec<u8>,
}

impl Values {
    pub(crate) fn new(format: Format) -> Values {
        Values { format, scratch: Vec::new() }
    }

    /// The separator between values.
    pub(crate) fn between(&self) -> u8 {
        match self.format {
            Format::Tsv => b'\t',
            Format::Csv => b',',
        }
    }

    pub(crate) fn null(&self, out: &mut Vec<u8>) {
        match self.format {
            Format::Tsv => rows::write_load_data(None, out),
            Format::Csv => rows::write_csv(None, out),
        }
    }

    /// Decodes a value directly into the output. Only a value that needs escapes is written twice.
    #[inline]
    pub(crate) fn value(&mut self, column: &Column, stored: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let from = out.len();
        value::decode(column, stored, out)?;
        if never_escaped(&column.kind) {
            return Ok(());
        }
        match self.format {
            Format::Tsv if rows::is_plain_load_data(&out[from..]) => {}
            Format::Tsv => {
                self.take(from, out);
                rows::write_load_data(Some(&self.scratch), out);
            }
            Format::Csv => {
                self.take(from, out);
                rows::write_csv(Some(&self.scratch), out);
            }
        }
        Ok(())
    }

    fn take(&mut self, from: usize, out: &mut Vec<u8>) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&out[from..]);
        out.truncate(from);
    }
}

/// Whether the text of a type has only digits and characters without a meaning in any format.
fn never_escaped(kind: &Type) -> bool {
    match kind {
        Type::Int { .. }
        | Type::Float(_)
        | Type::Double(_)
        | Type::Decimal { .. }
        | Type::Year { .. }
        | Type::Date
        | Type::Time { .. }
        | Type::Datetime { .. }
        | Type::Timestamp { .. }
        | Type::Uuid { .. }
        | Type::Inet4
        | Type::Inet6 => true,
        Type::Bit { .. }
        | Type::Char { .. }
        | Type::Varchar { .. }
        | Type::Blob { .. }
        | Type::Enum(_)
        | Type::Set(_)
        | Type::Json
        | Type::Vector { .. }
        | Type::Geometry(_) => false,
    }
}
