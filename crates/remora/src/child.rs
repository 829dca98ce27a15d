//! Running a command for the user: its exit code, its end, and the signals that are meant for it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, unbounded};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::commands::stop_signals;
use crate::exit::Stopped;

/// Our own variable, which no command of the user's has to know.
const PASSWORD: &str = "REMORA_TYPED_PASSWORD";

/// The signals that ask us to stop, as they come, for a run that passes them on.
pub(crate) struct Signals(Receiver<i32>);

impl Signals {
    pub(crate) fn new() -> Result<Signals> {
        let (send, receive) = unbounded();
        let mut signals = signal_hook::iterator::Signals::new(stop_signals())?;
        std::thread::spawn(move || signals.forever().try_for_each(|signal| send.send(signal)));
        Ok(Signals(receive))
    }

    /// Waits; a signal is an error.
    pub(crate) fn pause(&self, time: Duration) -> Result<()> {
        match self.0.recv_timeout(time) {
            Ok(signal) => Err(anyhow::Error::new(Stopped(signal))),
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn receiver(&self) -> &Receiver<i32> {
        &self.0
    }
}

/// A command that is running.
pub(crate) struct Child {
    pid: Pid,
    ended: Receiver<io::Result<ExitStatus>>,
    group: bool,
}

impl Child {
    /// Starts a command with our own streams.
    pub(crate) fn start(command: &[OsString]) -> Result<Child> {
        Child::spawn(&mut prepared(command)?, false)
    }

    /// Starts a command in a process group of its own, so that all of it can be ended.
    pub(crate) fn start_group(command: &[OsString], output: io::PipeWriter) -> Result<Child> {
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
        // Nobody may be left to hear it.
        std::thread::spawn(move || send.send(child.wait()).ok());
        Ok(Child { pid, ended, group })
    }

    /// Its end, when that has come.
    pub(crate) fn ended(&self) -> &Receiver<io::Result<ExitStatus>> {
        &self.ended
    }

    /// Sends a signal to it, or to its whole group.
    pub(crate) fn signal(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        // It may have ended by itself.
        if self.group {
            kill_process_group(self.pid, signal).ok();
        } else {
            kill_process(self.pid, signal).ok();
        }
    }

    /// Waits for its end, passing signals on. A command that was ended by a signal has 128 and its number as its
    /// code, as in a shell.
    pub(crate) fn wait(&mut self, signals: &Signals) -> Result<u8> {
        loop {
            crossbeam_channel::select! {
                recv(self.ended) -> status => return Ok(code(status.context("the command's end was missed")??)),
                recv(signals.receiver()) -> signal => if let Ok(signal) = signal { self.signal(signal) },
            }
        }
    }

    /// Waits for its end for at most so long.
    pub(crate) fn wait_for(&self, time: Duration) -> Option<io::Result<ExitStatus>> {
        match self.ended.recv_timeout(time) {
            Ok(status) => Some(status),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the command's end was missed")))
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

/// The exit code as a shell has it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
