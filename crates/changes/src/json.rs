//! Changes as JSON lines, in the envelope of Debezium's connector for MySQL.
//!
//! The envelope: <https://debezium.io/documentation/reference/stable/connectors/mysql.html>, "Change event
//! values". The values are those of its options `decimal.handling.mode=string` and
//! `binary.handling.mode=base64`; times are text, because its numbers have no zero dates.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use binlog::column::Type;
use binlog::event::Change;
use binlog::row::Value;
use serde_json::{Map, Value as Json, json};

use crate::cell::Column;
use crate::sink::{Changed, Source};

/// Bytes of the number of a reference system before a shape.
const SRID_BYTES: usize = 4;

/// Appends a change as a line.
///
/// # Errors
/// Why a value can't be written.
pub(crate) fn line(
    source: &Source<'_>,
    columns: &[Column],
    changed: &Changed<'_>,
    to: &mut Vec<u8>,
) -> Result<(), String> {
    let mut odd = Map::new();
    to.push(b'{');
    for (key, values) in [("before", &changed.before), ("after", &changed.after)] {
        let mut aside = Map::new();
        write(to, format_args!("\"{key}\":"));
        match values {
            None => to.extend_from_slice(b"null"),
            Some(values) => image(columns, values, to, &mut aside)?,
        }
        to.push(b',');
        if !aside.is_empty() {
            odd.insert(key.to_owned(), Json::Object(aside));
        }
    }
    let op = match changed.change {
        Change::Insert => "c",
        Change::Update => "u",
        Change::Delete => "d",
    };
    let ts_ms = source.time.saturating_mul(1000);
    write(
        to,
        format_args!("\"source\":{},\"op\":\"{op}\",\"ts_ms\":{ts_ms}", self::source(source, changed.row)),
    );
    if !odd.is_empty() {
        write(to, format_args!(",\"odd\":{}", Json::Object(odd)));
    }
    to.extend_from_slice(b"}\n");
    Ok(())
}

/// Where a change comes from.
pub(crate) fn source(source: &Source<'_>, row: u64) -> Json {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "connector": if source.is_mariadb { "mariadb" } else { "mysql" },
        "name": source.name,
        "ts_ms": source.time.saturating_mul(1000),
        "snapshot": "false",
        "db": source.schema,
        "table": source.table,
        "server_id": source.server_id,
        "gtid": source.gtid,
        "timeline": source.position.timeline,
        "file": source.position.file,
        "pos": source.position.at,
        "row": row,
        "thread": source.thread_id,
        "query": null,
    })
}

/// A row as an object. `odd` gets the values that are no text in their character set.
fn image(
    columns: &[Column],
    values: &[Value<'_>],
    to: &mut Vec<u8>,
    odd: &mut Map<String, Json>,
) -> Result<(), String> {
    to.push(b'{');
    for (number, (column, value)) in columns.iter().zip(values).enumerate() {
        if number > 0 {
            to.push(b',');
        }
        write(to, format_args!("{}:", Json::from(column.name.as_str())));
        let shown = shown(column, value).map_err(|why| format!("{}: {why}", column.name))?;
        if shown.is_none() {
            let bytes = column.text(value).map_err(|why| format!("{}: {why}", column.name))?;
            odd.insert(column.name.clone(), hex(&bytes));
        }
        write(to, format_args!("{}", shown.unwrap_or_default()));
    }
    to.push(b'}');
    Ok(())
}

/// A value; `None` for a text that is none.
fn shown(column: &Column, value: &Value<'_>) -> Result<Option<Json>, &'static str> {
    Ok(Some(match value {
        Value::Null => Json::Null,
        Value::Int(number) => json!(number),
        Value::Unsigned(number) => json!(number),
        // Its own few digits, not those of the DOUBLE that it is in JSON.
        Value::Float(_) => json!(value.to_string().parse::<f64>().map_err(|_| "it is no number")?),
        Value::Double(number) => json!(number),
        Value::Bit(bit, 1) => json!(*bit == 1),
        Value::Bit(bits, _) => json!(bits),
        Value::Year(year) => json!(year),
        Value::Enum(number, None) => json!(number),
        Value::Set(bits, None) => json!(bits),
        Value::Decimal(text) => json!(text),
        Value::Time(text) if column.is_timestamp() => json!(zoned(text)),
        Value::Time(text) => json!(text),
        Value::Bytes(bytes, _) if matches!(column.kind, Type::Geometry(_)) => {
            let (srid, shape) = bytes.split_at_checked(SRID_BYTES).ok_or("it is no geometry")?;
            let srid = srid.iter().rev().fold(0, |srid: u32, byte| srid << 8 | u32::from(*byte));
            json!({ "wkb": BASE64.encode(shape), "srid": srid })
        }
        Value::Bytes(bytes, _) if column.is_binary() => json!(BASE64.encode(bytes)),
        Value::Enum(..) | Value::Set(..) => return Ok(column.decoded(&column.text(value)?).map(Json::from)),
        Value::Bytes(..) | Value::Json(_) => return Ok(value.as_text().map(Json::from)),
        Value::JsonChanges(_) | Value::Either(..) => return column.text(value).map(|_| None),
    }))
}

/// A point in time with its zone, unless it is zero.
fn zoned(text: &str) -> String {
    match text.split_once(' ') {
        Some((date, time)) if !date.starts_with("0000") => format!("{date}T{time}Z"),
        _ => text.to_owned(),
    }
}

/// Bytes that are no text.
pub(crate) fn hex(bytes: &[u8]) -> Json {
    let digits = bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    });
    json!({ "hex": digits })
}

/// Appends text to a line in memory, where nothing can fail.
fn write(to: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let written: io::Result<()> = to.write_fmt(text);
    debug_assert!(written.is_ok());
}
