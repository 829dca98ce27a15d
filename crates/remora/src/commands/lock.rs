//! `remora lock`

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use disk::{Output, RealDisk};
use failure::usage;
use job::{Child, Signals};
use progress::Progress;
use serde_json::json;
use server::{About, Flavour, Hold, HoldMode, Session, Version};
use snapshot::server_lock::{self, Waiting};

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;
use crate::stop;

const EXAMPLES: &str = "EXAMPLES
  remora lock -- lvcreate --snapshot --size 10G --name snap vg/data
  remora lock --mode global --wait 20 --position /backup/position.json -- ./snapshot.sh
  remora lock --before 'STOP SLAVE SQL_THREAD' --after 'START SLAVE SQL_THREAD' -- \\
    zfs snapshot tank/db@now";

/// Hold a server's lock while a command runs
///
/// Takes the gentlest lock that makes a snapshot consistent, runs the command, releases the lock, and ends
/// with the command's exit code. The command runs only under the lock; if the lock was lost meanwhile, that
/// is a failure. If a statement stands in the way, remora names it and waits for it without making others
/// wait.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Which lock
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: Mode,

    /// How many seconds to try for the lock
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,

    /// A statement to run before the lock is taken
    #[arg(long, value_name = "STATEMENT")]
    before: Vec<String>,

    /// A statement to run after the lock is released, even if the command or the lock failed
    #[arg(long, value_name = "STATEMENT")]
    after: Vec<String>,

    /// Write the binary log position to this file, as JSON
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// backup-stage on MariaDB from 10.4.1, instance on MySQL 8 if all tables are InnoDB, else global
    Auto,
    /// BACKUP STAGE BLOCK_COMMIT: MariaDB from 10.4.1
    BackupStage,
    /// LOCK INSTANCE FOR BACKUP: MySQL from 8.0, for InnoDB tables
    Instance,
    /// FLUSH TABLES WITH READ LOCK: everywhere
    Global,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let signals = Signals::new(&stop::signals())?;
    let target = arguments.server.target(password)?;
    let mut session = target.connect()?;
    let mode = match arguments.mode {
        Mode::Auto => HoldMode::best(&mut session)?,
        Mode::BackupStage => HoldMode::BackupStage,
        Mode::Instance => HoldMode::Instance,
        Mode::Global => HoldMode::Global,
    };
    check(&mode, &session.about)?;
    let wait = Duration::from_secs(arguments.wait.into());
    let (pause, note) = (|time| signals.pause(time), |text: &str| report.note(text));
    let waiting = Waiting { wait, pause: &pause, note: &note };
    let done = execute(&mut session, &arguments.before)
        .and_then(|()| server_lock::take(session, &mode, &target, &waiting))
        .and_then(|hold| under_lock(arguments, &mode, hold, &signals, report));
    // Whatever happened, what --before has stopped must continue.
    let after = match arguments.after.as_slice() {
        [] => Ok(()),
        statements => target.connect().map_err(Into::into).and_then(|mut new| execute(&mut new, statements)),
    };
    match (done, after) {
        (Ok(code), Ok(())) => Ok(Exit::Command(code)),
        (Ok(_), Err(error)) => Err(error.context("the command has run, but --after failed")),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(after)) => {
            report.warn(&format!("--after failed, too: {after:#}"));
            Err(error)
        }
    }
}

/// Fails for a lock that the server does not have: its own message is about the syntax of a statement.
fn check(mode: &HoldMode, about: &About) -> Result<()> {
    let since = |flavour, major, minor, patch| {
        about.flavour == flavour && about.version >= (Version { major, minor, patch })
    };
    let lacks = match mode {
        HoldMode::Instance if !since(Flavour::MySql, 8, 0, 0) => {
            "LOCK INSTANCE FOR BACKUP is a statement of MySQL 8.0 and later"
        }
        HoldMode::BackupStage if !since(Flavour::MariaDb, 10, 4, 1) => {
            "BACKUP STAGE is a statement of MariaDB 10.4.1 and later"
        }
        _ => return Ok(()),
    };
    let instead = match about.flavour {
        Flavour::MariaDb if since(Flavour::MariaDb, 10, 4, 1) => "--mode backup-stage",
        Flavour::MySql if since(Flavour::MySql, 8, 0, 0) => {
            "--mode instance, or for tables not of InnoDB --mode global"
        }
        _ => "--mode global",
    };
    Err(usage(format!(
        "{lacks}, and this server is {}: use {instead}; without --mode, the mildest lock is chosen",
        about.version_text
    )))
}

fn execute(session: &mut Session, statements: &[String]) -> Result<()> {
    for statement in statements {
        session.execute(statement)?;
    }
    Ok(())
}

fn under_lock(
    arguments: &Arguments,
    mode: &HoldMode,
    mut hold: Hold,
    signals: &Signals,
    report: &Report,
) -> Result<u8> {
    let held = Instant::now();
    tell_position(&mut hold, arguments.position.as_deref(), report)?;
    let code = Child::start(&arguments.command).and_then(|mut child| child.wait(signals));
    let released = hold.release();
    let seconds = held.elapsed().as_secs_f64();
    let code = code?;
    released.context("the lock was lost while the command ran: what it made can't be relied on")?;
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "mode": mode.name(), "seconds_held": seconds, "exit_code": code,
        }))?;
    } else {
        report.note(&format!("the lock ({}) was held for {seconds:.2} s", mode.name()));
    }
    Ok(code)
}

fn tell_position(hold: &mut Hold, file: Option<&Path>, report: &Report) -> Result<()> {
    let value = server_lock::position(hold)?;
    if let Some(file) = file {
        let mut output = Output::create(&RealDisk, file).with_context(|| file.display().to_string())?;
        writeln!(output, "{value}")
            .and_then(|()| output.finish())
            .with_context(|| file.display().to_string())?;
    }
    if report.is_json() {
        let mut line = value;
        line["message_type"] = json!("position");
        report.message(&line)?;
    } else if let Some(text) = server_lock::shown(&value) {
        report.note(&text);
    }
    Ok(())
}
