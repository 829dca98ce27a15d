//! `remora cron`

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use humanize::date_time;
use job::{CommandEnd, Hook, JobEnd, JobLog, Signals, attend, code as code_of};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use serde_json::json;

use crate::exit::Exit;
use crate::report::Report;
use crate::stop;

/// How often to check another run's lock.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a hook may take, the command or URL that is told how the job ended.
const HOOK_S: u64 = 300;

const EXAMPLES: &str = "EXAMPLES
  5 3 * * *  remora cron --log /var/backup/backup.log --lock /tmp/backup.lock -- ./backup.sh
  remora cron --log job.log --on-failure https://ping.example/4f1c/fail -- ./job
  remora cron --log job.log --timeout 2h --skip --lock job.lock -- rsync -a /data/ far:/data/";

/// Run a job for cron: one at a time, logged, silent unless it fails
///
/// Every line that the command prints goes into the log, with the time in front. If the command fails, the
/// reason and the end of its output are printed, and cron mails them; otherwise nothing is printed. The exit
/// code is that of the command, or 128 plus the signal's number if a signal killed it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Append to this file
    #[arg(long, value_name = "FILE")]
    log: PathBuf,

    /// Run only if no other run holds a lock on this file; the file is created and stays
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,

    /// If another run holds the lock, wait for its end
    #[arg(long, requires = "lock")]
    wait: bool,

    /// If another run holds the lock, do nothing and exit with 0
    #[arg(long, requires = "lock", conflicts_with = "wait")]
    skip: bool,

    /// End the command and everything it has started after this time, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = date_time::duration_s)]
    timeout: Option<u64>,

    /// Begin a new log when this one is larger, such as 10M, even in the middle of a run; five old ones are
    /// kept as FILE.1 to FILE.5
    #[arg(long, value_name = "BYTES", value_parser = date_time::bytes)]
    log_size: Option<u64>,

    /// When the command has succeeded: call this URL (GET), or run this command with 'sh -c'
    #[arg(long, value_name = "URL|CMD")]
    on_success: Option<Hook>,

    /// When it has failed: call this URL (POST, with the reason and the end of the output), or run this
    /// command with 'sh -c'. REMORA_CODE, REMORA_REASON and REMORA_LOG are in its environment
    #[arg(long, value_name = "URL|CMD")]
    on_failure: Option<Hook>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let signals = Signals::new(&stop::signals())?;
    let line = arguments.command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    job::adopt();
    let mut log = JobLog::open(&arguments.log, arguments.log_size);
    let _lock = match lock(arguments, &signals)? {
        Lock::Ours(file) => file,
        Lock::Others(path) => return left_out(arguments, path, &line, &mut log, report),
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    log.line(format!("{host} starting: {line}").as_bytes());
    let began = Instant::now();
    let end = attend((&arguments.command, arguments.timeout), &signals, &mut log)?;
    let seconds = began.elapsed().as_secs_f64();
    let mut signal = None;
    let (mut code, mut reason) = match end {
        CommandEnd::Exited(status) => {
            signal = status.signal();
            let text = signal.map_or_else(
                || format!("exited with code {}", code_of(status)),
                |signal| format!("died of signal {signal}"),
            );
            (code_of(status), text)
        }
        CommandEnd::TimedOut => {
            let seconds = arguments.timeout.unwrap_or_default();
            (Exit::Failed.code(), format!("was ended: it ran for longer than {seconds} s"))
        }
        CommandEnd::NotStarted(error) => (127, format!("was not started: {error:#}")),
    };
    log.line(format!("command {reason}").as_bytes());
    if let Err(error) = tell(arguments, (code, &reason), &signals, &mut log) {
        let text = format!("the result could not be reported: {error:#}");
        log.line(text.as_bytes());
        reason = format!("{reason}; {text}");
        code = if code == 0 { Exit::Failed.code() } else { code };
    }
    if let Some(failure) = log.finish() {
        // The job matters more than its log, but otherwise nobody would notice that the log is incomplete.
        reason = format!("{reason}; the log could not be written: {failure}");
        code = if code == 0 { Exit::Failed.code() } else { code };
    }
    if code != 0 && report.is_json() {
        report.message(&json!({
            "message_type": "job", "name": line, "reason": reason, "exit_code": code, "signal": signal,
            "seconds": seconds, "log": arguments.log.display().to_string(), "output": String::from_utf8_lossy(&log.tail()),
        }))?;
    } else if code != 0 {
        report.data(&format!("{line}\n{reason}\nlog: {}\n", arguments.log.display()))?;
        report.data(&String::from_utf8_lossy(&log.tail()))?;
    }
    Ok(Exit::Command(code))
}

/// Tells the hook how the job ended, if there is one.
fn tell(
    arguments: &Arguments,
    (code, reason): (u8, &str),
    signals: &Signals,
    log: &mut JobLog,
) -> Result<()> {
    // A job whose log is incomplete has not succeeded.
    let is_good = code == 0 && log.is_complete();
    let (option, hook) = if is_good {
        ("--on-success", &arguments.on_success)
    } else {
        ("--on-failure", &arguments.on_failure)
    };
    let Some(hook) = hook else { return Ok(()) };
    let (path, tail) = (arguments.log.display().to_string(), log.tail());
    let code = if is_good { 0 } else { code.max(Exit::Failed.code()) };
    let end = JobEnd { code, reason, tail: &tail, log: &path };
    match hook {
        Hook::Url(url) => end.call(url, signals).with_context(|| format!("{option} {url}")),
        Hook::Command(command) => match attend((&end.command(command), Some(HOOK_S)), signals, log)? {
            CommandEnd::Exited(status) if status.success() => Ok(()),
            CommandEnd::Exited(status) => bail!("{option}: the command exited with code {}", code_of(status)),
            CommandEnd::TimedOut => bail!("{option}: the command ran for longer than {HOOK_S} s"),
            CommandEnd::NotStarted(error) => Err(error.context(option)),
        },
    }
}

/// Who may run.
enum Lock<'a> {
    /// We, while this file is open.
    Ours(Option<File>),
    /// Another run, which holds the lock on this file.
    Others(&'a Path),
}

/// Does not run the job, because another run holds the lock.
fn left_out(
    arguments: &Arguments,
    path: &Path,
    name: &str,
    log: &mut JobLog,
    report: &Report,
) -> Result<Exit> {
    let reason = format!("another run holds {}", path.display());
    let exit = if arguments.skip { Exit::Done } else { Exit::Busy };
    let advice = format!("{reason}; --wait waits for it, --skip exits with 0");
    if arguments.skip {
        log.line(format!("skipped: {reason}").as_bytes());
        if let Some(failure) = log.finish() {
            bail!("the log could not be written: {failure}");
        }
    } else {
        log.line(advice.as_bytes());
    }
    if report.is_json() {
        report.message(&json!({
            "message_type": "job", "name": name, "reason": reason, "exit_code": exit.code(), "signal": null,
            "seconds": 0, "log": arguments.log.display().to_string(), "output": "",
        }))?;
        return Ok(exit);
    }
    if arguments.skip { Ok(exit) } else { Err(failure::busy(advice)) }
}

/// Takes the lock, or says who has it.
fn lock<'a>(arguments: &'a Arguments, signals: &Signals) -> Result<Lock<'a>> {
    let Some(path) = &arguments.lock else { return Ok(Lock::Ours(None)) };
    let shown = path.display();
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).open(path).with_context(|| shown.to_string())?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if arguments.wait => signals.pause(LOOK_AGAIN)?,
            Err(Errno::WOULDBLOCK) => return Ok(Lock::Others(path)),
            Err(error) => return Err(error).with_context(|| shown.to_string()),
        }
    }
    // The command inherits it: the lock is held until the last process of the command has ended, even if we
    // are killed.
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(Lock::Ours(Some(file)))
}
