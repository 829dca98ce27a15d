//! `remora cron`

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select, tick};
use humanize::date_time;
use job::{Child, Hook, JobEnd, Signals, code as code_of};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::exit::Exit;
use crate::report::Report;
use crate::stop;

/// Lines of output that are shown when a command has failed.
const TAIL_LINES: usize = 50;
/// A longer line is cut into several.
const LINE_MAX: usize = 64 << 10;
/// Time between asking a command to end and killing it.
const GRACE: Duration = Duration::from_secs(10);
/// How long a background process may keep the output open after the command has ended.
const LINGER: Duration = Duration::from_secs(2);
/// How often to reap processes that were left to us.
const REAP: Duration = Duration::from_secs(5);
/// How often to check another run's lock.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a hook may take, the command or URL that is told how the job ended.
const HOOK_S: u64 = 300;
/// How many old logs are kept.
const OLD_LOGS: u32 = 5;

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

/// How a command ended.
enum End {
    Exited(std::process::ExitStatus),
    TimedOut,
    NotStarted(anyhow::Error),
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let signals = Signals::new(&stop::signals())?;
    let line = arguments.command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    job::adopt();
    let mut log = Log::open(&arguments.log, arguments.log_size);
    let Some(_lock) = lock(arguments, &signals, &mut log)? else { return Ok(Exit::Done) };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    log.line(format!("{host} starting: {line}").as_bytes());
    let end = attend((&arguments.command, arguments.timeout), &signals, &mut log)?;
    let (mut code, mut reason) = match end {
        End::Exited(status) => match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(signal) => (code_of(status), format!("died of signal {signal}")),
            None => (code_of(status), format!("exited with code {}", code_of(status))),
        },
        End::TimedOut => {
            let seconds = arguments.timeout.unwrap_or_default();
            (Exit::Failed.code(), format!("was ended: it ran for longer than {seconds} s"))
        }
        End::NotStarted(error) => (127, format!("was not started: {error:#}")),
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
    if code != 0 {
        report.data(&format!("{line}\n{reason}\nlog: {}\n", arguments.log.display()))?;
        report.data(&String::from_utf8_lossy(&log.tail()))?;
    }
    Ok(Exit::Command(code))
}

/// Tells the hook how the job ended, if there is one.
fn tell(arguments: &Arguments, (code, reason): (u8, &str), signals: &Signals, log: &mut Log) -> Result<()> {
    // A job whose log is incomplete has not succeeded.
    let is_good = code == 0 && log.failure.is_none();
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
            End::Exited(status) if status.success() => Ok(()),
            End::Exited(status) => bail!("{option}: the command exited with code {}", code_of(status)),
            End::TimedOut => bail!("{option}: the command ran for longer than {HOOK_S} s"),
            End::NotStarted(error) => Err(error.context(option)),
        },
    }
}

/// Takes the lock. `None`: another run has it, and the user allows that.
fn lock(arguments: &Arguments, signals: &Signals, log: &mut Log) -> Result<Option<Option<File>>> {
    let Some(path) = &arguments.lock else { return Ok(Some(None)) };
    let shown = path.display();
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).open(path).with_context(|| shown.to_string())?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if arguments.wait => signals.pause(LOOK_AGAIN)?,
            Err(Errno::WOULDBLOCK) if arguments.skip => {
                log.line(format!("skipped: another run holds {shown}").as_bytes());
                if let Some(failure) = log.finish() {
                    bail!("the log could not be written: {failure}");
                }
                return Ok(None);
            }
            Err(Errno::WOULDBLOCK) => {
                let text = format!("another run holds {shown}; --wait waits for it, --skip exits with 0");
                log.line(text.as_bytes());
                return Err(failure::busy(text));
            }
            Err(error) => return Err(error).with_context(|| shown.to_string()),
        }
    }
    // The command inherits it: the lock is held until the last process of the command has ended, even if we
    // are killed.
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(Some(Some(file)))
}

/// Runs a command for so many seconds at most and logs its output, until it ends or we are stopped.
fn attend((command, timeout): (&[OsString], Option<u64>), signals: &Signals, log: &mut Log) -> Result<End> {
    let (mut output, input) = io::pipe()?;
    let child = match Child::start_group(command, input) {
        Ok(child) => child,
        Err(error) => return Ok(End::NotStarted(error)),
    };
    let (send, lines) = bounded(64);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            if send.send(buffer.get(..count).unwrap_or_default().to_vec()).is_err() {
                return;
            }
        }
    });
    let end = watch(timeout, &child, signals, &lines, log)?;
    // Output that is still on its way; a background process may keep the pipe open for ever.
    let until = Instant::now() + LINGER;
    while let Ok(bytes) = lines.recv_deadline(until) {
        log.bytes(&bytes);
    }
    log.end_line();
    Ok(end)
}

fn watch(
    timeout: Option<u64>,
    child: &Child,
    signals: &Signals,
    lines: &Receiver<Vec<u8>>,
    log: &mut Log,
) -> Result<End> {
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (clock, reaping) = (tick(LOOK_AGAIN), tick(REAP));
    let mut open = lines.clone();
    loop {
        select! {
            recv(open) -> bytes => match bytes {
                Ok(bytes) => log.bytes(&bytes),
                // The output has ended; now wait only for the exit.
                Err(_) => open = crossbeam_channel::never(),
            },
            recv(child.ended()) -> status => {
                let status = status.context("the end of the command was missed")??;
                return Ok(End::Exited(status));
            }
            recv(signals.receiver()) -> signal => if let Ok(signal) = signal { child.signal(signal) },
            recv(clock) -> _ => if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                end_all(child, lines, log);
                return Ok(End::TimedOut);
            },
            recv(reaping) -> _ => child.reap(),
        }
    }
}

/// Ends a command and everything that it has started. Their output is logged meanwhile, so that none of them
/// blocks on it.
fn end_all(child: &Child, lines: &Receiver<Vec<u8>>, log: &mut Log) {
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| child.end_family(GRACE));
        while !ending.is_finished() {
            match lines.recv_timeout(LOOK_AGAIN) {
                Ok(bytes) => log.bytes(&bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

/// The log of one run. Each line is in the file when the next one begins. If the log can't be written the run
/// continues.
struct Log {
    /// `None` after a failure.
    file: Option<File>,
    path: PathBuf,
    /// A log that is longer than this is rotated.
    size_max: Option<u64>,
    /// Length of the file in bytes.
    size: u64,
    failure: Option<io::Error>,
    partial: Vec<u8>,
    tail: std::collections::VecDeque<Vec<u8>>,
}

impl Log {
    fn open(path: &Path, size_max: Option<u64>) -> Log {
        let mut log = Log {
            file: None,
            path: path.to_owned(),
            size_max,
            size: 0,
            failure: None,
            partial: Vec::new(),
            tail: std::collections::VecDeque::new(),
        };
        if let Some(limit) = size_max
            && std::fs::metadata(path).is_ok_and(|found| found.len() > limit)
        {
            log.put_aside();
        } else {
            log.append();
        }
        log.write(format!("{}\n", "-".repeat(78)).as_bytes());
        log
    }

    fn append(&mut self) {
        let opened = OpenOptions::new().append(true).create(true).mode(0o640).open(&self.path);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((size, file)) => (self.size, self.file) = (size, Some(file)),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.failure.get_or_insert(error);
        self.file = None;
    }

    /// Begins a new file.
    fn put_aside(&mut self) {
        if let Err(error) = rotate(&self.path) {
            // If the log can't be rotated it is continued, and grows.
            self.failure.get_or_insert(error);
            self.size_max = None;
        }
        self.append();
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        match file.write_all(bytes) {
            Ok(()) => self.size += bytes.len() as u64,
            Err(error) => self.fail(error),
        }
    }

    /// Writes a whole line, preceded by the time.
    fn line(&mut self, text: &[u8]) {
        let mut line = format!("[{}] ", date_time::shown(date_time::now_s())).into_bytes();
        line.extend_from_slice(text);
        line.push(b'\n');
        if self.file.is_some() && self.size_max.is_some_and(|limit| self.size > limit) {
            self.put_aside();
        }
        self.write(&line);
        self.tail.push_back(line);
        if self.tail.len() > TAIL_LINES {
            self.tail.pop_front();
        }
    }

    /// Writes output as it arrives.
    fn bytes(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            self.line(line.strip_suffix(b"\n").unwrap_or(&line));
        }
        if self.partial.len() > LINE_MAX {
            self.end_line();
        }
    }

    /// Ends a last line without a line end.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.line(&line);
        }
    }

    /// The failure, if not everything was written.
    fn finish(&mut self) -> Option<io::Error> {
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.fail(error);
        }
        self.failure.take()
    }

    fn tail(&self) -> Vec<u8> {
        self.tail.iter().flatten().copied().collect()
    }
}

/// Renames `log` to `log.1`, `log.1` to `log.2` and so on.
#[expect(clippy::disallowed_methods, reason = "a log needs no more than the names")]
fn rotate(path: &Path) -> io::Result<()> {
    let old = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    for number in (1..OLD_LOGS).rev() {
        match std::fs::rename(old(number), old(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, old(1))
}
