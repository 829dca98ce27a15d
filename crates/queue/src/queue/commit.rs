//! The group commit: everything that is written to a queue goes through it.
//!
//! There is no writer thread. A caller that arrives while nothing is being written writes; callers that
//! arrive meanwhile add to the next batch, and the first of them writes it. So one sync covers everything
//! that came together, and only those whose batch is done are woken.

use std::sync::Arc;

use crate::condition::rank::Rank;
use crate::format::batch::{BATCH_HEADER, Header, Kind, Stored};
use crate::format::record::RowId;
use crate::index::{Arrival, Turn};
use crate::queue::gather::{Batch, Ending, Gather};
use crate::queue::offer::{Candidate, offer, tell_all};
use crate::queue::owner::Ownership;
use crate::queue::state::State;
use crate::queue::waiter::News;
use crate::queue::{PUBLISH_BYTES_MAX, Queue};
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
struct Roll {
    index: Vec<u8>,
    header: Header,
    next: RowId,
    /// The feature flags of the next segment.
    features: u64,
}

impl Queue {
    /// The state, once the next batch has room.
    pub(crate) fn room(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.shared.make_room();
        let mut state = self.lock();
        loop {
            state.usable()?;
            if state.gather.bytes.len() <= GATHER_BYTES_MAX {
                self.touch(&mut state);
                return Ok(state);
            }
            // Those who took part in the batch are told its result.
            self.commit(state).ok();
            state = self.lock();
        }
    }

    /// Waits until what was gathered is written, and writes it if nobody else does.
    pub(crate) fn commit(&self, mut state: MutexGuard<'_, State>) -> Result<(), Error> {
        let batch = state.gather.batch.clone();
        if state.led {
            state.joined += 1;
            drop(state);
            return batch.wait();
        }
        state.led = true;
        // Before the lock is taken again, so that a panic lets go of the lock first.
        let watch = Watch { queue: self, batch: &batch };
        let mut state = self.take_turn(state);
        if self.definition().sync == Sync::Always && state.crowded {
            // Callers whom the last batch has just released may be about to come back: one sync for them too.
            drop(state);
            pass();
            state = self.lock();
        }
        state.led = false;
        state.crowded = std::mem::take(&mut state.joined) > 0;
        let mut gather = std::mem::take(&mut state.gather);
        let written = match state.usable() {
            Ok(()) if !gather.bytes.is_empty() => {
                let roll = roll(&state, self, &gather);
                let mut log = state.log.take();
                let mut sealed = None;
                // A write without a sync takes less time than admitting others and waking them.
                let written = if self.is_synced(&gather) || roll.is_some() {
                    drop(state);
                    let written = self.write(&mut log, &mut gather, roll, &mut sealed);
                    state = self.lock();
                    written
                } else {
                    self.write(&mut log, &mut gather, roll, &mut sealed)
                };
                state.log = log;
                // Even when what was to follow it could not be written.
                sealed.into_iter().for_each(|sealed| self.seal(&mut state, sealed));
                written
            }
            other => other.map(|()| Written { offset: 0, file: None }),
        };
        let outcome = match written {
            Ok(written) => {
                self.apply(&mut state, &gather, written).inspect_err(|error| fail(&mut state, error))
            }
            Err(error) => {
                // Nothing of the batch was written; the next one may succeed.
                fail_if_lost(&mut state, &error);
                state.give_up(&gather);
                if !state.gather.bytes.is_empty() {
                    self.settle_later(&mut state);
                }
                Err(error)
            }
        };
        self.give_turn(&mut state);
        drop(state);
        batch.finish(outcome.clone());
        drop(watch);
        outcome
    }

    /// Waits until a batch is written, and writes it if nobody has begun to.
    pub(crate) fn written(&self, batch: &Arc<Batch>) -> Result<(), Error> {
        if let Some(outcome) = batch.outcome() {
            return outcome;
        }
        let state = self.lock();
        if Arc::ptr_eq(&state.gather.batch, batch) {
            return self.commit(state);
        }
        drop(state);
        batch.wait()
    }

    /// Whether a batch must be durable when its contributors are told. A coordinator of transactions
    /// relies on what it was told, whatever the queue's definition says.
    fn is_synced(&self, gather: &Gather) -> bool {
        self.definition().sync == Sync::Always && gather.awaited || !gather.changes.is_empty()
    }

    /// The part that runs without the lock. A segment that it closes is pushed to `sealed`, whatever happens
    /// afterwards.
    fn write(
        &self,
        log: &mut Option<Log>,
        gather: &mut Gather,
        roll: Option<Roll>,
        sealed: &mut Option<Sealed>,
    ) -> Result<Written, Error> {
        let log = log.as_mut().ok_or(Error::Dropped)?;
        if let Some(mut roll) = roll {
            let (file, stored) = log.roll(&mut roll.index, roll.header, (roll.next, roll.features))?;
            *sealed = Some(Sealed { file, stored, next: roll.next });
        }
        let offset = log.end();
        let first = gather.rows.first().map_or(RowId(0), |row| row.id);
        let header = Header { kind: Kind::Records, first, synced: 0, time_ms: self.shared.now_ms() };
        log.write(&mut gather.bytes, header)?;
        if self.is_synced(gather) {
            log.sync()?;
        }
        Ok(Written { offset, file: Some(log.file().clone()) })
    }

    /// Notes that a segment was closed.
    fn seal(&self, state: &mut State, sealed: Sealed) {
        state.index.seal(&sealed.file, sealed.stored);
        state.active_next = sealed.next;
        state.closing = false;
        self.shared.schedule(self);
    }

    /// Makes what was written visible, and hands rows to waiting sessions.
    fn apply(&self, state: &mut State, gather: &Gather, written: Written) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        let Some(file) = written.file else { return Ok(()) };
        if let Some(last) = gather.rows.last() {
            state.arrived = RowId(last.id.0 + 1);
            state.arrivals.note(state.arrived, now_ms);
            if state.arrivals.is_due(now_ms) {
                let oldest = state.index.next_live(RowId(0))?.unwrap_or(state.arrived);
                state.arrivals.fit(oldest, now_ms);
            }
        }
        let mut new = Vec::new();
        for row in &gather.rows {
            let (id, bytes) = (row.id, gather.row(row));
            let ranked = Rank::read(self.rank.as_ref(), now_ms, bytes);
            let (offset, due_ms) = (written.offset + row.at as u64, ranked.due_ms);
            state.index.push(&file, &Arrival { id, offset, len: row.len, time_ms: now_ms, ranked })?;
            match row.owner {
                Some(owner) => {
                    state.own(&[id], Ownership { owner, since_ms: now_ms })?;
                    if due_ms > 0 {
                        state.later.keep(id, due_ms);
                    }
                }
                None if due_ms > 0 => state.postpone(id, due_ms)?,
                None => {
                    if state.index.has_priorities() {
                        state.came_back(Turn { priority: ranked.priority, id });
                    }
                    new.push(Candidate { id, row: Some(bytes) });
                }
            }
        }
        for (reader, first, count) in &gather.read {
            let rows: Vec<RowId> = (first.0..first.0 + count).map(RowId).collect();
            self.apply_read(state, *reader, &rows)?;
        }
        gather.pasts.iter().for_each(|(row, past)| state.leases.set_past(*row, past.clone()));
        let mut back = self.apply_again(state, gather)?;
        for (runs, ending) in [(&gather.acknowledged, Ending::Done), (&gather.discarded, self.gone())] {
            let gone = runs.iter().flat_map(|(first, count)| first.0..first.0 + count).map(RowId);
            self.take_out(state, &gone.collect::<Vec<_>>(), ending)?;
        }
        back.extend(self.apply_transactions(state, gather)?);
        state.expect_no_more(gather);
        gather.recent.iter().for_each(|recent| state.recent.set(*recent));
        state.recent.trim(now_ms);
        let origins: Vec<_> = state.pending.drain(..gather.origins).collect();
        origins.iter().for_each(|origin| state.journal.add(origin));
        state.counters.rows_written += gather.rows.len() as u64;
        state.written.count(now_ms, gather.rows.len() as u64);
        state.counters.batches += 1;
        state.counters.removals += u64::from(
            !gather.acknowledged.is_empty() || !gather.discarded.is_empty() || !gather.read.is_empty(),
        );
        if self.definition().sync == Sync::Interval {
            self.settle_later(state);
        }
        self.offer_all(state, &back, new, now_ms)
    }

    /// Offers rows that came back, and new ones.
    pub(crate) fn offer_all(
        &self,
        state: &mut State,
        back: &[RowId],
        new: Vec<Candidate<'_>>,
        now_ms: u64,
    ) -> Result<(), Error> {
        let back = back.iter().map(|id| Candidate { id: *id, row: None });
        if !state.later.is_empty() {
            self.schedule_due(state, self.clock().up_ms);
        }
        let mut candidates: Vec<_> = back.chain(new).collect();
        candidates.sort_by_key(|candidate| candidate.id);
        offer(state, candidates, now_ms)
    }

    /// Takes rows out of the index, and offers those that waited for them.
    pub(crate) fn remove(&self, state: &mut State, rows: &[RowId], ending: Ending) -> Result<(), Error> {
        self.take_out(state, rows, ending)?;
        offer(state, Vec::new(), self.shared.now_ms())
    }

    /// Takes rows out of the index; the caller offers what waited for them.
    pub(crate) fn take_out(&self, state: &mut State, rows: &[RowId], ending: Ending) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        for id in rows {
            state.owners.remove(id);
            state.later.take_kept(*id);
            state.arrivals.forget(*id);
            if !state.leases.is_empty() {
                state.leases.forget(*id);
            }
            if !state.readers.is_empty() {
                state.forget_reading(*id);
            }
        }
        let gone = if ending == Ending::Done {
            state.index.end_all(rows, now_ms)?
        } else {
            state.index.remove_all(rows)?
        };
        state.counters.rows_removed += gone;
        state.later.trim(&mut state.index)?;
        state.removed.count(now_ms, gone);
        if state.index.keeps.is_on() {
            self.schedule_due(state, self.clock().up_ms);
        }
        self.schedule_tidying(state);
        self.note_rows(state);
        Ok(())
    }

    /// Has a thread rewrite segments or remove files when that is worth it.
    pub(crate) fn schedule_tidying(&self, state: &mut State) {
        if state.index.take_sparse() || state.index.emptied() >= self.shared.options.emptied_max {
            self.shared.schedule(self);
        }
    }
}

/// What a write did.
struct Written {
    offset: u64,
    file: Option<Arc<SegmentFile>>,
}

/// A segment that was closed, and the id that the next row had then.
struct Sealed {
    file: Arc<SegmentFile>,
    stored: Stored,
    next: RowId,
}

/// How to seal the active segment when the next batch does not fit in it.
fn roll(state: &State, queue: &Queue, gather: &Gather) -> Option<Roll> {
    let log = state.log.as_ref()?;
    let limit = queue.shared.options.segment_bytes.min(SEGMENT_BYTES_MAX);
    let fits = log.is_empty() || log.end() + gather.bytes.len() as u64 <= limit;
    if fits && !log.is_sealed() && !state.closing {
        return None;
    }
    let (first, time_ms) = (state.active_next, queue.shared.now_ms());
    let mut index = vec![0; BATCH_HEADER];
    state.index.listing_of(log.file(), time_ms).encode(&mut index, first, log.file().place().features);
    let header = Header { kind: Kind::Index, first, synced: 0, time_ms };
    let next = gather.rows.first().map_or(state.next, |row| row.id);
    Some(Roll { index, header, next, features: state.features(queue.definition()) })
}

/// Takes the queue out of service, and tells its waiting sessions.
pub(crate) fn fail(state: &mut State, error: &Error) {
    let why = match error {
        Error::Dropped => return,
        Error::Failed { why } => why.clone(),
        error => error.to_string().into(),
    };
    state.failed.get_or_insert(why);
    tell_all(state, &News::Broken(error.clone()));
}

/// Takes the queue out of service after a failed sync, because its log can't be trusted any more. The rest of
/// a failed write is cut off instead.
pub(crate) fn fail_if_lost(state: &mut State, error: &Error) {
    if state.log.as_ref().is_none_or(Log::is_lost) {
        fail(state, error);
    }
}

/// Notices when the writer does not return: a panic must not leave the others waiting.
struct Watch<'queue> {
    queue: &'queue Queue,
    batch: &'queue Batch,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let error = Error::Failed { why: "a panic while writing".into() };
        let mut state = self.queue.lock();
        state.failed.get_or_insert_with(|| "a panic while writing".into());
        self.queue.give_turn(&mut state);
        drop(state);
        self.batch.finish(Err(error));
    }
}
