//! Writes segments, and finds out where to resume.

use std::io;
use std::mem::take;

use block::{NUMBER_MAX, Store, WRITER_LOCK};
use disk::{Guard, Share};

use super::segment_set::{Superseded, select};
use super::{CAUGHT_UP, Entry, FIRST, caught_up, first, put_note};
use crate::archive::arrival::{self, Arrival};
use crate::archive::gtid_state::GtidState;
use crate::archive::segment::{self, Chunk, HashText, Numbers, ResumePoint, Segment, SegmentHeader};
use crate::archive::tail::{PositionTracker, Tail};
use crate::archive::timeline::{self, BeginReason, TimelineInfo};
use crate::event::{Event, FLAGS_AT, IN_USE, Kind, MAGIC};
use crate::{Corrupt, Error};

/// Bytes that are sealed together.
const CHUNK_BYTES: usize = 1 << 20;
/// A segment of this size is written without waiting for more.
const SEGMENT_BYTES: usize = 4 << 20;
/// The offset of a file's first event.
const FIRST_EVENT: u64 = MAGIC.len() as u64;

/// The newest timeline.
#[derive(Clone, Debug)]
pub struct NewestTimeline {
    /// Its number.
    pub timeline: u32,
    /// Its description.
    pub info: TimelineInfo,
    /// How far it is; `None` if it has no bytes yet.
    pub tail: Option<Tail>,
    /// Proves that the server has the same bytes.
    pub resume_point: Option<ResumePoint>,
}

/// An archive that is open for writing.
pub struct SegmentWriter {
    pub(super) store: Box<dyn Store>,
    _lock: Box<dyn Guard>,
    /// The segments of the file that is written, in order.
    pub(super) entries: Vec<Entry>,
    /// The chunks of the newest of them, by number.
    pub(super) recent: Vec<(u64, Vec<u8>)>,
    /// Segments that this run has compacted.
    pub(super) compacted: Vec<String>,
    /// Segments that were compacted earlier.
    pub(super) superseded: Vec<Superseded>,
    /// Damage found when the archive was opened.
    damages: Vec<Corrupt>,
    /// The number of the next segment.
    next: u64,
    root: Option<HashText>,
    timeline: u32,
    info: Option<TimelineInfo>,
    at: OpenLogFile,
}

/// The file that is being written.
#[derive(Default)]
struct OpenLogFile {
    file: Option<String>,
    /// Where the bytes begin that were not written yet.
    start: u64,
    pending: Vec<u8>,
    arrived: Vec<Arrival>,
    track: PositionTracker,
    first_event_hash: HashText,
    /// Where the hashed bytes begin.
    from: u64,
    hasher: blake3::Hasher,
}

impl SegmentWriter {
    /// Opens the archive in a store. `None` if another run is writing to it. Damage does not prevent writing:
    /// see [`SegmentWriter::damages`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(store: Box<dyn Store>) -> Result<Option<SegmentWriter>, Error> {
        let Some(lock) = store.lock(WRITER_LOCK, Share::Exclusive)? else { return Ok(None) };
        let mut keeper = SegmentWriter {
            store,
            _lock: lock,
            entries: Vec::new(),
            recent: Vec::new(),
            compacted: Vec::new(),
            superseded: Vec::new(),
            damages: Vec::new(),
            next: 1,
            root: None,
            timeline: 0,
            info: None,
            at: OpenLogFile::default(),
        };
        keeper.reload()?;
        Ok(Some(keeper))
    }

    /// Determines again how far the archive is. This is required after an error, because it is unknown
    /// whether the last segment was written. What is found survives a crash from then on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn reload(&mut self) -> Result<(), Error> {
        // What the server repeats of it is acknowledged without being written again.
        self.store.sync_names()?;
        self.at = OpenLogFile::default();
        self.entries.clear();
        self.recent.clear();
        self.info = None;
        let first = match first(&*self.store) {
            Err(Error::Corrupt(corrupt)) => {
                self.damages.push(corrupt);
                1
            }
            first => first?,
        };
        let set = select(&*self.store, first)?;
        self.compacted.clear();
        self.superseded = set.superseded;
        self.damages.extend(set.unrecognized);
        self.load(&set.current)?;
        let newest = self.entries.last().map_or(0, |newest| newest.header.segment.last);
        // A number that was used is never used again, whatever became of the segment. A number far ahead was
        // not assigned by an archiver, and is ignored.
        let is_used = |number: u64| set.current.binary_search(&(number, number)).is_ok();
        let unused = |number: u64| (number..).find(|number| !is_used(*number)).unwrap_or(number);
        self.next = unused(self.next.max(first).max(newest + 1));
        match caught_up(&*self.store) {
            Ok(Some((_, noted))) if noted >= self.next => {
                let what = format!("the newest segments are missing: segment {noted} existed");
                self.damages.push(Corrupt { what, place: self.store.shown("") });
                self.next = unused(noted + 1);
            }
            Err(Error::Corrupt(corrupt)) => self.damages.push(corrupt),
            noted => drop(noted?),
        }
        Ok(())
    }

    /// Reads the newest segments, back to the beginning of their file.
    fn load(&mut self, current: &[Numbers]) -> Result<(), Error> {
        for numbers in current.iter().rev() {
            let entry = match Entry::read(&*self.store, *numbers) {
                Err(Error::Corrupt(corrupt)) => {
                    self.damages.push(corrupt);
                    continue;
                }
                entry => entry?,
            };
            let (timeline, file) = (entry.header.segment.timeline, entry.header.segment.file.clone());
            let is_same = |newer: &Entry| {
                let newer = &newer.header.segment;
                newer.timeline == timeline && newer.file == file
            };
            if !self.entries.last().is_none_or(is_same) {
                break;
            }
            self.info = self.info.take().or_else(|| entry.header.segment.info.clone());
            self.entries.push(entry);
            if self.info.is_some() {
                break;
            }
        }
        self.entries.reverse();
        if let Some(newest) = self.entries.last() {
            self.root = Some(newest.root.clone());
            self.timeline = newest.header.segment.timeline;
        }
        Ok(())
    }

    /// The damage found when the archive was opened; returned once.
    pub fn damages(&mut self) -> Vec<Corrupt> {
        take(&mut self.damages)
    }

    /// The newest timeline, if there is one.
    #[must_use]
    pub fn newest(&self) -> Option<NewestTimeline> {
        let own = &self.entries.last()?.header.segment;
        // The description is missing only if the first segment of the file is damaged.
        let unknown = || TimelineInfo::new(BeginReason::First, 0, 0, String::new(), own.file.clone());
        let tail = own.resume_point.as_ref().map(|resume_point| Tail {
            file: own.file.clone(),
            end: own.end,
            last: resume_point.last_start,
            state: state(resume_point),
            next: resume_point.next_file.clone(),
            damage: None,
        });
        let info = self.info.clone().unwrap_or_else(unknown);
        Some(NewestTimeline { timeline: own.timeline, info, tail, resume_point: own.resume_point.clone() })
    }

    /// Records that the archive had everything at this time, in seconds since 1970.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn note_caught_up(&self, now_s: i64) -> io::Result<()> {
        put_note(&*self.store, CAUGHT_UP, &[now_s.unsigned_abs(), self.next - 1])
    }

    /// Retains everything that new segments depend on, however old it is, for as long as they are retained: a
    /// segment is useless without the earlier ones of its file, and an archive with a gap is incomplete. This
    /// must be repeated from time to time, as more segments follow.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn retain(&self) -> Result<(), Error> {
        let noted = first(&*self.store).unwrap_or(1);
        if self.store.list()?.iter().any(|name| name == FIRST) {
            self.store.retain(FIRST)?;
        }
        let kept = select(&*self.store, noted)?.current;
        Ok(kept.iter().try_for_each(|numbers| self.store.retain(&segment::name(*numbers)))?)
    }

    /// Begins the next timeline, and returns its number.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn begin_timeline(&mut self, info: TimelineInfo) -> io::Result<u32> {
        self.timeline = timeline::after(self.timeline)?;
        self.at = OpenLogFile { file: Some(info.first.clone()), ..OpenLogFile::default() };
        self.info = Some(info);
        self.entries.clear();
        self.write(false)?;
        self.at = OpenLogFile::default();
        Ok(self.timeline)
    }

    /// The current file, if one was begun.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.at.file.as_deref()
    }

    /// Resumes after the newest segment. The events that its resume point covers must be passed to
    /// [`SegmentWriter::skip_archived`] before others are appended.
    pub fn resume(&mut self) {
        let Some(own) = self.entries.last().map(|entry| &entry.header.segment) else { return };
        let Some(resume_point) = &own.resume_point else { return };
        let mut at = OpenLogFile {
            file: Some(own.file.clone()),
            start: own.end,
            from: resume_point.last_start,
            first_event_hash: resume_point.first_event_hash.clone(),
            ..OpenLogFile::default()
        };
        (at.track.state, at.track.next) = (state(resume_point), resume_point.next_file.clone());
        self.at = at;
    }

    /// Takes an event that is archived already.
    ///
    /// # Errors
    /// [`Corrupt`] if it is not an event.
    pub fn skip_archived(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<(), Corrupt> {
        self.at.take(event, bytes)
    }

    /// Completes the current file, and begins the next one.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn begin(&mut self, file: &str) -> io::Result<()> {
        self.close()?;
        self.entries.clear();
        self.recent.clear();
        self.at =
            OpenLogFile { file: Some(file.to_owned()), pending: MAGIC.to_vec(), ..OpenLogFile::default() };
        Ok(())
    }

    /// Appends an event.
    ///
    /// # Errors
    /// Errors of the store; [`Error::Corrupt`]. Nothing may be appended after an error.
    pub fn append(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<(), Error> {
        self.at.take(event, bytes)?;
        let start = self.at.pending.len();
        self.at.pending.extend_from_slice(bytes);
        if event.at == FIRST_EVENT {
            in_use(self.at.pending.get_mut(start..).unwrap_or_default());
        }
        if self.at.pending.len() >= SEGMENT_BYTES { Ok(self.sync()?) } else { Ok(()) }
    }

    /// Records that everything appended so far had arrived at this time, in seconds since 1970 by the
    /// server's clock. `all`: the server had nothing more. The record becomes durable with the next segment.
    pub fn note_arrival(&mut self, time_s: i64, all: bool) {
        let end = self.at.start + self.at.pending.len() as u64;
        arrival::add(&mut self.at.arrived, Arrival { end, time_s, all });
    }

    /// Makes everything that was appended durable.
    ///
    /// # Errors
    /// Errors of the store; `AlreadyExists` if another run has written the next segment. Nothing may be
    /// appended after an error.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.at.has_events() || self.at.pending.is_empty() {
            return Ok(());
        }
        self.write(false)?;
        self.compact(false)
    }

    /// Completes the current file.
    fn close(&mut self) -> io::Result<()> {
        let is_whole = self.entries.last().is_some_and(|entry| entry.header.segment.whole);
        if self.at.file.is_none() || is_whole || !self.at.has_events() {
            return Ok(());
        }
        self.write(true)?;
        self.compact(true)
    }

    /// Writes the pending bytes as a segment.
    fn write(&mut self, whole: bool) -> io::Result<()> {
        if self.next > NUMBER_MAX {
            let text = format!("{}: segment numbers are exhausted", self.store.shown(""));
            return Err(io::Error::other(text));
        }
        let pending = take(&mut self.at.pending);
        let end = self.at.start + pending.len() as u64;
        let (chunks, stored) = self.seal(&pending)?;
        // Without a further event it stays as it was.
        let before = self.entries.last().and_then(|entry| entry.header.segment.resume_point.clone());
        let segment = Segment {
            first: self.next,
            last: self.next,
            level: 0,
            before: self.root.clone(),
            root: None,
            timeline: self.timeline,
            info: self.info.clone().filter(|_| self.at.start == 0),
            file: self.at.file.clone().unwrap_or_default(),
            start: self.at.start,
            end,
            whole,
            resume_point: if pending.is_empty() { before } else { Some(self.at.resume_point()) },
            arrived: take(&mut self.at.arrived),
        };
        let header = SegmentHeader { segment, chunks };
        let (mut bytes, root) = header.encode()?;
        let at = bytes.len() as u64;
        bytes.extend_from_slice(&stored);
        self.store.put(&segment::name((self.next, self.next)), &bytes)?;
        self.root = Some(root.clone());
        self.recent.push((self.next, stored));
        self.entries.push(Entry { header, root, at, bytes: bytes.len() as u64 });
        self.at.start = end;
        self.next += 1;
        Ok(())
    }

    /// Splits bytes of the log into chunks, sealed if the store is encrypted.
    fn seal(&self, bytes: &[u8]) -> io::Result<(Vec<Chunk>, Vec<u8>)> {
        let (mut chunks, mut stored) = (Vec::new(), Vec::new());
        for plain in bytes.chunks(CHUNK_BYTES) {
            let start = stored.len();
            stored.extend_from_slice(plain);
            if let Some(sealer) = self.store.sealer() {
                sealer.seal(&mut stored, start).map_err(io::Error::other)?;
            }
            let sealed = stored.get(start..).unwrap_or_default();
            let lengths = [plain.len(), sealed.len()].map(|len| u32::try_from(len).unwrap_or(0));
            let hash = *blake3::hash(sealed).as_bytes();
            chunks.push(Chunk { len: lengths[0], stored: lengths[1], hash });
        }
        Ok((chunks, stored))
    }
}

/// MariaDB's last transactions in a resume point.
fn state(resume_point: &ResumePoint) -> Option<GtidState> {
    let all = resume_point.gtid_state.as_ref()?.iter();
    Some(all.map(|(domain, server, number)| ((*domain, *server), *number)).collect())
}

/// Sets the in-use flag in a file's first event: segments always have it set.
fn in_use(event: &mut [u8]) {
    if let Some(flags) = event.get_mut(FLAGS_AT) {
        *flags |= IN_USE.to_le_bytes()[0];
    }
}

impl OpenLogFile {
    /// A file without events does not count yet.
    fn has_events(&self) -> bool {
        self.start > 0 || self.pending.len() > MAGIC.len()
    }

    fn take(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<(), Corrupt> {
        self.track.take(event)?;
        let is_first = event.at == FIRST_EVENT;
        if is_first || self.track.newest() == Some(event.at) {
            self.from = event.at;
            self.hasher = blake3::Hasher::new();
        }
        if is_first && event.header.kind == Kind::FORMAT_DESCRIPTION {
            self.first_event_hash = hash(bytes, event.at, &mut self.hasher);
        } else {
            self.hasher.update(bytes);
        }
        Ok(())
    }

    fn resume_point(&self) -> ResumePoint {
        let all = |state: &GtidState| {
            state.iter().map(|((domain, server), number)| (*domain, *server, *number)).collect()
        };
        ResumePoint {
            last_start: self.from.max(FIRST_EVENT),
            first_event_hash: self.first_event_hash.clone(),
            tail_hash: self.hasher.finalize().to_hex().to_string(),
            gtid_state: self.track.state.as_ref().map(all),
            next_file: self.track.next.clone(),
        }
    }
}

/// Hashes an event, and returns its own hash. The in-use flag of its file is ignored.
fn hash(bytes: &[u8], at: u64, hasher: &mut blake3::Hasher) -> HashText {
    let mut event = bytes.to_vec();
    if at == FIRST_EVENT {
        in_use(&mut event);
    }
    hasher.update(&event);
    blake3::hash(&event).to_hex().to_string()
}

/// Compares what a server sends with a resume point, without the archived bytes.
pub struct HashComparer {
    resume_point: ResumePoint,
    end: u64,
    hasher: blake3::Hasher,
}

impl HashComparer {
    /// For the resume point of a segment that ends at this offset.
    #[must_use]
    pub fn new(resume_point: ResumePoint, end: u64) -> HashComparer {
        HashComparer { resume_point, end, hasher: blake3::Hasher::new() }
    }

    /// Where what is archived ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether this can be the first event of the file.
    #[must_use]
    pub fn matches_first_event(&self, event: &[u8]) -> bool {
        hash(event, FIRST_EVENT, &mut blake3::Hasher::new()) == self.resume_point.first_event_hash
    }

    /// Takes the server's events in order. Returns whether this one can be the archived one; that is certain
    /// once the event that ends where the archive ends was taken.
    pub fn matches(&mut self, event: &[u8], at: u64) -> bool {
        if at < self.resume_point.last_start {
            return at != FIRST_EVENT || self.matches_first_event(event);
        }
        hash(event, at, &mut self.hasher);
        let end = at + event.len() as u64;
        end < self.end
            || (end == self.end && self.hasher.finalize().to_hex().as_str() == self.resume_point.tail_hash)
    }
}
