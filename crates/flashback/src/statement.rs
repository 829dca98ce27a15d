//! The statement that takes a change back.

use binlog::event::table::Table;
use binlog::literal;
use binlog::row::{Cell, Image, Row, Value};

use crate::table_form::{Column, Obstacle, TableForm};

const USE_ROWS: &str = "look at it with remora log --rows, and write its statement yourself";

/// What a change is taken back with.
pub(crate) enum Statement {
    /// INSERT: the values of a row in parentheses.
    Insert(String),
    /// DELETE or UPDATE, which finds one row.
    Other(String),
}

/// The statement that takes back what happened to a row. `None` if only generated columns were changed.
pub(crate) fn back(form: &TableForm, table: &Table, row: &Row<'_>) -> Result<Option<Statement>, Obstacle> {
    Ok(match (row.before, row.after) {
        (Some(before), None) => Some(Statement::Insert(tuple(form, table, &whole(form, &before)?)?)),
        (None, Some(after)) => {
            let after = whole(form, &after)?;
            let found = condition(form, table, &after)?;
            Some(Statement::Other(format!("DELETE FROM {} WHERE {found}", form.name)))
        }
        (Some(before), Some(after)) => update(form, table, &before, &after)?,
        (None, None) => None,
    })
}

/// The values of a row, in parentheses.
pub(crate) fn values(form: &TableForm, table: &Table, image: &Image<'_>) -> Result<String, Obstacle> {
    tuple(form, table, &whole(form, image)?)
}

fn update(
    form: &TableForm,
    table: &Table,
    before: &Image<'_>,
    after: &Image<'_>,
) -> Result<Option<Statement>, Obstacle> {
    let before = whole(form, before)?;
    // What is not in the image after the change was not changed.
    let after = over(form, &before, after);
    if before.iter().zip(&after).all(|(before, after)| before.bytes == after.bytes) {
        return Ok(None);
    }
    let mut set = String::new();
    for (column, cell) in form.columns.iter().zip(&before) {
        if !set.is_empty() {
            set.push_str(", ");
        }
        set.push_str(&column.name);
        set.push_str(" = ");
        stored(column, table, cell, &mut set)?;
    }
    let found = condition(form, table, &after)?;
    Ok(Some(Statement::Other(format!("UPDATE {} SET {set} WHERE {found}", form.name))))
}

/// The values of all columns that are named.
fn whole<'a>(form: &TableForm, image: &Image<'a>) -> Result<Vec<Cell<'a>>, Obstacle> {
    let mut cells = image.cells();
    let mut found = Vec::with_capacity(form.columns.len());
    for column in &form.columns {
        let cell = cells.find(|cell| cell.at >= column.at).filter(|cell| cell.at == column.at);
        found.push(cell.ok_or_else(|| Obstacle {
            what: format!(
                "the row's value of {} is not in the log: binlog_row_image was not FULL, or the column is generated",
                column.name
            ),
            help: "if it is generated, give its CREATE TABLE with --schema; else only a copy of the data has the row as it was \
                   (remora restore)",
        })?);
    }
    Ok(found)
}

/// The values of all columns after a change.
fn over<'a>(form: &TableForm, before: &[Cell<'a>], after: &Image<'a>) -> Vec<Cell<'a>> {
    let mut cells = after.cells().peekable();
    let mut found = Vec::with_capacity(before.len());
    for (column, old) in form.columns.iter().zip(before) {
        while cells.next_if(|cell| cell.at < column.at).is_some() {}
        found.push(cells.next_if(|cell| cell.at == column.at).unwrap_or(*old));
    }
    found
}

fn value<'a>(table: &Table, cell: &Cell<'a>) -> Result<Value<'a>, Obstacle> {
    cell.value().map_err(|error| unwritable(table, cell, &error.to_string()))
}

fn unwritable(table: &Table, cell: &Cell<'_>, why: &str) -> Obstacle {
    let what = format!("a value of {} can't be written: {why}", table.column_name(cell.at));
    Obstacle { what, help: USE_ROWS }
}

/// `(1, 'old')`
fn tuple(form: &TableForm, table: &Table, cells: &[Cell<'_>]) -> Result<String, Obstacle> {
    let mut text = "(".to_owned();
    for (column, cell) in form.columns.iter().zip(cells) {
        if text.len() > 1 {
            text.push_str(", ");
        }
        stored(column, table, cell, &mut text)?;
    }
    text.push(')');
    Ok(text)
}

/// A value that is stored.
fn stored(column: &Column, table: &Table, cell: &Cell<'_>, out: &mut String) -> Result<(), Obstacle> {
    let value = value(table, cell)?;
    if let Some(why) = literal::unstorable(&value) {
        return Err(unwritable(table, cell, why));
    }
    literal::write(&value, column.letters, out).map_err(|why| unwritable(table, cell, why))
}

/// The condition that holds for a row with exactly these values.
fn condition(form: &TableForm, table: &Table, cells: &[Cell<'_>]) -> Result<String, Obstacle> {
    let mut text = String::new();
    for (column, cell) in form.columns.iter().zip(cells) {
        let value = value(table, cell)?;
        if !text.is_empty() {
            text.push_str(" AND ");
        }
        if matches!(value, Value::Null) {
            text.push_str(&column.name);
            text.push_str(" IS NULL");
            continue;
        }
        let mut literal = String::new();
        literal::write(&value, column.letters, &mut literal).map_err(|why| unwritable(table, cell, why))?;
        if column.is_loose {
            // The server finds it by the key, which takes other texts for equal.
            if column.is_key && literal.starts_with('\'') {
                text.push_str(&format!("{} = {literal} AND ", column.name));
            }
            text.push_str("BINARY ");
        }
        text.push_str(&format!("{} = {literal}", column.name));
    }
    if !form.has_key {
        // Of rows that are equal in all columns it does not matter which.
        text.push_str(" LIMIT 1");
    }
    Ok(text)
}
