//! The rows of a transaction, before and after.

use anyhow::Result;
use binlog::event::table::Table;
use binlog::row::{Cell, Image, Value};
use serde_json::json;
use transactions::{AskedRow, Transaction, names, slot};

use super::show::Show;

/// Shows a row of a transaction.
pub(super) fn show(asked: &AskedRow<'_>, whole: &Transaction, show: &mut Show) -> Result<()> {
    let (row, table) = (&asked.row, asked.table);
    if show.is_json() {
        let word = ["insert", "update", "delete"][slot(asked.change)];
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
