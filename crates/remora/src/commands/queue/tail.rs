//! `remora queue tail`

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use progress::{Progress, count};
use serde_json::{Map, Value, json};
use server::{Error, Session, TableName};

use super::column::{Column, columns};
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::{Exit, stopped};
use crate::report::Report;
use crate::stop::pause;

/// How often to look for new rows.
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The queue: db.table, or a table of -D
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// Begin with the rows that are there now, not with new ones
    #[arg(long)]
    all: bool,

    /// End when all rows that are there are shown, instead of waiting for more
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let queue = &table_name("QUEUE", &arguments.queue, &target)?;
    let mut session = target.connect()?;
    let stop = stop_flag(report)?;
    let columns = columns(&mut session, queue)?;
    let mut tail = Tail { session, queue, columns, began: 0, next: 0 };
    tail.began = tail.end()?;
    tail.next = tail.began;
    if arguments.all {
        tail.next = 1;
    }
    if !arguments.once {
        report.note(&format!("following {queue} from row {} on", tail.next));
    }
    loop {
        tail.show(report)?;
        if arguments.once {
            return Ok(Exit::Done);
        }
        if !pause(AGAIN, &stop) {
            return Ok(stopped());
        }
    }
}

/// How far a queue has been shown.
struct Tail<'name> {
    session: Session,
    queue: &'name TableName,
    columns: Vec<Column>,
    /// The number that the next new row had at the beginning: rows before it do not count as missed.
    began: i64,
    /// The number of the next row to show.
    next: i64,
}

impl Tail<'_> {
    /// Its name for the SQL functions.
    fn name(&self) -> String {
        format!("{}.{}", self.queue.schema, self.queue.table)
    }

    fn peek(&self, from: i64) -> String {
        format!("queue_peek({}, {from})", self.session.quote(&self.name()))
    }

    /// The number that the next new row will have.
    fn end(&mut self) -> Result<i64> {
        let asked = format!("SELECT {}", self.peek(i64::MAX));
        match self.session.value(&asked).context("is sql/queue.sql of this version installed there?")? {
            Some(number) => number.parse().context("no number"),
            None => {
                let why = self.session.warnings()?.into_iter().next().map(|warning| warning.message);
                bail!("{}: {}", self.queue, why.unwrap_or_else(|| "no queue".to_owned()))
            }
        }
    }

    /// Shows new rows.
    fn show(&mut self, report: &Report) -> Result<()> {
        let end = self.end()?;
        if end < self.next {
            report.note(&format!("{} was emptied or altered; its row numbers start over", self.queue));
            (self.began, self.next) = (1, 1);
        }
        if end == self.next {
            return Ok(());
        }
        self.read_columns(report)?;
        let peek = self.peek(self.next);
        let shown: Vec<String> = self.columns.iter().map(Column::show).collect();
        let select = format!("SELECT {peek}, {} FROM {} WHERE {peek}", shown.join(", "), self.queue);
        // Without a row nothing tells how far the server has looked.
        let (name, columns) = (self.name(), &self.columns);
        let (mut end, mut rows, mut printed) = (end, 0, Ok(()));
        let selected = self.session.for_each_row(&select, &mut |cells| {
            let mut row = cells.iter().map(|cell| cell.map(String::from_utf8_lossy));
            end = row.next().flatten().and_then(|told| told.parse().ok()).unwrap_or(end);
            rows += 1;
            printed = show_row(&name, columns, &row.collect::<Vec<_>>(), report);
            if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        printed?;
        match selected {
            // Unknown column: it was dropped just now. The next round reads the columns again.
            Err(Error::Sql { code: 1054, .. }) => return Ok(()),
            selected => selected?,
        };
        let missed = (end - self.next).saturating_sub(rows);
        if missed > 0 && self.next >= self.began {
            self.tell_missed(missed, report)?;
        }
        self.next = end;
        Ok(())
    }

    /// Reads the columns again: an ALTER may have changed them.
    fn read_columns(&mut self, report: &Report) -> Result<()> {
        let now = columns(&mut self.session, self.queue)?;
        let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        let (before, after) = (names(&self.columns), names(&now));
        if before != after {
            report.note(&format!("{} has the columns {} now", self.queue, after.join(", ")));
        }
        self.columns = now;
        Ok(())
    }

    /// Reports that rows were ended before they were seen.
    fn tell_missed(&self, rows: i64, report: &Report) -> Result<()> {
        if report.is_json() {
            report.message(&json!({ "message_type": "unseen", "queue": self.name(), "rows": rows }))?;
        } else {
            report.note(&format!("{} came and went unseen", count(rows, "row")));
        }
        Ok(())
    }
}

fn show_row(queue: &str, columns: &[Column], values: &[Option<Cow<'_, str>>], report: &Report) -> Result<()> {
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
fn cell(value: Option<&str>) -> String {
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
