//! What TABLE_MAP says of columns if `binlog_row_metadata` is MINIMAL or FULL.

use crate::column::Type;
use crate::error::Flaw;
use crate::event::table::{Column, Table};
use crate::wire::Wire;

const MISMATCH: Flaw = Flaw("the column metadata describe more columns than there are");

/// Reads it into the table. Fields are a kind, a length and bytes; unknown ones are left out. MariaDB counts
/// GEOMETRY among the texts, MySQL does not.
pub(crate) fn read(mut wire: Wire<'_>, table: &mut Table, is_mariadb: bool) -> Result<(), Flaw> {
    let is_text =
        |column: &Column| column.kind.is_text() || is_mariadb && matches!(column.kind, Type::Geometry(_));
    while !wire.is_empty() {
        let kind = wire.u8()?;
        let len = wire.packed_len()?;
        let field = Wire(wire.take(len)?);
        let columns = &mut table.columns;
        match kind {
            1 => signs(field, columns)?,
            2 => default_collation(field, &mut chosen(columns, is_text))?,
            3 => collations(field, &mut chosen(columns, is_text))?,
            4 => names(field, columns)?,
            5 => members(field, &mut chosen(columns, |column| column.kind.is_set()))?,
            6 => members(field, &mut chosen(columns, |column| column.kind.is_enum()))?,
            8 => table.primary_key = Some(key(field, columns.len(), false)?),
            9 => table.primary_key = Some(key(field, columns.len(), true)?),
            10 => default_collation(field, &mut chosen(columns, has_members))?,
            11 => collations(field, &mut chosen(columns, has_members))?,
            _ => {}
        }
    }
    Ok(())
}

fn has_members(column: &Column) -> bool {
    column.kind.is_set() || column.kind.is_enum()
}

fn chosen(columns: &mut [Column], which: impl Fn(&Column) -> bool) -> Vec<&mut Column> {
    columns.iter_mut().filter(|column| which(column)).collect()
}

/// A bit for each number, the highest bit of a byte first.
fn signs(wire: Wire<'_>, columns: &mut [Column]) -> Result<(), Flaw> {
    let numbers = columns.iter_mut().filter(|column| column.kind.is_number());
    for (at, column) in numbers.enumerate() {
        let byte = wire.0.get(at / 8).ok_or(MISMATCH)?;
        column.is_unsigned = Some(byte << (at % 8) & 0x80 != 0);
    }
    Ok(())
}

/// A collation, and the columns that have another one.
fn default_collation(mut wire: Wire<'_>, columns: &mut [&mut Column]) -> Result<(), Flaw> {
    let collation = wire.packed()?;
    columns.iter_mut().for_each(|column| column.collation = Some(collation));
    while !wire.is_empty() {
        let (at, collation) = (wire.packed_len()?, wire.packed()?);
        columns.get_mut(at).ok_or(MISMATCH)?.collation = Some(collation);
    }
    Ok(())
}

fn collations(mut wire: Wire<'_>, columns: &mut [&mut Column]) -> Result<(), Flaw> {
    for column in columns {
        column.collation = Some(wire.packed()?);
    }
    Ok(())
}

fn names(mut wire: Wire<'_>, columns: &mut [Column]) -> Result<(), Flaw> {
    for column in columns {
        let len = wire.packed_len()?;
        column.name = Some(String::from_utf8_lossy(wire.take(len)?).into_owned());
    }
    Ok(())
}

fn members(mut wire: Wire<'_>, columns: &mut [&mut Column]) -> Result<(), Flaw> {
    for column in columns {
        let mut names = Vec::new();
        for _ in 0..wire.packed()? {
            let len = wire.packed_len()?;
            names.push(wire.take(len)?.to_vec());
        }
        column.members = Some(names);
    }
    Ok(())
}

fn key(mut wire: Wire<'_>, count: usize, has_prefixes: bool) -> Result<Vec<(usize, u64)>, Flaw> {
    let mut columns = Vec::new();
    while !wire.is_empty() {
        let at = wire.packed_len()?;
        if at >= count {
            return Err(MISMATCH);
        }
        columns.push((at, if has_prefixes { wire.packed()? } else { 0 }));
    }
    Ok(columns)
}
