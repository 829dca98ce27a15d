//! Runs a command for the user: its exit code, its end, and signals for it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, bounded, unbounded};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, waitpid,
};
use signal_hook::consts::{SIGKILL, SIGTERM};

/// How long to wait before checking again who is left.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Our own variable, which the user's command must not see.
const PASSWORD: &str = "REMORA_TYPED_PASSWORD";

/// A signal came while we waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped by a signal")]
pub struct Stopped(pub i32);

/// The signals that ask us to stop, for a run that passes them on.
pub struct Signals(Receiver<i32>);

impl Signals {
    /// Receives these from now on.
    pub fn new(signals: &[i32]) -> Result<Signals> {
        let (send, receive) = unbounded();
        let mut signals = signal_hook::iterator::Signals::new(signals)?;
        std::thread::spawn(move || signals.forever().try_for_each(|signal| send.send(signal)));
        Ok(Signals(receive))
    }

    /// Waits; a signal is an error.
    pub fn pause(&self, time: Duration) -> Result<()> {
        match self.0.recv_timeout(time) {
            Ok(signal) => Err(anyhow::Error::new(Stopped(signal))),
            Err(_) => Ok(()),
        }
    }

    /// Where they arrive.
    pub fn receiver(&self) -> &Receiver<i32> {
        &self.0
    }
}

/// A command that is running.
pub struct Child {
    pid: Pid,
    ended: Receiver<io::Result<ExitStatus>>,
    group: bool,
}

impl Child {
    /// Starts a command with our own streams.
    pub fn start(command: &[OsString]) -> Result<Child> {
        Child::spawn(&mut prepared(command)?, false)
    }

    /// Starts a command in its own process group, so that the whole group can be ended.
    pub fn start_group(command: &[OsString], output: io::PipeWriter) -> Result<Child> {
        let mut prepared = prepared(command)?;
        let errors = output.try_clone()?;
        prepared.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        Child::spawn(&mut prepared, true)
    }

    fn spawn(command: &mut Command, group: bool) -> Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().with_context(|| format!("can't run {program}"))?;
        let pid =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process without a number")?;
        let (send, ended) = bounded(1);
        // Perhaps nobody receives this any more.
        std::thread::spawn(move || send.send(child.wait()).ok());
        Ok(Child { pid, ended, group })
    }

    /// Receives its exit status when it ends.
    pub fn ended(&self) -> &Receiver<io::Result<ExitStatus>> {
        &self.ended
    }

    /// Sends a signal to the command, or to its whole group.
    pub fn signal(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        // It may have ended by itself.
        if self.group {
            kill_process_group(self.pid, signal).ok();
        } else {
            kill_process(self.pid, signal).ok();
        }
    }

    /// Waits for its end and passes signals on. If a signal ended the command, the exit code is 128 plus the
    /// signal's number, as in a shell.
    pub fn wait(&mut self, signals: &Signals) -> Result<u8> {
        loop {
            crossbeam_channel::select! {
                recv(self.ended) -> status => return Ok(code(status.context("the end of the command was missed")??)),
                recv(signals.receiver()) -> signal => if let Ok(signal) = signal { self.signal(signal) },
            }
        }
    }

    /// Ends the command and everything that it has started, even processes outside its group: asks first, and
    /// waits for all of them.
    pub fn end_family(&self, grace: Duration) {
        let family = Family { first: self.pid };
        let mut asked = BTreeSet::new();
        let end = Instant::now() + grace;
        self.signal(SIGTERM);
        // Processes that are started meanwhile are asked too.
        while Instant::now() < end && family.signal(Signal::TERM, &mut asked) > 0 {
            pause();
        }
        // More than once, because a process that is being ended may start another.
        let end = Instant::now() + grace;
        self.signal(SIGKILL);
        while Instant::now() < end && family.signal(Signal::KILL, &mut BTreeSet::new()) > 0 {
            pause();
        }
    }

    /// Reaps processes that were left to us.
    pub fn reap(&self) {
        Family { first: self.pid }.reap(&processes());
    }
}

/// Makes this process the parent of orphans of its children, so that processes outside a command's group are
/// found too.
pub fn adopt() {
    // If this fails only the group is ended.
    set_child_subreaper(Some(getpid())).ok();
}

fn pause() {
    // Nobody sends on this channel: it is a wait that ends by itself.
    crossbeam_channel::never::<()>().recv_timeout(LOOK_AGAIN).ok();
}

/// A process, from /proc.
struct Process {
    pid: Pid,
    parent: i32,
    ended: bool,
}

fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: std::fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        // The name is in parentheses and may contain anything.
        let (_, rest) = stat.split_at_checked(stat.iter().rposition(|byte| *byte == b')')? + 2)?;
        let text = String::from_utf8_lossy(rest);
        let mut fields = text.split(' ');
        let ended = matches!(fields.next()?, "Z" | "X");
        Some(Process { pid, parent: fields.next()?.parse().ok()?, ended })
    };
    entries.filter_map(process).collect()
}

/// A command with all its descendants.
struct Family {
    first: Pid,
}

impl Family {
    /// Sends a signal to all living processes that are not in `told`, and adds them to it. Returns how many
    /// are alive.
    fn signal(&self, signal: Signal, told: &mut BTreeSet<i32>) -> usize {
        let all = processes();
        self.reap(&all);
        let (mut count, mut above) = (0, vec![getpid().as_raw_nonzero().get()]);
        while let Some(parent) = above.pop() {
            for child in all.iter().filter(|process| process.parent == parent) {
                let number = child.pid.as_raw_nonzero().get();
                above.push(number);
                if !child.ended {
                    count += 1;
                    if told.insert(number) {
                        kill_process(child.pid, signal).ok();
                    }
                }
            }
        }
        count
    }

    /// Reaps the processes that were left to us. The command itself is waited for elsewhere.
    fn reap(&self, all: &[Process]) {
        let own = getpid().as_raw_nonzero().get();
        for process in all.iter().filter(|process| process.ended && process.parent == own) {
            if process.pid != self.first {
                waitpid(Some(process.pid), WaitOptions::NOHANG).ok();
            }
        }
    }
}

fn prepared(command: &[OsString]) -> Result<Command> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut prepared = Command::new(program);
    prepared.args(arguments).env_remove(PASSWORD);
    Ok(prepared)
}

/// The exit code, as a shell would report it.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
