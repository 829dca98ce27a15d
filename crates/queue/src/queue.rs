//! One queue: publishing, acknowledging, reading. What is written goes through the group commit.

pub(crate) mod commit;
pub(crate) mod copying;
pub(crate) mod gather;
pub(crate) mod offer;
pub(crate) mod owner;
mod progress;
mod rate;
mod settle;
pub(crate) mod shared;
pub(crate) mod state;
mod status;
mod turn;
pub(crate) mod waiter;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::format::origin::{Origin, Source};
use crate::format::record::{ROW_OVERHEAD_MAX, RowId};
use crate::recovery::Recovered;
use crate::store::folder::Folder;
use crate::sync::{Condvar, Mutex, MutexGuard, lock, try_lock};
use crate::{Collate, Condition, ConditionError, Definition, Error, Schema, Sync};
use commit::fail;
use copying::Successor;
use owner::{OwnerId, Ownership};
use shared::Shared;
use state::State;

/// Bytes that the rows of one statement may have, as they are written: up to ten for each row besides its
/// own.
pub const PUBLISH_BYTES_MAX: usize = 1 << 29;

/// Without a sync with every batch, acknowledgements are written when they have so many bytes, with the next
/// rows, or when [`crate::Options::interval`] is over.
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
    /// When it was used last, by the clock of the engine's files.
    used: AtomicU64,
    /// How many want its lock while somebody has it.
    contenders: AtomicUsize,
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

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.note_gone(self.number, &self.counters());
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

impl Queue {
    /// The queue that was found in a folder.
    pub(crate) fn open(shared: &Arc<Shared>, recovered: Recovered) -> Arc<Queue> {
        Arc::new_cyclic(|me| Queue::new(me.clone(), shared.clone(), recovered))
    }

    fn new(me: Weak<Queue>, shared: Arc<Shared>, recovered: Recovered) -> Queue {
        let Recovered { folder, definition, incarnation, index, journal, next, active_next, log } = recovered;
        let number = shared.next_number();
        shared.note_opened(number, &me);
        let live = AtomicU64::new(index.live());
        let state = Mutex::new(State::new(incarnation, (index, journal), (next, active_next), log));
        // Without a description of its rows every name in a condition is an unknown column.
        let schema = Arc::new(Schema::decode(&definition.schema).unwrap_or_default());
        let (used, contenders) = (AtomicU64::new(shared.files.now()), AtomicUsize::new(0));
        let (turn, successor) = (Condvar::new(), OnceLock::new());
        Queue {
            me,
            shared,
            folder,
            number,
            definition,
            schema,
            state,
            live,
            used,
            contenders,
            turn,
            successor,
        }
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
        if let Some(state) = try_lock(&self.state) {
            return state;
        }
        self.contenders.fetch_add(1, Ordering::Relaxed);
        let state = lock(&self.state);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Whether somebody waits for the lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.contenders.load(Ordering::Relaxed) > 0
    }

    /// When it was used last.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Notes that files are used: before long somebody looks whether they still are.
    pub(crate) fn touch(&self, state: &mut State) {
        state.used = true;
        self.used.store(self.shared.files.now(), Ordering::Relaxed);
        if !state.watched {
            state.watched = true;
            self.shared.schedule_rest(self);
        }
    }

    /// Adds rows behind all others, all or none. When this returns they are as durable as the queue's
    /// definition says, and were offered to those who wait.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Disk`] when they could not be written, and then none of them is there;
    /// [`Error::Failed`] and [`Error::Dropped`] when the queue is out of service.
    pub fn publish(&self, rows: &[&[u8]], origin: Option<&Origin>) -> Result<Published, Error> {
        self.publish_as(rows, None, origin)
    }

    /// As [`Queue::publish`]; with an owner the rows are its own from the beginning.
    pub(crate) fn publish_as(
        &self,
        rows: &[&[u8]],
        owner: Option<OwnerId>,
        origin: Option<&Origin>,
    ) -> Result<Published, Error> {
        let bytes = rows.iter().map(|row| row.len() + ROW_OVERHEAD_MAX).sum();
        if bytes > PUBLISH_BYTES_MAX {
            return Err(Error::TooLarge { bytes, limit: PUBLISH_BYTES_MAX });
        }
        loop {
            let mut state = self.room()?;
            if let Some(origin) = origin.filter(|origin| state.is_duplicate(origin)) {
                // The first delivery may still be on its way: what it waits for, this one waits for too.
                self.commit(state)?;
                let mut state = self.lock();
                if state.is_duplicate(origin) {
                    state.counters.duplicates += 1;
                    return Ok(Published::Duplicate);
                }
                // It could not be written: this one is the first.
                continue;
            }
            let first = state.next;
            for (nth, row) in rows.iter().enumerate() {
                let id = state.next;
                state.next = RowId(id.0 + 1);
                let origin = origin.filter(|_| nth == 0);
                state.gather.add_row(id, row, owner, origin);
                state.pending.extend(origin);
            }
            self.commit(state)?;
            return Ok(Published::New(first));
        }
    }

    /// Lets owned rows be gone: when that is written, if the queue's definition wants it on the disk, else at
    /// once.
    pub(crate) fn acknowledge(&self, epoch: u64, rows: &[RowId]) -> Result<(), Error> {
        let mut told = false;
        let mut state = loop {
            let state = self.room()?;
            if state.epoch != epoch {
                return Ok(());
            }
            let copying = state.copying.as_ref().filter(|_| !told);
            let Some((copy, there)) = copying.and_then(|copying| copying.there(rows)) else { break state };
            drop(state);
            // First there: should that fail, nothing has happened.
            copy.end_copied(&there)?;
            told = true;
        };
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

    /// Lets rows be gone that a statement has added which has failed. Should that not be written now, it is
    /// with what comes next.
    pub(crate) fn take_back(&self, epoch: u64, rows: &[RowId]) -> Result<(), Error> {
        let mut state = self.room()?;
        if state.epoch != epoch {
            return Ok(());
        }
        state.gather.record(rows);
        self.remove(&mut state, rows.iter().copied())?;
        self.settle_later(&mut state);
        match self.commit(state) {
            Err(Error::Disk { .. }) => Ok(()),
            other => other,
        }
    }

    /// Notes how many rows there are for [`Queue::rows`].
    pub(crate) fn note_rows(&self, state: &State) {
        self.live.store(state.index.live(), Ordering::Relaxed);
    }

    /// Reads a row that is not gone; `None` when it is.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Disk`]; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of
    /// service.
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
        {
            let mut state = self.lock();
            state.counters.compiles += 1;
            if let Some(known) = state.conditions.compiled(text) {
                state.counters.compile_hits += 1;
                return Ok(known);
            }
        }
        let condition = Arc::new(Condition::compile(text, &self.schema, collate)?);
        self.lock().conditions.keep(&condition);
        Ok(condition)
    }

    /// What a relay says of a row of this queue: where it is from, and the lowest row id that may still come
    /// from there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
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

    /// Puts the queue out of service until the server is restarted: something about it can't be relied on any
    /// more.
    pub fn fail(&self, why: &str) {
        fail(&mut self.lock(), &Error::Failed { why: why.into() });
    }
}
