//! `remora poke`

mod room;
mod set;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use failure::usage;
use humanize::shell::with_option;
use poke::access::{Access, Memory};
use poke::variables::{self, Variable};
use serde_json::json;
use snapshot::server::Connect;

use crate::args::{Account, ServerArgs};
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora poke max-connections 500 --yes-i-know       a full server lets clients in again
  remora poke kill-query 4711 --yes-i-know           works on a full server, too
  remora poke set skip_name_resolve 1                shows what it would store, and stores nothing
  remora poke set skip_name_resolve 1 --yes-i-know   the name server is down, and clients hang
  remora poke set log_slave_updates 1 --yes-i-know -S /run/mysqld/mysqld.sock
  remora poke list                                   what can be stored, and how that was tried";

/// For emergencies: change on a running server what SQL can't
///
/// SQL is used if it works. If it does not, because the server is full or the variable is read-only, one
/// value is stored in the server's memory: no debugger, no pause. Only variables that remora knows by name,
/// width and range are touched, and only on a MariaDB of this machine. Everything must fit: the program that
/// runs, its build, the place, the present value, and the value that SQL reports. A restart undoes the
/// change.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Store a value that SQL calls read-only
    Set(Set),
    /// Change the limit of connections, even on a full server
    MaxConnections(MaxConnections),
    /// End the statement of a connection, even on a full server
    KillQuery(KillQuery),
    /// List the variables that can be stored
    List,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The variable, as SQL calls it
    #[arg(value_name = "VAR")]
    name: String,

    /// Its new value: a number, or ON or OFF for a switch
    #[arg(value_name = "VALUE")]
    value: String,

    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct MaxConnections {
    /// The new limit
    #[arg(value_name = "N")]
    limit: String,

    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct KillQuery {
    /// The number of the connection in the process list
    #[arg(value_name = "ID")]
    id: u64,

    #[command(flatten)]
    which: Which,
}

/// Which server.
#[derive(Debug, Args)]
struct Which {
    /// Write to the server's memory if SQL can't do it; without this option, poke only shows what it would
    /// write
    #[arg(long)]
    yes_i_know: bool,

    /// The server's process [default: the one that listens at the socket]
    #[arg(long, value_name = "N", conflicts_with = "pid_file")]
    pid: Option<u32>,

    /// A file that contains the number of the server's process
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,
}

impl Which {
    /// A command for the same process, as a message tells somebody to type it.
    fn on_server(&self, line: &str) -> String {
        let line = match (self.pid, &self.pid_file) {
            (Some(pid), _) => with_option(line, "--pid", &pid.to_string()),
            (None, Some(file)) => with_option(line, "--pid-file", &file.display().to_string()),
            (None, None) => line.to_owned(),
        };
        self.server.on_server(&line)
    }

    fn access(&self, password: Option<String>) -> Result<Access> {
        let account = Account { server: &self.server, password };
        Access::find(&|socket| account.target(socket), self.pid, self.pid_file.as_deref())
    }
}

pub(crate) fn run(action: &Action, password: Option<String>, report: &Report) -> Result<Exit> {
    match action {
        Action::Set(Set { name, value, which }) => {
            let known = variables::find(name)?;
            let value = known.parse(value)?;
            set::run(&which.access(password)?, known, value, which, report)
        }
        Action::MaxConnections(MaxConnections { limit, which }) => {
            let limit = variables::find("max_connections")?.parse(limit)?;
            room::limit(&which.access(password)?, limit, which.yes_i_know, report)
        }
        Action::KillQuery(KillQuery { id, which }) => {
            room::kill_query(&which.access(password)?, *id, which, report)
        }
        Action::List => list(report),
    }
}

/// What was changed, and how.
struct Change<'a> {
    name: &'a str,
    old: u64,
    new: u64,
    by: &'a str,
}

/// Reports what was changed, and, for a store into memory, in which server.
fn tell(memory: Option<&Memory>, change: &Change<'_>, report: &Report) -> Result<Exit> {
    let Change { name, old, new, by } = change;
    if report.is_json() {
        report.message(&json!({
            "message_type": "poked", "variable": name, "old": old, "new": new, "by": by,
            "process": memory.map(|memory| memory.process.pid),
            "version": memory.map(|memory| &memory.version),
            "build": memory.map(|memory| &memory.image.build),
        }))?;
        return Ok(Exit::Done);
    }
    let which = memory.map(|memory| {
        let Memory { process, version, image } = memory;
        format!(" of process {} ({version}, build {})", process.pid, short(&image.build))
    });
    report.data(&format!("{name}: {old} -> {new}, {by}{}", which.unwrap_or_default()))?;
    Ok(Exit::Done)
}

fn short(build: &str) -> &str {
    build.get(..12).unwrap_or(build)
}

/// Fails unless the user has agreed to a store.
fn consent(agreed: bool, known: &Variable, old: u64, new: u64) -> Result<()> {
    if agreed {
        return Ok(());
    }
    Err(usage(format!(
        "{} is {old} and would be set to {new} in the memory of the running server; all checks passed, and nothing was written: --yes-i-know writes it",
        known.name
    )))
}

fn list(report: &Report) -> Result<Exit> {
    for Variable { name, symbol, width, range, takes_effect, tried, .. } in &variables::VARIABLES {
        let (least, most) = (range.start(), range.end());
        if report.is_json() {
            report.message(&json!({
                "message_type": "variable", "variable": name, "symbol": symbol, "bytes": width.bytes(),
                "least": least, "most": most, "takes_effect": takes_effect, "tried": tried, "series": variables::SERIES,
            }))?;
        } else {
            report.data(&format!("{name:<30} {least} to {most}; it takes effect {takes_effect}"))?;
            report.data(&format!("{:<30} tried on MariaDB {}: {tried}", "", variables::SERIES.join(", ")))?;
        }
    }
    Ok(Exit::Done)
}
