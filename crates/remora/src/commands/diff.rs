//! `remora diff`

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use dump::{Difference, Pattern, Selection, Side};
use progress::{Progress, count};
use serde_json::json;

use super::dump::{sessions, world};
use crate::args::{ServerArgs, is_address};
use crate::exit::Exit;
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora diff monday.dump mysql://root@db2
      whether a server holds what a dump holds
  remora diff mysql://app@db1 mysql://app@db2 --only shop
      one database on two servers
  remora diff monday.dump tuesday.dump
      which tables changed";

/// Compare dump folders and servers, two at a time: definitions, counts, and a hash of all rows
///
/// Each side is the folder of a dump, or a URL (mysql://user@host:port, unix:///path, sandbox:NAME). Options
/// of the server, such as user and password, apply to both URLs. A server is read as it is at that moment,
/// not in one snapshot: compare when nobody writes. Of a dump the manifest is compared; 'remora dump --check'
/// reads its data files. A difference ends with exit code 4 and names the table
/// and the part of its key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A dump's folder, here or in an object store (s3://BUCKET/FOLDER), or a server's URL
    #[arg(value_name = "A")]
    a: String,

    /// What to compare it with
    #[arg(value_name = "B")]
    b: String,

    /// Compare these only: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<Pattern>,

    /// Leave these out: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    exclude: Vec<Pattern>,

    /// Leave roles, users and grants out
    #[arg(long)]
    no_users: bool,

    /// Sessions that read at the same time [default: one for each processor]
    #[arg(short = 'j', long, value_name = "N")]
    sessions: Option<std::num::NonZeroU16>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let side = |text: &str| -> anyhow::Result<Side> {
        if is_address(text) {
            return Ok(Side::Server(Box::new(arguments.server.at(text).target(password.clone())?)));
        }
        Ok(Side::Folder(PathBuf::from(text)))
    };
    let selection = Selection {
        include: arguments.only.clone(),
        exclude: arguments.exclude.clone(),
        no_accounts: arguments.no_users,
    };
    let (a, b) = (side(&arguments.a)?, side(&arguments.b)?);
    let folders = [&a, &b].into_iter().filter_map(|side| match side {
        Side::Folder(folder) => Some(&**folder),
        Side::Server(_) => None,
    });
    let found = dump::diff(&world(report, folders)?, (&a, &b), &selection, sessions(arguments.sessions, 0))?;
    report.end();
    found.parts.iter().for_each(|part| report.note(part));
    tell(&found, began.elapsed().as_secs_f64(), report)?;
    Ok(if found.lines.is_empty() { Exit::Done } else { Exit::Damaged })
}

fn tell(found: &Difference, seconds: f64, report: &Report) -> anyhow::Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "tables": found.tables, "rows": found.rows, "differences": found.lines,
            "seconds": seconds,
        }))?;
        return Ok(());
    }
    for line in &found.lines {
        report.data(line)?;
    }
    report.note(&format!(
        "{}, {} compared, {}, {seconds:.1} s",
        count(found.tables, "table"),
        report::rows(found.rows),
        count(found.lines.len(), "difference"),
    ));
    Ok(())
}
