//! `remora queue replay`

use anyhow::{Context, Result, bail};
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

    /// From the row with this number on, as queue_rowid() counts
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    first: Option<i64>,

    /// Up to the row with this number
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    last: Option<i64>,

    /// Rows that were ended at this time or later: '2026-01-31 12:00:00', in the time zone of the server
    #[arg(long, value_name = "TIME", conflicts_with_all = ["first", "last"])]
    since: Option<String>,

    /// Rows that were ended at this time or before
    #[arg(long, value_name = "TIME", conflicts_with_all = ["first", "last"])]
    until: Option<String>,

    /// All rows that are kept
    #[arg(long, conflicts_with_all = ["first", "last", "since", "until"])]
    all: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let Arguments { first, last, since, until, all, .. } = arguments;
    if !all && first.or(*last).is_none() && since.as_ref().or(until.as_ref()).is_none() {
        return Err(usage("which rows? --first and --last, --since and --until, or --all"));
    }
    let target = arguments.server.target(password)?;
    let queue = table_name("QUEUE", &arguments.queue, &target)?;
    let mut session = target.connect()?;
    queue_table::must_be_queue(&mut session, &queue)?;
    let null = || "NULL".to_owned();
    let number = |bound: Option<i64>| bound.map_or_else(null, |bound| bound.to_string());
    let time = |bound: &Option<String>| bound.as_ref().map_or_else(null, |bound| session.quote(bound));
    let (from, to) =
        if first.or(*last).is_some() { (number(*first), number(*last)) } else { (time(since), time(until)) };
    let name = session.quote(&queue.to_string());
    let asked = format!("SELECT queue_replay({name}, {from}, {to})");
    let replayed = rows::ask(&mut session, &asked)?;
    let Some(replayed) = replayed else {
        let why = session.warnings()?.into_iter().next().map(|warning| warning.message);
        bail!("{queue}: {}", why.unwrap_or_else(|| "queue_replay() gave NULL".to_owned()));
    };
    let replayed: u64 = replayed.parse().context("no number")?;
    if report.is_json() {
        report.message(&json!({ "message_type": "summary", "rows": replayed }))?;
    } else {
        report.note(&format!("{} of {queue} given again", count(replayed, "row")));
    }
    Ok(Exit::Done)
}
