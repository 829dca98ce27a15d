//! Freezes a server: stops its process for a limited time, and checks that it stayed stopped.
//!
//! Its files are then as a power failure would leave them: everything it had written is there, writes whose
//! completion it had not seen may be there, and nothing comes later.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use disk::{Disk, RealDisk};
use rustix::process::{Pid, Signal, kill_process};

/// How often to check whether all threads have stopped.
const LOOK_AGAIN: Duration = Duration::from_micros(200);
/// Stops a process and lets it continue when the time is up (in tenths of a second), or when the caller is
/// gone.
const GUARD: &str = r#"kill -STOP "$1" || exit 1
echo; left=$3
while [ "$left" -gt 0 ] && kill -0 "$2"; do sleep 0.1; left=$((left - 1)); done
kill -CONT "$1""#;
/// The prefix of the names of kernel threads that do what a process has already requested (io_uring).
const KERNELS: &str = "iou-";

/// The process to stop, and for how long at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freeze {
    /// The process id.
    pub process: u32,
    /// How long it may be stopped.
    pub bound: Duration,
}

/// A stopped process; it continues when this is dropped.
pub(crate) struct FrozenProcess {
    freeze: Freeze,
    pid: Pid,
    guard: Child,
    began: Instant,
    threads: Vec<Thread>,
}

/// A thread: whether it has stopped, and how often it has left the processor.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    number: String,
    stopped: bool,
    switches: Vec<String>,
}

impl FrozenProcess {
    /// Returns when no thread of the process is running any more.
    ///
    /// # Errors
    /// When the process does not exist, is not ours to stop, or does not stop within the time.
    pub(crate) fn new(freeze: Freeze) -> io::Result<FrozenProcess> {
        let pid =
            i32::try_from(freeze.process).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        let began = Instant::now();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh", &freeze.process.to_string(), &std::process::id().to_string()])
            .arg(freeze.bound.as_millis().div_ceil(100).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // It must outlive us.
            .process_group(0)
            .spawn()?;
        let mut line = [0];
        let told = guard.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.read(&mut line)?;
        let mut stopped = FrozenProcess { freeze, pid, guard, began, threads: Vec::new() };
        if told == 0 {
            let text = format!(
                "process {} can't be stopped: it does not exist or belongs to another user",
                freeze.process
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        loop {
            let threads = threads(freeze.process)?;
            if threads.iter().all(|thread| thread.stopped) {
                stopped.threads = threads;
                return Ok(stopped);
            }
            if began.elapsed() >= freeze.bound {
                return Err(io::Error::other(format!("process {} did not stop", freeze.process)));
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Lets the process continue. Returns how long it was stopped.
    ///
    /// # Errors
    /// When it has run in between, for whatever reason: the copy then does not show a single moment.
    pub(crate) fn end(mut self) -> io::Result<Duration> {
        let lasted = self.began.elapsed();
        let on_guard = self.guard.try_wait()?.is_none();
        let same = threads(self.freeze.process).is_ok_and(|now| now == self.threads);
        if lasted < self.freeze.bound && on_guard && same {
            return Ok(lasted);
        }
        let why = match lasted >= self.freeze.bound || !on_guard {
            true => format!("the limit of {:.1} s was not enough", self.freeze.bound.as_secs_f64()),
            false => "another process continued it".to_owned(),
        };
        Err(io::Error::other(format!(
            "the server (process {}) ran while its files were copied: {why}; the copy is unusable",
            self.freeze.process
        )))
    }
}

impl Drop for FrozenProcess {
    fn drop(&mut self) {
        // If this fails the guard lets it continue, so the guard is ended afterwards.
        if kill_process(self.pid, Signal::CONT).is_ok() {
            self.guard.kill().ok();
        }
        self.guard.wait().ok();
    }
}

/// The threads of a process, without those of the kernel.
fn threads(process: u32) -> io::Result<Vec<Thread>> {
    let folder = PathBuf::from(format!("/proc/{process}/task"));
    let mut threads = Vec::new();
    for number in RealDisk.list(&folder)? {
        let read = |name: &str| {
            let mut text = String::new();
            let mut file = RealDisk.open(&folder.join(&number).join(name))?;
            file.read_to_string(&mut text).map(|_| text)
        };
        // A thread is marked as stopped before it leaves the processor for good, and counts that switch
        // later. The kernel waits for it here, if we may look (`task_current_syscall` in its
        // `lib/syscall.c`).
        let is_off = !read("syscall").is_ok_and(|call| call.starts_with("running"));
        let text = match read("status") {
            // It has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => continue,
            read => read?,
        };
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.unwrap_or_default().trim().to_owned()
        };
        if field("Name").starts_with(KERNELS) {
            continue;
        }
        threads.push(Thread {
            number: number.to_string_lossy().into_owned(),
            stopped: match field("State").chars().next() {
                Some('T' | 't') => is_off,
                state => matches!(state, Some('Z' | 'X')),
            },
            switches: ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].map(field).to_vec(),
        });
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Child {
        Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
    }

    fn state(child: &Child) -> bool {
        threads(child.id()).unwrap().iter().all(|thread| thread.stopped)
    }

    fn freeze(child: &Child, bound: Duration) -> Freeze {
        Freeze { process: child.id(), bound }
    }

    #[test]
    fn a_process_is_frozen_and_continues() {
        let mut child = busy();
        let stopped = FrozenProcess::new(freeze(&child, Duration::from_secs(600))).unwrap();
        assert!(state(&child));
        assert!(stopped.end().unwrap() > Duration::ZERO);
        assert!(!state(&child), "it continues");
        // An error in between also lets it continue.
        drop(FrozenProcess::new(freeze(&child, Duration::from_secs(600))).unwrap());
        assert!(!state(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        FrozenProcess::new(freeze(&child, Duration::from_secs(600))).err().unwrap();
    }

    #[test]
    fn a_process_that_ran_meanwhile_is_reported() {
        let mut child = busy();
        let stopped = FrozenProcess::new(freeze(&child, Duration::from_secs(600))).unwrap();
        kill_process(stopped.pid, Signal::CONT).unwrap();
        while state(&child) {}
        kill_process(stopped.pid, Signal::STOP).unwrap();
        while !state(&child) {}
        let error = stopped.end().unwrap_err().to_string();
        assert!(error.contains("another process continued it"), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn time_that_is_up_is_a_failure() {
        let mut child = busy();
        let bound = Duration::from_millis(500);
        let stopped = FrozenProcess::new(freeze(&child, bound)).unwrap();
        // The guard lets it continue.
        while state(&child) {}
        let error = stopped.end().unwrap_err().to_string();
        assert!(error.contains("not enough"), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
