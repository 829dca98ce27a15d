//! A row of a queue as output.

use std::borrow::Cow;

use anyhow::Result;
use relay::column::Column;
use serde_json::{Map, Value, json};

use crate::report::Report;

/// Shows a row: its values with tabs between them, or an object.
pub(crate) fn show_row(
    queue: &str,
    columns: &[Column],
    values: &[Option<Cow<'_, str>>],
    report: &Report,
) -> Result<()> {
    if report.is_json() {
        let names = columns.iter().map(|column| column.name.clone());
        let row: Map<String, Value> = names.zip(values.iter().map(|value| json!(value))).collect();
        report.message(&json!({ "message_type": "row", "queue": queue, "row": row }))?;
    } else {
        let cells: Vec<String> = values.iter().map(|value| cell(value.as_deref())).collect();
        report.data(&cells.join("\t"))?;
    }
    Ok(())
}

/// A value in a tab-separated line, as `mariadb --batch` prints it.
pub(crate) fn cell(value: Option<&str>) -> String {
    let Some(value) = value else { return "NULL".to_owned() };
    value.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\0', "\\0")
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_value_stays_on_its_line() {
        assert_eq!(cell(Some("a\tb\nc\\d\0")), "a\\tb\\nc\\\\d\\0");
        assert_eq!(cell(None), "NULL");
    }
}
