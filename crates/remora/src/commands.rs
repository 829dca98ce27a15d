//! The commands: their arguments, and what they call.

pub(crate) mod backup;
pub(crate) mod cron;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod restore;
pub(crate) mod routines;
pub(crate) mod sandbox;
pub(crate) mod undo;
pub(crate) mod url;
pub(crate) mod vars;
pub(crate) mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use server::{TableName, Target};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::args::Command;
use crate::exit::{Exit, usage};
use crate::report::Report;

/// Runs a command.
pub(crate) fn run(command: Command, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    match command {
        Command::Backup(arguments) => backup::run(&arguments, password, report),
        Command::Cron(arguments) => cron::run(&arguments, report),
        Command::Diff(arguments) => diff::run(&arguments, password, report),
        Command::Dump(arguments) => dump::run(&arguments, password, report),
        Command::Import(arguments) => import::run(*arguments, password, report),
        Command::List(arguments) => list::run(&arguments, report),
        Command::Load(arguments) => load::run(&arguments, password, report),
        Command::Lock(arguments) => lock::run(&arguments, password, report),
        Command::Prune(arguments) => prune::run(&arguments, report),
        Command::Queue(arguments) => queue::run(arguments, password, report),
        Command::Restore(arguments) => restore::run(&arguments, report),
        Command::Routines(arguments) => routines::run(arguments, password, report),
        Command::Sandbox(action) => sandbox::run(action, report),
        Command::Url(action) => url::run(action, report),
        Command::Vars(arguments) => vars::run(*arguments, password, report),
        Command::Undo(arguments) => undo::run(&arguments, password, report),
        Command::Verify(arguments) => verify::run(&arguments, report),
    }
}

/// Cores of this machine that we may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

static STOPPED_BY: AtomicI32 = AtomicI32::new(SIGINT);

/// The signal that stopped us.
pub(crate) fn stopped_by() -> i32 {
    STOPPED_BY.load(Ordering::Relaxed)
}

/// The signals that ask us to stop. SIGHUP is none of them where it is ignored, as nohup(1) has it.
pub(crate) fn stop_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let all = [SIGINT, SIGTERM, SIGHUP];
    all.into_iter().filter(|signal| *signal != SIGHUP || ignored >> (signal - 1) & 1 == 0).collect()
}

/// The table that an argument names: `db.table`, or one of the database that `-D`, the address or an option
/// file gave.
pub(crate) fn table_name(argument: &str, text: &str, target: &Target) -> anyhow::Result<TableName> {
    if let Ok(name) = text.parse::<TableName>() {
        return Ok(name);
    }
    let schema = target.database.clone();
    let schema = schema
        .filter(|_| !text.is_empty() && !text.contains('.'))
        .ok_or_else(|| usage(format!("{argument} {text}: write db.table, or give the database with -D")))?;
    Ok(TableName { schema, table: unquoted(text) })
}

/// A name that may stand in backquotes.
pub(crate) fn unquoted(text: &str) -> String {
    match text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(name) => name.replace("``", "`"),
        None => text.to_owned(),
    }
}

/// How often a pause looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Lets time pass; false when a stop was asked for meanwhile.
pub(crate) fn pause(time: Duration, stop: &AtomicBool) -> bool {
    let never = crossbeam_channel::never::<()>();
    let until = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        never.recv_timeout(left.min(LOOK)).ok();
    }
    false
}

/// A flag that the [`stop_signals`] set; a second one of them ends the program at once, but for SIGHUP: a
/// terminal that closes sends one, and its shell another. SIGUSR1 prints the progress line.
pub(crate) fn stop_flag(report: &Report) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(stop_signals().into_iter().chain([SIGUSR1]))?;
    let (flag, report) = (Arc::clone(&stop), report.clone());
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                report.print_line();
                continue;
            }
            if !flag.load(Ordering::Relaxed) {
                STOPPED_BY.store(signal, Ordering::Relaxed);
                flag.store(true, Ordering::Relaxed);
            } else if signal != SIGHUP {
                // Only returns when the default action could not be taken, and then there is no other.
                signal_hook::low_level::emulate_default_handler(signal).ok();
            }
        }
    });
    Ok(stop)
}
