//! What `remora list` says of an archived binary log.

use std::path::Path;

use anyhow::{Context, Result};
use binlog::archive::pieces::{LineFiles, LogFile, Pieces};
use binlog::archive::{self, About, Line, Why};
use disk::{Disk, RealDisk};
use humanize::{date_time, text};
use progress::Progress;
use repository::Named;
use repository::log_archive::{self, Archive};
use serde_json::json;

use super::shown_until;
use crate::report::{self, Report};

/// The archive of a name.
pub(super) struct Log {
    name: String,
    lines: Vec<Shown>,
    /// Whether it was asked until when it is retained.
    is_retained: bool,
    caught_up: Option<i64>,
    damages: Vec<String>,
}

/// What is shown of a line.
struct Shown {
    number: u32,
    about: About,
    first: Option<String>,
    last: Option<String>,
    files: usize,
    bytes: u64,
    /// Until when nobody can remove any of it. None if nothing keeps some of it, and if that was not asked.
    until_s: Option<i64>,
}

impl Shown {
    fn of_files(folder: &Path) -> Result<Shown> {
        let line = Line::read(&RealDisk, folder)?;
        let files = line.files()?;
        let mut bytes = 0;
        for file in &files {
            bytes += RealDisk.stat(&folder.join(file))?.len;
        }
        let (first, last) = (files.first().cloned(), files.last().cloned());
        let (number, about) = (line.number, line.about);
        Ok(Shown { number, about, first, last, files: files.len(), bytes, until_s: None })
    }

    fn of_pieces(pieces: &Pieces, line: &LineFiles, is_retained: bool) -> Result<Shown> {
        let name = |file: Option<&LogFile>| file.map(|file| file.name.clone());
        let until_s = if is_retained { pieces.retained(line)? } else { None };
        Ok(Shown {
            number: line.number,
            about: line.about.clone(),
            first: name(line.files.first()),
            last: name(line.files.last()),
            files: line.files.len(),
            bytes: line.files.iter().map(|file| file.end).sum(),
            until_s,
        })
    }
}

impl Log {
    /// That of a name, if it has one. `is_retained`: the store is asked until when nobody can remove it.
    pub(super) fn find(named: &Named, is_retained: bool) -> Result<Option<Log>> {
        let name = named.name.clone();
        match log_archive::find(&named.home, named.key.as_ref())? {
            None => Ok(None),
            Some(Archive::Files(folder)) => {
                let lines = archive::lines(&RealDisk, &folder).with_context(|| text::path(&folder))?;
                let lines: Result<Vec<Shown>> = lines
                    .iter()
                    .map(|line| Shown::of_files(line).with_context(|| text::path(line)))
                    .collect();
                let caught_up =
                    archive::caught_up(&RealDisk, &folder).with_context(|| text::path(&folder))?;
                Ok(Some(Log { name, lines: lines?, is_retained, caught_up, damages: Vec::new() }))
            }
            Some(Archive::Pieces(pieces)) => {
                let lines = pieces.lines().iter();
                let lines: Result<_> =
                    lines.map(|line| Shown::of_pieces(&pieces, line, is_retained)).collect();
                Ok(Some(Log {
                    name,
                    lines: lines?,
                    is_retained,
                    caught_up: pieces.caught_up(),
                    damages: pieces.damages().iter().map(ToString::to_string).collect(),
                }))
            }
        }
    }

    /// Says what is damaged or missing, as far as it is seen without reading all of it. Returns whether
    /// something is.
    pub(super) fn warn_of_damage(&self, report: &Report) -> bool {
        self.damages.iter().for_each(|damage| report.warn(&format!("{}: {damage}", self.name)));
        !self.damages.is_empty()
    }

    /// When it last had everything; `None` if it never had.
    pub(super) fn caught_up(&self) -> Option<i64> {
        self.caught_up
    }

    /// A line for each line of it.
    pub(super) fn show(&self, report: &Report) -> Result<()> {
        for (at, line) in self.lines.iter().enumerate() {
            let caught_up = self.caught_up.filter(|_| at + 1 == self.lines.len());
            self.show_line(line, caught_up, report)?;
        }
        Ok(())
    }

    fn show_line(&self, line: &Shown, caught_up: Option<i64>, report: &Report) -> Result<()> {
        let about = &line.about;
        if report.is_json() {
            let mut shown = json!({
                "message_type": "log", "name": self.name, "line": line.number, "why": about.why,
                "began": date_time::machine(about.began_s), "server": about.server, "first_file": line.first,
                "last_file": line.last, "files": line.files, "bytes": line.bytes,
                "caught_up": caught_up.map(date_time::machine),
            });
            if self.is_retained {
                shown["retained_until"] = json!(line.until_s.map(date_time::machine));
            }
            return Ok(report.message(&shown)?);
        }
        let place = format!("{} log, line {}", self.name, line.number);
        let what = match about.why {
            Why::First => "log",
            Why::Fork => "log after a fork",
            Why::Gap => "log after a gap",
        };
        let [first, last] = [&line.first, &line.last].map(|file| file.as_deref().unwrap_or_default());
        let caught_up = caught_up.map(|when| format!("  caught up {}", date_time::shown(when)));
        let until = if self.is_retained { shown_until(line.until_s) } else { String::new() };
        report.data(&format!(
            "{place:<24} {}  {what:<16} {:>9}  {first} to {last}{}{until}",
            date_time::shown(about.began_s),
            report::size(line.bytes),
            caught_up.unwrap_or_default(),
        ))?;
        Ok(())
    }

    /// Why the archive may lack more than what was committed in the last seconds, if it may.
    pub(super) fn too_old(&self, limit: u64, now_s: i64) -> Option<String> {
        let Some(when) = self.caught_up else { return Some("the log was never archived whole".to_owned()) };
        let is_old = u64::try_from(now_s - when).is_ok_and(|age| age > limit);
        is_old.then(|| {
            let when = date_time::shown(when);
            format!("the archive of the log last had everything at {when}: is 'remora binlog' still at work?")
        })
    }
}
