//! A command of the user, which leads the application to another server.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a command in a shell, with these variables, until a time or until it is stopped. What it prints goes
/// to stderr.
///
/// # Errors
/// What went wrong. Nothing of it runs any more then.
pub(crate) fn run(
    command: &str,
    variables: &[(&str, String)],
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{command:?}: {error}");
    let mut child = Command::new("sh")
        .args(["-c", command])
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(io::stderr())
        // It may begin others, which end with it.
        .process_group(0)
        .spawn()
        .map_err(wrong)?;
    let ended = wait(&mut child, deadline, stop);
    if let Ok(None) = ended {
        kill_process_group(Pid::from_child(&child), Signal::KILL).ok();
        child.wait().ok();
    }
    match ended.map_err(wrong)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{command:?} ended with {status}")),
        None => Err(format!("{command:?} did not end in time")),
    }
}

fn wait(child: &mut Child, deadline: Instant, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    while Instant::now() < deadline && progress::pause(LOOK, stop) {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
    }
    child.try_wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_for(command: &str, time: Duration) -> Result<(), String> {
        run(command, &[("NAME", "value".to_owned())], Instant::now() + time, &AtomicBool::new(false))
    }

    #[test]
    fn a_command_has_its_variables_and_ends_well_or_not() {
        let minute = Duration::from_secs(60);
        assert_eq!(run_for("test $NAME = value", minute), Ok(()));
        assert_eq!(run_for("exit 3", minute), Err("\"exit 3\" ended with exit status: 3".to_owned()));
        let stopped = run("sleep 60", &[], Instant::now() + minute, &AtomicBool::new(true));
        assert_eq!(stopped, Err("\"sleep 60\" did not end in time".to_owned()));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_with_all_that_it_began() {
        let (mut reader, writer) = io::pipe().unwrap();
        let began = Instant::now();
        // Whoever has the pipe still runs.
        let kept = std::os::fd::AsRawFd::as_raw_fd(&writer);
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
        let command = format!("sleep 60 >&{kept} & wait");
        assert!(run_for(&command, Duration::from_millis(50)).is_err());
        drop(writer);
        io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap();
        assert!(began.elapsed() < Duration::from_secs(50));
    }
}
