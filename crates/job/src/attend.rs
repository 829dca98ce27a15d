//! Runs a command to its end, with its output in a log.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select, tick};

use crate::log::JobLog;
use crate::{Child, Signals};

/// Time between asking a command to end and killing it.
const GRACE: Duration = Duration::from_secs(10);
/// How long a background process may keep the output open after the command has ended.
const LINGER: Duration = Duration::from_secs(2);
/// How often to reap processes that were left to us.
const REAP: Duration = Duration::from_secs(5);
/// How often to look at the clock.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How a command ended.
pub enum CommandEnd {
    /// By itself, or by a signal.
    Exited(std::process::ExitStatus),
    /// It took too long, and was ended.
    TimedOut,
    /// It did not begin.
    NotStarted(anyhow::Error),
}

/// Runs a command for so many seconds at most and logs its output, until it ends or we are stopped.
///
/// # Errors
/// If its end was missed, or we are stopped.
pub fn attend(
    (command, timeout): (&[OsString], Option<u64>),
    signals: &Signals,
    log: &mut JobLog,
) -> Result<CommandEnd> {
    let (mut output, input) = io::pipe()?;
    let child = match Child::start_group(command, input) {
        Ok(child) => child,
        Err(error) => return Ok(CommandEnd::NotStarted(error)),
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
    log: &mut JobLog,
) -> Result<CommandEnd> {
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
                return Ok(CommandEnd::Exited(status));
            }
            recv(signals.receiver()) -> signal => if let Ok(signal) = signal { child.signal(signal) },
            recv(clock) -> _ => if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                end_all(child, lines, log);
                return Ok(CommandEnd::TimedOut);
            },
            recv(reaping) -> _ => child.reap(),
        }
    }
}

/// Ends a command and everything that it has started. Their output is logged meanwhile, so that none of them
/// blocks on it.
fn end_all(child: &Child, lines: &Receiver<Vec<u8>>, log: &mut JobLog) {
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
