//! The server's process: started under a shell, watched and signalled through a handle that stays valid when
//! process ids are reused.
//!
//! Every wait of this crate for a process is the poll in [`Process::wait`]; nothing sleeps.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Error;
use crate::error::At;

/// How long a server may take to write its pages when asked to stop: what MariaDB's service file allows.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(900);

/// How long the kernel may take to remove a killed process.
const KILL_WAIT: Duration = Duration::from_secs(60);

/// Stays with the daemon and stops it when its standard input ends. The kernel ends it when the process at
/// the other end is gone, however that ended. It is a shell, because a signal on the death of a parent can't
/// be requested without unsafe code, and such a signal would follow the thread that started the daemon, not
/// the process.
///
/// $1 is the log, $2 a folder to remove after such a stop or nothing, $3 what is put before the search path,
/// the rest is the command. It prints the daemon's process id, and ends as the daemon does. Once it has
/// waited for the daemon another process may have that id, which is not a child of this shell.
const TIED: &str = r#"
log=$1 scratch=$2 PATH=$3$PATH; shift 3
exec 3<&0
"$@" 3<&- </dev/null >>"$log" 2>&1 &
daemon=$!
echo $daemon
exec >/dev/null
is_ours() {
    read -r stat </proc/$daemon/stat && case ${stat##*) } in ?" $$ "*) ;; *) return 1 ;; esac
}
(
    read -r line <&3
    trap '' TERM
    # If it ended by itself, whoever started it still wants the folder.
    is_ours || exit 0
    kill -TERM $daemon
    tenths=0
    while is_ours && [ $tenths -lt 300 ]; do sleep 0.1; tenths=$((tenths + 1)); done
    ! is_ours || kill -KILL $daemon
    [ -z "$scratch" ] || rm -rf -- "$scratch"
) &
watch=$!
wait $daemon
status=$?
kill $watch
wait $watch
exit $status
"#;

/// Leaves the daemon behind as a child of init.
const FREE: &str = r#"
log=$1 PATH=$3$PATH; shift 3
"$@" </dev/null >>"$log" 2>&1 &
echo $!
"#;

/// A command to run as a daemon.
pub(crate) struct Launch<'a> {
    /// The program, and what must come before its arguments.
    pub(crate) line: &'a [OsString],
    pub(crate) arguments: &'a [String],
    /// Searched for shared libraries before the system's folders.
    pub(crate) libraries: Option<&'a Path>,
    /// Searched for programs before the usual folders.
    pub(crate) programs: Option<&'a Path>,
    /// Receives its output.
    pub(crate) log: &'a Path,
    /// Whether it ends with this process; if it ended for that reason, the folder, if any, is removed.
    pub(crate) tie: Option<Option<PathBuf>>,
}

/// A server, running or ended.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    handle: OwnedFd,
    /// The shell that supervises a tied server, and the pipe whose end it waits for.
    supervisor: Option<(Child, Option<ChildStdin>)>,
}

impl Process {
    /// Starts a daemon. Success means only that there is a process; if its program does not exist, its log
    /// says so.
    pub(crate) fn start(launch: &Launch<'_>) -> Result<Option<Process>, Error> {
        let tied = launch.tie.is_some();
        let scratch = launch.tie.clone().flatten().unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", if tied { TIED } else { FREE }, "sh"]);
        let programs = launch.programs.map_or_else(String::new, |path| format!("{}:", path.display()));
        command.arg(launch.log).arg(scratch).arg(programs).args(launch.line).args(launch.arguments);
        if let Some(libraries) = launch.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        // In its own process group: a key typed at the terminal to stop us must not reach the server, which
        // is to be shut down properly.
        command.process_group(0).current_dir("/");
        command.stdin(if tied { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().at("cannot run", Path::new("sh"))?;
        let pid = shell.stdout.take().and_then(read_pid);
        let stdin = shell.stdin.take();
        let opened = pid.and_then(|pid| Some((pid, open(pid)?)));
        match opened {
            Some((pid, handle)) if tied => {
                Ok(Some(Process { pid, handle, supervisor: Some((shell, stdin)) }))
            }
            _ => {
                // A free server's shell has ended; a tied server's shell has no server left, or now sees that
                // we are done.
                drop(stdin);
                shell.wait().at("cannot wait for", Path::new("sh"))?;
                Ok(opened.map(|(pid, handle)| Process { pid, handle, supervisor: None }))
            }
        }
    }

    /// The process `pid`, if it exists and has `argument` on its command line.
    pub(crate) fn find(pid: u32, argument: &str) -> Option<Process> {
        // The handle comes before the check: whatever the check shows, the handle can only mean that process
        // or none.
        let handle = open(pid)?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let matches = line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes());
        matches.then_some(Process { pid, handle, supervisor: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the process has ended; false if it has not ended within `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut handles = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut handles, timeout.as_ref()) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                // No other error is possible with a valid handle, but a wait must not turn into a busy loop.
                Err(_) => return false,
            }
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.wait(Duration::ZERO)
    }

    /// Asks the server to stop, and kills it if it does not within `limit`. Returns what was wrong: then its
    /// files are those of a crash.
    pub(crate) fn stop(&mut self, limit: Duration) -> Result<Option<String>, Error> {
        let was_running = self.is_running();
        self.signal(Signal::TERM)?;
        if !self.wait(limit) {
            self.kill()?;
            return Ok(Some(format!("it went on for {} seconds and was killed", limit.as_secs())));
        }
        let status = self.finish()?.filter(|status| was_running && !status.success());
        // The shell tells a signal by a number above 128.
        Ok(status.map(|status| match status.code() {
            Some(code @ 129..) => format!("signal {} ended it", code - 128),
            _ => format!("it ended with {status}"),
        }))
    }

    /// Kills the server and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.signal(Signal::KILL)?;
        if !self.wait(KILL_WAIT) {
            return Err(Error::Unkillable { pid: self.pid });
        }
        self.finish().map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error).at("cannot signal", &PathBuf::from(format!("/proc/{}", self.pid))),
        }
    }

    /// Reaps the shell of an ended server. Returns how the server ended, if it had one.
    fn finish(&mut self) -> Result<Option<ExitStatus>, Error> {
        let Some((mut shell, pipe)) = self.supervisor.take() else { return Ok(None) };
        // The pipe stays open until the shell is gone: its end would make the shell remove the folder.
        let status = shell.wait().at("cannot wait for", Path::new("sh"))?;
        drop(pipe);
        Ok(Some(status))
    }
}

fn read_pid(stdout: impl std::io::Read) -> Option<u32> {
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).ok()?;
    line.trim_end().parse().ok()
}

fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Launch, Process};

    /// A tied daemon that runs a script, once it has said something.
    fn daemon(folder: &Path, script: &str) -> Process {
        let log = folder.join("log");
        let launch = Launch {
            line: &["sh".into()],
            arguments: &["-c".to_owned(), format!("{script}; echo; while :; do sleep 0.1; done")],
            libraries: None,
            programs: None,
            log: &log,
            tie: Some(None),
        };
        let process = Process::start(&launch).unwrap().unwrap();
        while crate::folder::len(&log) == 0 {
            assert!(!process.wait(Duration::from_millis(10)));
        }
        process
    }

    #[test]
    fn the_folder_of_a_daemon_that_ended_by_itself_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (scratch, log) = (folder.path().join("scratch"), folder.path().join("log"));
        crate::folder::create(&scratch).unwrap();
        for _ in 0..200 {
            let launch = Launch {
                line: &["true".into()],
                arguments: &[],
                libraries: None,
                programs: None,
                log: &log,
                tie: Some(Some(scratch.clone())),
            };
            if let Some(mut process) = Process::start(&launch).unwrap() {
                process.kill().unwrap();
            }
            assert!(scratch.is_dir());
        }
    }

    #[test]
    fn who_does_not_stop_in_order_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(200));
        for (number, (script, limit, wanted)) in [
            ("trap 'exit 0' TERM", long, None),
            ("trap '' TERM", short, Some("it went on for 0 seconds and was killed")),
            ("trap 'kill -KILL $$' TERM", long, Some("signal 9 ended it")),
            ("trap 'exit 7' TERM", long, Some("it ended with exit status: 7")),
        ]
        .into_iter()
        .enumerate()
        {
            let folder = folder.path().join(number.to_string());
            crate::folder::create(&folder).unwrap();
            let mut process = daemon(&folder, script);
            assert_eq!(process.stop(limit).unwrap().as_deref(), wanted, "{script}");
            assert!(!process.is_running());
        }
    }
}
