//! The logs, and a walk that decodes everything.

use binlog::event::Body;
use binlog::group::{EventRole, Grouping};
use binlog::reader::{End, Reader};
use binlog::tables::Tables;
use binlog::{Error, row};

/// A log, and what SHOW BINLOG EVENTS said of it: position, kind, end.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) log: &'static [u8],
    pub(crate) events: &'static str,
}

macro_rules! case {
    ($name:literal) => {
        Case {
            name: $name,
            log: include_bytes!(concat!("../cases/", $name, ".binlog")),
            events: include_str!(concat!("../cases/", $name, ".events")),
        }
    };
}

impl Case {
    /// The bytes at which a log is damaged in turn: all of them. Of the long logs of MySQL 9.7, in which the
    /// same kinds of events come again and again, one in seven.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let is_long = self.name.starts_with("mysql-9.7") && self.log.len() > 3000;
        (0..self.log.len()).step_by(if is_long { 7 } else { 1 })
    }
}

/// All of them. The first has every type of column, with names; the second has no checksums.
pub(crate) const CASES: [Case; 8] = [
    case!("mariadb-10.11"),
    case!("mariadb-10.11-no-sums"),
    case!("mariadb-11.8"),
    case!("mysql-5.6"),
    case!("mysql-9.7"),
    case!("mysql-9.7-compressed"),
    case!("mysql-9.7-tagged"),
    case!("mysql-9.7-json"),
];

/// The case with this name.
pub(crate) fn case(name: &str) -> Case {
    CASES.into_iter().find(|case| case.name == name).unwrap()
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Position, kind and end of every event.
    pub(crate) events: Vec<String>,
    /// Where groups begin and end.
    pub(crate) groups: Vec<(u64, u64)>,
    /// The values of every row image.
    pub(crate) rows: Vec<String>,
    pub(crate) end: Option<End>,
    pub(crate) error: Option<String>,
}

/// Reads a log and decodes all of it.
pub(crate) fn walk(log: &[u8]) -> Found {
    let mut found = Found::default();
    found.error = read(log, &mut found).err().map(|error| error.to_string());
    found
}

fn read(log: &[u8], found: &mut Found) -> Result<(), Error> {
    let mut reader = Reader::open(log)?;
    while let Some(event) = reader.next()? {
        found.events.push(format!("{}\t{}\t{}", event.at, event.header.kind.name(), event.end()));
        event.parse()?;
    }
    let mut reader = Reader::open(log)?.unpacking();
    let (mut grouping, mut tables, mut begin) = (Grouping::default(), Tables::default(), 0);
    while let Some(event) = reader.next()? {
        let table = tables.take(&event, |_| {})?;
        let body = table.map_or_else(|| event.parse(), |table| Ok(Body::Table(table)))?;
        let (part, _) = grouping.take(&event, &body);
        if matches!(part, EventRole::First | EventRole::Whole) {
            begin = event.at;
        }
        if let Body::Rows(rows) = &body
            && let Some(table) = tables.get(rows.table_id)
        {
            for row in row::rows(rows, &table, event.place())? {
                let row = row?;
                for image in [row.before, row.after].into_iter().flatten() {
                    let mut text = String::new();
                    for cell in image.cells() {
                        let value = cell.value()?;
                        // What is asked of values must not fail either.
                        std::hint::black_box(cell.matches("1")?);
                        text.push_str(&format!("{}={value} ", table.column_name(cell.at)));
                    }
                    found.rows.push(text);
                }
            }
        }
        if matches!(part, EventRole::Last | EventRole::Whole) {
            found.groups.push((begin, event.end()));
        }
    }
    found.end = reader.end().cloned();
    Ok(())
}

/// A log without checksums that has these events: kind and body.
pub(crate) fn framed(events: &[(u8, &[u8])]) -> Vec<u8> {
    let mut log = CASES[1].log[..256].to_vec();
    for (kind, body) in events {
        let len = u32::try_from(body.len() + 19).unwrap();
        log.extend_from_slice(&[0, 0, 0, 0, *kind, 1, 0, 0, 0]);
        log.extend_from_slice(&len.to_le_bytes());
        log.extend_from_slice(&[0; 6]);
        log.extend_from_slice(body);
    }
    log
}
