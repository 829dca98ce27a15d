//! The in-memory index: a list for each segment, with 12 bytes per waiting row.
//!
//! The list of a sealed segment is read from its file when a row of it is needed, so the time to open a queue
//! does not depend on how many rows wait in it. A list keeps dead rows until they are more than half of it.

pub(crate) mod arrival_times;
mod attributes;
mod bulk;
pub(crate) mod dedupe_window;
mod delivery_order;
mod key_rate;
mod message_groups;
mod retention;
pub(crate) mod scheduled;
mod segment;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::batch::IndexLocation;
use crate::format::record::RowId;
use crate::format::segment_index::{DueTime, IndexedRow, SegmentIndex};
use crate::row_attributes::RowAttributes;
use crate::store::file::{ByteRange, RowLocation, SegmentFile};
use crate::{Definition, Error};
use message_groups::MessageGroups;
use retention::RetainedRows;
pub(crate) use segment::Segment;

/// How many rows that wait before the head are remembered; with more, it goes back to the first of them.
const EARLY_MAX: usize = 4096;

/// The delivery order: priority, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    /// 0 in a queue without priorities.
    pub(crate) priority: i64,
    pub(crate) id: RowId,
}

impl OrderKey {
    /// No row comes before it.
    pub(crate) const FIRST: OrderKey = OrderKey { priority: i64::MIN, id: RowId(0) };

    /// No row comes after it.
    pub(crate) const LAST: OrderKey = OrderKey { priority: i64::MAX, id: RowId(u64::MAX) };

    /// The next place.
    pub(crate) fn after(self) -> OrderKey {
        OrderKey { id: RowId(self.id.0 + 1), ..self }
    }
}

/// What orders, groups and deduplicates a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKeys {
    pub(crate) order_key: OrderKey,
    /// Its message group; 0 for none.
    pub(crate) group: u64,
    /// Its deduplication key; 0 for none.
    pub(crate) key: u128,
}

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// It waits to be taken.
    Waiting,
    /// Somebody owns it.
    Owned,
    /// Scheduled: not delivered before it is due.
    Scheduled,
    /// Acknowledged and kept.
    Kept,
    /// It is gone, or never existed.
    Gone,
}

impl RowState {
    /// Whether it was not ended.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, RowState::Waiting | RowState::Owned | RowState::Scheduled)
    }
}

/// A row that is not in a segment yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow {
    pub(crate) id: RowId,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) time_ms: u64,
    pub(crate) attributes: RowAttributes,
}

/// All rows of a queue that are not gone.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Segments with rows that are not gone, by the id of their first row; the active one once it has rows.
    segments: BTreeMap<u64, Segment>,
    /// All rows before this one are owned, due later or gone, but for those in `early`.
    head: u64,
    /// Rows before the head that wait.
    early: BTreeSet<u64>,
    /// Rows that were not ended.
    live: u64,
    owned: u64,
    scheduled: u64,
    /// Rows that were ended and are kept.
    kept: u64,
    pub(crate) retained: RetainedRows,
    /// The rows that may be given, in a queue with priorities or keys.
    deliverable: Option<BTreeSet<OrderKey>>,
    /// The rows with keys, in a queue that has them.
    groups: Option<MessageGroups>,
    /// The rows that may be given since [`Index::take_ready`] was last called, in a queue with keys.
    ready: BTreeSet<OrderKey>,
    /// The rows with keys that wait or are due later, in a queue that leaves doubles of these out.
    waits: Option<BTreeSet<(u128, RowId)>>,
    /// Files without rows.
    emptied: Vec<Arc<SegmentFile>>,
    /// Whether a sealed segment became sparse since [`Index::take_sparse`] was last called.
    sparse: bool,
}

impl Index {
    /// An index without rows.
    pub(crate) fn new(definition: &Definition) -> Index {
        let order = definition.order;
        let groups = MessageGroups::of(definition);
        let deliverable = order.priority.or(order.group()).map(|_| BTreeSet::new());
        let waits = definition.dedupe.filter(|dedupe| dedupe.for_ms == 0).map(|_| BTreeSet::new());
        let retained = RetainedRows::new(definition.keep_ms);
        Index { deliverable, groups, waits, retained, ..Index::default() }
    }

    /// An index without rows that limits keys as this one does, which is given up.
    pub(crate) fn start_over(&mut self, definition: &Definition) -> Index {
        let mut new = Index::new(definition);
        if let (Some(groups), Some(old)) = (&mut new.groups, &mut self.groups) {
            groups.adopt_limits(old);
        }
        new
    }

    /// Whether rows are given in another order than that of their ids.
    pub(crate) fn has_priorities(&self) -> bool {
        self.deliverable.is_some()
    }

    /// The first place from `from` on at which a row waits.
    pub(crate) fn next_in_order(&mut self, from: OrderKey) -> Result<Option<OrderKey>, Error> {
        match &self.deliverable {
            Some(deliverable) => Ok(deliverable.range(from..).next().copied()),
            None => Ok(self.next_waiting(from.id)?.map(|id| OrderKey { priority: 0, id })),
        }
    }

    /// Rows that wait or are owned.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Rows that are owned.
    pub(crate) fn owned(&self) -> u64 {
        self.owned
    }

    /// Rows that are due later, and nobody owns.
    pub(crate) fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// Rows that were ended and are kept.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Bytes of memory that the lists take.
    pub(crate) fn memory(&self) -> usize {
        self.segments.values().map(Segment::memory).sum::<usize>()
            + self.early.len() * size_of::<u64>()
            + self.retained.memory()
            // Nodes of the set are half full.
            + self.deliverable.iter().map(|deliverable| deliverable.len() * 2 * size_of::<OrderKey>()).sum::<usize>()
            + self.groups.as_ref().map_or(0, MessageGroups::memory)
            + self.waits.iter().map(|waits| waits.len() * 2 * size_of::<(u128, RowId)>()).sum::<usize>()
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.values()
    }

    /// Adds a row that was written.
    pub(crate) fn push(&mut self, file: &Arc<SegmentFile>, row: &NewRow) -> Result<(), Error> {
        let base = self.segments.last_key_value().filter(|(_, last)| last.is(file)).map(|(base, _)| *base);
        let base = base.unwrap_or(row.id.0);
        let segment = self.segments.entry(base).or_insert_with(|| Segment::active(file.clone(), row.id));
        segment.push(row);
        self.live += 1;
        let order_key = OrderKey { priority: row.attributes.priority, id: row.id };
        self.update_order(
            RowKeys { order_key, group: row.attributes.group, key: row.attributes.key },
            RowState::Waiting,
        )
    }

    /// Adds a sealed segment.
    pub(crate) fn insert(&mut self, segment: Segment) {
        self.live += segment.live() - segment.kept();
        self.owned += segment.owned();
        self.scheduled += segment.scheduled();
        self.kept += segment.kept();
        self.head = self.head.min(segment.base().0);
        if segment.live() == 0 {
            self.emptied.push(segment.file().clone());
        } else {
            self.segments.insert(segment.base().0, segment);
        }
    }

    /// Removes a segment; the index then regards its rows as gone.
    pub(crate) fn remove_segment(&mut self, base: RowId) -> Option<Segment> {
        let segment = self.segments.remove(&base.0)?;
        self.live -= segment.live() - segment.kept();
        self.owned -= segment.owned();
        self.scheduled -= segment.scheduled();
        self.kept -= segment.kept();
        Some(segment)
    }

    pub(crate) fn segment_mut(&mut self, base: RowId) -> Option<&mut Segment> {
        self.segments.get_mut(&base.0)
    }

    /// The segment of this file, if it has rows.
    pub(crate) fn segment_of(&self, file: &Arc<SegmentFile>) -> Option<&Segment> {
        self.segments.values().next_back().filter(|last| last.is(file))
    }

    /// Marks the rows of the active segment as gone that its index does not list: they were ended before the
    /// index was written, and the record of that is lost. For replaying.
    pub(crate) fn keep_listed(
        &mut self,
        file: &Arc<SegmentFile>,
        listed: &[IndexedRow],
    ) -> Result<(), Error> {
        let there = self.segment_of(file).map(Segment::listed).unwrap_or_default();
        for row in there {
            if listed.binary_search_by_key(&row.id, |listed| listed.id).is_err() {
                self.remove(row.id)?;
            }
        }
        Ok(())
    }

    /// Closes the active segment: no more rows are added to it.
    pub(crate) fn seal(&mut self, file: &Arc<SegmentFile>, stored: IndexLocation) {
        let Some((base, last)) = self.segments.iter_mut().next_back().filter(|(_, last)| last.is(file))
        else {
            self.emptied.push(file.clone());
            return;
        };
        last.seal(stored);
        last.unload();
        let base = *base;
        if last.live() == 0 {
            self.segments.remove(&base);
            self.emptied.push(file.clone());
        } else {
            self.sparse |= last.is_sparse();
        }
    }

    /// Takes the list of files without rows; each file is returned once.
    pub(crate) fn take_emptied(&mut self) -> Vec<Arc<SegmentFile>> {
        std::mem::take(&mut self.emptied)
    }

    /// Adds files that could not be removed, or that were emptied elsewhere.
    pub(crate) fn add_emptied(&mut self, files: Vec<Arc<SegmentFile>>) {
        self.emptied.extend(files);
    }

    /// How many files have no rows.
    pub(crate) fn emptied(&self) -> usize {
        self.emptied.len()
    }

    /// Whether a segment became sparse since the last call.
    pub(crate) fn take_sparse(&mut self) -> bool {
        std::mem::take(&mut self.sparse)
    }

    /// Reads the lists of segments, by their first rows. Returns which of their rows were due later when the
    /// lists were written.
    pub(crate) fn load(&mut self, bases: &[RowId]) -> Result<Vec<DueTime>, Error> {
        let mut dues = Vec::new();
        for base in bases {
            dues.extend(self.segments.get_mut(&base.0).map_or(Ok(Vec::new()), Segment::load)?);
        }
        Ok(dues)
    }

    fn segment_with(&mut self, id: RowId) -> Option<&mut Segment> {
        self.segments.range_mut(..=id.0).next_back().map(|(_, segment)| segment)
    }

    /// The state of a row.
    pub(crate) fn row_state(&mut self, id: RowId) -> Result<RowState, Error> {
        self.segment_with(id).map_or(Ok(RowState::Gone), |segment| segment.row_state(id))
    }

    /// In which file a row is, and where in it; `None` when it is gone.
    pub(crate) fn byte_range(&mut self, id: RowId) -> Result<Option<(&Arc<SegmentFile>, ByteRange)>, Error> {
        self.segment_with(id).map_or(Ok(None), |segment| segment.byte_range(id))
    }

    /// Where a row is; `None` when it is gone.
    pub(crate) fn locate(&mut self, id: RowId) -> Result<Option<RowLocation>, Error> {
        Ok(self.byte_range(id)?.map(|(file, range)| RowLocation::new(file, range)))
    }

    /// Makes a waiting row owned; false when it is not waiting.
    pub(crate) fn take(&mut self, id: RowId) -> Result<bool, Error> {
        self.change(id, RowState::Waiting, RowState::Owned)
    }

    /// Gives a waiting row to nobody until it is due; false when it is not waiting.
    pub(crate) fn postpone(&mut self, id: RowId) -> Result<bool, Error> {
        self.change(id, RowState::Waiting, RowState::Scheduled)
    }

    /// Has a row wait that was due later; false when it was not.
    pub(crate) fn make_due(&mut self, id: RowId) -> Result<bool, Error> {
        self.change(id, RowState::Scheduled, RowState::Waiting)
    }

    /// Gives an owned row back; false when it is not owned.
    pub(crate) fn restore(&mut self, id: RowId) -> Result<bool, Error> {
        self.change(id, RowState::Owned, RowState::Waiting)
    }

    /// Changes a row from one state to another; false when it was not in the first.
    fn change(&mut self, id: RowId, from: RowState, to: RowState) -> Result<bool, Error> {
        let keys = self.row_keys(id)?;
        let changed = match self.segment_with(id) {
            Some(segment) => segment.change(id, from, to)?,
            None => false,
        };
        if changed {
            if to == RowState::Kept {
                (self.live, self.kept) = (self.live - 1, self.kept + 1);
                self.segment_with(id).into_iter().for_each(Segment::unload);
            } else if from == RowState::Kept {
                (self.live, self.kept) = (self.live + 1, self.kept - 1);
            }
            self.moved(keys, from, to)?;
        }
        Ok(changed)
    }

    /// Counts a row that is in another state, and notes whether it waits.
    fn moved(&mut self, row: RowKeys, from: RowState, to: RowState) -> Result<(), Error> {
        self.owned += u64::from(to == RowState::Owned);
        self.owned -= u64::from(from == RowState::Owned);
        self.scheduled += u64::from(to == RowState::Scheduled);
        self.scheduled -= u64::from(from == RowState::Scheduled);
        let id = row.order_key.id.0;
        if to == RowState::Waiting && id < self.head {
            self.early.insert(id);
            if self.early.len() > EARLY_MAX {
                self.head = self.early.pop_first().unwrap_or(id);
                self.early.clear();
            }
        } else if from == RowState::Waiting {
            self.stop_waiting(id);
        }
        if self.is_ordered() { self.update_order(row, to) } else { Ok(()) }
    }

    /// Notes that a row does not wait any more, if it did.
    fn stop_waiting(&mut self, id: u64) {
        if !self.early.is_empty() {
            self.early.remove(&id);
        }
        if self.head == id {
            self.head += 1;
        }
    }

    /// Marks a row as gone; false when it was gone already.
    pub(crate) fn remove(&mut self, id: RowId) -> Result<bool, Error> {
        let keys = self.row_keys(id)?;
        let Some(segment) = self.segment_with(id) else { return Ok(false) };
        let Some(row_state) = segment.remove(id)? else { return Ok(false) };
        let (base, empty) = (segment.base(), segment.is_sealed() && segment.live() == 0);
        let sparse = segment.is_sparse();
        let counted = if row_state == RowState::Kept { &mut self.kept } else { &mut self.live };
        *counted -= 1;
        if empty {
            self.segments.remove(&base.0).into_iter().for_each(|gone| self.emptied.push(gone.file().clone()));
        }
        self.sparse |= sparse && !empty;
        self.moved(keys, row_state, RowState::Gone)?;
        Ok(true)
    }

    /// Marks those of `count` rows from `first` on as gone that exist. For replaying.
    pub(crate) fn remove_run(&mut self, first: RowId, count: u64) -> Result<(), Error> {
        self.rows_in((first.0, count), false)?.into_iter().try_for_each(|id| self.remove(id).map(drop))
    }

    /// Makes those of `count` rows from `first` on owned that wait. For replaying.
    pub(crate) fn take_run(&mut self, first: RowId, count: u64) -> Result<Vec<RowId>, Error> {
        let waiting = self.rows_in((first.0, count), true)?;
        waiting.iter().try_for_each(|id| self.take(*id).map(drop))?;
        Ok(waiting)
    }

    fn rows_in(&mut self, (first, count): (u64, u64), waiting: bool) -> Result<Vec<RowId>, Error> {
        let (mut rows, mut from) = (Vec::new(), RowId(first));
        let next =
            |index: &mut Index, from| if waiting { index.next_in_wait(from) } else { index.next_live(from) };
        while let Some(id) = next(self, from)?.filter(|id| id.0 < first.saturating_add(count)) {
            rows.push(id);
            from = RowId(id.0 + 1);
        }
        Ok(rows)
    }

    /// The first waiting row from `from` on.
    pub(crate) fn next_waiting(&mut self, from: RowId) -> Result<Option<RowId>, Error> {
        let early = self.early.range(from.0..).next().copied().filter(|id| *id < self.head);
        if let Some(early) = early {
            return Ok(Some(RowId(early)));
        }
        let from_head = from.0 <= self.head;
        let found = self.next_in_wait(RowId(from.0.max(self.head)))?;
        if from_head {
            let past = || self.segments.last_key_value().map_or(self.head, |(_, last)| last.end().0);
            self.head = found.map_or_else(past, |id| id.0);
        }
        Ok(found)
    }

    /// The first row from `from` on that was not ended.
    pub(crate) fn next_live(&mut self, from: RowId) -> Result<Option<RowId>, Error> {
        self.next_in(from, |segment| segment.live() > segment.kept(), RowState::is_live)
    }

    fn next_in_wait(&mut self, from: RowId) -> Result<Option<RowId>, Error> {
        self.next_in(from, |segment| segment.waiting() > 0, |row_state| row_state == RowState::Waiting)
    }

    /// The first row from `from` on that does what is wanted; only segments that have such rows are read.
    fn next_in(
        &mut self,
        from: RowId,
        has: impl Fn(&Segment) -> bool,
        wanted: impl Fn(RowState) -> bool,
    ) -> Result<Option<RowId>, Error> {
        let start = self.segments.range(..=from.0).next_back().map_or(from.0, |(base, _)| *base);
        for (_, segment) in self.segments.range_mut(start..) {
            if !has(segment) || segment.end() <= from {
                continue;
            }
            let next = segment.rows_from(from, &wanted)?.next();
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// When the oldest row that was not ended was inserted: milliseconds since 1970, exact to the second.
    pub(crate) fn oldest_ms(&mut self) -> Option<u64> {
        self.segments.values().find(|segment| segment.live() > segment.kept()).map(Segment::oldest_ms)
    }

    /// When a row was inserted that is not gone: milliseconds since 1970, exact to the second.
    pub(crate) fn inserted_ms(&mut self, id: RowId) -> Option<u64> {
        self.segment_with(id).map(|segment| segment.time_ms(id))
    }

    /// The index of the active segment.
    pub(crate) fn listing_of(&self, file: &Arc<SegmentFile>, now_ms: u64) -> SegmentIndex {
        self.segment_of(file).map(|segment| segment.listing(now_ms)).unwrap_or_default()
    }
}
