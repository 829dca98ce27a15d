//! The message of a schedule as SQL.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::Error;

/// What stands for the time of the tick in a text of a message.
const TICK: &str = "{tick}";

/// The table that messages go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its database.
    pub database: String,
    /// Its name.
    pub table: String,
}

impl Target {
    /// From `database.table`; a name with a dot in it is in backticks.
    ///
    /// # Errors
    /// When it is not such a name.
    pub fn parse(text: &str) -> Result<Target, Error> {
        let wrong = || Error::Target(text.to_owned());
        let (database, rest) = name(text.trim()).ok_or_else(wrong)?;
        let (table, rest) = rest.strip_prefix('.').and_then(name).ok_or_else(wrong)?;
        if rest.is_empty() { Ok(Target { database, table }) } else { Err(wrong()) }
    }

    /// The statement that puts the message of each tick into it. `body`: a JSON object, whose keys are
    /// columns.
    ///
    /// # Errors
    /// When it is not one.
    pub(crate) fn insert(&self, body: &str, ticks: &[Timestamp]) -> Result<String, Error> {
        let columns = columns(body)?;
        let names: Vec<String> = columns.keys().map(|name| identifier(name)).collect();
        let row = |tick: &Timestamp| {
            let values: Result<Vec<String>, Error> =
                columns.values().map(|value| literal(value, *tick)).collect();
            Ok(format!("({})", values?.join(", ")))
        };
        let rows: Vec<String> = ticks.iter().map(row).collect::<Result<_, Error>>()?;
        let (database, table) = (identifier(&self.database), identifier(&self.table));
        Ok(format!("INSERT INTO {database}.{table} ({}) VALUES {}", names.join(", "), rows.join(", ")))
    }
}

fn wrong(error: serde_json::Error) -> Error {
    Error::Message(error.to_string())
}

/// The values of a message by its columns.
fn columns(body: &str) -> Result<BTreeMap<String, Box<RawValue>>, Error> {
    let columns: BTreeMap<String, Box<RawValue>> = serde_json::from_str(body).map_err(wrong)?;
    if columns.is_empty() { Err(Error::Message("it is empty".to_owned())) } else { Ok(columns) }
}

/// A value as SQL: a text, a number, or the JSON text of an array or an object.
fn literal(value: &RawValue, tick: Timestamp) -> Result<String, Error> {
    let time = time(tick);
    Ok(match value.get() {
        word @ ("null" | "true" | "false") => word.to_owned(),
        number if number.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
            number.to_owned()
        }
        text if text.starts_with('"') => {
            let text: String = serde_json::from_str(text).map_err(wrong)?;
            quoted(&text.replace(TICK, &time))
        }
        json => quoted(&json.replace(TICK, &time)),
    })
}

/// A time in UTC, as the server writes it.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// A text as SQL, whatever is in it; with sql_mode empty and SET NAMES utf8mb4.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The name at the start of a text, and what follows.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('`') else {
        let end = text.find('.').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        return (!name.is_empty() && !name.contains('`')).then(|| (name.to_owned(), rest));
    };
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('`')?;
        name.push_str(part);
        match after.strip_prefix('`') {
            Some(after) => {
                name.push('`');
                rest = after;
            }
            None => return (!name.is_empty()).then_some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(database: &str, table: &str) -> Target {
        Target { database: database.to_owned(), table: table.to_owned() }
    }

    #[test]
    fn a_target_is_a_name_with_its_database() {
        assert_eq!(Target::parse("db.q"), Ok(target("db", "q")));
        assert_eq!(Target::parse(" `my.db`.`a``b` "), Ok(target("my.db", "a`b")));
        for wrong in ["", "q", "db.", ".q", "a.b.c", "`a.b", "``.q", "a`b.c", "`a`b.c"] {
            assert_eq!(Target::parse(wrong), Err(Error::Target(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn a_message_is_a_row_for_each_tick() {
        let ticks: [Timestamp; 2] =
            ["2026-01-02T03:04:05Z".parse().unwrap(), "2026-01-02T03:05:00.5Z".parse().unwrap()];
        let body = r#"{"id": 18446744073709551616.10, "b\"`": "it's \\ {tick}", "c": null, "d": {"a" : [1, "{tick}"]}, "e": true, "f": -1}"#;
        let sql = target("d`b", "q").insert(body, &ticks).unwrap();
        let row = |at: &str| {
            format!(r#"('it''s \\ {at}', null, '{{"a" : [1, "{at}"]}}', true, -1, 18446744073709551616.10)"#)
        };
        let (one, two) = (row("2026-01-02 03:04:05.000000"), row("2026-01-02 03:05:00.500000"));
        assert_eq!(
            sql,
            format!("INSERT INTO `d``b`.`q` (`b\"```, `c`, `d`, `e`, `f`, `id`) VALUES {one}, {two}")
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let ticks = [Timestamp::UNIX_EPOCH];
        for wrong in ["", "{}", "[1]", "\"a\"", "{\"a\": 1", "{\"a\": 1} x", "null", "{\"a\": \"\\ud800\"}"] {
            let result = target("d", "q").insert(wrong, &ticks);
            assert!(matches!(result, Err(Error::Message(_))), "{wrong}: {result:?}");
        }
    }
}
