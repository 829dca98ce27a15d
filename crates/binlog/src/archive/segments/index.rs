//! All segments of an archive, and their files and timelines.

use std::io;
use std::ops::Range;

use block::{READER_LOCK, Store};
use disk::{Guard, Share};

use super::segment_set::{SegmentSet, select};
use super::{Entry, caught_up, first, is_foreign};
use crate::archive::segment::Numbers;
use crate::archive::timeline::{BeginReason, TimelineInfo};
use crate::{Corrupt, Error};

/// The segments of an archive, as they are now. While this exists, none is removed.
pub struct SegmentArchive {
    pub(super) store: Box<dyn Store>,
    _held: Option<Box<dyn Guard>>,
    /// In order.
    pub(super) entries: Vec<Entry>,
    /// Segments before the first one that is kept, which an interrupted prune has left.
    pub(super) expired: Vec<Numbers>,
    damages: Vec<Corrupt>,
    /// Indexes of the segments before which something is missing.
    breaks: Vec<usize>,
    timelines: Vec<TimelineFiles>,
    caught_up: Option<i64>,
}

/// A timeline and its files.
#[derive(Clone, Debug)]
pub struct TimelineFiles {
    /// Its number.
    pub number: u32,
    /// Its description.
    pub info: TimelineInfo,
    /// Its files, in order.
    pub files: Vec<LogFile>,
}

/// A file of the server.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// How many bytes are available.
    pub end: u64,
    /// Bytes of its segments.
    pub stored: u64,
    /// Whether the archive has all of it.
    pub whole: bool,
    /// What is missing after its end, if anything.
    pub missing: Option<String>,
    /// Its segments.
    pub(super) entries: Range<usize>,
}

impl SegmentArchive {
    /// Reads the archive. `None` if files are being removed at the moment.
    ///
    /// # Errors
    /// [`Error::Io`]. Damage is reported by [`SegmentArchive::damages`].
    pub fn open(store: Box<dyn Store>) -> Result<Option<SegmentArchive>, Error> {
        let held = match store.lock(READER_LOCK, Share::Shared) {
            Ok(None) => return Ok(None),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
            {
                None
            }
            held => held?,
        };
        let mut segments = SegmentArchive {
            store,
            _held: held,
            entries: Vec::new(),
            expired: Vec::new(),
            damages: Vec::new(),
            breaks: Vec::new(),
            timelines: Vec::new(),
            caught_up: None,
        };
        // The segments that a note counts on are there when they are listed, because the note is read first.
        let noted = segments.note(caught_up)?.flatten();
        let begin = segments.note(first)?;
        segments.caught_up = noted.map(|(when, _)| when);
        let SegmentSet { current, expired, unrecognized, .. } = select(&*segments.store, begin.unwrap_or(1))?;
        segments.expired = expired;
        segments.damages.extend(unrecognized);
        let last = segments.load(&current, begin)?;
        if let Some((_, newest)) = noted
            && last.is_none_or(|last| last < newest)
        {
            segments.tell(format!("the newest segments are missing: segment {newest} existed"));
            segments.breaks.push(segments.entries.len());
        }
        segments.sort();
        Ok(Some(segments))
    }

    /// A note; `None` if it is damaged, which is recorded.
    fn note<T>(&mut self, read: fn(&dyn Store) -> Result<T, Error>) -> Result<Option<T>, Error> {
        match read(&*self.store) {
            Err(Error::Corrupt(corrupt)) => {
                self.damages.push(corrupt);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn tell(&mut self, what: String) {
        self.damages.push(Corrupt { what, place: self.store.shown("") });
    }

    /// Reads the headers of all segments. A gap between two segments is no damage if the second one follows
    /// the first: its writer knew that the others were lost. Returns the number of the last segment, damaged
    /// or not.
    fn load(&mut self, current: &[Numbers], begin: Option<u64>) -> Result<Option<u64>, Error> {
        let mut next = begin;
        let mut newest = None;
        // Damage found since the last segment that could be read.
        let mut doubts: Vec<Corrupt> = Vec::new();
        for (first, last) in current {
            let read = Entry::read(&*self.store, (*first, *last));
            // Anybody may have put it there, so it tells nothing about what is missing.
            if let Err(Error::Corrupt(corrupt)) = &read
                && is_foreign(&*self.store, (*first, *last))
            {
                self.damages.push(corrupt.clone());
                continue;
            }
            newest = Some(*last);
            if let Some(next) = next.filter(|next| next < first) {
                let what = match first - next {
                    1 => format!("segment {next} is missing"),
                    _ => format!("segments {next} to {} are missing", first - 1),
                };
                doubts.push(Corrupt { what, place: self.store.shown("") });
            }
            next = Some(last + 1);
            let entry = match read {
                Err(Error::Corrupt(corrupt)) => {
                    doubts.push(corrupt);
                    continue;
                }
                entry => entry?,
            };
            let own = &entry.header.segment;
            let before = self.entries.last();
            let is_named = before.is_none_or(|before| own.before.as_ref() == Some(&before.root));
            let is_new_timeline = before.is_some_and(|before| before.header.segment.timeline != own.timeline);
            if !is_named && doubts.is_empty() {
                let what = "it does not follow the previous segment: it names the root of another one";
                doubts.push(Corrupt { what: what.to_owned(), place: self.store.shown(&entry.name()) });
            }
            let is_first = before.is_none() && begin.is_some_and(|begin| begin != *first);
            if !is_named || is_first {
                self.damages.append(&mut doubts);
                if !is_new_timeline {
                    self.breaks.push(self.entries.len());
                }
            }
            doubts.clear();
            self.entries.push(entry);
        }
        if !doubts.is_empty() {
            self.damages.append(&mut doubts);
            self.breaks.push(self.entries.len());
        }
        Ok(newest)
    }

    /// Groups segments by timeline and file.
    fn sort(&mut self) {
        for (at, entry) in self.entries.iter().enumerate() {
            let segment = &entry.header.segment;
            if self.timelines.last().is_none_or(|timeline| timeline.number != segment.timeline) {
                let unknown =
                    || TimelineInfo::new(BeginReason::First, 0, 0, String::new(), segment.file.clone());
                let info = segment.info.clone().unwrap_or_else(unknown);
                self.timelines.push(TimelineFiles { number: segment.timeline, info, files: Vec::new() });
            }
            let Some(timeline) = self.timelines.last_mut() else { continue };
            if timeline.files.last().is_none_or(|file| file.name != segment.file) {
                timeline.files.push(LogFile {
                    name: segment.file.clone(),
                    end: 0,
                    stored: 0,
                    whole: false,
                    missing: None,
                    entries: at..at,
                });
            }
            let Some(file) = timeline.files.last_mut() else { continue };
            file.stored += entry.bytes;
            if file.missing.is_some() {
                continue;
            }
            if file.end > 0 && self.breaks.contains(&at) {
                file.missing = Some(format!("the bytes after {} are not those that were archived", file.end));
                continue;
            }
            if segment.start != file.end {
                file.missing = Some(format!("bytes {} to {} are missing", file.end, segment.start));
                continue;
            }
            (file.end, file.whole, file.entries.end) = (segment.end, segment.whole, at + 1);
        }
        for timeline in &mut self.timelines {
            // A timeline may have begun without a file.
            timeline.files.retain(|file| file.end > 0 || file.missing.is_some());
            let count = timeline.files.len();
            for (number, file) in timeline.files.iter_mut().enumerate() {
                // A whole file may be missing.
                let is_cut = self.breaks.contains(&file.entries.end) || (!file.whole && number + 1 < count);
                if is_cut && file.missing.is_none() {
                    file.missing = Some(format!("the bytes after {} are missing", file.end));
                }
            }
        }
    }

    /// What is damaged or missing.
    #[must_use]
    pub fn damages(&self) -> &[Corrupt] {
        &self.damages
    }

    /// Its timelines, in order.
    #[must_use]
    pub fn timelines(&self) -> &[TimelineFiles] {
        &self.timelines
    }

    /// When the archive last had everything, in seconds since 1970; `None` if it never had.
    #[must_use]
    pub fn caught_up(&self) -> Option<i64> {
        self.caught_up
    }

    /// Until when the store retains all segments of a timeline, in seconds since 1970. `None`: some are not
    /// retained.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn retained(&self, timeline: &TimelineFiles) -> io::Result<Option<i64>> {
        let own = self.entries.iter().filter(|entry| entry.header.segment.timeline == timeline.number);
        own.map(|entry| self.store.retained_until(&entry.name()))
            .try_fold(Some(i64::MAX), |earliest, until_s| Ok(earliest.min(until_s?)))
    }

    /// The archive's name in messages.
    #[must_use]
    pub fn shown(&self) -> String {
        self.store.shown("").trim_end_matches('/').to_owned()
    }

    /// Whether the log can be read, and not only checked as it is stored.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.store.reads_blocks()
    }

    /// The store, from which others may remove files again.
    pub(super) fn into_store(self) -> Box<dyn Store> {
        self.store
    }
}
