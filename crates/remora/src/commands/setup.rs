//! `remora setup`

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use failure::usage;
use host::Machine;
use humanize::date_time;
use progress::Progress;
use repository::address;
use serde_json::json;
use server::Target;
use setup::{Plan, Request, State, Step, What};
use snapshot::Source;
use snapshot::server::Connect;

use crate::args::{Account, ServerArgs};
use crate::commands::backup::server_of;
use crate::commands::doctor;
use crate::exit::Exit;
use crate::keep::KeepArguments;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora setup mysql: --to /backup
      print what nightly backups and an archive of the log need: account, files, units, first backup
  remora setup mysql: --to /backup --yes
      do it; what is there already stays as it is
  remora setup mysql: --to /backup --encrypt --copy-to s3://company-backups/db --yes
      encrypted, with a copy in an object store after each backup
  remora setup mysql: --to /backup --keep-daily 14 --keep-monthly 12 --yes
      old backups are pruned after each new one
  remora setup mysql:/run/mysqld/second.sock --to /backup --every 6h
      the server of another socket, every six hours";

/// Set up nightly backups and an archive of the binary log, by units of systemd
///
/// Prints an account of the server with the privileges that it needs, its option file, keys, the settings of
/// the units, and the commands that start them; with --yes it does all that. A file that exists with other
/// content is never overwritten, and what was done before is not done again. The last lines are those of
/// 'remora doctor'.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server, on this machine: mysql:, mysql:/path/to.sock or sandbox:NAME
    #[arg(value_name = "SERVER")]
    source: Source,

    /// The repository of the backups: a folder or s3://BUCKET/PREFIX
    #[arg(long, value_name = "REPO")]
    to: PathBuf,

    /// The name of the backups there, and of the units [default: the one that 'remora backup' gives them]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Make keys, so that this machine adds backups that it can't read. Needs a new name
    #[arg(long)]
    encrypt: bool,

    /// Copy the repository there after each backup: a folder or s3://BUCKET/PREFIX
    #[arg(long, value_name = "REPO")]
    copy_to: Option<PathBuf>,

    /// How often to back up, such as 6h [default: at three each night]
    #[arg(long, value_name = "TIME", value_parser = every)]
    every: Option<u64>,

    #[command(flatten)]
    keep: KeepArguments,

    /// The name of the account that is made in the server
    #[arg(long, value_name = "NAME", default_value = "remora", value_parser = account_name)]
    account: String,

    /// The folder of the machine's settings. If it is another one than /etc, the commands are printed only
    #[arg(long, value_name = "FOLDER", default_value = "/etc")]
    etc: PathBuf,

    /// Do it
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    server: ServerArgs,
}

fn every(text: &str) -> Result<u64, String> {
    let seconds = date_time::duration_s(text).map_err(|error| error.to_string())?;
    if seconds < 60 { Err("a minute or longer".to_owned()) } else { Ok(seconds) }
}

/// MySQL 5.6 allows 16 characters.
fn account_name(text: &str) -> Result<String, String> {
    let is_plain = !text.is_empty() && text.len() <= 16 && text.chars().all(is_plain);
    if is_plain { Ok(text.to_owned()) } else { Err("at most 16 letters, digits, - and _".to_owned()) }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_".contains(c)
}

/// The name, which units have too.
fn name(arguments: &Arguments) -> Result<String> {
    let source = &arguments.source;
    let name = arguments.name.clone().or_else(|| source.default_name(&Machine::Here.name()));
    let name = name.ok_or_else(|| usage(format!("{source}: give a --name")))?;
    let is_good = snapshot::is_name(&name) && name.chars().all(|c| is_plain(c) || c == '.');
    if is_good {
        Ok(name)
    } else {
        Err(usage(format!("'{name}' can't be the name of a unit: give a --name")))
    }
}

pub(crate) fn run(mut arguments: Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    // Units run in another folder.
    arguments.etc = whole(&arguments.etc)?;
    arguments.to = whole(&arguments.to)?;
    arguments.copy_to = arguments.copy_to.as_deref().map(whole).transpose()?;
    let (arguments, source) = (&arguments, &arguments.source);
    if !source.is_server() || source.to_string().contains("ssh:") {
        return Err(usage(format!(
            "{source} is no server of this machine: run remora setup on the server's own"
        )));
    }
    let name = name(arguments)?;
    let server = server_of(source, &arguments.server)?;
    let account = Account { server: &server, password: password.clone() };
    let mut session = Target::connect(&account.target(None)?)?;
    let request = Request {
        name: name.clone(),
        to: arguments.to.clone(),
        encrypt: arguments.encrypt,
        copy_to: arguments.copy_to.clone(),
        every: arguments.every,
        keep: arguments.keep.words(),
        account: arguments.account.clone(),
        etc: arguments.etc.clone(),
    };
    let plan = Plan::make(&request, &mut session)?;
    if let Some(step) = plan.steps.iter().find(|step| step.state == State::Differs) {
        return Err(usage(format!("{} exists with other content; nothing was written", step.shown())));
    }
    let mut left = false;
    for step in &plan.steps {
        let state = match (step.state, arguments.yes) {
            (State::ToDo, true) => step.perform(&mut session, plan.has_system)?,
            (state, _) => state,
        };
        left |= state == State::ToDo;
        show(step, state, arguments.yes, report)?;
    }
    if arguments.yes {
        setup::check(&plan.option_file)?;
    }
    plan.notes.iter().for_each(|note| report.note(note));
    report.note(match (arguments.yes, left) {
        (true, true) => "commands that are marked 'to do' are left to you",
        (true, false) => "all of it is done",
        (false, _) => "nothing was written; --yes does it",
    });
    report.note("remora doctor says:");
    let checks = doctor::checks(source, &arguments.to, &name, server, plan.key.clone());
    doctor::run(&checks, password, report)?;
    Ok(if arguments.yes && left { Exit::Partial } else { Exit::Done })
}

/// The whole path of a folder; a store has none.
fn whole(path: &Path) -> Result<PathBuf> {
    if address::is_in_store(path) { Ok(path.to_owned()) } else { Ok(std::path::absolute(path)?) }
}

/// Prints a step. `is_done`: whether this run does it, and not the reader.
fn show(step: &Step, state: State, is_done: bool, report: &Report) -> Result<()> {
    let text = step.text(is_done || state == State::There);
    let mode = match &step.what {
        What::File { mode, .. } => Some(format!("{mode:04o}")),
        _ => None,
    };
    if report.is_json() {
        let kind = match &step.what {
            What::Sql(..) => "sql",
            What::File { .. } => "file",
            What::FullKey(_) | What::PutKey { .. } => "key",
            What::Command(_) => "command",
        };
        let path = matches!(step.what, What::File { .. }).then(|| step.shown());
        return Ok(report.message(&json!({
            "message_type": "step", "kind": kind, "state": state.word(), "path": path, "mode": mode, "text": text,
        }))?);
    }
    let mode = mode.map(|mode| format!(", mode {mode}")).unwrap_or_default();
    report.data(&format!("{}{mode}: {}", step.shown(), state.word()))?;
    // Who has a file can read it there.
    if matches!(step.what, What::File { .. }) && state != State::ToDo {
        return Ok(());
    }
    for line in text.lines() {
        report.data(format!("    {line}").trim_end())?;
    }
    Ok(report.data("")?)
}
