//! The columns of a queue.

use anyhow::{Result, bail};
use server::catalogue::filled_columns;
use server::{Session, TableName, quote_name};

/// A column of a queue, and how to transfer its values without loss.
pub(crate) struct Column {
    pub(crate) name: String,
    /// Its type as SQL writes it.
    pub(crate) written: String,
    /// Whether an option of the queue names it: it is filled when a row is read.
    pub(crate) filled: bool,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    Number,
    Float,
    Bit,
    /// Text that needs no escaping: dates, addresses.
    Plain,
    /// Bytes in this character set; `None` for binary.
    Bytes(Option<String>),
}

/// The columns of a queue, without those that the server computes.
pub(crate) fn columns(source: &mut Session, queue: &TableName) -> Result<Vec<Column>> {
    let (schema, table) = (source.quote(&queue.schema), source.quote(&queue.table));
    let rows = source.strings(&format!(
        "SELECT column_name, data_type, character_set_name, column_type FROM information_schema.columns \
         WHERE table_schema = {schema} AND table_name = {table} AND is_generated = 'NEVER' ORDER BY ordinal_position"
    ))?;
    if rows.is_empty() {
        bail!("{queue}: no such table, or no privilege to see it");
    }
    let filled = filled_columns(&source.definition(queue)?);
    let columns = rows.into_iter().filter_map(|row| {
        let [name, kind, charset, written] = <[Option<String>; 4]>::try_from(row).ok()?;
        let (name, written) = (name?, written?);
        let kind = match kind?.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => Kind::Number,
            "float" | "double" => Kind::Float,
            "bit" => Kind::Bit,
            "date" | "time" | "datetime" | "timestamp" | "uuid" | "inet4" | "inet6" => Kind::Plain,
            _ => Kind::Bytes(charset),
        };
        Some(Column { filled: filled.contains(&name.to_lowercase()), name, written, kind })
    });
    Ok(columns.collect())
}

impl Column {
    /// Whether it has the name and the type of another column.
    pub(crate) fn is_like(&self, other: &Column) -> bool {
        let same = self.written == other.written && self.kind == other.kind;
        same && self.name.to_lowercase() == other.name.to_lowercase()
    }

    /// The expression to select a value for transfer.
    pub(crate) fn read(&self) -> String {
        let name = quote_name(&self.name);
        match self.kind {
            Kind::Number | Kind::Plain => name,
            // A FLOAT is printed with six digits, a DOUBLE with all its digits.
            Kind::Float => format!("CAST({name} AS DOUBLE)"),
            Kind::Bit => format!("{name} + 0"),
            Kind::Bytes(_) => format!("HEX({name})"),
        }
    }

    /// The expression to select a value for people: bytes that are not text become hexadecimal digits.
    pub(crate) fn show(&self) -> String {
        let name = quote_name(&self.name);
        match self.kind {
            Kind::Bytes(None) => format!("HEX({name})"),
            Kind::Bit => format!("{name} + 0"),
            Kind::Bytes(Some(_)) | Kind::Number | Kind::Float | Kind::Plain => name,
        }
    }

    /// A value selected in this way, as a literal for an INSERT.
    pub(crate) fn literal(&self, value: Option<&str>) -> String {
        let Some(value) = value else { return "NULL".to_owned() };
        match &self.kind {
            Kind::Number | Kind::Float | Kind::Bit => value.to_owned(),
            Kind::Plain => format!("'{value}'"),
            Kind::Bytes(None) => format!("x'{value}'"),
            Kind::Bytes(Some(charset)) => format!("_{charset} x'{value}'"),
        }
    }
}
