//! TABLE_MAP: the table that the rows after it are of.

use crate::column::Type;
use crate::error::Flaw;
use crate::event::Kind;
use crate::event::format::Format;
use crate::wire::Wire;

/// The collation of bytes that are no text.
pub const BINARY: u64 = 63;

/// A table, as the log describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its number, which rows refer to.
    pub id: u64,
    /// Its database.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The primary key, if the server said it: columns from 0 on, and for a prefix its length, else 0.
    pub primary_key: Option<Vec<(usize, u64)>>,
}

/// A column. What is `None` the server did not write, because of its `binlog_row_metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// How its values are stored.
    pub kind: Type,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Its name.
    pub name: Option<String>,
    /// Whether a number is unsigned.
    pub is_unsigned: Option<bool>,
    /// The number of the collation of a text, or [`BINARY`].
    pub collation: Option<u64>,
    /// The members of ENUM and SET.
    pub members: Option<Vec<Vec<u8>>>,
}

impl Table {
    /// Reads it up to what `binlog_row_metadata` adds.
    pub(crate) fn parse(wire: &mut Wire<'_>, format: &Format) -> Result<Table, Flaw> {
        let id = wire.uint(format.table_id_bytes(Kind::TABLE_MAP))?;
        wire.u16()?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let schema = text(wire.short_text_zero()?);
        let name = text(wire.short_text_zero()?);
        let count = wire.packed_len()?;
        let kinds = wire.take(count)?;
        let len = wire.packed_len()?;
        let mut details = Wire(wire.take(len)?);
        let nullable = wire.take(count.div_ceil(8))?;
        let mut columns = Vec::with_capacity(count);
        for (at, number) in kinds.iter().enumerate() {
            let kind = Type::parse(*number, &mut details)?;
            let nullable = nullable.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
            let (name, is_unsigned, collation, members) = (None, None, None, None);
            columns.push(Column { kind, nullable, name, is_unsigned, collation, members });
        }
        if !details.is_empty() {
            return Err(Flaw("the column metadata are longer than the columns need"));
        }
        Ok(Table { id, schema, name, columns, primary_key: None })
    }

    /// What to call a column, from 0 on: its name, or `@1` for the first as in `mariadb-binlog`.
    #[must_use]
    pub fn column_name(&self, at: usize) -> String {
        let name = self.columns.get(at).and_then(|column| column.name.clone());
        name.unwrap_or_else(|| format!("@{}", at + 1))
    }
}
