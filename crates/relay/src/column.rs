//! The columns of a queue.

use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use serde_json::value::RawValue;
use server::catalogue::filled_columns;
use server::{Session, TableName, quote_name};

/// A column of a queue, and how to transfer its values without loss.
#[derive(Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as SQL writes it.
    pub written: String,
    /// Whether an option of the queue names it: it is filled when a row is read.
    pub filled: bool,
    kind: Kind,
}

#[derive(Clone, PartialEq)]
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
pub fn columns(source: &mut Session, queue: &TableName) -> Result<Vec<Column>> {
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
    pub fn is_like(&self, other: &Column) -> bool {
        let same = self.written == other.written && self.kind == other.kind;
        same && self.name.to_lowercase() == other.name.to_lowercase()
    }

    /// The expression to select a value for transfer.
    pub fn read(&self) -> String {
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
    pub fn show(&self) -> String {
        let name = quote_name(&self.name);
        match self.kind {
            Kind::Bytes(None) => format!("HEX({name})"),
            Kind::Bit => format!("{name} + 0"),
            Kind::Bytes(Some(_)) | Kind::Number | Kind::Float | Kind::Plain => name,
        }
    }

    /// The expression to select the bytes of a value, as hexadecimal digits: text in UTF-8, numbers as text.
    pub fn read_bytes(&self) -> String {
        let name = quote_name(&self.name);
        match self.kind {
            Kind::Bytes(None) => format!("HEX({name})"),
            Kind::Bit => format!("HEX(CONVERT({name} + 0 USING utf8mb4))"),
            _ => format!("HEX(CONVERT({name} USING utf8mb4))"),
        }
    }

    /// The expression to select a value for JSON.
    pub fn read_json(&self) -> String {
        let name = quote_name(&self.name);
        match self.kind {
            Kind::Bytes(None) => format!("REPLACE(TO_BASE64({name}), '\\n', '')"),
            Kind::Bytes(Some(_)) => name,
            Kind::Number | Kind::Float | Kind::Bit | Kind::Plain => self.read(),
        }
    }

    /// A value selected in this way, as JSON: as `queue_lease_json` writes it, and floating-point numbers and
    /// bits as numbers.
    pub fn json(&self, value: Option<&str>) -> String {
        let Some(value) = value else { return "null".to_owned() };
        match self.kind {
            Kind::Number | Kind::Float | Kind::Bit => {
                // ZEROFILL: no number of JSON begins with such zeros.
                let zeros = value.len() - value.trim_start_matches('0').len();
                let has_digit = value[zeros..].starts_with(|letter: char| letter.is_ascii_digit());
                value[if has_digit { zeros } else { zeros.saturating_sub(1) }..].to_owned()
            }
            Kind::Plain | Kind::Bytes(_) => json!(value).to_string(),
        }
    }

    /// A value of JSON, as a literal for an INSERT.
    pub fn literal_of_json(&self, json: &RawValue, session: &Session) -> Result<String> {
        let text = match json.get() {
            "null" => return Ok("NULL".to_owned()),
            text if text.starts_with('"') => serde_json::from_str(text)?,
            text => match self.kind {
                Kind::Number | Kind::Float | Kind::Bit => return Ok(text.to_owned()),
                Kind::Plain | Kind::Bytes(_) => text.to_owned(),
            },
        };
        match &self.kind {
            Kind::Bytes(None) => match STANDARD.decode(&text) {
                Ok(bytes) => Ok(self.bytes(&bytes)),
                Err(error) => {
                    bail!("the value of {} is not base64, as those of binary columns are: {error}", self.name)
                }
            },
            _ => Ok(session.quote(&text)),
        }
    }

    /// Bytes as a literal for an INSERT; in UTF-8 if the column has text.
    pub fn bytes(&self, bytes: &[u8]) -> String {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self.kind {
            Kind::Bytes(None) => format!("x'{hex}'"),
            _ => format!("_utf8mb4 x'{hex}'"),
        }
    }

    /// A value selected in this way, as a literal for an INSERT.
    pub fn literal(&self, value: Option<&str>) -> String {
        let Some(value) = value else { return "NULL".to_owned() };
        match &self.kind {
            Kind::Number | Kind::Float | Kind::Bit => value.to_owned(),
            Kind::Plain => format!("'{value}'"),
            Kind::Bytes(None) => format!("x'{value}'"),
            Kind::Bytes(Some(charset)) => format!("_{charset} x'{value}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Kind};

    #[test]
    fn values_are_json() {
        let column = |kind| Column { name: "v".to_owned(), written: String::new(), filled: false, kind };
        let number = column(Kind::Number);
        for (value, json) in [
            ("0", "0"),
            ("-7", "-7"),
            ("00042", "42"),
            ("0000", "0"),
            ("000.50", "0.50"),
            ("-0.5", "-0.5"),
            ("100", "100"),
        ] {
            assert_eq!(number.json(Some(value)), json);
        }
        assert_eq!(number.json(None), "null");
        assert_eq!(column(Kind::Plain).json(Some("2026-11-25")), "\"2026-11-25\"");
        assert_eq!(column(Kind::Bytes(Some("latin1".to_owned()))).json(Some("a\"\n")), r#""a\"\n""#);
    }
}
