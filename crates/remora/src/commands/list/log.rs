//! What `remora list` says of an archived binary log.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use binlog::archive::{self, Line, Why};
use disk::{Disk, RealDisk};
use serde_json::json;

use crate::report::{self, Report};
use crate::{calendar, shown};

/// The archive of a name.
pub(super) struct Log {
    name: String,
    lines: Vec<PathBuf>,
    caught_up: Option<i64>,
}

impl Log {
    /// Of the name that this folder is, if it has one.
    pub(super) fn find(name: &str, folder: &Path) -> Result<Option<Log>> {
        let folder = folder.join(archive::FOLDER);
        let lines = match archive::lines(&RealDisk, &folder) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Vec::new()
            }
            lines => lines.with_context(|| shown::path(&folder))?,
        };
        if lines.is_empty() {
            return Ok(None);
        }
        let caught_up = archive::caught_up(&RealDisk, &folder).with_context(|| shown::path(&folder))?;
        Ok(Some(Log { name: name.to_owned(), lines, caught_up }))
    }

    /// When it last had everything; `None` if it never had.
    pub(super) fn caught_up(&self) -> Option<i64> {
        self.caught_up
    }

    /// A line for each line of it.
    pub(super) fn show(&self, report: &Report) -> Result<()> {
        for (at, folder) in self.lines.iter().enumerate() {
            let caught_up = self.caught_up.filter(|_| at + 1 == self.lines.len());
            self.show_line(folder, caught_up, report).with_context(|| shown::path(folder))?;
        }
        Ok(())
    }

    fn show_line(&self, folder: &Path, caught_up: Option<i64>, report: &Report) -> Result<()> {
        let line = Line::read(&RealDisk, folder)?;
        let files = line.files()?;
        let mut bytes = 0;
        for file in &files {
            bytes += RealDisk.stat(&folder.join(file))?.len;
        }
        let about = &line.about;
        if report.is_json() {
            return Ok(report.message(&json!({
                "message_type": "log", "name": self.name, "line": line.number, "why": about.why,
                "began": calendar::machine(about.began_s), "server": about.server, "first_file": files.first(),
                "last_file": files.last(), "files": files.len(), "bytes": bytes,
                "caught_up": caught_up.map(calendar::machine),
            }))?);
        }
        let place = format!("{} log, line {}", self.name, line.number);
        let what = match about.why {
            Why::First => "log",
            Why::Fork => "log after a fork",
            Why::Gap => "log after a gap",
        };
        let (first, last) =
            (files.first().map_or("", String::as_str), files.last().map_or("", String::as_str));
        let caught_up = caught_up.map(|when| format!("  caught up {}", calendar::shown(when)));
        report.data(&format!(
            "{place:<24} {}  {what:<16} {:>9}  {first} to {last}{}",
            calendar::shown(about.began_s),
            report::size(bytes),
            caught_up.unwrap_or_default(),
        ))?;
        Ok(())
    }

    /// Why the archive may lack more than what was committed in the last seconds, if it may.
    pub(super) fn too_old(&self, limit: u64, now_s: i64) -> Option<String> {
        let Some(when) = self.caught_up else { return Some("the log was never archived whole".to_owned()) };
        let is_old = u64::try_from(now_s - when).is_ok_and(|age| age > limit);
        is_old.then(|| {
            let when = calendar::shown(when);
            format!("the archive of the log last had everything at {when}: is 'remora binlog' still at work?")
        })
    }
}
