//! Checks whether a server that was started on a backup finds its data sound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use progress::{Progress, count};
use server::{Error, Session, TableName};

use crate::settings::ELSEWHERE;

/// An error that says nothing about the data: their folder contains a folder that is not a database, such as
/// lost+found.
const NO_DATABASE: &str = "Invalid (old?) table or database name";
/// The most errors of a log that are reported; further ones say the same.
const ERRORS_MAX: usize = 20;

/// What InnoDB says of a table between DISCARD and IMPORT TABLESPACE, before it calls the table corrupt. Of a
/// file that is missing it says something else.
const DISCARDED: &str = "Tablespace has been discarded for table";

/// The first message about data on which no server starts.
pub const NO_START: &str = "a server does not start on it";

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many tables there are.
    pub tables: usize,
    /// How many tables were checked completely.
    pub checked: usize,
    /// What is wrong, in a line each.
    pub damages: Vec<String>,
}

/// The tables that can be checked; in random order if there may not be time for all of them.
///
/// # Errors
/// Errors of the server.
pub fn tables(session: &mut Session, any_order: bool) -> Result<Vec<TableName>, Error> {
    let elsewhere = ELSEWHERE.map(|engine| session.quote(engine)).join(", ");
    let rows = session.strings(&format!(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SEQUENCE', \
         'SYSTEM VERSIONED') AND table_schema NOT IN ('information_schema', 'performance_schema') \
         AND IFNULL(engine, '') NOT IN ({elsewhere}) ORDER BY {}",
        // If time is short, other tables are checked each day.
        if any_order { "RAND()" } else { "1, 2" }
    ))?;
    let name = |row: Vec<Option<String>>| match <[Option<String>; 2]>::try_from(row) {
        Ok([Some(schema), Some(table)]) => Some(TableName { schema, table }),
        _ => None,
    };
    Ok(rows.into_iter().filter_map(name).collect())
}

/// Checks tables, or as many as possible in a given time. If a time is given, the caller ends the server when
/// it is over.
///
/// # Errors
/// [`block::Error::Stopped`]; errors of the server.
pub fn check(
    session: &mut Session,
    tables: &[TableName],
    time: Option<Duration>,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> anyhow::Result<Checked> {
    let end = time.map(|time| Instant::now() + time);
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    progress.phase("checking", None);
    let mut checked = Checked { tables: tables.len(), ..Checked::default() };
    for table in tables {
        if stop.load(Ordering::Relaxed) {
            return Err(block::Error::Stopped.into());
        }
        if is_over() {
            break;
        }
        match one(session, table, progress) {
            Ok(mut damages) => checked.damages.append(&mut damages),
            // Nothing else limits the time: one table may take hours.
            Err(Error::LostConnection { .. }) if is_over() => break,
            Err(error @ Error::LostConnection { .. }) => {
                checked.damages.push(format!("{table}: the server ended when it was checked: {error}"));
                break;
            }
            Err(error) => return Err(error.into()),
        }
        checked.checked += 1;
    }
    Ok(checked)
}

/// What is wrong with one table.
fn one(session: &mut Session, table: &TableName, progress: &dyn Progress) -> Result<Vec<String>, Error> {
    let mut damages = Vec::new();
    let rows = session.strings(&format!("CHECK TABLE {table}"))?;
    if rows.iter().filter_map(|row| row.get(3)?.as_ref()).any(|what| what.starts_with(DISCARDED)) {
        progress.warn(&format!("{table}: it has no rows: its tablespace was discarded (DISCARD TABLESPACE)"));
        return Ok(damages);
    }
    for row in rows {
        let [_, _, Some(kind), Some(what)] = row.as_slice() else { continue };
        let line = format!("{table}: {kind}: {what}");
        match kind.as_str() {
            // An engine that can't be checked.
            "note" => {}
            "status" if what == "OK" || what == "Table is already up to date" => {}
            // For example a MyISAM table that was open when the snapshot was taken; it is still sound.
            "warning" => progress.warn(&line),
            _ => damages.push(line),
        }
    }
    Ok(damages)
}

/// Whether a server complains about a lack of space, which says nothing about its data (ENOSPC is 28).
pub fn lacks_room(log: &str) -> bool {
    let words = [
        "error 28",
        "errno: 28",
        "Errcode: 28",
        "No space left on device",
        "Disk is full",
        "out of disk space",
    ];
    log.lines().any(|line| words.iter().any(|word| line.contains(word)))
}

/// The errors in a server's log, each once.
pub fn errors(log: &str) -> Vec<String> {
    let mut errors: Vec<String> = Vec::new();
    let mut more = 0;
    for line in log.lines() {
        let Some((_, text)) = line.split_once("[ERROR]") else { continue };
        let text = format!("the server says: {}", text.trim());
        if errors.contains(&text) || text.contains(NO_DATABASE) {
            continue;
        }
        if errors.len() < ERRORS_MAX {
            errors.push(text);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        errors.push(format!("the server says {}", count(more, "more error")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_once_and_not_without_end() {
        let line = |number: usize| {
            format!("2026-11-22  2:07:26 0 [ERROR] InnoDB: page {number} is in the future!\n")
        };
        let folder = "2026-11-22 7 [ERROR] Invalid (old?) table or database name 'lost+found'";
        let log = format!(
            "2026-11-22 [Note] InnoDB: fine\n{}{}2026-11-22 [Warning] x\n{folder}\n",
            line(1),
            line(1)
        );
        assert_eq!(errors(&log), ["the server says: InnoDB: page 1 is in the future!"]);
        let many = errors(&(0..100).map(line).collect::<String>());
        assert_eq!((many.len(), many.last().unwrap().as_str()), (21, "the server says 80 more errors"));
    }
}
