//! The log of a job: each line of output with its time.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use humanize::date_time;

/// Lines of output that are shown when a command has failed.
const TAIL_LINES: usize = 50;
/// A longer line is cut into several.
const LINE_MAX: usize = 64 << 10;
/// How many old logs are kept.
const OLD_LOGS: u32 = 5;

/// The log of one run. Each line is in the file when the next one begins. If the log can't be written the run
/// continues.
pub struct JobLog {
    /// `None` after a failure.
    file: Option<File>,
    path: PathBuf,
    /// A log that is longer than this is rotated.
    size_max: Option<u64>,
    /// Length of the file in bytes.
    size: u64,
    failure: Option<io::Error>,
    partial: Vec<u8>,
    tail: VecDeque<Vec<u8>>,
}

impl JobLog {
    /// Opens a log, to which a run is added. One that is larger than `size_max` bytes begins again.
    pub fn open(path: &Path, size_max: Option<u64>) -> JobLog {
        let mut log = JobLog {
            file: None,
            path: path.to_owned(),
            size_max,
            size: 0,
            failure: None,
            partial: Vec::new(),
            tail: VecDeque::new(),
        };
        if let Some(limit) = size_max
            && std::fs::metadata(path).is_ok_and(|found| found.len() > limit)
        {
            log.begin_file();
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
    fn begin_file(&mut self) {
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
    pub fn line(&mut self, text: &[u8]) {
        let mut line = format!("[{}] ", date_time::shown(date_time::now_s())).into_bytes();
        line.extend_from_slice(text);
        line.push(b'\n');
        if self.file.is_some() && self.size_max.is_some_and(|limit| self.size > limit) {
            self.begin_file();
        }
        self.write(&line);
        self.tail.push_back(line);
        if self.tail.len() > TAIL_LINES {
            self.tail.pop_front();
        }
    }

    /// Writes output as it arrives.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
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
    pub(crate) fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.line(&line);
        }
    }

    /// Whether everything was written so far.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failure.is_none()
    }

    /// The failure, if not everything was written.
    pub fn finish(&mut self) -> Option<io::Error> {
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.fail(error);
        }
        self.failure.take()
    }

    /// The last lines.
    pub fn tail(&self) -> Vec<u8> {
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
