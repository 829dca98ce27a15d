//! `remora doctor`

mod gather;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use doctor::finding::{Finding, Fix, State};
use failure::usage;
use progress::Progress;
use serde_json::json;
use snapshot::Source;

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora doctor
      the usual server here: its settings, its tables, and the rights of this account
  remora doctor mysql: --to /backup
      also whether it can be backed up, and what /backup has of it: backups, archive, proof
  remora doctor mysql:ssh://root@db1 --to s3://company-backups/db --name db1
      another machine's server, with its backups in an object store
  remora doctor -h db1 -u backup --json
      a server that is reached by TCP, a line of JSON for each check";

/// Check whether a server can be backed up, archived and restored, before a restore is needed
///
/// Each line says what is good, what is not, and what fixes it: a statement, a line for the option file, or a
/// command. Nothing is changed. What can be tried without harm is tried.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server as 'remora backup' names it: mysql:, mysql:/path/to.sock, sandbox:NAME or
    /// mysql:ssh://user@host [default: the one that -h, -S and the option files lead to]
    #[arg(value_name = "SOURCE")]
    source: Option<Source>,

    /// The repository of its backups: a folder or s3://BUCKET/PREFIX
    #[arg(long, value_name = "REPO")]
    to: Option<PathBuf>,

    /// The name of its backups there [default: the only one, or the one that 'remora backup' gives them]
    #[arg(long, value_name = "NAME", requires = "to")]
    name: Option<String>,

    /// An option for ssh, as after its -o, such as ProxyJump=bastion
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,

    #[command(flatten)]
    key: KeyArguments,

    #[command(flatten)]
    server: ServerArgs,
}

/// The checks of a server that is backed up into a repository.
pub(crate) fn checks(
    source: &Source,
    to: &Path,
    name: &str,
    server: ServerArgs,
    key: Option<PathBuf>,
) -> Arguments {
    Arguments {
        source: Some(source.clone()),
        to: Some(to.to_owned()),
        name: Some(name.to_owned()),
        ssh_option: Vec::new(),
        key: KeyArguments::of(key),
        server,
    }
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    if let Some(source) = arguments.source.as_ref().filter(|source| !source.is_server()) {
        return Err(usage(format!("{source} is no server; write mysql:, or leave it out")));
    }
    report.phase("looking", None);
    let facts = gather::facts(arguments, password, report)?;
    let lines = doctor::judge::all(&facts);
    report.end();
    show(&lines, report)
}

/// Shows all lines, and says how it ends.
fn show(lines: &[Finding], report: &Report) -> Result<Exit> {
    let count = |state: State| lines.iter().filter(|line| line.state == state).count();
    let (good, warnings, bad) = (count(State::Good), count(State::Warning), count(State::Bad));
    for line in lines {
        if report.is_json() {
            report.message(&object(line))?;
            continue;
        }
        report.data(&format!("{:<8} {:<22} {}", line.state.word(), line.subject, line.what))?;
        for text in line.fix.as_ref().map(Fix::shown).unwrap_or_default() {
            report.data(&format!("{:31}   {text}", ""))?;
        }
    }
    if report.is_json() {
        let line = json!({"message_type": "summary", "good": good, "warnings": warnings, "bad": bad});
        report.message(&line)?;
    } else {
        report.note(&format!("{good} good, {warnings} with a warning, {bad} bad; nothing was changed"));
    }
    Ok(match (bad, warnings) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Partial,
        _ => Exit::Damaged,
    })
}

fn object(line: &Finding) -> serde_json::Value {
    let (mut sql, mut option, mut command) = (None, None, None);
    match &line.fix {
        Some(Fix::Set { sql: now, option: kept }) => (sql, option) = (Some(now), kept.as_ref()),
        Some(Fix::Restart(kept)) => option = Some(kept),
        Some(Fix::Command(text)) => command = Some(text),
        None => {}
    }
    json!({
        "message_type": "check", "state": line.state.word(), "subject": line.subject, "what": line.what, "sql": sql,
        "option": option, "command": command,
    })
}
