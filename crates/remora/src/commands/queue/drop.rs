//! `remora queue drop`

use anyhow::Result;
use clap::Args;
use failure::usage;
use progress::{Progress, count};
use relay::queue_table;
use serde_json::json;

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

    /// Only rows that this condition matches: SQL
    #[arg(long = "where", value_name = "COND")]
    condition: Option<String>,

    /// All rows
    #[arg(long, conflicts_with = "condition")]
    all: bool,

    /// At most so many rows, those that were inserted first
    #[arg(short = 'n', long = "rows", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Say how many rows it would be, and drop none
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    if arguments.condition.is_none() && !arguments.all {
        return Err(usage("which rows? --where 'CONDITION', or --all"));
    }
    let target = arguments.server.target(password)?;
    let queue = table_name("QUEUE", &arguments.queue, &target)?;
    let mut session = target.connect()?;
    // From any other table a DELETE would delete rows too.
    queue_table::must_be_queue(&mut session, &queue)?;
    let condition = arguments.condition.as_deref();
    if arguments.dry_run {
        let (waiting, hidden) = rows::waiting_and_hidden(&mut session, &queue, condition)?;
        let waiting = arguments.limit.map_or(waiting, |limit| limit.min(waiting));
        if report.is_json() {
            report.message(&json!({
                "message_type": "summary", "waiting": waiting, "hidden": hidden, "dry_run": true,
            }))?;
            return Ok(Exit::Done);
        }
        report.note(&format!("{} of {queue} would be dropped", count(waiting, "row")));
        if hidden > 0 {
            report.note(&format!(
                "{hidden} more do not wait: those that are due later would be dropped too, those that somebody owns or \
                 has leased, or that have no tries left, would stay"
            ));
        }
        return Ok(Exit::Done);
    }
    rows::see_hidden(&mut session, true)?;
    let limit = arguments.limit.map_or_else(String::new, |limit| format!(" LIMIT {limit}"));
    let dropped =
        session.execute(&format!("DELETE FROM {queue}{}{limit}", rows::where_clause(condition)))?.affected;
    // After the limit there are others too.
    let complete = arguments.limit.is_none_or(|limit| dropped < limit);
    let kept = match complete {
        true => Some(rows::waiting_and_hidden(&mut session, &queue, condition)?.1),
        false => None,
    };
    if report.is_json() {
        report.message(&json!({ "message_type": "summary", "rows": dropped, "kept": kept }))?;
        return Ok(Exit::Done);
    }
    report.note(&format!("{} of {queue} dropped", count(dropped, "row")));
    if let Some(kept @ 1..) = kept {
        report.note(&format!(
            "not dropped: {} that somebody owns or has leased, or without tries left",
            count(kept, "row")
        ));
    }
    Ok(Exit::Done)
}
