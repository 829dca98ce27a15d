//! `remora queue retry`

use anyhow::{Result, bail};
use clap::Args;
use progress::{Progress, count};
use relay::column::{Column, columns};
use relay::{Route, Rows, To, queue_table};
use serde_json::json;
use server::{Session, TableName};

use super::forwarded;
use super::{rows, tries};
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::Exit;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The queue with the rows that failed: db.table, or a table of -D
    #[arg(value_name = "DEAD")]
    queue: String,

    /// The queue that gets them, on the same server and with the same columns
    #[arg(long = "to", value_name = "QUEUE")]
    into: String,

    /// Only rows that this condition of queue_wait() matches, which may name the columns of FAILED and
    /// WHY; see docs/manual/queue.md#conditions
    #[arg(long = "where", value_name = "COND")]
    condition: Option<String>,

    /// At most so many rows, in the order of the queue
    #[arg(short = 'n', long = "rows", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Say how many rows it would be, and move none
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let queue = table_name("DEAD", &arguments.queue, &target)?;
    let into = table_name("--to", &arguments.into, &target)?;
    let mut session = target.connect()?;
    queue_table::must_be_queue(&mut session, &queue)?;
    queue_table::must_be_queue(&mut session, &into)?;
    must_fit(&mut session, &queue, &into)?;
    let definition = session.definition(&queue)?;
    let rows = Rows {
        reader: None,
        condition: arguments.condition.as_deref().map(|condition| tries::asked(condition, &definition)),
        once: true,
        limit: arguments.limit,
        before: Some(rows::end(&mut session, &queue)?),
    };
    let (from, to) = (target.clone(), To::Queue(target, into.clone()));
    let route = Route { from, queue, to, rows, stop: stop_flag(report)? };
    let queue = &route.queue;
    if arguments.dry_run {
        route.connect()?.check_condition(&route)?;
        // As the relay has it: conditions read times as UTC.
        session.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        let found = rows::count(&mut session, queue, arguments.condition.as_deref())?;
        let rows = arguments.limit.map_or(found, |limit| limit.min(found));
        if report.is_json() {
            report.message(&json!({ "message_type": "summary", "rows": rows, "dry_run": true }))?;
        } else {
            report.note(&format!("{} would move from {queue} to {into}", count(rows, "row")));
        }
        return Ok(Exit::Done);
    }
    forwarded::tell(&format!("moved from {queue} to {into}"), route.run(report)?, report)
}

/// Each row has to fit unchanged: values that are cut off or left out could not be recovered.
fn must_fit(session: &mut Session, queue: &TableName, into: &TableName) -> Result<()> {
    let mut own =
        |table| Ok::<_, anyhow::Error>(columns(session, table)?.into_iter().filter(|one| !one.filled));
    let (from, to): (Vec<Column>, Vec<Column>) = (own(queue)?.collect(), own(into)?.collect());
    for (these, others, table, other) in [(&from, &to, queue, into), (&to, &from, into, queue)] {
        if let Some(column) = these.iter().find(|column| !others.iter().any(|one| one.is_like(column))) {
            bail!(
                "{table} has the column {} {}, and {other} has none of that name and type: ALTER one of them, or move \
                 the rows yourself with INSERT ... SELECT ... WHERE queue_wait(...)",
                column.name,
                column.written,
            );
        }
    }
    Ok(())
}
