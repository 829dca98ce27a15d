//! `remora copy`

mod follow;
mod replica;
mod status;

use std::time::{Duration, Instant};

use ::follow::Replica;
use clap::Args;
use dump::{
    CopyPlan, CopyRequest, CopySummary, Definer, Limits, MaxLag, Pattern, ReadRequest, Refusals, Renames,
    Selection, Verify, WriteRequest,
};
use failure::usage;
use humanize::date_time;
use progress::{Progress, count};
use serde_json::json;
use server::Target;

use super::dump::{conditions, sessions, world};
use super::load::definer;
use crate::args::{MaskArgs, ServerArgs, is_address};
use crate::exit::Exit;
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora copy mysql://root@db1 mysql://root@db2
      everything but users onto a server that has none of it
  remora copy mysql://root@db1 mysql://root@db2 shop web.hits
      one database and one table of another
  remora copy mysql://root@db1 sandbox:try shop --where 'shop.log*:day >= \"2026-01-01\"'
      some rows of some tables, for a try
  remora copy mysql://root@db1 mysql://root@db1 shop --rename shop:test --mask 'shop.*.email=fake:email'
      a copy for tests on the same server, with masked addresses
  remora copy mysql://root@db1 mysql://root@db2 shop --resume
      go on with a copy that was stopped
  remora copy mysql://root@db1 mysql://root@db2 shop --follow apply
      copy, then apply what db1 commits until it is stopped; --resume continues
  remora copy mysql://root@db1 mysql://root@db2 --follow replica --source mysql://repl@db1
      copy, then make db2 a replica of db1
  remora copy mysql://root@db1 mysql://root@stage shop --mask 'shop.*.email=fake:email' --mask-key key --follow apply
      a server for tests that follows db1, without its addresses
  remora copy mysql://root@db1 mysql://root@db2 shop --follow apply --resume --cut-over
      let db2 take over, or leave db1 as it was
  remora copy status mysql://root@db2
      how far copies into db2 are that follow, and when they were verified";

/// In the place of A.
const STATUS: &str = "status";

/// Copy databases from one server into another, without a folder in between; all rows are read back and
/// compared
///
/// All rows are of one consistent snapshot of A, and go into B as they are read. Nothing that exists on B is
/// overwritten. What B can't hold is refused before anything is changed. Users and grants are not copied. A
/// copy that was killed is resumed with --resume: what B has is compared with a new snapshot of A, and only
/// what differs is sent.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server to copy from: mysql://user@host:port, unix:///path or sandbox:NAME. Or the word status: how
    /// far copies into B are that follow
    #[arg(value_name = "A")]
    a: String,

    /// The server to copy to
    #[arg(value_name = "B")]
    b: String,

    /// Databases and tables: db or db.table with * and ?, or /regex/; everything if none is named
    #[arg(value_name = "NAME")]
    names: Vec<Pattern>,

    /// Leave these out: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    exclude: Vec<Pattern>,

    /// Only rows that meet this SQL condition, in every table; or in some: db.table:SQL, with * and ?. May be
    /// given several times
    #[arg(long = "where", value_name = "[TABLE:]SQL")]
    condition: Vec<String>,

    /// Give a database another name on B. May be given several times
    #[arg(long, value_name = "OLD:NEW")]
    rename: Vec<String>,

    #[command(flatten)]
    masks: MaskArgs,

    /// Definitions only
    #[arg(long, conflicts_with = "condition")]
    no_data: bool,

    /// Leave the old rows of system-versioned tables out
    #[arg(long)]
    no_history: bool,

    /// Say what can't go, what changes on the way and how much it is, and copy nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,

    #[command(flatten)]
    follow: follow::FollowArgs,

    /// Continue a copy that was stopped, with the same names and conditions
    #[arg(long)]
    resume: bool,

    /// Who is to be the definer of views, routines, triggers and events: keep, me, or user@host
    #[arg(long, value_name = "WHO", default_value = "keep", value_parser = definer)]
    definer: Definer,

    /// Keep the copy out of the binary log of B
    #[arg(long)]
    no_binlog: bool,

    /// Sessions on each server at the same time [default: one more than there are processors]
    #[arg(short = 'j', long, value_name = "N")]
    sessions: Option<std::num::NonZeroU16>,

    /// Bytes of a table that make a chunk, such as 16M [default: as fits the sessions]
    #[arg(long, value_name = "SIZE", value_parser = super::import::size)]
    chunk: Option<usize>,

    /// Copy at most this many bytes of text per second, such as 20M
    #[arg(long, value_name = "SIZE", value_parser = super::import::size)]
    max_rate: Option<usize>,

    /// Begin no chunk while more threads than this run in A, besides ours
    #[arg(long, value_name = "N")]
    max_threads_running: Option<u64>,

    /// Start no chunk while this replica of B lags by more than TIME or does not replicate, such as
    /// mysql://db3=5s. May be given several times
    #[arg(long, value_name = "SERVER=TIME", value_parser = lag)]
    max_lag: Vec<(String, Duration)>,

    /// Block DDL on the tables of A until their rows are read. Without it DDL continues, and a copy ends when
    /// a table is altered between its chunks
    #[arg(long)]
    block_ddl: bool,

    /// Seconds to wait for a lock on A
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lock_wait: u32,

    /// Kill queries on A that delay the lock for longer than that
    #[arg(long)]
    kill_long_queries: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let target = |text: &str| -> anyhow::Result<Target> {
        if !is_address(text) {
            return Err(usage(format!(
                "{text:?} is no address of a server: write mysql://user@host:port, unix:///path or sandbox:NAME"
            )));
        }
        Ok(arguments.server.at(text).target(password.clone())?)
    };
    if arguments.a == STATUS {
        return status::run(&target(&arguments.b)?, report);
    }
    let (from, to) = (target(&arguments.a)?, target(&arguments.b)?);
    let max_lag = |(replica, at_most): &(String, Duration)| -> anyhow::Result<MaxLag> {
        Ok(MaxLag { replica: target(replica)?, at_most: *at_most })
    };
    let max_lags = arguments.max_lag.iter().map(max_lag).collect::<anyhow::Result<_>>()?;
    let request = request(arguments, max_lags)?;
    if arguments.follow.applies() && request.read.masks.has_key() && !arguments.masks.has_file() {
        return Err(usage(
            "a copy that is followed needs --mask-key, so that --resume makes the same masks; make a secret by: head -c \
             32 /dev/urandom > FILE",
        ));
    }
    let source = |text: &String| arguments.server.logged_in_at(text).target(None);
    let source = arguments.follow.source.as_ref().map(source).transpose()?;
    let context = world(report, None)?;
    let source = source.as_ref().unwrap_or(&from);
    let replica = Replica { from: &from, to: &to, source, stop: &context.stop };
    let replicates = arguments.follow.replicates(&request)?;
    if arguments.dry_run {
        let mut plan = dump::plan_copy(&context, (&from, &to), &request)?;
        if replicates {
            plan.refused.extend(replica.refusals()?);
        }
        report.end();
        return tell_plan(&plan, report);
    }
    if replicates {
        return replica::run(&context, replica, request, report);
    }
    if arguments.follow.applies() {
        if let Some(former) = &arguments.follow.failover_from {
            ::follow::replace_source(&target(former)?, (&from, &to), &request, report)?;
        }
        return follow::run(&context, (&from, &to), &request, &arguments.follow, report);
    }
    if arguments.resume {
        follow::forget((&from, &to), &request)?;
    }
    let summary = dump::copy(&context, (&from, &to), &request)?;
    report.end();
    tell_omitted(&summary.omitted, report);
    summarise(&summary, began.elapsed().as_secs_f64(), report)?;
    Ok(if summary.omitted.is_empty() { Exit::Done } else { Exit::Partial })
}

fn request(arguments: &Arguments, max_lags: Vec<MaxLag>) -> anyhow::Result<CopyRequest> {
    // While a session waits for its commit, another works.
    let sessions = sessions(arguments.sessions, 1);
    Ok(CopyRequest {
        read: ReadRequest {
            selection: Selection {
                include: arguments.names.clone(),
                exclude: arguments.exclude.clone(),
                no_accounts: true,
            },
            sessions,
            conditions: conditions(&arguments.condition)?,
            masks: arguments.masks.masks()?,
            data: !arguments.no_data,
            history: !arguments.no_history,
            chunk_bytes: arguments.chunk.map(|bytes| bytes as u64),
            limits: Limits {
                bytes_per_second: arguments.max_rate.map(|bytes| bytes as u64),
                threads_running: arguments.max_threads_running,
            },
            lock_wait: Duration::from_secs(arguments.lock_wait.into()),
            block_ddl: arguments.block_ddl,
            kill_long_queries: arguments.kill_long_queries,
        },
        max_lags,
        follow: arguments.follow.applies().then_some(::follow::refusals as Refusals),
        renames: Renames::new(&arguments.rename).map_err(|why| usage(format!("--rename: {why}")))?,
        write: WriteRequest {
            sessions,
            resume: arguments.resume,
            verify: Verify::Rows,
            definer: arguments.definer.clone(),
            no_binlog: arguments.no_binlog,
            data: !arguments.no_data,
        },
    })
}

/// A replica, and how far it may be behind.
fn lag(text: &str) -> Result<(String, Duration), String> {
    let (server, time) = text.rsplit_once('=').ok_or("write SERVER=TIME, such as mysql://db3=5s")?;
    let seconds = date_time::duration_s(time).map_err(|error| error.to_string())?;
    Ok((server.to_owned(), Duration::from_secs(seconds)))
}

/// Shows what a copy would do.
fn tell_plan(plan: &CopyPlan, report: &Report) -> anyhow::Result<Exit> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "plan", "tables": plan.tables, "objects": plan.objects, "rows": plan.rows,
            "row_bytes": plan.row_bytes, "table_bytes": plan.table_bytes, "is_logged": plan.is_logged,
            "waits": plan.waits, "rewrites": plan.rewrites, "omitted": plan.omitted, "refused": plan.refused,
        }))?;
    } else {
        plan.waits.iter().try_for_each(|line| report.data(line))?;
        let kinds =
            [("rewritten", &plan.rewrites), ("not copied", &plan.omitted), ("refused", &plan.refused)];
        for (what, lines) in kinds {
            lines.iter().try_for_each(|line| report.data(&format!("{what}: {line}")))?;
        }
        let log = if plan.is_logged { ", and its binary log the rows once more" } else { "" };
        report.data(&format!(
            "{} and {}: about {} and {} of rows; with indexes B needs about {}{log}",
            count(plan.tables, "table"),
            count(plan.objects, "other object"),
            report::rows(plan.rows),
            report::size(plan.row_bytes),
            report::size(plan.table_bytes),
        ))?;
    }
    Ok(match (plan.refused.is_empty(), plan.omitted.is_empty()) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Partial,
        (true, true) => Exit::Done,
    })
}

fn tell_omitted(omitted: &[String], report: &Report) {
    for line in omitted {
        report.warn(&format!("not copied: {line}"));
    }
}

fn summarise(summary: &CopySummary, seconds: f64, report: &Report) -> anyhow::Result<()> {
    let load = &summary.load;
    let rate = report::as_f64(load.rows) / seconds;
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "tables": load.tables, "objects": load.objects, "rows": load.rows,
            "text_bytes": load.text_bytes, "seconds": seconds, "rows_per_second": rate,
            "position": summary.source.position, "snapshot": summary.source.snapshot,
            "rewrites": load.rewrites, "omitted": summary.omitted, "postponed": summary.postponed,
        }))?;
        return Ok(());
    }
    report.note(&format!(
        "{} and {}: {}, {} of text, {seconds:.1} s, {}; all rows read back and equal",
        count(load.tables, "table"),
        count(load.objects, "other object"),
        count(load.rows, "row"),
        report::size(load.text_bytes),
        report::rate(rate),
    ));
    Ok(())
}
