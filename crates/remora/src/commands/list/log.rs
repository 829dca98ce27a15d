//! What `remora list` says of an archived binary log.

use std::path::Path;

use anyhow::{Context, Result};
use binlog::archive::segments::{LogFile, SegmentArchive, TimelineFiles};
use binlog::archive::{self, BeginReason, Timeline, TimelineInfo};
use disk::{Disk, RealDisk};
use humanize::{date_time, text};
use progress::Progress;
use repository::Named;
use repository::log_archive::{self, Archive};
use serde_json::json;

use super::shown_until;
use crate::report::{self, Report};

/// The archive of a name.
pub(crate) struct Log {
    name: String,
    timelines: Vec<Shown>,
    /// Whether the store was asked until when it is retained.
    is_retained: bool,
    caught_up: Option<i64>,
    damages: Vec<String>,
}

/// What is shown of a timeline.
struct Shown {
    number: u32,
    info: TimelineInfo,
    first: Option<String>,
    last: Option<String>,
    files: usize,
    bytes: u64,
    /// Until when nobody can remove any of it. None if nothing keeps some of it, and if that was not asked.
    until_s: Option<i64>,
}

impl Shown {
    fn of_files(folder: &Path) -> Result<Shown> {
        let timeline = Timeline::read(&RealDisk, folder)?;
        let files = timeline.files()?;
        let mut bytes = 0;
        for file in &files {
            bytes += RealDisk.stat(&folder.join(file))?.len;
        }
        let (first, last) = (files.first().cloned(), files.last().cloned());
        let (number, info) = (timeline.number, timeline.info);
        Ok(Shown { number, info, first, last, files: files.len(), bytes, until_s: None })
    }

    fn of_segments(segments: &SegmentArchive, timeline: &TimelineFiles, is_retained: bool) -> Result<Shown> {
        let name = |file: Option<&LogFile>| file.map(|file| file.name.clone());
        let until_s = if is_retained { segments.retained(timeline)? } else { None };
        Ok(Shown {
            number: timeline.number,
            info: timeline.info.clone(),
            first: name(timeline.files.first()),
            last: name(timeline.files.last()),
            files: timeline.files.len(),
            bytes: timeline.files.iter().map(|file| file.end).sum(),
            until_s,
        })
    }
}

impl Log {
    /// That of a name, if it has one. `is_retained`: the store is asked until when nobody can remove it.
    pub(crate) fn find(named: &Named, is_retained: bool) -> Result<Option<Log>> {
        let name = named.name.clone();
        match log_archive::find(&named.home, named.key.as_ref())? {
            None => Ok(None),
            Some(Archive::Files(folder)) => {
                let timelines =
                    archive::timelines(&RealDisk, &folder).with_context(|| text::path(&folder))?;
                let timelines: Result<Vec<Shown>> = timelines
                    .iter()
                    .map(|timeline| Shown::of_files(timeline).with_context(|| text::path(timeline)))
                    .collect();
                let caught_up =
                    archive::caught_up(&RealDisk, &folder).with_context(|| text::path(&folder))?;
                Ok(Some(Log { name, timelines: timelines?, is_retained, caught_up, damages: Vec::new() }))
            }
            Some(Archive::Segments(segments)) => {
                let timelines = segments.timelines().iter();
                let timelines: Result<_> =
                    timelines.map(|timeline| Shown::of_segments(&segments, timeline, is_retained)).collect();
                Ok(Some(Log {
                    name,
                    timelines: timelines?,
                    is_retained,
                    caught_up: segments.caught_up(),
                    damages: segments.damages().iter().map(ToString::to_string).collect(),
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

    /// What is damaged or missing, as far as it is seen without reading all of it.
    pub(crate) fn damages(&self) -> &[String] {
        &self.damages
    }

    /// When it last had everything; `None` if it never had.
    pub(crate) fn caught_up(&self) -> Option<i64> {
        self.caught_up
    }

    /// One line of output for each timeline.
    pub(super) fn show(&self, report: &Report) -> Result<()> {
        for (at, timeline) in self.timelines.iter().enumerate() {
            let caught_up = self.caught_up.filter(|_| at + 1 == self.timelines.len());
            self.show_timeline(timeline, caught_up, report)?;
        }
        Ok(())
    }

    fn show_timeline(&self, timeline: &Shown, caught_up: Option<i64>, report: &Report) -> Result<()> {
        let info = &timeline.info;
        if report.is_json() {
            let mut shown = json!({
                "message_type": "log", "name": self.name, "timeline": timeline.number, "reason": info.reason,
                "began": date_time::machine(info.began_s), "server": info.server, "first_file": timeline.first,
                "last_file": timeline.last, "files": timeline.files, "bytes": timeline.bytes,
                "caught_up": caught_up.map(date_time::machine),
            });
            if self.is_retained {
                shown["retained_until"] = json!(timeline.until_s.map(date_time::machine));
            }
            return Ok(report.message(&shown)?);
        }
        let place = format!("{} log, timeline {}", self.name, timeline.number);
        let what = match info.reason {
            BeginReason::First => "log",
            BeginReason::Fork => "log after a fork",
            BeginReason::Gap => "log after a gap",
        };
        let [first, last] = [&timeline.first, &timeline.last].map(|file| file.as_deref().unwrap_or_default());
        let caught_up = caught_up.map(|when| format!("  caught up {}", date_time::shown(when)));
        let until = if self.is_retained { shown_until(timeline.until_s) } else { String::new() };
        report.data(&format!(
            "{place:<24} {}  {what:<16} {:>9}  {first} to {last}{}{until}",
            date_time::shown(info.began_s),
            report::size(timeline.bytes),
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
            format!("the archive of the log last had everything at {when}: is 'remora binlog' still running?")
        })
    }
}
