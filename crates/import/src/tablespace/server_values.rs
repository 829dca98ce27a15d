//! Values that the server supplies where the files have none: the time zone, and defaults.

use innodb::table::{Column, Type};
use innodb::write::Row;
use rows::Value;
use server::{Session, TableName};

use super::TablespaceFill;
use super::cell::{self, Cells, Rules};
use crate::Error;

/// Whether TIMESTAMP values of the files are in UTC.
pub(super) fn is_utc(fill: &TablespaceFill<'_>, session: &mut Session) -> Result<bool, Error> {
    let own = session.value("SELECT @@SESSION.time_zone")?.unwrap_or_default();
    let zone = fill.job.time_zone.as_ref().unwrap_or(&own);
    if ["+00:00", "-00:00", "UTC", "Etc/UTC", "GMT"].iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Ok(true);
    }
    if *zone != own || own != "SYSTEM" {
        return Ok(false);
    }
    // @@system_time_zone is what the zone was called when the server started: in London GMT, if that was in
    // winter. So all 829 months up to 2038 are asked for.
    let agreeing = "WITH RECURSIVE months (at) AS \
                    (SELECT 86400 UNION ALL SELECT at + 2592000 FROM months WHERE at < 2144000000) \
                    SELECT COUNT(*) FROM months \
                    WHERE FROM_UNIXTIME(at) = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL at SECOND";
    Ok(session.value(agreeing)?.as_deref() == Some("829"))
}

/// The stored default of a column, with `Some(None)` for NULL; `None` if the server computes it or there is
/// none.
pub(super) fn default(
    session: &mut Session,
    table: &TableName,
    column: &Column,
) -> Result<Option<Option<Vec<u8>>>, Error> {
    let (schema, table) = (session.quote(&table.schema), session.quote(&table.table));
    let found = session.value(&format!(
        "SELECT column_default FROM information_schema.columns WHERE table_schema = {schema} \
         AND table_name = {table} AND column_name = {}",
        session.quote(&column.name)
    ))?;
    let text = match found.as_deref() {
        None | Some("NULL") => return Ok(column.nullable.then_some(None)),
        Some(text) => text,
    };
    let literal = text.starts_with('\'') || text.starts_with("x'") || text.parse::<f64>().is_ok();
    // MariaDB 10.11 shows bytes that are no letters as question marks.
    let is_lossy = cell::is_binary(&column.kind) && text.starts_with('\'') && text.contains('?');
    if !literal
        || is_lossy
        || cell::unsupported(&column.kind).is_some()
        || matches!(column.kind, Type::Timestamp { .. })
    {
        return Ok(None);
    }
    // The server knows what its literals mean. They may be bytes and no text; CONCAT
    // makes a text of a number.
    let digits = session.value(&format!("SELECT HEX(CONCAT({text}))"))?;
    let Some(value) = digits.and_then(|digits| bytes(&digits)) else { return Ok(None) };
    let (mut cells, mut row) = (Cells::new(1), Row::default());
    cells.set(0, Value::Made(&value));
    let rules = Rules::of(&session.about.sql_mode);
    Ok(cells.push(0, column, rules, &mut row).is_ok().then(|| row.get(0).map(<[u8]>::to_vec)))
}

/// The bytes that hexadecimal digits stand for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())
}
