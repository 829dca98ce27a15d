//! `remora binlog`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use archiver::{Options, Outcome};
use clap::Args;
use humanize::date_time;
use progress::Progress;
use repository::Location;

use crate::args::ServerArgs;
use crate::exit::{self, Exit};
use crate::keys::KeyArguments;
use crate::report::Report;
use crate::retain::RetainArguments;
use crate::stop;

const EXAMPLES: &str = "EXAMPLES
  remora binlog /backup/db1 -h db1
      archive the log of db1 from now on, until stopped; every second what arrived is made durable
  remora binlog /backup/db1 --once
      archive what is new and end, for a job every few minutes
  remora binlog /backup/db1 -h db1 --ack
      a COMMIT on db1 returns only when its transaction is durable here too
  remora binlog /backup/db1 -h db1 --key db1.put
      encrypted: with a put key this host can add to the archive, and read nothing of it
  remora binlog s3://company-backups/db1 -h db1
      into an object store, in segments of a second each
  remora binlog s3://company-backups/db1 -h db1 --retain 30d
      which nobody can remove for 30 days
  remora log /backup/db1 --since -1h --table shop.orders
      look into the archive

  The account needs: GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO ... (REPLICATION CLIENT on MySQL)";

/// Archive a server's binary log as it is written
///
/// remora connects as a replica does, and keeps the server's files byte for byte in REPO/NAME/log. In an
/// encrypted name and in a store it keeps them in segments, from which the other commands read. A run that
/// was stopped or killed continues where it was, after it has compared the server's files with the archived
/// ones. If the server's log is a fork (after RESET MASTER, or when an older state was restored), or has a
/// gap, because the server purged files before they were archived, a new timeline begins. Nothing is
/// overwritten, and the reason is reported (exit code 12 with --once).
///
/// A connection that breaks is opened again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A name in a repository; it is made if it does not exist. REPO is a folder or s3://BUCKET/PREFIX
    #[arg(value_name = "REPO/NAME")]
    to: PathBuf,

    /// Archive what is there and end
    #[arg(long)]
    once: bool,

    /// Maximum delay before received events are synced: 0s, 1s, 1m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = date_time::duration_s)]
    sync: u64,

    /// Let every COMMIT wait until its transaction is durable here (semi-synchronous replication)
    #[arg(long, conflicts_with = "once")]
    ack: bool,

    /// server_id to register with; must be unique [default: derived from the machine and REPO/NAME]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    server_id: Option<u32>,

    #[command(flatten)]
    retain: RetainArguments,

    #[command(flatten)]
    key: KeyArguments,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let line = report.clone();
    let stop = stop::flag(move || line.print_line())?;
    match arguments.once {
        true => report.phase("archiving", None),
        false => report.endless("archiving"),
    }
    let options = Options {
        target: &target,
        to: &arguments.to,
        location: arguments.retain.renewing().on(Location::of(&arguments.to)?)?,
        key: arguments.key.read()?,
        once: arguments.once,
        sync: Duration::from_secs(arguments.sync),
        ack: arguments.ack,
        server_id: arguments.server_id,
        renew: arguments.retain.renewed(),
    };
    let outcome = archiver::run(options, stop, report)?;
    report.end();
    Ok(match outcome {
        Outcome::Complete => Exit::Done,
        Outcome::NewTimeline => Exit::Broken,
        Outcome::Stopped => exit::stopped(),
    })
}
