//! All segments of an archive, and which file of which timeline they are.

use std::io;
use std::ops::Range;

use block::{READER_LOCK, Store};
use disk::{Guard, Share};

use super::segment_set::{SegmentSet, select};
use super::{Entry, caught_up, first, is_foreign};
use crate::archive::segment::Numbers;
use crate::archive::timeline::{BeginReason, TimelineInfo};
use crate::{Corrupt, Error};

/// The segments of an archive, as they are now. As long as this is there, none is removed.
pub struct SegmentArchive {
    pub(super) store: Box<dyn Store>,
    _held: Option<Box<dyn Guard>>,
    /// In order.
    pub(super) entries: Vec<Entry>,
    /// Before the first that is kept: what a prune has left that was killed.
    pub(super) expired: Vec<Numbers>,
    damages: Vec<Corrupt>,
    /// Between which of them something is missing: the place of the one behind it.
    breaks: Vec<usize>,
    timelines: Vec<TimelineFiles>,
    caught_up: Option<i64>,
}

/// A timeline.
#[derive(Clone, Debug)]
pub struct TimelineFiles {
    /// Its number.
    pub number: u32,
    /// What is known of it.
    pub info: TimelineInfo,
    /// Its files, in order.
    pub files: Vec<LogFile>,
}

/// A file of the server.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// The end of the bytes that are there.
    pub end: u64,
    /// Bytes of its segments.
    pub stored: u64,
    /// Whether the archive has all of it.
    pub whole: bool,
    /// What is missing behind its end, if something is.
    pub missing: Option<String>,
    /// Its segments.
    pub(super) entries: Range<usize>,
}

impl SegmentArchive {
    /// Reads what there is. `None` if files are being removed in this moment.
    ///
    /// # Errors
    /// [`Error::Io`]. What is damaged is told by [`SegmentArchive::damages`].
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
        // What is noted is there already when the segments are listed.
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
            segments.tell(format!("its newest segments are gone: there was one with the number {newest}"));
            segments.breaks.push(segments.entries.len());
        }
        segments.sort();
        Ok(Some(segments))
    }

    /// A note; none if it is damaged, which is told.
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

    /// Reads the headers of all segments. What is missing between two of them is no damage if they follow one
    /// another: whoever went on behind it had seen that it was gone. Returns the number of the last one,
    /// damaged or not.
    fn load(&mut self, current: &[Numbers], begin: Option<u64>) -> Result<Option<u64>, Error> {
        let mut next = begin;
        let mut newest = None;
        // What was found since the last segment that could be read.
        let mut doubts: Vec<Corrupt> = Vec::new();
        for (first, last) in current {
            let read = Entry::read(&*self.store, (*first, *last));
            // Anybody may have put it there, so it says nothing of what is missing.
            if let Err(Error::Corrupt(corrupt)) = &read
                && is_foreign(&*self.store, (*first, *last))
            {
                self.damages.push(corrupt.clone());
                continue;
            }
            newest = Some(*last);
            if let Some(next) = next.filter(|next| next < first) {
                let what = match first - next {
                    1 => format!("the segment {next} is missing"),
                    _ => format!("the segments {next} to {} are missing", first - 1),
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
                let what = "it does not follow the segment before it, which is another one than it names";
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

    /// Finds timelines and files.
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
                file.missing = Some(format!("what is behind {} is not what was archived", file.end));
                continue;
            }
            if segment.start != file.end {
                file.missing = Some(format!("what is from {} to {} is not there", file.end, segment.start));
                continue;
            }
            (file.end, file.whole, file.entries.end) = (segment.end, segment.whole, at + 1);
        }
        for timeline in &mut self.timelines {
            // A timeline may have begun without one.
            timeline.files.retain(|file| file.end > 0 || file.missing.is_some());
            let count = timeline.files.len();
            for (number, file) in timeline.files.iter_mut().enumerate() {
                // Another file may be missing as a whole.
                let is_cut = self.breaks.contains(&file.entries.end) || (!file.whole && number + 1 < count);
                if is_cut && file.missing.is_none() {
                    file.missing = Some(format!("what is behind {} is not there", file.end));
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

    /// When it last had everything, in seconds since 1970; none if it never had.
    #[must_use]
    pub fn caught_up(&self) -> Option<i64> {
        self.caught_up
    }

    /// Until when nobody can remove any segment of a timeline, in seconds since 1970. `None`: nothing keeps
    /// some of them.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn retained(&self, timeline: &TimelineFiles) -> io::Result<Option<i64>> {
        let own = self.entries.iter().filter(|entry| entry.header.segment.timeline == timeline.number);
        own.map(|entry| self.store.retained_until(&entry.name()))
            .try_fold(Some(i64::MAX), |earliest, until_s| Ok(earliest.min(until_s?)))
    }

    /// In messages.
    #[must_use]
    pub fn shown(&self) -> String {
        self.store.shown("").trim_end_matches('/').to_owned()
    }

    /// Whether what the log says can be read, and not only proven as it is stored.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.store.reads_blocks()
    }

    /// The store, which others may remove files from again.
    pub(super) fn into_store(self) -> Box<dyn Store> {
        self.store
    }
}
