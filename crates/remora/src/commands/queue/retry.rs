//! `remora queue retry`

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use progress::{Progress, count};
use queue_admin::retry::{Plan, Wanted};
use serde_json::json;

use super::forwarded;
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
    let wanted = Wanted {
        queue: table_name("DEAD", &arguments.queue, &target)?,
        into: table_name("--to", &arguments.into, &target)?,
        condition: arguments.condition.clone(),
        limit: arguments.limit,
    };
    let mut session = target.connect()?;
    let plan = Plan::make(target, &mut session, wanted)?;
    let Wanted { queue, into, .. } = &plan.wanted;
    if arguments.dry_run {
        let rows = plan.count(&mut session)?;
        if report.is_json() {
            report.message(&json!({ "message_type": "summary", "rows": rows, "dry_run": true }))?;
        } else {
            report.note(&format!("{} would move from {queue} to {into}", count(rows, "row")));
        }
        return Ok(Exit::Done);
    }
    let route = plan.route(stop_flag(report)?, Arc::default());
    forwarded::tell(&format!("moved from {queue} to {into}"), route.run(report)?, report)
}
