//! `remora queue peek`

use std::borrow::Cow;
use std::ops::ControlFlow;

use anyhow::Result;
use clap::Args;
use progress::{Progress, count};
use relay::column::{Column, columns};
use relay::queue_table;
use serde_json::json;

use super::row;
use crate::args::ServerArgs;
use crate::commands::table_name;
use crate::exit::Exit;
use crate::report::Report;
use queue_admin::rows;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The queue: db.table, or a table of -D
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// Show at most so many rows
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    limit: u64,

    /// Only rows that this condition matches: SQL
    #[arg(long = "where", value_name = "COND")]
    condition: Option<String>,

    /// Also rows that somebody owns, that are due later, or that have no tries left
    #[arg(long)]
    hidden: bool,

    /// Rows that were ended and are kept (KEEP), and no others
    #[arg(long, conflicts_with = "hidden")]
    kept: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let queue = table_name("QUEUE", &arguments.queue, &target)?;
    let mut session = target.connect()?;
    queue_table::must_be_queue(&mut session, &queue)?;
    rows::see_hidden(&mut session, arguments.hidden)?;
    if arguments.kept {
        session.execute("SET SESSION queue_show_kept = 1")?;
    }
    let columns = columns(&mut session, &queue)?;
    let condition = arguments.condition.as_deref();
    let found = rows::count(&mut session, &queue, condition)?;
    let values: Vec<String> = columns.iter().map(Column::show).collect();
    let select = format!(
        "SELECT {} FROM {queue}{} LIMIT {}",
        values.join(", "),
        rows::where_clause(condition),
        arguments.limit
    );
    if !report.is_json() {
        let head: Vec<String> = columns.iter().map(|column| row::cell(Some(&column.name))).collect();
        report.data(&head.join("\t"))?;
    }
    let name = format!("{}.{}", queue.schema, queue.table);
    let (mut shown, mut printed) = (0, Ok(()));
    session.for_each_row(&select, &mut |cells| {
        let row: Vec<Option<Cow<'_, str>>> =
            cells.iter().map(|cell| cell.map(String::from_utf8_lossy)).collect();
        shown += 1;
        printed = row::show_row(&name, &columns, &row, report);
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    printed?;
    if report.is_json() {
        report.message(&json!({ "message_type": "summary", "shown": shown, "rows": found }))?;
    } else if shown < found {
        report.note(&format!("{shown} of {} shown", count(found, "row")));
    } else {
        report.note(&count(shown, "row"));
    }
    Ok(Exit::Done)
}
