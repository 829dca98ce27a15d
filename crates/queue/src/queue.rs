//! One queue: publishing, acknowledging, reading; and the group commit that all of it goes through.
//!
//! There is no writer thread. Whoever comes while nothing is being written writes; whoever comes meanwhile adds to
//! the batch that is written next, and the first of those writes it. So one sync covers everything that came together,
//! and nobody is woken but those whose batch is done.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::batch::{BATCH_HEADER, Header, Kind, encode_index};
use crate::copy::Successor;
use crate::engine::Shared;
use crate::file::SegmentFile;
use crate::folder::Folder;
use crate::index::{Arrival, Stored};
use crate::log::Log;
use crate::origin::{Origin, Source};
use crate::record::RowId;
use crate::state::{Batch, Gather, Ownership, State};
use crate::sync::{Condvar, Mutex, MutexGuard, lock, pass, wait};
use crate::wait::{Candidate, News, offer, tell_all};
use crate::{Collate, Condition, ConditionError, Definition, Error, Schema, Sync};

/// Bytes that the rows of one statement may have.
pub const PUBLISH_BYTES_MAX: usize = 1 << 29;

/// With so many bytes in the batch to come, others wait for the one after it.
const GATHER_BYTES_MAX: usize = 1 << 26;

/// A segment has no more bytes before the last batch, whatever the options say.
const SEGMENT_BYTES_MAX: u64 = 1 << 31;

// What the index has room for: 30 bits for a row's length, 32 for its offset.
const _: () = assert!(PUBLISH_BYTES_MAX + 64 < 1 << 30);
const _: () =
    assert!(SEGMENT_BYTES_MAX + (2 * PUBLISH_BYTES_MAX + GATHER_BYTES_MAX) as u64 <= u32::MAX as u64);

/// Without a sync with every batch, acknowledgements are written when they have so many bytes, with the next rows, or
/// when [`crate::Options::interval`] is over.
const DEFERRED_BYTES_MAX: usize = 1 << 15;

/// A queue in use.
pub struct Queue {
    pub(crate) me: Weak<Queue>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) number: u64,
    definition: Definition,
    schema: Arc<Schema>,
    pub(crate) state: Mutex<State>,
    /// How many rows are not gone, as of a moment ago: for those who need no more.
    live: AtomicU64,
    /// Somebody stopped writing or maintaining.
    pub(crate) turn: Condvar,
    /// What took its place.
    pub(crate) successor: OnceLock<Successor>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "queue in {}", self.folder.path().display())
    }
}

/// What became of rows that were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// They are in; the first has this id, the others follow.
    New(RowId),
    /// They came before and are not taken again.
    Duplicate,
}

/// What the next write does, beside the batch.
struct Roll {
    index: Vec<u8>,
    header: Header,
    next: RowId,
}

impl Queue {
    pub(crate) fn new(
        me: Weak<Queue>,
        shared: Arc<Shared>,
        folder: Arc<Folder>,
        definition: Definition,
        state: State,
    ) -> Queue {
        let number = shared.next_number();
        let live = AtomicU64::new(state.index.live());
        let (state, turn, successor) = (Mutex::new(state), Condvar::new(), OnceLock::new());
        // Without a description of its rows every name in a condition is an unknown column.
        let schema = Arc::new(Schema::decode(&definition.schema).unwrap_or_default());
        Queue { me, shared, folder, number, definition, schema, state, live, turn, successor }
    }

    /// What the queue was created as.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The folder it lives in.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Notes that files are used: before long somebody looks whether they still are.
    pub(crate) fn touch(&self, state: &mut State) {
        state.used = true;
        if !state.watched {
            state.watched = true;
            self.shared.schedule_rest(self);
        }
    }

    /// Adds rows behind all others, all or none. When this returns they are as durable as the queue's definition
    /// says, and were offered to those who wait.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of service.
    pub fn publish(&self, rows: &[&[u8]], origin: Option<&Origin>) -> Result<Published, Error> {
        let bytes = rows.iter().map(|row| row.len()).sum();
        if bytes > PUBLISH_BYTES_MAX {
            return Err(Error::TooLarge { bytes, limit: PUBLISH_BYTES_MAX });
        }
        let mut state = self.room()?;
        let mut published = Published::New(state.next);
        if origin.is_some_and(|origin| state.is_duplicate(origin)) {
            // The first delivery may still be on its way: what it waits for, this one waits for too.
            published = Published::Duplicate;
            state.counters.duplicates += 1;
        } else {
            for (nth, row) in rows.iter().enumerate() {
                let id = state.next;
                state.next = RowId(id.0 + 1);
                let origin = origin.filter(|_| nth == 0);
                state.gather.add_row(id, row, origin);
                state.pending.extend(origin);
            }
        }
        self.commit(state)?;
        Ok(published)
    }

    /// Lets owned rows be gone: when that is written, if the queue's definition wants it on the disk, else at once.
    pub(crate) fn acknowledge(&self, epoch: u64, rows: &[RowId]) -> Result<(), Error> {
        let mut state = self.room()?;
        if state.epoch != epoch {
            return Ok(());
        }
        if self.definition.sync == Sync::Always {
            state.gather.acknowledge(rows);
            return self.commit(state);
        }
        state.gather.record(rows);
        if let Err(error) = self.remove(&mut state, rows.iter().copied()) {
            fail(&mut state, &error);
            return Err(error);
        }
        if state.gather.bytes.len() >= DEFERRED_BYTES_MAX && state.open.is_none() {
            return self.commit(state);
        }
        self.settle_later(&mut state);
        Ok(())
    }

    /// Takes rows out of the index.
    fn remove(&self, state: &mut State, rows: impl Iterator<Item = RowId>) -> Result<(), Error> {
        for id in rows {
            state.owners.remove(&id);
            state.counters.rows_removed += u64::from(state.index.remove(id)?);
        }
        if state.index.take_sparse() || state.index.emptied() >= self.shared.options.emptied_max {
            self.shared.schedule(self);
        }
        self.note_rows(state);
        Ok(())
    }

    /// Has what is not written written, and synced if the definition says so, when the interval is over.
    fn settle_later(&self, state: &mut State) {
        if !state.unsettled {
            state.unsettled = true;
            self.shared.schedule_settling(self);
        }
    }

    /// Notes how many rows there are for [`Queue::rows`].
    pub(crate) fn note_rows(&self, state: &State) {
        self.live.store(state.index.live(), Ordering::Relaxed);
    }

    /// The state, with room in the batch to come.
    pub(crate) fn room(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        loop {
            state.usable()?;
            match &state.open {
                Some(batch) if state.gather.bytes.len() > GATHER_BYTES_MAX => {
                    let batch = batch.clone();
                    drop(state);
                    // Whoever had part in it is told what became of it.
                    batch.wait().ok();
                    state = self.lock();
                }
                _ => {
                    self.touch(&mut state);
                    return Ok(state);
                }
            }
        }
    }

    /// Waits until what was gathered is written; writes it if nobody else does.
    pub(crate) fn commit(&self, mut state: MutexGuard<'_, State>) -> Result<(), Error> {
        if let Some(batch) = state.open.clone() {
            state.joined += 1;
            drop(state);
            return batch.wait();
        }
        let batch = Arc::new(Batch::default());
        state.open = Some(batch.clone());
        // Before the lock is taken again, so that a panic lets go of the lock first.
        let watch = Watch { queue: self, batch: &batch };
        let mut state = self.take_turn(state);
        if self.definition.sync == Sync::Always && state.crowded {
            // Those whom the batch before has let go may be about to come again: one sync for them too.
            drop(state);
            pass();
            state = self.lock();
        }
        state.open = None;
        state.crowded = std::mem::take(&mut state.joined) > 0;
        let mut gather = std::mem::take(&mut state.gather);
        let written = match state.usable() {
            Ok(()) if !gather.bytes.is_empty() => {
                let roll = roll(&state, &self.shared, &gather);
                let log = state.log.take();
                // A write that is not followed by a sync takes less time than letting others in and waking them.
                let (log, written) = if self.definition.sync == Sync::Always || roll.is_some() {
                    drop(state);
                    let written = self.write(log, &mut gather, roll);
                    state = self.lock();
                    written
                } else {
                    self.write(log, &mut gather, roll)
                };
                state.log = log;
                written
            }
            other => other.map(|()| Written { offset: 0, file: None, sealed: None }),
        };
        let outcome = written.and_then(|written| self.apply(&mut state, &gather, written));
        if let Err(error) = &outcome {
            fail(&mut state, error);
        }
        self.give_turn(&mut state);
        drop(state);
        batch.finish(outcome.clone());
        drop(watch);
        outcome
    }

    /// Waits until nobody writes, and keeps others from it.
    pub(crate) fn take_turn<'guard>(
        &self,
        mut state: MutexGuard<'guard, State>,
    ) -> MutexGuard<'guard, State> {
        while state.writing {
            state = wait(&self.turn, state);
        }
        state.writing = true;
        state
    }

    pub(crate) fn give_turn(&self, state: &mut State) {
        state.writing = false;
        self.turn.notify_all();
    }

    /// The part that happens without the lock.
    fn write(
        &self,
        log: Option<Log>,
        gather: &mut Gather,
        roll: Option<Roll>,
    ) -> (Option<Log>, Result<Written, Error>) {
        let Some(mut log) = log else { return (None, Err(Error::Dropped)) };
        let written = self.write_to(&mut log, gather, roll);
        (Some(log), written)
    }

    fn write_to(&self, log: &mut Log, gather: &mut Gather, roll: Option<Roll>) -> Result<Written, Error> {
        let mut sealed = None;
        if let Some(mut roll) = roll {
            let (file, stored) = log.roll(&mut roll.index, roll.header, roll.next)?;
            sealed = Some(Sealed { file, stored, next: roll.next });
        }
        let offset = log.end();
        let first = gather.rows.first().map_or(RowId(0), |row| row.id);
        let header = Header { kind: Kind::Records, first, synced: 0, time_ms: self.shared.now_ms() };
        log.write(&mut gather.bytes, header)?;
        if self.definition.sync == Sync::Always {
            log.sync()?;
        }
        Ok(Written { offset, file: Some(log.file().clone()), sealed })
    }

    /// Makes what was written visible, and hands rows to those who wait.
    fn apply(&self, state: &mut State, gather: &Gather, written: Written) -> Result<(), Error> {
        let now_ms = self.shared.now_ms();
        if let Some(sealed) = written.sealed {
            state.index.seal(&sealed.file, sealed.stored);
            state.active_next = sealed.next;
            self.shared.schedule(self);
        }
        let Some(file) = written.file else { return Ok(()) };
        for row in &gather.rows {
            let offset = written.offset + row.at as u64;
            state.index.push(&file, &Arrival { id: row.id, offset, len: row.len, time_ms: now_ms });
        }
        let gone = gather.acknowledged.iter().flat_map(|(first, count)| first.0..first.0 + count);
        self.remove(state, gone.map(RowId))?;
        let origins: Vec<_> = state.pending.drain(..gather.origins).collect();
        origins.iter().for_each(|origin| state.journal.add(origin));
        state.counters.rows_written += gather.rows.len() as u64;
        state.counters.batches += 1;
        if self.definition.sync == Sync::Interval {
            self.settle_later(state);
        }
        let candidates = gather.contents().map(|(id, row)| Candidate { id, row: Some(row) });
        offer(state, candidates.collect(), now_ms)
    }

    /// Reads a row that is not gone; `None` when it is.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Disk`]; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of service.
    pub fn read(&self, id: RowId) -> Result<Option<Vec<u8>>, Error> {
        let mut state = self.lock();
        state.usable()?;
        self.touch(&mut state);
        let Some(mut place) = state.index.locate(id)? else { return Ok(None) };
        place.open()?;
        drop(state);
        place.read(id).map(Some)
    }

    /// A condition on this queue's rows; the same text gives the same one as long as it is known.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn condition(
        &self,
        text: &str,
        collate: &Arc<dyn Collate>,
    ) -> Result<Arc<Condition>, ConditionError> {
        let known = self.lock().conditions.compiled(text);
        if let Some(known) = known {
            return Ok(known);
        }
        let condition = Arc::new(Condition::compile(text, &self.schema, collate)?);
        self.lock().conditions.keep(&condition);
        Ok(condition)
    }

    /// What a relay says of a row of this queue: where it is from, and the lowest row id that may still come from there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and [`Error::Dropped`] when
    /// the queue is out of service.
    pub fn origin(&self, row: RowId) -> Result<Origin, Error> {
        let mut state = self.lock();
        state.usable()?;
        let waiting = state.index.next_waiting(RowId(0))?;
        let owned = state.owners.keys().next().copied();
        let floor = waiting.into_iter().chain(owned).min().unwrap_or(state.next).min(row);
        let source = Source::Incarnation(state.incarnation);
        Ok(Origin { source, row: row.0, floor: floor.0, overwrite: false })
    }

    /// How many rows are not gone, those that wait and those that somebody owns, as of a moment ago.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// The rows that somebody owns.
    #[must_use]
    pub fn owned(&self) -> Vec<(RowId, Ownership)> {
        self.lock().owners.iter().map(|(id, ownership)| (*id, *ownership)).collect()
    }

    /// Puts the queue out of service until the server is restarted: something about it can't be relied on any more.
    pub fn fail(&self, why: &str) {
        fail(&mut self.lock(), &Error::Failed { why: why.into() });
    }

    /// Writes acknowledgements that were not written yet.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let state = self.lock();
        state.usable()?;
        if state.gather.bytes.is_empty() { Ok(()) } else { self.commit(state) }
    }

    /// What [`Queue::settle_later`] put off.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        if self.definition.sync == Sync::Interval {
            return self.sync();
        }
        self.lock().unsettled = false;
        self.flush()
    }

    /// Writes and syncs what was put off, for queues that do not sync with every batch.
    ///
    /// # Errors
    /// [`Error::Disk`], after which the queue is out of service.
    pub fn sync(&self) -> Result<(), Error> {
        self.lock().unsettled = false;
        self.flush()?;
        let mut state = self.take_turn(self.lock());
        let synced = match state.usable() {
            Err(error) => Err(error),
            Ok(()) => {
                let mut log = state.log.take();
                drop(state);
                let synced = log.as_mut().map_or(Ok(()), Log::sync);
                state = self.lock();
                state.log = log;
                synced
            }
        };
        if let Err(error) = &synced {
            fail(&mut state, error);
        }
        self.give_turn(&mut state);
        synced
    }
}

/// What a write did.
struct Written {
    offset: u64,
    file: Option<Arc<SegmentFile>>,
    sealed: Option<Sealed>,
}

/// A segment that was closed, and the id that the next row had then.
struct Sealed {
    file: Arc<SegmentFile>,
    stored: Stored,
    next: RowId,
}

/// What seals the active segment, when the batch to come does not fit in it.
fn roll(state: &State, shared: &Shared, gather: &Gather) -> Option<Roll> {
    let log = state.log.as_ref()?;
    let limit = shared.options.segment_bytes.min(SEGMENT_BYTES_MAX);
    if log.is_empty() || log.end() + gather.bytes.len() as u64 <= limit {
        return None;
    }
    let rows = state.index.segment_of(log.file()).map(|segment| segment.listed()).unwrap_or_default();
    let times = state.index.times_of(log.file());
    let first = state.active_next;
    let mut index = vec![0; BATCH_HEADER];
    encode_index(&mut index, first, rows.into_iter(), &times);
    let header = Header { kind: Kind::Index, first, synced: 0, time_ms: shared.now_ms() };
    let next = gather.rows.first().map_or(state.next, |row| row.id);
    Some(Roll { index, header, next })
}

/// Takes the queue out of service, and tells those who wait in it.
pub(crate) fn fail(state: &mut State, error: &Error) {
    let why = match error {
        Error::Dropped => return,
        Error::Failed { why } => why.clone(),
        error => error.to_string().into(),
    };
    state.failed.get_or_insert(why);
    tell_all(state, &News::Broken(error.clone()));
}

/// Notices when the writer does not come back: a panic must not leave the others waiting.
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
