//! One queue: publish, acknowledge, read. All writes go through the group commit.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod copy_state;
mod dead_letter;
mod dedupe;
pub(crate) mod dedupe_state;
mod deferred;
pub(crate) mod delivery;
mod expiry;
pub(crate) mod lease;
pub(crate) mod lease_table;
pub(crate) mod owner;
pub(crate) mod paused;
mod rate;
mod rate_limit;
pub(crate) mod reader;
pub(crate) mod readers;
pub(crate) mod retention;
mod scan_progress;
pub(crate) mod shared;
pub(crate) mod state;
mod status;
mod transaction;
pub(crate) mod waiter;
mod write_lock;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use condition::{Collate, Condition, Schema};

use crate::format::origin::{Origin, Source};
use crate::format::record::RowId;
use crate::recovery::RecoveredQueue;
use crate::row_attributes::AttributeReader;
use crate::store::folder::Folder;
use crate::sync::{Condvar, Mutex, MutexGuard, lock, try_lock};
use crate::{Definition, Error, Sync};
use batch::EndKind;
use commit::fail;
use copy_state::Successor;
use owner::{OwnerId, Ownership};
use shared::Shared;
use state::State;

/// The maximum size of the rows of one statement as they are written: each row needs up to ten bytes
/// more.
pub const PUBLISH_BYTES_MAX: usize = 1 << 29;

/// Without a sync for every batch, acknowledgements are written once they have this many bytes, with the
/// next rows, or after [`crate::Options::interval`].
const DEFERRED_BYTES_MAX: usize = 1 << 15;

/// An open queue.
pub struct Queue {
    pub(crate) me: Weak<Queue>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) number: u64,
    definition: Definition,
    schema: Arc<Schema>,
    /// Reads due time, priority and keys from rows; none if the definition names no columns.
    pub(crate) attribute_reader: Option<AttributeReader>,
    pub(crate) state: Mutex<State>,
    /// The number of live rows as of a moment ago, readable without the lock.
    live: AtomicU64,
    /// Open transactions that are not prepared yet.
    pub(crate) transactions: AtomicU64,
    /// Last use, by the clock of [`OpenFiles`](crate::store::files::OpenFiles).
    used: AtomicU64,
    /// The number of callers that wait for the lock.
    contenders: AtomicUsize,
    /// Signals that a writer or maintenance has finished.
    pub(crate) write_lock_released: Condvar,
    /// The queue that replaced this one.
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

/// The result of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The rows were added; the first has this id, and the others have the following ids.
    New(RowId),
    /// The rows had already arrived and were not added again.
    Duplicate,
}

impl Queue {
    /// Opens a queue from what recovery read.
    pub(crate) fn open(shared: &Arc<Shared>, recovered: RecoveredQueue) -> Arc<Queue> {
        let queue = Arc::new_cyclic(|me| Queue::new(me.clone(), shared.clone(), recovered));
        queue.schedule_due(&mut queue.lock(), queue.clock().up_ms);
        queue
    }

    fn new(me: Weak<Queue>, shared: Arc<Shared>, recovered: RecoveredQueue) -> Queue {
        let RecoveredQueue { folder, definition, attribute_reader, state } = recovered;
        let number = shared.next_number();
        shared.note_opened(number, &me);
        let live = AtomicU64::new(state.index.live());
        let state = Mutex::new(State::new(state, &definition, &shared));
        // Without a schema every name in a condition is an unknown column.
        let schema = Arc::new(Schema::decode(&definition.schema).unwrap_or_default());
        let (used, contenders) = (AtomicU64::new(shared.files.now()), AtomicUsize::new(0));
        let (write_lock_released, successor) = (Condvar::new(), OnceLock::new());
        Queue {
            me,
            shared,
            folder,
            number,
            definition,
            schema,
            attribute_reader,
            state,
            live,
            transactions: AtomicU64::new(0),
            used,
            contenders,
            write_lock_released,
            successor,
        }
    }

    /// The definition that the queue was created with.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The layout of its rows.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The folder that the queue is in.
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

    /// Whether another caller waits for the lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.contenders.load(Ordering::Relaxed) > 0
    }

    /// When it was last used.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Notes a use of the files, and schedules the check whether they are idle.
    pub(crate) fn touch(&self, state: &mut State) {
        state.used = true;
        self.used.store(self.shared.files.now(), Ordering::Relaxed);
        if !state.watched {
            state.watched = true;
            self.shared.schedule_idle_check(self);
        }
    }

    /// Appends rows, all or none. On return they are as durable as the queue's definition says, and were
    /// offered to waiting consumers.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Disk`] when they could not be written, and then none of them is in the
    /// queue; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of service.
    pub fn publish(&self, rows: &[&[u8]], origin: Option<&Origin>) -> Result<Published, Error> {
        self.publish_as(rows, None, origin)
    }

    /// Like [`Queue::publish`]; an owner owns the rows from the beginning.
    pub(crate) fn publish_as(
        &self,
        rows: &[&[u8]],
        owner: Option<OwnerId>,
        origin: Option<&Origin>,
    ) -> Result<Published, Error> {
        self.check_size(rows)?;
        let keys = if owner.is_none() { self.keys_of(rows) } else { Vec::new() };
        loop {
            let mut state = self.lock_with_room()?;
            if let Some(origin) = origin.filter(|origin| state.is_duplicate(origin)) {
                // The first delivery may still be on its way; this one waits for it.
                self.commit(state)?;
                let mut state = self.lock();
                if state.is_duplicate(origin) {
                    state.counters.duplicates += 1;
                    return Ok(Published::Duplicate);
                }
                // The first delivery could not be written, so this one counts as the first.
                continue;
            }
            let first = state.next;
            for (nth, row) in rows.iter().enumerate() {
                state.append_row(row, owner, origin.filter(|_| nth == 0));
            }
            state.record_keys(&keys, self.shared.now_ms());
            self.commit(state)?;
            return Ok(Published::New(first));
        }
    }

    /// Acknowledges owned rows. They are removed or kept once that is durable if the definition says so,
    /// otherwise at once.
    pub(crate) fn acknowledge(&self, epoch: u64, rows: &[RowId], ending: EndKind) -> Result<(), Error> {
        let mut state = self.lock_to_end(epoch, rows)?;
        if state.epoch != epoch {
            return Ok(());
        }
        if ending == EndKind::Acknowledged {
            state.note_worked(rows, self.shared.now_ms());
        }
        if self.definition.sync == Sync::Always {
            state.next_batch.acknowledge(rows, ending);
            return self.commit(state);
        }
        state.next_batch.record_applied_end(rows, ending);
        if let Err(error) = self.remove(&mut state, rows, ending) {
            fail(&mut state, &error);
            return Err(error);
        }
        self.write_deferred(state)
    }

    /// Ends rows that were ended in the queue which this one copies.
    pub(crate) fn end_copied(&self, rows: &[RowId]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.lock_with_room().and_then(|mut state| {
            state.next_batch.acknowledge(rows, EndKind::Acknowledged);
            self.commit(state)
        });
        match written {
            // The copy was given up.
            Err(Error::Dropped) => Ok(()),
            other => other,
        }
    }

    /// Ends rows that a reader was given. They are durable as those of [`Queue::acknowledge`].
    pub(crate) fn end_for_reader(&self, reader: usize, epoch: u64, rows: &[RowId]) -> Result<(), Error> {
        let mut state = self.lock_with_room()?;
        if state.epoch != epoch {
            return Ok(());
        }
        if self.definition.sync == Sync::Always {
            state.next_batch.end_for_reader(reader, rows);
            return self.commit(state);
        }
        state.next_batch.record_applied_reader_end(reader, rows);
        let ended = self.apply_reader_end(&mut state, reader, rows);
        ended.inspect_err(|error| fail(&mut state, error))?;
        self.write_deferred(state)
    }

    /// Removes the rows of a failed statement. If that can't be written now, it is written with the next
    /// batch.
    pub(crate) fn retract(&self, epoch: u64, rows: &[RowId]) -> Result<(), Error> {
        let mut state = self.lock_with_room()?;
        if state.epoch != epoch {
            return Ok(());
        }
        state.next_batch.record_applied_end(rows, self.deletion());
        self.remove(&mut state, rows, self.deletion())?;
        self.schedule_flush(&mut state);
        match self.commit(state) {
            Err(Error::Disk { .. }) => Ok(()),
            other => other,
        }
    }

    /// Updates the number that [`Queue::rows`] returns.
    pub(crate) fn note_rows(&self, state: &State) {
        self.live.store(state.index.live(), Ordering::Relaxed);
    }

    /// Reads a row; `None` if it no longer exists.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Disk`]; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of
    /// service.
    pub fn read(&self, id: RowId) -> Result<Option<Vec<u8>>, Error> {
        let mut state = self.lock();
        state.usable()?;
        self.touch(&mut state);
        let Some(mut location) = state.index.locate(id)? else { return Ok(None) };
        location.open()?;
        drop(state);
        location.read(id).map(Some)
    }

    /// Compiles a condition, or returns the cached one for the same text.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn condition(
        &self,
        text: &str,
        collate: &Arc<dyn Collate>,
    ) -> Result<Arc<Condition>, condition::Error> {
        {
            let mut state = self.lock();
            state.counters.compiles += 1;
            if let Some(known) = state.readers.conditions(None).compiled(text) {
                state.counters.compile_hits += 1;
                return Ok(known);
            }
        }
        let condition = Arc::new(Condition::compile(text, &self.schema, collate)?);
        self.lock().readers.conditions(None).keep(&condition);
        Ok(condition)
    }

    /// The origin that a relay sends with a row of this queue, including the lowest row id that may still
    /// come.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn origin(&self, row: RowId) -> Result<Origin, Error> {
        let mut state = self.lock();
        state.usable()?;
        let floor = state.floor()?.min(row);
        let source = Source::Incarnation(state.incarnation);
        Ok(Origin { source, row: row.0, floor: floor.0, overwrite: false })
    }

    /// The number of live rows, waiting or owned, as of a moment ago.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// The owned rows.
    #[must_use]
    pub fn owned(&self) -> Vec<(RowId, Ownership)> {
        self.lock().owners.iter().map(|(id, ownership)| (*id, *ownership)).collect()
    }

    /// Puts the queue out of service until the server is restarted, because its state can't be trusted
    /// any more.
    pub fn fail(&self, why: &str) {
        fail(&mut self.lock(), &Error::Failed { why: why.into() });
    }
}
