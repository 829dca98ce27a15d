//! `remora load`

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use dump::{Definer, LoadRequest, LoadSummary, Pattern, Selection, Verify, WriteRequest};
use progress::{Progress, count};
use serde_json::json;
use server::TableName;

use super::dump::{account, sessions, world};
use crate::args::{MachineArgs, ServerArgs};
use crate::exit::Exit;
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora load /backup/monday -h db2
      everything in the dump, into a server that has none of it
  remora load shop.dump --only shop.orders
      one table
  remora load shop.dump --only shop.orders --as shop.orders_monday
      one table under another name, beside the one that is there
  remora load shop.dump --resume
      go on with a load that was stopped
  remora dump shop -h db1 -o shop.dump & remora load shop.dump --follow -h db2
      load while the dump is still running";

/// Load a dump into a server, as a copy or to move there; all rows are read back and compared
///
/// Nothing that exists is overwritten: a table that is there already is refused before anything is changed,
/// and so is what the server can't hold. Each chunk commits with a line in a ledger, so that --resume
/// continues a killed load without losing or duplicating a row. At the end all rows are read back and
/// compared with the manifest.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The folder of the dump, here or in an object store: s3://BUCKET/FOLDER
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Load these only: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<Pattern>,

    /// Load the one table under this name: db.table, beside the one it was dumped from. Without its triggers
    /// and foreign keys, which are named
    #[arg(long = "as", value_name = "NAME", conflicts_with = "follow")]
    other_name: Option<TableName>,

    /// Leave these out: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    exclude: Vec<Pattern>,

    /// Leave roles, users and grants out
    #[arg(long)]
    no_users: bool,

    /// Definitions only
    #[arg(long)]
    no_data: bool,

    /// Continue a load that was stopped
    #[arg(long)]
    resume: bool,

    /// Begin while the dump is still being made, on this machine or in a shared folder
    #[arg(long)]
    follow: bool,

    /// Compare the server's counts only, and don't read the rows back
    #[arg(long)]
    no_verify: bool,

    /// Who is to be the definer of views, routines, triggers and events: keep, me, or user@host
    #[arg(long, value_name = "WHO", default_value = "keep", value_parser = definer)]
    definer: Definer,

    /// Keep the load out of the server's binary log
    #[arg(long)]
    no_binlog: bool,

    /// Load large InnoDB tables by writing their files, which the server imports: about twice as fast. For
    /// MariaDB on this machine, or on that of --server-at; a message names tables that can't be loaded this
    /// way, and their rows are sent
    #[arg(long, conflicts_with_all = ["follow", "no_data"])]
    physical: bool,

    #[command(flatten)]
    machine: MachineArgs,

    /// Sessions that load at the same time [default: one more than there are processors]
    #[arg(short = 'j', long, value_name = "N")]
    sessions: Option<std::num::NonZeroU16>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let target = arguments.server.target(password)?;
    let request = LoadRequest {
        folder: arguments.folder.clone(),
        selection: Selection {
            include: arguments.only.clone(),
            exclude: arguments.exclude.clone(),
            no_accounts: arguments.no_users,
        },
        other_name: arguments.other_name.clone(),
        follow: arguments.follow,
        physical: arguments.physical,
        write: WriteRequest {
            // While a session waits for its commit, another works.
            sessions: sessions(arguments.sessions, 1),
            resume: arguments.resume,
            verify: if arguments.no_verify { Verify::Counts } else { Verify::Rows },
            definer: arguments.definer.clone(),
            no_binlog: arguments.no_binlog,
            data: !arguments.no_data,
        },
    };
    let machine = arguments.machine.reach()?;
    let world = dump::Context { server: machine.files(), ..world(report, [&*arguments.folder])? };
    let summary = dump::load(&world, &target, &request)?;
    report.end();
    for line in &summary.omitted {
        report.warn(&format!("not loaded: {line}"));
    }
    summarise(&request, &summary, began.elapsed().as_secs_f64(), report)?;
    Ok(if summary.omitted.is_empty() { Exit::Done } else { Exit::Partial })
}

fn summarise(
    request: &LoadRequest,
    summary: &LoadSummary,
    seconds: f64,
    report: &Report,
) -> anyhow::Result<()> {
    let rate = report::as_f64(summary.rows) / seconds;
    let proven = request.write.verify == Verify::Rows;
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "folder": request.folder, "tables": summary.tables,
            "objects": summary.objects, "rows": summary.rows, "text_bytes": summary.text_bytes,
            "verified": proven, "seconds": seconds, "rows_per_second": rate,
            "rewrites": summary.rewrites, "omitted": summary.omitted,
        }))?;
        return Ok(());
    }
    report.note(&format!(
        "{} and {}: {}, {} of text, {seconds:.1} s, {}; {}",
        count(summary.tables, "table"),
        count(summary.objects, "other object"),
        count(summary.rows, "row"),
        report::size(summary.text_bytes),
        report::rate(rate),
        if proven { "all rows read back and equal" } else { "counts equal, rows not read back" },
    ));
    Ok(())
}

pub(super) fn definer(text: &str) -> Result<Definer, String> {
    match text {
        "keep" => Ok(Definer::Keep),
        "me" => Ok(Definer::Loader),
        _ => account(text).map_err(|_| "keep, me or user@host".to_owned()),
    }
}
