//! The group commit: everything that is written to a queue goes through it.
//!
//! There is no writer thread. A caller that finds no write in progress becomes the leader and writes;
//! callers that arrive meanwhile join the next batch, and the first of them leads it. One sync covers a
//! whole batch, and only its contributors wake.

use std::sync::Arc;

use crate::format::batch::{BATCH_HEADER, Header, IndexLocation, Kind};
use crate::format::record::RowId;
use crate::index::{NewRow, OrderKey};
use crate::queue::batch::{BatchBuilder, BatchResult, EndKind};
use crate::queue::delivery::Candidate;
use crate::queue::owner::Ownership;
use crate::queue::state::State;
use crate::queue::waiter::Notification;
use crate::queue::{PUBLISH_BYTES_MAX, Queue};
use crate::row_attributes::AttributeReader;
use crate::store::file::SegmentFile;
use crate::store::log::Log;
use crate::sync::{MutexGuard, pass};
use crate::{Error, Sync};

/// When the next batch has this many bytes, further callers wait for the one after it.
const GATHER_BYTES_MAX: usize = 1 << 26;

/// The most bytes of a segment before its last batch, whatever the options say.
const SEGMENT_BYTES_MAX: u64 = 1 << 31;

// The index has 29 bits for a row's length, which is less than what the row takes in a batch, and 32 for its
// offset.
const _: () = assert!(PUBLISH_BYTES_MAX <= 1 << 29);
const _: () =
    assert!(SEGMENT_BYTES_MAX + (2 * PUBLISH_BYTES_MAX + GATHER_BYTES_MAX) as u64 <= u32::MAX as u64);

/// What the next write does besides writing the batch.
struct SegmentRoll {
    index: Vec<u8>,
    header: Header,
    next: RowId,
    /// The feature flags of the next segment.
    features: u64,
}

impl Queue {
    /// Locks the state once the next batch has room.
    pub(crate) fn lock_with_room(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.shared.close_surplus_files();
        let mut state = self.lock();
        loop {
            state.usable()?;
            if state.next_batch.bytes.len() <= GATHER_BYTES_MAX {
                self.touch(&mut state);
                return Ok(state);
            }
            // Those who took part in the batch are told its result.
            self.commit(state).ok();
            state = self.lock();
        }
    }

    /// Waits until the batch is written, or writes it.
    pub(crate) fn commit(&self, mut state: MutexGuard<'_, State>) -> Result<(), Error> {
        let result = state.next_batch.result.clone();
        if state.has_leader {
            state.followers += 1;
            drop(state);
            return result.wait();
        }
        state.has_leader = true;
        // Before the lock is taken again, so that a panic lets go of the lock first.
        let watch = PanicGuard { queue: self, result: &result };
        let mut state = self.acquire_write_lock(state);
        if self.definition().sync == Sync::Always && state.last_batch_was_shared {
            // Callers whom the last batch has just released may be about to come back: one sync for them too.
            drop(state);
            pass();
            state = self.lock();
        }
        state.has_leader = false;
        state.last_batch_was_shared = std::mem::take(&mut state.followers) > 0;
        let mut batch = std::mem::take(&mut state.next_batch);
        let written = match state.usable() {
            Ok(()) if !batch.bytes.is_empty() => {
                let roll = roll(&state, self, &batch);
                let mut log = state.log.take();
                let mut sealed = None;
                // A write without a sync takes less time than admitting others and waking them.
                let written = if self.is_synced(&batch) || roll.is_some() {
                    drop(state);
                    let written = self.write(&mut log, &mut batch, roll, &mut sealed);
                    state = self.lock();
                    written
                } else {
                    self.write(&mut log, &mut batch, roll, &mut sealed)
                };
                state.log = log;
                // Even when what was to follow it could not be written.
                sealed.into_iter().for_each(|sealed| self.seal(&mut state, sealed));
                written
            }
            other => other.map(|()| BatchPosition { offset: 0, file: None, time_ms: 0 }),
        };
        let outcome = match written {
            Ok(written) => {
                self.apply(&mut state, &batch, written).inspect_err(|error| fail(&mut state, error))
            }
            Err(error) => {
                // Nothing of the batch was written; the next one may succeed.
                fail_if_lost(&mut state, &error);
                state.abandon_batch(&batch);
                if !state.next_batch.bytes.is_empty() {
                    self.schedule_flush(&mut state);
                }
                Err(error)
            }
        };
        self.release_write_lock(&mut state);
        drop(state);
        result.finish(outcome.clone());
        drop(watch);
        outcome
    }

    /// Waits until a batch is written, and writes it if nobody has begun to.
    pub(crate) fn written(&self, result: &Arc<BatchResult>) -> Result<(), Error> {
        if let Some(outcome) = result.outcome() {
            return outcome;
        }
        let state = self.lock();
        if Arc::ptr_eq(&state.next_batch.result, result) {
            return self.commit(state);
        }
        drop(state);
        result.wait()
    }

    /// Whether a batch must be durable when its contributors are told. A coordinator of transactions
    /// relies on what it was told, whatever the queue's definition says.
    fn is_synced(&self, batch: &BatchBuilder) -> bool {
        self.definition().sync == Sync::Always && batch.awaited || !batch.changes.is_empty()
    }

    /// The part that runs without the lock. A segment that it closes is pushed to `sealed`, whatever happens
    /// afterwards.
    fn write(
        &self,
        log: &mut Option<Log>,
        batch: &mut BatchBuilder,
        roll: Option<SegmentRoll>,
        sealed: &mut Option<SealedSegment>,
    ) -> Result<BatchPosition, Error> {
        let log = log.as_mut().ok_or(Error::Dropped)?;
        if let Some(mut roll) = roll {
            let (file, stored) = log.roll(&mut roll.index, roll.header, (roll.next, roll.features))?;
            *sealed = Some(SealedSegment { file, stored, next: roll.next });
        }
        let offset = log.end();
        let first = batch.rows.first().map_or(RowId(0), |row| row.id);
        let time_ms = self.shared.now_ms();
        log.write(&mut batch.bytes, Header { kind: Kind::Records, first, synced: 0, time_ms })?;
        if self.is_synced(batch) {
            log.sync()?;
        }
        Ok(BatchPosition { offset, file: Some(log.file().clone()), time_ms })
    }

    /// Notes that a segment was closed.
    fn seal(&self, state: &mut State, sealed: SealedSegment) {
        state.index.seal(&sealed.file, sealed.stored);
        state.active_next = sealed.next;
        state.closing = false;
        self.shared.schedule(self);
    }

    /// Applies a written batch to the index and delivers rows to waiting sessions.
    fn apply(&self, state: &mut State, batch: &BatchBuilder, written: BatchPosition) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        let Some(file) = written.file else { return Ok(()) };
        if let Some(last) = batch.rows.last() {
            state.arrived = RowId(last.id.0 + 1);
            state.arrivals.note(state.arrived, now_ms);
            if state.arrivals.is_due(now_ms) {
                let oldest = state.index.next_live(RowId(0))?.unwrap_or(state.arrived);
                state.arrivals.fit(oldest, now_ms);
            }
        }
        let mut new = Vec::new();
        for row in &batch.rows {
            let (id, bytes) = (row.id, batch.row(row));
            let attributes =
                AttributeReader::read(self.attribute_reader.as_ref(), now_ms, written.time_ms, bytes);
            let (offset, due_ms) = (written.offset + row.at as u64, attributes.due_ms);
            state
                .index
                .push(&file, &NewRow { id, offset, len: row.len, time_ms: written.time_ms, attributes })?;
            match row.owner {
                Some(owner) => {
                    state.own(&[id], Ownership { owner, since_ms: now_ms })?;
                    if due_ms > 0 {
                        state.scheduled.keep(id, due_ms);
                    }
                }
                None if due_ms > 0 => state.postpone(id, due_ms)?,
                None => {
                    if state.index.has_priorities() {
                        state.readers.revisit(OrderKey { priority: attributes.priority, id });
                    }
                    new.push(Candidate { id, row: Some(bytes) });
                }
            }
        }
        for (reader, first, count) in &batch.reader_ended {
            let rows: Vec<RowId> = (first.0..first.0 + count).map(RowId).collect();
            self.apply_reader_end(state, *reader, &rows)?;
        }
        batch.failures.iter().for_each(|(row, failure)| state.leases.set_failure(*row, failure.clone()));
        let mut back = self.apply_replay(state, batch)?;
        for (runs, ending) in
            [(&batch.acknowledged, EndKind::Acknowledged), (&batch.discarded, self.deletion())]
        {
            let gone = runs.iter().flat_map(|(first, count)| first.0..first.0 + count).map(RowId);
            self.remove_from_index(state, &gone.collect::<Vec<_>>(), ending)?;
        }
        back.extend(self.apply_transactions(state, batch)?);
        state.dedupe.note_written(&batch.keys, &batch.dedupe_entries, now_ms);
        let origins: Vec<_> = state.pending.drain(..batch.origins).collect();
        origins.iter().for_each(|origin| state.journal.add(origin));
        state.counters.rows_written += batch.rows.len() as u64;
        state.written.count(now_ms, batch.rows.len() as u64);
        state.counters.batches += 1;
        state.counters.removals += u64::from(
            !batch.acknowledged.is_empty() || !batch.discarded.is_empty() || !batch.reader_ended.is_empty(),
        );
        if self.definition().sync == Sync::Interval {
            self.schedule_flush(state);
        }
        self.deliver_all(state, &back, new, now_ms)
    }

    /// Notes that a reader has ended rows, and ends those that all have ended.
    pub(crate) fn apply_reader_end(
        &self,
        state: &mut State,
        reader: usize,
        rows: &[RowId],
    ) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        for ownership in state.readers.disown(reader, rows) {
            state.counters.worked.count(now_ms.saturating_sub(ownership.since_ms), 1);
        }
        let done = state.readers.end(reader, rows, &mut state.index)?;
        if done.is_empty() { Ok(()) } else { self.remove_from_index(state, &done, EndKind::Acknowledged) }
    }

    /// Offers rows that came back, and new ones.
    pub(crate) fn deliver_all(
        &self,
        state: &mut State,
        back: &[RowId],
        new: Vec<Candidate<'_>>,
        now_ms: u64,
    ) -> Result<(), Error> {
        let back = back.iter().map(|id| Candidate { id: *id, row: None });
        if !state.scheduled.is_empty() {
            self.schedule_due(state, self.clock().up_ms);
        }
        let mut candidates: Vec<_> = back.chain(new).collect();
        candidates.sort_by_key(|candidate| candidate.id);
        self.deliver(state, candidates, now_ms)
    }

    /// Removes rows from the index and delivers those that waited for them.
    pub(crate) fn remove(&self, state: &mut State, rows: &[RowId], ending: EndKind) -> Result<(), Error> {
        self.remove_from_index(state, rows, ending)?;
        self.deliver(state, Vec::new(), self.shared.now_ms())
    }

    /// Removes rows from the index; the caller delivers those that waited for them.
    pub(crate) fn remove_from_index(
        &self,
        state: &mut State,
        rows: &[RowId],
        ending: EndKind,
    ) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        for id in rows {
            state.owners.remove(id);
            state.scheduled.take_kept(*id);
            state.arrivals.forget(*id);
            if !state.leases.is_empty() {
                state.leases.forget(*id);
            }
            if !state.readers.is_empty() {
                state.readers.forget(*id);
            }
        }
        let gone = if ending == EndKind::Acknowledged {
            state.index.end_all(rows, now_ms)?
        } else {
            state.index.remove_all(rows)?
        };
        state.counters.rows_removed += gone;
        state.scheduled.trim(&mut state.index)?;
        state.removed.count(now_ms, gone);
        if state.index.retained.is_on() {
            self.schedule_due(state, self.clock().up_ms);
        }
        self.schedule_compaction(state);
        self.note_rows(state);
        Ok(())
    }

    /// Has a thread rewrite segments or remove files when that is worth it.
    pub(crate) fn schedule_compaction(&self, state: &mut State) {
        if state.index.take_sparse() || state.index.emptied() >= self.shared.options.emptied_max {
            self.shared.schedule(self);
        }
    }
}

/// What a write did.
struct BatchPosition {
    offset: u64,
    file: Option<Arc<SegmentFile>>,
    /// When it was written, as the batch says.
    time_ms: u64,
}

/// A segment that was closed, and the id that the next row had then.
struct SealedSegment {
    file: Arc<SegmentFile>,
    stored: IndexLocation,
    next: RowId,
}

/// How to seal the active segment when the next batch does not fit in it.
fn roll(state: &State, queue: &Queue, batch: &BatchBuilder) -> Option<SegmentRoll> {
    let log = state.log.as_ref()?;
    let limit = queue.shared.options.segment_bytes.min(SEGMENT_BYTES_MAX);
    let fits = log.is_empty() || log.end() + batch.bytes.len() as u64 <= limit;
    if fits && !log.is_sealed() && !state.closing {
        return None;
    }
    let (first, time_ms) = (state.active_next, queue.shared.now_ms());
    let mut index = vec![0; BATCH_HEADER];
    state.index.listing_of(log.file(), time_ms).encode(&mut index, first, log.file().id().features);
    let header = Header { kind: Kind::Index, first, synced: 0, time_ms };
    let next = batch.rows.first().map_or(state.next, |row| row.id);
    Some(SegmentRoll { index, header, next, features: state.features(queue.definition()) })
}

/// Puts the queue out of service and notifies its waiting sessions.
pub(crate) fn fail(state: &mut State, error: &Error) {
    let why = match error {
        Error::Dropped => return,
        Error::Failed { why } => why.clone(),
        error => error.to_string().into(),
    };
    state.failed.get_or_insert(why);
    state.waiters.wake_all(&Notification::Broken(error.clone()));
}

/// Takes the queue out of service after a failed sync, because its log can't be trusted any more. The rest of
/// a failed write is cut off instead.
pub(crate) fn fail_if_lost(state: &mut State, error: &Error) {
    if state.log.as_ref().is_none_or(Log::is_lost) {
        fail(state, error);
    }
}

/// Notices when the writer does not return: a panic must not leave the others waiting.
struct PanicGuard<'queue> {
    queue: &'queue Queue,
    result: &'queue BatchResult,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let error = Error::Failed { why: "a panic while writing".into() };
        let mut state = self.queue.lock();
        state.failed.get_or_insert_with(|| "a panic while writing".into());
        self.queue.release_write_lock(&mut state);
        drop(state);
        self.result.finish(Err(error));
    }
}
