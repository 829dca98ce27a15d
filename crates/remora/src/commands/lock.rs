//! `remora lock`

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use disk::{Output, RealDisk};
use progress::Progress;
use serde_json::json;
use server::{Attempt, Blocker, Hold, HoldMode, Session, Target};

use crate::args::ServerArgs;
use crate::child::{self, Child};
use crate::exit::{Exit, Held};
use crate::report::Report;

/// Others may have to wait behind an attempt for as long as it lasts, so it is short.
const ATTEMPT: Duration = Duration::from_secs(2);
/// A statement that has been running for so long is waited for before another attempt, not behind one.
const LONG_S: u64 = 2;
/// How long to wait before looking again whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "EXAMPLES
  remora lock -- lvcreate --snapshot --size 10G --name snap vg/data
  remora lock --mode global --wait 20 --position /backup/position.json -- ./snapshot.sh
  remora lock --before 'STOP SLAVE SQL_THREAD' --after 'START SLAVE SQL_THREAD' -- zfs snapshot tank/db@now";

/// Hold a server's lock while a command runs
///
/// Takes the gentlest lock that makes a snapshot consistent, runs the command, lets go, and ends with the
/// command's exit code. The command runs only under the lock; if the lock was lost meanwhile the result is a
/// failure. A statement that stands in the way is waited for without making others wait, and named when time is up.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Which lock
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: Mode,

    /// Seconds to try for the lock
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,

    /// A statement to run before the lock is taken
    #[arg(long, value_name = "STATEMENT")]
    before: Vec<String>,

    /// A statement to run after the lock is released, also when the command failed
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
    /// backup-stage on MariaDB from 10.4.1, instance on MySQL 8 when all tables are InnoDB, else global
    Auto,
    /// BACKUP STAGE BLOCK_COMMIT: MariaDB from 10.4.1
    BackupStage,
    /// LOCK INSTANCE FOR BACKUP: MySQL from 8.0, for InnoDB tables
    Instance,
    /// FLUSH TABLES WITH READ LOCK: everywhere
    Global,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let signals = child::Signals::new()?;
    let target = arguments.server.target(password)?;
    let mut session = target.connect()?;
    let mode = match arguments.mode {
        Mode::Auto => HoldMode::best(&mut session)?,
        Mode::BackupStage => HoldMode::BackupStage,
        Mode::Instance => HoldMode::Instance,
        Mode::Global => HoldMode::Global,
    };
    for statement in &arguments.before {
        session.execute(statement)?;
    }
    let done = under_lock(arguments, session, &mode, &target, &signals, report);
    // Whatever happened: what --before has stopped is to go on.
    let after = if arguments.after.is_empty() { Ok(()) } else { run_after(arguments, &target) };
    let code = done?;
    after.context("the command has run, but --after failed")?;
    Ok(Exit::Command(code))
}

fn run_after(arguments: &Arguments, target: &Target) -> Result<()> {
    let mut session = target.connect()?;
    for statement in &arguments.after {
        session.execute(statement)?;
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "one caller; each is another thing")]
fn under_lock(
    arguments: &Arguments,
    session: Session,
    mode: &HoldMode,
    target: &Target,
    signals: &child::Signals,
    report: &Report,
) -> Result<u8> {
    let mut hold = take(session, mode, Duration::from_secs(arguments.wait), target, signals)?;
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

/// Tries until the time is up, never making others wait for longer than one attempt.
fn take(
    mut session: Session,
    mode: &HoldMode,
    wait: Duration,
    target: &Target,
    signals: &child::Signals,
) -> Result<Hold> {
    let end = Instant::now() + wait;
    let mut last: Option<Blocker> = None;
    loop {
        let blocker = session.blockers(LONG_S)?.into_iter().next();
        let left = end.saturating_duration_since(Instant::now());
        // BACKUP STAGE and LOCK INSTANCE do not make transactions wait behind them.
        if blocker.is_none() || *mode != HoldMode::Global {
            session = match Hold::attempt(session, mode, ATTEMPT.min(left))? {
                Attempt::Held(hold) => return Ok(hold),
                Attempt::Waited(session) => session,
            };
            last = session.blockers(0)?.into_iter().next().or(blocker).or(last);
        } else {
            last = blocker;
            signals.pause(LOOK_AGAIN)?;
        }
        if Instant::now() >= end {
            return Err(anyhow::Error::new(Held(refusal(last.as_ref(), wait, target))));
        }
    }
}

fn refusal(blocker: Option<&Blocker>, wait: Duration, target: &Target) -> String {
    let seconds = wait.as_secs();
    match blocker {
        None => format!("{target} could not be locked within {seconds} s; --wait gives it more"),
        Some(blocker) => format!(
            "{target} could not be locked within {seconds} s; in the way is {blocker}; wait for it (--wait), or KILL {}",
            blocker.id
        ),
    }
}

fn tell_position(hold: &mut Hold, file: Option<&Path>, report: &Report) -> Result<()> {
    let position = hold.position()?.unwrap_or_default();
    let source: Vec<_> = hold.source_position()?.into_iter().map(|(_, value)| value).collect();
    let source = source.join(" ");
    let value = json!({
        "file": position.file, "offset": position.offset, "gtid": position.gtid, "source": source,
    });
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
    } else if !position.file.is_empty() {
        let text = format!("binary log position: {} {} {}", position.file, position.offset, position.gtid);
        report.note(text.trim_end());
    }
    Ok(())
}
