//! The rows of one segment.

mod entry;

use std::sync::Arc;

use self::entry::{Entry, lower_bound, position};
use super::attributes::AttributeColumns;
use super::{NewRow, RowKeys, RowState};
use crate::Error;
use crate::format::batch::IndexLocation;
use crate::format::record::RowId;
use crate::format::segment_index::{DueTime, IndexedRow, InsertTime, SegmentIndex};
use crate::store::file::{ByteRange, SegmentFile};

/// Rows inserted within this many milliseconds share one time.
const SAME_TIME_MS: u64 = 1000;

/// Lists shorter than this keep their dead rows.
const TRIM_MIN: usize = 256;

/// A segment is sparse when its live rows need less than 1/`SPARSE` of its bytes...
const SPARSE: u64 = 4;

/// ...not counting these, for headers and an index without rows.
const ALLOWED: u64 = 1024;

/// The most bytes around a row in a rewritten segment: record, index.
const ROW_OVERHEAD: u64 = 24;

#[derive(Debug)]
enum List {
    Loaded(Vec<Entry>),
    /// Still in the file; only the ids in these runs, `(first, count)`, are not gone. All of them are kept,
    /// or none.
    Unread(Vec<(u64, u64)>),
}

/// How many rows there are of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Rows that are not gone.
    pub(crate) live: u64,
    pub(crate) owned: u64,
    pub(crate) scheduled: u64,
    /// Those of them that were ended and are kept.
    pub(crate) kept: u64,
}

/// The rows of one segment.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Arc<SegmentFile>,
    base: u64,
    /// One more than the last known id.
    end: u64,
    list: List,
    counts: Counts,
    live_bytes: u64,
    kept_bytes: u64,
    times: Vec<InsertTime>,
    /// Rows that said that they are due later, until the segment is sealed.
    dues: Vec<DueTime>,
    attributes: AttributeColumns,
    stored: Option<IndexLocation>,
}

impl Segment {
    /// The active segment, before its first row.
    pub(crate) fn active(file: Arc<SegmentFile>, base: RowId) -> Segment {
        Segment { base: base.0, end: base.0, ..Segment::empty(file, List::Loaded(Vec::new())) }
    }

    /// A sealed segment of which only the entry in the checkpoint was read.
    pub(crate) fn unread(
        file: Arc<SegmentFile>,
        stored: IndexLocation,
        runs: Vec<(u64, u64)>,
        live: u64,
        live_bytes: u64,
    ) -> Segment {
        let base = runs.first().map_or(0, |(first, _)| *first);
        let end = runs.last().map_or(base, |(first, count)| first + count);
        let list = List::Unread(runs);
        let counts = Counts { live, ..Counts::default() };
        Segment { base, end, counts, live_bytes, stored: Some(stored), ..Segment::empty(file, list) }
    }

    fn empty(file: Arc<SegmentFile>, list: List) -> Segment {
        let (times, dues, attributes) = (Vec::new(), Vec::new(), AttributeColumns::default());
        Segment {
            file,
            base: 0,
            end: 0,
            list,
            counts: Counts::default(),
            live_bytes: 0,
            kept_bytes: 0,
            times,
            dues,
            attributes,
            stored: None,
        }
    }

    /// Notes when the oldest row was inserted; for a segment that was not read.
    pub(crate) fn with_oldest(mut self, time_ms: u64) -> Segment {
        self.times = vec![InsertTime { id: RowId(self.base), time_ms }];
        self
    }

    pub(crate) fn is(&self, file: &Arc<SegmentFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    pub(crate) fn file(&self) -> &Arc<SegmentFile> {
        &self.file
    }

    /// The segment's key in the index: no row of it has a lower id.
    pub(crate) fn base(&self) -> RowId {
        RowId(self.base)
    }

    pub(crate) fn end(&self) -> RowId {
        RowId(self.end)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn live(&self) -> u64 {
        self.counts.live
    }

    pub(crate) fn owned(&self) -> u64 {
        self.counts.owned
    }

    pub(crate) fn scheduled(&self) -> u64 {
        self.counts.scheduled
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.counts.live - self.counts.owned - self.counts.scheduled - self.counts.kept
    }

    /// Rows that were ended and are kept; they count as live.
    pub(crate) fn kept(&self) -> u64 {
        self.counts.kept
    }

    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Notes that all rows are kept, in a segment that was not read.
    pub(crate) fn with_all_kept(self) -> Segment {
        let counts = Counts { kept: self.counts.live, ..self.counts };
        Segment { counts, kept_bytes: self.live_bytes, ..self }
    }

    /// Forgets the list of a sealed segment of which all rows are kept: it is rarely needed again.
    pub(crate) fn unload(&mut self) {
        if self.is_sealed() && self.counts.kept == self.counts.live && matches!(self.list, List::Loaded(_)) {
            self.list = List::Unread(self.runs());
            self.attributes = AttributeColumns::default();
        }
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) fn stored(&self) -> Option<IndexLocation> {
        self.stored
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.stored.is_some()
    }

    pub(crate) fn is_sparse(&self) -> bool {
        self.stored.is_some_and(|stored| self.needed() * SPARSE + ALLOWED < stored.file_len)
    }

    /// Whether its file has more bytes than its rows need.
    pub(crate) fn has_dead(&self) -> bool {
        self.stored.is_some_and(|stored| self.needed() + ALLOWED < stored.file_len)
    }

    /// Bytes that the rows would need in a file of their own, without its fixed parts.
    fn needed(&self) -> u64 {
        self.live_bytes + self.counts.live * ROW_OVERHEAD
    }

    /// When a row was inserted, exact to the second.
    pub(crate) fn time_ms(&self, id: RowId) -> u64 {
        let after = self.times.partition_point(|since| since.id <= id);
        self.times.get(after.saturating_sub(1)).map_or(0, |since| since.time_ms)
    }

    pub(crate) fn seal(&mut self, stored: IndexLocation) {
        self.stored = Some(stored);
        self.dues = Vec::new();
        self.attributes.shrink();
        if let List::Loaded(entries) = &mut self.list {
            entries.shrink_to_fit();
        }
    }

    pub(crate) fn memory(&self) -> usize {
        let list = match &self.list {
            List::Loaded(entries) => entries.capacity() * size_of::<Entry>(),
            List::Unread(runs) => runs.capacity() * size_of::<(u64, u64)>(),
        };
        let times =
            self.times.capacity() * size_of::<InsertTime>() + self.dues.capacity() * size_of::<DueTime>();
        size_of::<Segment>() + list + times + self.attributes.memory()
    }

    /// Adds a row at the end.
    pub(crate) fn push(&mut self, row: &NewRow) {
        let List::Loaded(entries) = &mut self.list else { return };
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        entries.push(Entry {
            delta: small(row.id.0 - self.base),
            offset: small(row.offset),
            len: small(row.len as u64),
        });
        self.end = row.id.0 + 1;
        self.counts.live += 1;
        self.live_bytes += row.len as u64;
        let late = |since: &InsertTime| row.time_ms >= since.time_ms.saturating_add(SAME_TIME_MS);
        if self.times.last().is_none_or(late) {
            self.times.push(InsertTime { id: row.id, time_ms: row.time_ms });
        }
        self.attributes.push(row, self.file.id().features);
        if row.attributes.due_ms > 0 {
            self.dues.push(DueTime { id: row.id, due_ms: row.attributes.due_ms });
        }
    }

    fn entries(&mut self) -> Result<&mut Vec<Entry>, Error> {
        if matches!(self.list, List::Unread(_)) {
            self.load()?;
        }
        match &mut self.list {
            List::Loaded(entries) => Ok(entries),
            List::Unread(_) => Err(self.file.corrupt("no index", 0)),
        }
    }

    /// Reads the list unless it was read. Returns which of its rows were due later when it was written.
    pub(crate) fn load(&mut self) -> Result<Vec<DueTime>, Error> {
        let mut due = Vec::new();
        if let List::Unread(runs) = &self.list {
            let stored = self.stored.unwrap_or(IndexLocation { offset: 0, len: 0, file_len: 0 });
            let listing = self.file.read_index(&stored)?;
            let (mut entries, attributes) = pick(&listing, runs, self.base);
            let bytes: u64 = entries.iter().map(|entry| entry.bytes()).sum();
            if entries.len() as u64 != self.counts.live || bytes != self.live_bytes {
                return Err(self.file.corrupt("an index that does not fit the checkpoint", stored.offset));
            }
            if self.counts.kept > 0 {
                entries.iter_mut().for_each(|entry| entry.set_state(RowState::Kept));
            }
            (self.times, self.attributes) = (listing.times, attributes);
            self.list = List::Loaded(entries);
            due = listing.dues;
        }
        Ok(due)
    }

    pub(crate) fn row_state(&mut self, id: RowId) -> Result<RowState, Error> {
        if id.0 >= self.end {
            return Ok(RowState::Gone);
        }
        let base = self.base;
        let entries = self.entries()?;
        Ok(position(entries, base, id).map_or(RowState::Gone, |at| entries[at].state()))
    }

    /// Where a row is; `None` when it is gone.
    pub(crate) fn byte_range(&mut self, id: RowId) -> Result<Option<(&Arc<SegmentFile>, ByteRange)>, Error> {
        if id.0 >= self.end {
            return Ok(None);
        }
        let base = self.base;
        let entries = self.entries()?;
        let entry = position(entries, base, id).map(|at| entries[at]);
        let there = entry.filter(|entry| entry.state() != RowState::Gone);
        let len = |entry: Entry| usize::try_from(entry.bytes()).unwrap_or(usize::MAX);
        let range = there.map(|entry| ByteRange { offset: u64::from(entry.offset), len: len(entry) });
        Ok(range.map(|range| (&self.file, range)))
    }

    /// Changes a row from one state to another; false when it was not in the first.
    pub(crate) fn change(&mut self, id: RowId, from: RowState, to: RowState) -> Result<bool, Error> {
        Ok(self.set(id, to, |row_state| row_state == from)?.is_some())
    }

    /// Removes a row. Returns what it did before; `None` when it was gone.
    pub(crate) fn remove(&mut self, id: RowId) -> Result<Option<RowState>, Error> {
        let removed = self.set(id, RowState::Gone, |_| true)?;
        self.trim();
        Ok(removed)
    }

    /// Makes those of these rows owned that wait.
    pub(crate) fn take_all(&mut self, rows: &[RowId]) -> Result<(), Error> {
        rows.iter().try_for_each(|id| self.change(*id, RowState::Waiting, RowState::Owned).map(drop))
    }

    /// Removes rows.
    pub(crate) fn remove_all(&mut self, rows: &[RowId]) -> Result<(), Error> {
        rows.iter().try_for_each(|id| self.set(*id, RowState::Gone, |_| true).map(drop))?;
        self.trim();
        Ok(())
    }

    /// Sets what a row does, if `may` allows that after what it did before, which is returned.
    fn set(
        &mut self,
        id: RowId,
        to: RowState,
        may: impl Fn(RowState) -> bool,
    ) -> Result<Option<RowState>, Error> {
        if id.0 >= self.end {
            return Ok(None);
        }
        let base = self.base;
        let entries = self.entries()?;
        let Some(at) = position(entries, base, id) else { return Ok(None) };
        let entry = &mut entries[at];
        let from = entry.state();
        if from == RowState::Gone || !may(from) {
            return Ok(None);
        }
        entry.set_state(to);
        let bytes = entry.bytes();
        self.counts.owned += u64::from(to == RowState::Owned);
        self.counts.owned -= u64::from(from == RowState::Owned);
        self.counts.scheduled += u64::from(to == RowState::Scheduled);
        self.counts.scheduled -= u64::from(from == RowState::Scheduled);
        if to == RowState::Kept {
            (self.counts.kept, self.kept_bytes) = (self.counts.kept + 1, self.kept_bytes + bytes);
        } else if from == RowState::Kept {
            (self.counts.kept, self.kept_bytes) = (self.counts.kept - 1, self.kept_bytes - bytes);
        }
        if to == RowState::Gone {
            self.counts.live -= 1;
            self.live_bytes -= bytes;
        }
        Ok(Some(from))
    }

    /// Forgets dead rows when they are more than half.
    fn trim(&mut self) {
        let live = usize::try_from(self.counts.live).unwrap_or(usize::MAX);
        if let List::Loaded(entries) = &mut self.list
            && entries.len() >= TRIM_MIN
            && entries.len() / 2 > live
        {
            self.attributes.retain(entries.iter().map(|entry| entry.state() != RowState::Gone));
            entries.retain(|entry| entry.state() != RowState::Gone);
            entries.shrink_to(live + live / 2);
        }
    }

    /// The rows from `from` on that do what is wanted.
    pub(crate) fn rows_from(
        &mut self,
        from: RowId,
        wanted: impl Fn(RowState) -> bool,
    ) -> Result<impl Iterator<Item = RowId>, Error> {
        let base = self.base;
        // The ids of a segment are never so far apart that this is inexact.
        let skip = u32::try_from(from.0.saturating_sub(base)).unwrap_or(u32::MAX);
        let entries = self.entries()?;
        let start = lower_bound(entries, skip);
        let found = entries[start..].iter().filter(move |entry| wanted(entry.state()));
        Ok(found.map(move |entry| RowId(base + u64::from(entry.delta))))
    }

    /// Where a row that is not gone stands.
    pub(crate) fn row_keys(&mut self, id: RowId) -> Result<RowKeys, Error> {
        let base = self.base;
        let at = position(self.entries()?, base, id);
        Ok(self.attributes.row_keys(id, at.unwrap_or(usize::MAX)))
    }

    /// Where its rows stand that wait.
    pub(crate) fn waiting_rows(&mut self) -> Result<Vec<RowKeys>, Error> {
        let base = self.base;
        self.load()?;
        let List::Loaded(entries) = &self.list else { return Ok(Vec::new()) };
        let waiting = entries.iter().enumerate().filter(|(_, entry)| entry.state() == RowState::Waiting);
        let id = |entry: &Entry| RowId(base + u64::from(entry.delta));
        Ok(waiting.map(|(at, entry)| self.attributes.row_keys(id(entry), at)).collect())
    }

    /// The rows that are not gone, with their states.
    pub(crate) fn rows(&mut self) -> Result<Vec<(IndexedRow, RowState)>, Error> {
        self.entries()?;
        let List::Loaded(entries) = &self.list else { return Ok(Vec::new()) };
        let live = entries.iter().filter(|entry| entry.state() != RowState::Gone);
        Ok(live.map(|entry| (self.indexed(entry), entry.state())).collect())
    }

    /// The rows that are not gone, as far as the list was read; in the active segment these are all.
    pub(crate) fn listed(&self) -> Vec<IndexedRow> {
        let List::Loaded(entries) = &self.list else { return Vec::new() };
        let live = entries.iter().filter(|entry| entry.state() != RowState::Gone);
        live.map(|entry| self.indexed(entry)).collect()
    }

    /// The index of a segment whose list was read. Rows that are due at this time are not listed as due
    /// later.
    pub(crate) fn listing(&self, now_ms: u64) -> SegmentIndex {
        let rows = self.listed();
        let there = |due: &&DueTime| rows.binary_search_by_key(&due.id, |row| row.id).is_ok();
        let dues = self.dues.iter().filter(|due| due.due_ms > now_ms).filter(there).copied().collect();
        let attributes = match &self.list {
            List::Loaded(entries) => {
                self.attributes.listing(entries.iter().map(|entry| entry.state() != RowState::Gone))
            }
            List::Unread(_) => SegmentIndex::default(),
        };
        SegmentIndex { dues, times: self.times.clone(), rows, ..attributes }
    }

    fn indexed(&self, entry: &Entry) -> IndexedRow {
        let id = RowId(self.base + u64::from(entry.delta));
        IndexedRow { id, offset: u64::from(entry.offset), len: entry.bytes() }
    }

    /// The ids that are not gone, as runs `(first, count)`; some of these ids may never have existed in the
    /// segment.
    pub(crate) fn runs(&self) -> Vec<(u64, u64)> {
        match &self.list {
            List::Unread(runs) => runs.clone(),
            List::Loaded(entries) => {
                let mut runs: Vec<(u64, u64)> = Vec::new();
                for entry in entries.iter().filter(|entry| entry.state() != RowState::Gone) {
                    let id = self.base + u64::from(entry.delta);
                    match runs.last_mut() {
                        Some((first, count)) if *first + *count == id => *count += 1,
                        _ => runs.push((id, 1)),
                    }
                }
                runs
            }
        }
    }

    pub(crate) fn oldest_ms(&self) -> u64 {
        let first = match &self.list {
            List::Loaded(entries) => {
                let live = entries.iter().find(|entry| entry.state().is_live());
                live.map_or(self.base, |entry| self.base + u64::from(entry.delta))
            }
            List::Unread(runs) => runs.first().map_or(self.base, |(first, _)| *first),
        };
        self.time_ms(RowId(first))
    }
}

/// The rows of an index whose ids are in the runs, and what it has beside them.
fn pick(listing: &SegmentIndex, runs: &[(u64, u64)], base: u64) -> (Vec<Entry>, AttributeColumns) {
    let (mut picked, mut attributes) = (Vec::with_capacity(listing.rows.len()), AttributeColumns::default());
    let mut runs = runs.iter().peekable();
    for (nth, row) in listing.rows.iter().enumerate() {
        while runs.next_if(|(first, count)| first + count <= row.id.0).is_some() {}
        let Some((first, _)) = runs.peek() else { break };
        let delta = row.id.0.checked_sub(base).and_then(|delta| u32::try_from(delta).ok());
        let fields = delta.zip(u32::try_from(row.offset).ok()).zip(u32::try_from(row.len).ok());
        if let Some(((delta, offset), len)) = fields.filter(|_| *first <= row.id.0) {
            picked.push(Entry { delta, offset, len });
            attributes.push_listed(listing, nth);
        }
    }
    (picked, attributes)
}

#[cfg(test)]
mod tests;
