//! Runs of the program that are going on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output};

use crate::support::Ended;

/// A run of the program in progress. It is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    pub(crate) fn new(child: Child) -> Running {
        Running { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input; dropping it is the end of the file.
    pub(crate) fn stdin(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Fails with the run's messages if it has ended.
    #[track_caller]
    pub(crate) fn must_run(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            let mut err = String::new();
            self.child.stderr.as_mut().unwrap().read_to_string(&mut err).unwrap();
            panic!("it has ended ({status}): {err}");
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Reads lines of stderr until one holds this.
    #[track_caller]
    pub(crate) fn until_says(&mut self, word: &str) {
        self.said(word);
    }

    /// The same, returning all messages so far.
    #[track_caller]
    pub(crate) fn said(&mut self, word: &str) -> String {
        let mut lines = BufReader::new(self.child.stderr.as_mut().unwrap());
        let mut all = String::new();
        while lines.read_line(&mut all).unwrap() > 0 {
            if all.contains(word) {
                return all;
            }
        }
        panic!("never said {word}: {all}");
    }

    /// The next line of stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') && self.child.stdout.as_mut().unwrap().read(&mut byte).unwrap() > 0
        {
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    /// SIGKILL, and waits.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Closes its input and waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| stdout.read_to_end(&mut out).unwrap());
            stderr.read_to_end(&mut err).unwrap();
        });
        let status = self.child.wait().unwrap();
        Ended::of(&Output { status, stdout: out, stderr: err })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
