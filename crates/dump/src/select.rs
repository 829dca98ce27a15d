//! Statements that read and load a table's rows exactly.

use server::catalogue::{Column, Table};
use server::{Session, TableName, quote_name};

use crate::format::Literal;
use crate::manifest::{Chunk, TableEntry};
use crate::mask::Masked;
use crate::{Format, value_text};

/// The query for a chunk's rows on the server that is dumped or copied: those that meet the table's
/// condition, with masks.
pub(crate) fn source(entry: &TableEntry, chunk: &Chunk) -> String {
    source_rows(entry, chunk, None)
}

/// The same for those rows that meet another condition, too.
pub(crate) fn source_rows(entry: &TableEntry, chunk: &Chunk, condition: Option<&str>) -> String {
    let own = entry.condition.as_deref();
    let both = own.zip(condition).map(|(own, further)| format!("({own}) AND ({further})"));
    let order = partition_order(entry, chunk);
    select(entry, chunk, (both.as_deref().or(own).or(condition), order), &entry.masks)
}

/// The query for a chunk's rows as they are stored.
pub(crate) fn stored(entry: &TableEntry, chunk: &Chunk, condition: Option<&str>) -> String {
    select(entry, chunk, (condition, None), &Masked::new())
}

/// The expression for a column's value.
fn read(entry: &TableEntry, column: &Column, masks: &Masked) -> String {
    match masks.get(&column.name) {
        Some(masked) => masked.expression.clone(),
        None => value_text::expression(column, entry.version),
    }
}

/// The order by which rows of one value of the partition column come together; `None` if they do so anyway.
/// Text is in the order of its bytes: a collation would mix texts that it takes for equal.
fn partition_order(entry: &TableEntry, chunk: &Chunk) -> Option<String> {
    let name = entry.partition_column.as_ref()?;
    let column = entry.columns().into_iter().find(|column| column.name == *name)?;
    let value = read(entry, column, &entry.masks);
    if column.character_set.is_some() || entry.masks.contains_key(name) {
        return Some(format!("CAST({value} AS BINARY)"));
    }
    let is_first_of_key = is_ordered(entry, chunk) && entry.table.key.first() == Some(name);
    (!is_first_of_key).then_some(value)
}

/// Whether the rows of a chunk come in the order of the key.
fn is_ordered(entry: &TableEntry, chunk: &Chunk) -> bool {
    chunk.range.is_some() && chunk.partitions.is_empty() && !entry.history
}

/// The query for a chunk's rows, with its columns in the order of the data files.
fn select(
    entry: &TableEntry,
    chunk: &Chunk,
    (condition, order): (Option<&str>, Option<String>),
    masks: &Masked,
) -> String {
    let table = &entry.table;
    let read = |column: &Column| read(entry, column, masks);
    let columns: Vec<_> = entry.columns().into_iter().map(read).collect();
    // A table whose columns are all computed still has rows.
    let columns = if columns.is_empty() { "NULL".to_owned() } else { columns.join(",") };
    let mut sql = format!("SELECT {columns} FROM {}", from(table, &chunk.partitions));
    if entry.history {
        sql.push_str(" FOR SYSTEM_TIME ALL");
    }
    if chunk.range.is_some() && !entry.history {
        sql.push_str(&format!(" FORCE INDEX ({})", quote_name(&table.key_name)));
    }
    let mut conditions = Vec::new();
    conditions.extend(chunk.range.as_ref().and_then(|range| range.sql(&table.key)));
    conditions.extend(condition.map(|condition| format!("({condition})")));
    if !conditions.is_empty() {
        sql.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    let mut order: Vec<String> = order.into_iter().collect();
    if is_ordered(entry, chunk) {
        order.extend(table.key.iter().map(|column| quote_name(column)));
    }
    if !order.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", order.join(",")));
    }
    sql
}

/// The statement that deletes a chunk's rows.
pub(crate) fn delete(entry: &TableEntry, chunk: &Chunk) -> String {
    let range = chunk.range.as_ref().and_then(|range| range.sql(&entry.table.key));
    let condition = range.map(|sql| format!(" WHERE {sql}")).unwrap_or_default();
    format!("DELETE FROM {}{condition}", from(&entry.table, &chunk.partitions))
}

/// The table, or some of its partitions.
pub(crate) fn from(table: &Table, partitions: &[String]) -> String {
    if partitions.is_empty() {
        return table.name.to_string();
    }
    let names: Vec<_> = partitions.iter().map(|name| quote_name(name)).collect();
    format!("{} PARTITION ({})", table.name, names.join(","))
}

/// Columns in the order of the data files, with the way in which their values are written in SQL.
pub(crate) fn literals(entry: &TableEntry) -> Vec<(String, Literal)> {
    let literal = |column| value_text::literal(column, entry.version);
    entry.columns().into_iter().map(|column| (column.name.clone(), literal(column))).collect()
}

/// LOAD DATA for a table's data files; `None` when LOAD DATA can't read the format.
pub(crate) fn load_data(entry: &TableEntry, into: &TableName, format: Format) -> Option<String> {
    let clause = format.load_clause()?;
    let mut columns = Vec::new();
    let mut set = Vec::new();
    for column in entry.columns() {
        let name = quote_name(&column.name);
        if value_text::is_numbered(column, entry.version) {
            set.push(format!("{name} = CAST(@{name} AS UNSIGNED)"));
            columns.push(format!("@{name}"));
        } else if value_text::literal(column, entry.version) == Literal::Text {
            set.push(format!("{name} = CONVERT(@{name} USING utf8mb4)"));
            columns.push(format!("@{name}"));
        } else {
            columns.push(name);
        }
    }
    let columns = if columns.is_empty() { "@`nothing`".to_owned() } else { columns.join(",") };
    let set = if set.is_empty() { String::new() } else { format!(" SET {}", set.join(", ")) };
    Some(format!(
        "LOAD DATA LOCAL INFILE '{}' INTO TABLE {into} CHARACTER SET binary {clause} ({columns}){set}",
        Session::STREAM
    ))
}
