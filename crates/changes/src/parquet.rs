//! Changes as Parquet: the columns of the table, and columns that say what happened to the row.
//!
//! The values of `_change_type`, and two rows for an update, are those of the change data feed of Delta Lake:
//! <https://github.com/delta-io/delta/blob/master/PROTOCOL.md>, "Change Data Files".

use std::collections::BTreeSet;
use std::io::Write;

use binlog::row::Value;
use humanize::date_time;
use parquet_rows::{Column as Described, Error, Options, Writer};
use serde_json::{Map, Value as Json};

use crate::cell::Column;
use crate::json::hex;
use crate::sink::{Changed, Source};

/// What is said of each row: names, and types as a server describes them.
const ABOUT: [(&str, &str, &str); 8] = [
    ("_change_type", "varchar", "varchar(16)"),
    ("_commit_timestamp", "timestamp", "timestamp"),
    ("_gtid", "varchar", "varchar(255)"),
    ("_timeline", "int", "int"),
    ("_log_file", "varchar", "varchar(255)"),
    ("_log_position", "bigint", "bigint"),
    ("_row", "bigint", "bigint"),
    ("_odd", "json", "json"),
];
/// The level of zstd.
const LEVEL: u32 = 3;

/// A file that is being written.
pub(crate) struct File<W: Write + Send> {
    writer: Writer<W>,
    line: Vec<u8>,
}

impl<W: Write + Send> File<W> {
    /// A file for changes of a table with these columns.
    pub(crate) fn new(to: W, columns: &[Column]) -> Result<File<W>, Error> {
        let mut described: Vec<Described> = columns.iter().map(Column::for_parquet).collect();
        let mut taken: BTreeSet<String> = columns.iter().map(|column| column.name.to_lowercase()).collect();
        for (name, data_type, column_type) in ABOUT {
            let mut name = name.to_owned();
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            described.push(Described {
                name,
                data_type: data_type.to_owned(),
                column_type: column_type.to_owned(),
                character_set: (data_type == "varchar").then(|| "utf8mb4".to_owned()),
                is_numbered: false,
                is_in_path: false,
            });
        }
        let options = Options { level: LEVEL, ..Options::default() };
        Ok(File { writer: Writer::new(to, &described, options)?, line: Vec::new() })
    }

    /// Adds a change. Returns for how many rows of the file.
    pub(crate) fn change(
        &mut self,
        source: &Source<'_>,
        columns: &[Column],
        changed: &Changed<'_>,
    ) -> Result<u64, String> {
        let both = (changed.before.as_ref(), changed.after.as_ref());
        let images: [(Option<&Vec<Value<'_>>>, &str); 2] = match both {
            (Some(_), Some(_)) => [(both.0, "update_preimage"), (both.1, "update_postimage")],
            _ => [(both.0, "delete"), (both.1, "insert")],
        };
        let mut rows = 0;
        for (values, kind) in images {
            let Some(values) = values else { continue };
            self.row((source, kind, changed.row + rows), columns, values)?;
            rows += 1;
        }
        Ok(rows)
    }

    fn row(
        &mut self,
        (source, kind, row): (&Source<'_>, &str, u64),
        columns: &[Column],
        values: &[Value<'_>],
    ) -> Result<(), String> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let mut odd = Map::new();
        for (at, (column, value)) in columns.iter().zip(values).enumerate() {
            if *value == Value::Null {
                line.extend_from_slice(b"\\N\t");
                continue;
            }
            let text = column.text(value).map_err(|why| format!("{}: {why}", column.name))?;
            if self.writer.takes(at, &text) {
                escape(&text, &mut line);
            } else {
                let shown = std::str::from_utf8(&text).map_or_else(|_| hex(&text), Json::from);
                odd.insert(column.name.clone(), shown);
                line.extend_from_slice(b"\\N");
            }
            line.push(b'\t');
        }
        let position = &source.position;
        let time = utc(source.time);
        let odd = if odd.is_empty() { None } else { Some(Json::Object(odd).to_string()) };
        let (timeline, at, row) = (position.timeline.to_string(), position.at.to_string(), row.to_string());
        let about = [
            Some(kind),
            Some(time.as_str()),
            source.gtid.as_deref(),
            Some(timeline.as_str()),
            Some(position.file.as_str()),
            Some(at.as_str()),
            Some(row.as_str()),
            odd.as_deref(),
        ];
        for (number, text) in about.iter().enumerate() {
            match text {
                Some(text) => escape(text.as_bytes(), &mut line),
                None => line.extend_from_slice(b"\\N"),
            }
            line.push(if number + 1 == ABOUT.len() { b'\n' } else { b'\t' });
        }
        let mut lost = Vec::new();
        let written = self.writer.lines(&line, &mut |value| {
            lost.push(value.column);
            Ok(())
        });
        self.line = line;
        written.map_err(|error| error.to_string())?;
        if lost.is_empty() { Ok(()) } else { Err(format!("columns {lost:?} are not as they were")) }
    }

    /// Completes the file, and returns where it went.
    pub(crate) fn finish(self) -> Result<W, Error> {
        Ok(self.writer.finish()?.1)
    }
}

/// Appends a value of a line.
fn escape(text: &[u8], line: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\n' => line.extend_from_slice(b"\\n"),
            byte => line.push(*byte),
        }
    }
}

/// A time as a server shows a TIMESTAMP in UTC.
fn utc(seconds: i64) -> String {
    date_time::machine(seconds).replace('T', " ").trim_end_matches('Z').to_owned()
}
