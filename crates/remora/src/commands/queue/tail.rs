//! `remora queue tail`

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use progress::{Progress, count, pause};
use relay::column::{Column, columns};
use serde_json::json;
use server::{Error, Session, TableName};

use super::row::show_row;
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::{Exit, stopped};
use crate::report::Report;
use queue_admin::rows::{end, peek};

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

    /// The number that the next new row will have.
    fn end(&mut self) -> Result<i64> {
        end(&mut self.session, self.queue)
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
        let peek = peek(&self.session, self.queue, self.next);
        let shown: Vec<String> = self.columns.iter().map(Column::show).collect();
        let select = format!("SELECT {peek}, {} FROM {} WHERE {peek}", shown.join(", "), self.queue);
        // If no row is returned, nothing says how far the server has searched.
        let (name, columns) = (self.name(), &self.columns);
        let (mut end, mut rows, mut printed) = (end, 0, Ok(()));
        let selected = self.session.for_each_row(&select, &mut |cells| {
            let mut row = cells.iter().map(|cell| cell.map(String::from_utf8_lossy));
            end = row.next().flatten().and_then(|number| number.parse().ok()).unwrap_or(end);
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
            report.note(&format!("{} were ended before they could be shown", count(rows, "row")));
        }
        Ok(())
    }
}
