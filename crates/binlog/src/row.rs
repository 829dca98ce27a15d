//! Rows: images of them before and after a change, and the values in these.
//!
//! Facts: `field.cc` and `rpl_utility.cc` of MariaDB's source, `rpl_record.cc` of MySQL's, `my_decimal.cc`
//! and `compat56.cc` for numbers and times.

mod compare;
mod text;
mod time;
mod value;

pub(crate) use text::digits;
pub use text::number;
pub use value::Value;

use crate::Corrupt;
use crate::column::Type;
use crate::error::Flaw;
use crate::event::rows::Rows;
use crate::event::table::{Column, Table};
use crate::wire::Wire;

/// A row as it was before or is after a change: the columns that were written, and their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    table: &'a Table,
    stored: Stored<'a>,
    /// A bit for each JSON column, set if there are only its changed parts.
    parts: &'a [u8],
    /// The row before, for those.
    before: Option<Stored<'a>>,
}

/// The bytes of an image.
#[derive(Clone, Copy, Debug)]
struct Stored<'a> {
    present: &'a [u8],
    nulls: &'a [u8],
    bytes: &'a [u8],
}

/// A row of an event.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Before: of what was changed or deleted.
    pub before: Option<Image<'a>>,
    /// After: of what was changed or inserted.
    pub after: Option<Image<'a>>,
}

/// The rows of an event, one after the other. It ends after an error.
#[derive(Debug)]
pub struct Iter<'a> {
    table: &'a Table,
    rows: &'a Rows<'a>,
    rest: Wire<'a>,
    place: String,
}

/// A value as it is stored, and its column.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// Which column, from 0 on.
    pub at: usize,
    /// The column.
    pub column: &'a Column,
    /// Its bytes; `None` is NULL.
    pub bytes: Option<&'a [u8]>,
    content: Content<'a>,
}

/// What the bytes of a value are.
#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    Whole,
    /// The changed parts of a JSON document, and the document before, if it is there.
    Parts(Option<&'a [u8]>),
}

/// The bit of a [`Rows::is_partial`] image that says that bits for JSON columns follow.
const HAS_PARTS: u64 = 1;

fn bit(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// The rows of an event of this table. `place` says where the event is, for errors.
///
/// # Errors
/// [`Corrupt`] if the table has not as many columns as the event.
pub fn rows<'a>(rows: &'a Rows<'a>, table: &'a Table, place: impl Into<String>) -> Result<Iter<'a>, Corrupt> {
    let place = place.into();
    if rows.columns != table.columns.len() {
        return Err(Flaw("its number of columns differs from the table's").at(place));
    }
    Ok(Iter { table, rows, rest: Wire(&rows.data), place })
}

impl<'a> Iter<'a> {
    fn stored(&mut self, present: &'a [u8]) -> Result<Stored<'a>, Flaw> {
        let count = (0..self.table.columns.len()).filter(|at| bit(present, *at)).count();
        let nulls = self.rest.take(count.div_ceil(8))?;
        let (start, mut null) = (self.rest.0, 0);
        for (at, column) in self.table.columns.iter().enumerate() {
            if bit(present, at) {
                if !bit(nulls, null) {
                    self.rest.take(column.kind.stored_len(self.rest)?)?;
                }
                null += 1;
            }
        }
        let bytes = start.get(..start.len() - self.rest.0.len()).unwrap_or_default();
        Ok(Stored { present, nulls, bytes })
    }

    /// For which JSON columns the image that follows has only parts.
    fn parts(&mut self) -> Result<&'a [u8], Flaw> {
        match self.rest.packed()? {
            0 => Ok(&[]),
            HAS_PARTS => {
                let is_json = |column: &&Column| matches!(column.kind, Type::Json(_));
                self.rest.take(self.table.columns.iter().filter(is_json).count().div_ceil(8))
            }
            _ => Err(Flaw("a row has changes in an unknown form")),
        }
    }

    fn row(&mut self) -> Result<Row<'a>, Flaw> {
        let before = self.rows.before.map(|present| self.stored(present)).transpose()?;
        let parts = if self.rows.is_partial { self.parts()? } else { &[] };
        let after = self.rows.after.map(|present| self.stored(present)).transpose()?;
        let table = self.table;
        let image = |stored, parts, before| Image { table, stored, parts, before };
        Ok(Row {
            before: before.map(|stored| image(stored, &[], None)),
            after: after.map(|stored| image(stored, parts, before)),
        })
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Row<'a>, Corrupt>;

    fn next(&mut self) -> Option<Result<Row<'a>, Corrupt>> {
        if self.rest.is_empty() {
            return None;
        }
        let len = self.rest.0.len();
        let row = match self.row() {
            // Of a table without columns every image is empty.
            Ok(_) if self.rest.0.len() == len => Err(Flaw("a row has no bytes")),
            row => row,
        };
        if row.is_err() {
            self.rest = Wire(&[]);
        }
        Some(row.map_err(|flaw| flaw.at(self.place.as_str())))
    }
}

impl Row<'_> {
    /// Its images, as they are in an event that is not [`Rows::is_partial`].
    #[must_use]
    pub fn stored(&self) -> Vec<u8> {
        let images = [self.before, self.after].into_iter().flatten();
        images.flat_map(|image| [image.stored.nulls, image.stored.bytes]).flatten().copied().collect()
    }
}

impl<'a> Stored<'a> {
    fn cells(self, table: &'a Table) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let (mut rest, mut null) = (Wire(self.bytes), 0);
        table.columns.iter().enumerate().filter(move |(at, _)| bit(self.present, *at)).map(
            move |(at, column)| {
                let is_null = bit(self.nulls, null);
                null += 1;
                // Its length was found before, and is right.
                let len = if is_null { None } else { column.kind.stored_len(rest).ok() };
                Cell { at, column, bytes: len.and_then(|len| rest.take(len).ok()), content: Content::Whole }
            },
        )
    }
}

/// Whether these bits say that there are only the parts of a column.
fn is_part(table: &Table, at: usize, parts: &[u8]) -> bool {
    let is_json = |column: &&Column| matches!(column.kind, Type::Json(_));
    let number = table.columns.iter().take(at).filter(is_json).count();
    table.columns.get(at).as_ref().is_some_and(is_json) && bit(parts, number)
}

impl<'a> Image<'a> {
    /// The values that were written, in the order of columns.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let Image { table, stored, parts, before } = *self;
        stored.cells(table).map(move |mut cell| {
            if !parts.is_empty() && cell.bytes.is_some() && is_part(table, cell.at, parts) {
                let before = before.and_then(|before| before.cells(table).find(|old| old.at == cell.at));
                cell.content = Content::Parts(before.and_then(|old| old.bytes));
            }
            cell
        })
    }

    /// The value of a column, if it was written.
    #[must_use]
    pub fn cell(&self, at: usize) -> Option<Cell<'a>> {
        self.cells().find(|cell| cell.at == at)
    }
}

impl<'a> Cell<'a> {
    /// The value.
    ///
    /// # Errors
    /// [`Corrupt`] with the column for bytes that are no value of its type.
    pub fn value(&self) -> Result<Value<'a>, Corrupt> {
        match self.bytes {
            None => Ok(Value::Null),
            Some(bytes) => value::decode(self.column, bytes, self.content).map_err(|flaw| {
                let name = self.column.name.clone().unwrap_or_else(|| format!("@{}", self.at + 1));
                flaw.at(format!("column {name}"))
            }),
        }
    }
}
