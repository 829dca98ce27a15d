//! The rows of a transaction, before and after.

use std::path::PathBuf;

use anyhow::Result;
use binlog::event::table::Table;
use binlog::event::{Body, Change};
use binlog::row::{self, Cell, Image, Row, Value};
use binlog::tables::Tables;
use serde_json::json;

use super::feed;
use super::filter::{Choice, Choices, Filter};
use super::known::Known;
use super::names;
use super::show::Show;
use super::transaction::Transaction;

/// Reads a transaction again and shows its rows: so none of them was kept in memory before its end was
/// found.
pub(super) fn show(
    whole: &Transaction,
    files: &[PathBuf],
    filter: &Filter,
    known: &Known,
    show: &mut Show,
) -> Result<()> {
    let (mut tables, mut choices) = (Tables::default(), Choices::new(filter));
    feed::again(whole, files, |event, _| {
        let is_table = tables.take(event, |table| drop(known.complete(table)))?.is_some();
        let rows = match is_table {
            true => return Ok(()),
            false => event.parse()?,
        };
        let Body::Rows(rows) = rows else { return Ok(()) };
        let Some(table) = tables.get(rows.table_id) else { return Ok(()) };
        let Choice::Columns(columns) = choices.of(&table) else { return Ok(()) };
        for row in row::rows(&rows, &table, event.place())? {
            let row = row?;
            if filter.has_row(&row, &columns)? {
                one(&row, &table, rows.change, whole, show)?;
            }
        }
        Ok(())
    })
}

fn one(row: &Row<'_>, table: &Table, change: Change, whole: &Transaction, show: &mut Show) -> Result<()> {
    if show.is_json() {
        let word = ["insert", "update", "delete"][super::transaction::slot(change)];
        let mut line = json!({
            "message_type": "row", "gtid": names::gtid(whole.name), "schema": table.schema, "table": table.name,
            "change": word,
        });
        for (key, image) in [("before", row.before), ("after", row.after)] {
            if let Some(image) = image {
                line[key] = object(&image, table)?;
            }
        }
        return show.json(&line);
    }
    let line = match (row.before, row.after) {
        (Some(before), Some(after)) => format!("    ~ {}", changed(&before, &after, table)?),
        (Some(image), None) => format!("    - {}", plain(&image, table)?),
        (None, Some(image)) => format!("    + {}", plain(&image, table)?),
        (None, None) => return Ok(()),
    };
    show.line(&line)
}

/// `id=1 name='x'`
fn plain(image: &Image<'_>, table: &Table) -> Result<String> {
    let parts: Result<Vec<String>> =
        image.cells().map(|cell| Ok(format!("{}={}", table.column_name(cell.at), cell.value()?))).collect();
    Ok(parts?.join(" "))
}

/// `id=1 name='x' -> 'y'`: a value that was not written is a question mark.
fn changed(before: &Image<'_>, after: &Image<'_>, table: &Table) -> Result<String> {
    let (before, after): (Vec<Cell<'_>>, Vec<Cell<'_>>) = (before.cells().collect(), after.cells().collect());
    let mut parts = Vec::new();
    for at in 0..table.columns.len() {
        let name = table.column_name(at);
        parts.push(match (find(&before, at), find(&after, at)) {
            (None, None) => continue,
            (Some(old), None) => format!("{name}={}", old.value()?),
            (Some(old), Some(new)) if old.bytes == new.bytes => format!("{name}={}", old.value()?),
            (Some(old), Some(new)) => format!("{name}={} -> {}", old.value()?, new.value()?),
            (None, Some(new)) => format!("{name}=? -> {}", new.value()?),
        });
    }
    Ok(parts.join(" "))
}

fn find<'a>(cells: &[Cell<'a>], at: usize) -> Option<Cell<'a>> {
    cells.iter().find(|cell| cell.at == at).copied()
}

fn object(image: &Image<'_>, table: &Table) -> Result<serde_json::Value> {
    let mut object = serde_json::Map::new();
    for cell in image.cells() {
        object.insert(table.column_name(cell.at), value(&cell.value()?));
    }
    Ok(object.into())
}

/// Numbers as numbers, as long as these are exact; bytes that are no text in hexadecimal.
fn value(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(number) => json!(number),
        Value::Unsigned(number) => json!(number),
        Value::Either(signed, unsigned) => json!({"signed": signed, "unsigned": unsigned}),
        Value::Double(number) => json!(number),
        Value::Bit(number, _) => json!(number),
        Value::Year(year) => json!(year),
        Value::Enum(number, None) => json!(number),
        Value::Set(bits, None) => json!(bits),
        _ => match (value.as_text(), value.as_bytes()) {
            (Some(text), _) => json!(text),
            (None, Some(_)) => json!({"hex": value.to_string().trim_start_matches("0x")}),
            (None, None) => json!(value.to_string()),
        },
    }
}
