//! What is known of the archive of a binary log without reading it.

use std::path::Path;

use anyhow::{Context, Result};
use binlog::archive::segments::{LogFile, SegmentArchive, TimelineFiles};
use binlog::archive::{self, Timeline, TimelineInfo};
use disk::{Disk, RealDisk};

use crate::Named;
use crate::log_archive::{self, Archive};

/// The archive of a name.
pub struct LogSummary {
    /// The name.
    pub name: String,
    /// Its timelines, in order.
    pub timelines: Vec<TimelineSummary>,
    /// Whether the store was asked until when it is retained.
    pub is_retained: bool,
    /// When it last had everything, in seconds since 1970; `None` if it never had.
    pub caught_up: Option<i64>,
    /// What is damaged or missing, as far as it is seen without reading all of it.
    pub damages: Vec<String>,
}

/// What is known of a timeline.
pub struct TimelineSummary {
    /// Its number.
    pub number: u32,
    /// Why it began, when, and of which server.
    pub info: TimelineInfo,
    /// The name of its first file.
    pub first: Option<String>,
    /// The name of its last file.
    pub last: Option<String>,
    /// How many files it has.
    pub files: usize,
    /// How many bytes of the log.
    pub bytes: u64,
    /// Until when nobody can remove any of it, in seconds since 1970. None if nothing keeps some of it, and
    /// if that was not asked.
    pub until_s: Option<i64>,
}

impl TimelineSummary {
    fn of_files(folder: &Path) -> Result<TimelineSummary> {
        let timeline = Timeline::read(&RealDisk, folder)?;
        let files = timeline.files()?;
        let mut bytes = 0;
        for file in &files {
            bytes += RealDisk.stat(&folder.join(file))?.len;
        }
        let (first, last) = (files.first().cloned(), files.last().cloned());
        let (number, info) = (timeline.number, timeline.info);
        Ok(TimelineSummary { number, info, first, last, files: files.len(), bytes, until_s: None })
    }

    fn of_segments(
        segments: &SegmentArchive,
        timeline: &TimelineFiles,
        is_retained: bool,
    ) -> Result<TimelineSummary> {
        let name = |file: Option<&LogFile>| file.map(|file| file.name.clone());
        let until_s = if is_retained { segments.retained(timeline)? } else { None };
        Ok(TimelineSummary {
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

impl LogSummary {
    /// That of a name, if it has one. `is_retained`: the store is asked until when nobody can remove it.
    pub fn find(named: &Named, is_retained: bool) -> Result<Option<LogSummary>> {
        let name = named.name.clone();
        match log_archive::find(&named.home, named.key.as_ref())? {
            None => Ok(None),
            Some(Archive::Files(folder)) => {
                let timelines =
                    archive::timelines(&RealDisk, &folder).with_context(|| folder.display().to_string())?;
                let timelines: Result<Vec<TimelineSummary>> = timelines
                    .iter()
                    .map(|timeline| {
                        TimelineSummary::of_files(timeline).with_context(|| timeline.display().to_string())
                    })
                    .collect();
                let caught_up =
                    archive::caught_up(&RealDisk, &folder).with_context(|| folder.display().to_string())?;
                Ok(Some(LogSummary {
                    name,
                    timelines: timelines?,
                    is_retained,
                    caught_up,
                    damages: Vec::new(),
                }))
            }
            Some(Archive::Segments(segments)) => {
                let timelines = segments.timelines().iter();
                let timelines: Result<_> = timelines
                    .map(|timeline| TimelineSummary::of_segments(&segments, timeline, is_retained))
                    .collect();
                Ok(Some(LogSummary {
                    name,
                    timelines: timelines?,
                    is_retained,
                    caught_up: segments.caught_up(),
                    damages: segments.damages().iter().map(ToString::to_string).collect(),
                }))
            }
        }
    }
}
