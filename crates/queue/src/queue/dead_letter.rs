//! Dead letters: rows without tries left move to the dead letter queue. It records their origin as for
//! relayed rows, so that a row which is moved again after a crash is there once.

use std::path::Path;

use crate::Error;
use crate::format::batch::Incarnation;
use crate::format::origin::{Origin, Source};
use crate::format::record::RowId;
use crate::format::retry_policy::FailureInfo;
use crate::queue::Queue;
use crate::queue::state::State;
use crate::store::file::RowLocation;
use crate::sync::{MutexGuard, wait};

/// Maximum number of rows per move.
const ROWS_MAX: usize = 512;

/// Approximate maximum size of a move, in bytes.
const BYTES_MAX: usize = 1 << 22;

/// Pause after a failed move, in milliseconds.
const AGAIN_MS: u64 = 2000;

/// A row that is being moved.
struct MovingRow {
    id: RowId,
    failure: FailureInfo,
    location: RowLocation,
}

impl Queue {
    /// Moves the rows without tries left to the dead letter queue, if there is one. Waits for a move in
    /// progress first.
    ///
    /// # Errors
    /// Why some could not be moved; they stay here and are given to nobody.
    pub fn move_dead_letters(&self) -> Result<(), Error> {
        let Some(folder) = self.definition.policy.dead_letter_folder.as_deref() else { return Ok(()) };
        {
            let mut state = self.lock();
            while state.dead_letters.busy {
                state = wait(&self.write_lock_released, state);
            }
            // Its copy would not know which rows are gone and which are there.
            if state.leases.dead().is_empty() || state.copy_state.is_some() {
                return Ok(());
            }
            state.dead_letters.busy = true;
        }
        let moving = DeadLetterMove { queue: self };
        let moved = moving.all(folder);
        drop(moving);
        let mut state = self.lock();
        let up_ms = self.clock().up_ms;
        state.dead_letters.not_before_ms = if moved.is_err() { up_ms.saturating_add(AGAIN_MS) } else { 0 };
        state.dead_letters.why = moved.as_ref().err().cloned();
        // Those that could not be moved, and those that came meanwhile.
        if !state.leases.dead().is_empty() {
            state.leases.next_check_ms = None;
            self.schedule_due(&mut state, up_ms);
        }
        moved
    }

    /// Locks the state while nobody writes or moves rows, so that a copy made from now on is complete.
    /// Rows that may already be in the other queue are removed here.
    pub(crate) fn lock_without_dead_letters(&self) -> Result<MutexGuard<'_, State>, Error> {
        match self.move_dead_letters() {
            // There it can't be.
            Ok(()) | Err(Error::Missing { .. } | Error::DeadLetterQueue { .. } | Error::Dropped) => {}
            Err(error) => return Err(error),
        }
        let mut state = self.lock();
        while state.dead_letters.busy || state.writing || state.has_leader {
            state = wait(&self.write_lock_released, state);
        }
        Ok(state)
    }

    /// Like [`Queue::move_dead_letters`], unless that has just failed.
    pub(crate) fn move_due_dead_letters(&self) -> Result<(), Error> {
        if self.dead_letters_due_at(&self.lock()).is_none_or(|at| at > self.clock().up_ms) {
            return Ok(());
        }
        self.move_dead_letters()
    }

    /// When to move rows without tries left.
    pub(crate) fn dead_letters_due_at(&self, state: &State) -> Option<u64> {
        let some = self.definition.policy.dead_letter_folder.is_some() && !state.leases.dead().is_empty();
        (some && !state.dead_letters.busy).then_some(state.dead_letters.not_before_ms)
    }

    /// Why rows without tries left are still here; `None` if there are none.
    #[must_use]
    pub fn dead_letter_error(&self) -> Option<String> {
        let state = self.lock();
        let none = || "the table has no DEAD option".to_owned();
        let why = || state.dead_letters.why.as_ref().map_or_else(none, Error::to_string);
        (!state.leases.dead().is_empty()).then(why)
    }

    /// Some rows to move, from this one on, with their epoch, where they are from, and the lowest row that
    /// may still come.
    fn next_dead_letters(&self, first: RowId) -> Result<(u64, Incarnation, RowId, Vec<MovingRow>), Error> {
        let mut state = self.lock();
        state.usable()?;
        let ids: Vec<RowId> = state.leases.dead().range(first..).copied().take(ROWS_MAX).collect();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for id in ids {
            let known = state.leases.delivery_info(id, false);
            let Some(mut location) = state.index.locate(id)? else { continue };
            bytes += location.range.len;
            if bytes > BYTES_MAX && !rows.is_empty() {
                break;
            }
            location.open()?;
            rows.push(MovingRow { id, failure: FailureInfo::new(known.failed, &known.why), location });
        }
        let floor = state.floor()?;
        Ok((state.epoch, state.incarnation, floor, rows))
    }

    /// Adds rows of another queue, and what is known of them, unless they came before. With other columns
    /// none can be added. Returns those that are there; they are durable then.
    fn receive(
        &self,
        (from, floor): (Incarnation, RowId),
        rows: &[MovingRow],
        fits: bool,
    ) -> Result<Vec<RowId>, Error> {
        let mut read = Vec::with_capacity(rows.len());
        for row in rows {
            read.push(row.location.read(row.id)?);
        }
        let mut state = self.lock_with_room()?;
        if state.copy_state.is_some() {
            return Err(Error::Copied);
        }
        let mut there = Vec::with_capacity(rows.len());
        for (row, bytes) in rows.iter().zip(read) {
            let source = Source::Incarnation(from);
            let origin = Origin { source, row: row.id.0, floor: floor.0, overwrite: false };
            let duplicate = state.is_duplicate(&origin);
            state.counters.duplicates += u64::from(duplicate);
            if duplicate || fits {
                there.push(row.id);
            }
            if duplicate || !fits {
                continue;
            }
            let id = state.next;
            state.append_row(&bytes, None, Some(&origin));
            state.record_keys(&self.keys_of(&[&bytes]), self.shared.now_ms());
            if self.definition.policy.is_set() {
                state.next_batch.add_failure(id, row.failure.clone());
            }
        }
        self.commit(state)?;
        self.sync().map(|()| there)
    }
}

/// A move in progress, as long as this value lives.
struct DeadLetterMove<'queue> {
    queue: &'queue Queue,
}

impl DeadLetterMove<'_> {
    /// Moves all rows to the queue in this folder.
    fn all(&self, folder: &Path) -> Result<(), Error> {
        let (queue, unusable) = (self.queue, || Error::DeadLetterQueue { folder: folder.to_owned() });
        let to = queue.shared.open(folder)?;
        if to.number == queue.number {
            return Err(unusable());
        }
        let fits = to.definition.schema == queue.definition.schema;
        let mut first = RowId(0);
        loop {
            let _moving = queue.shared.begin_move()?;
            let (epoch, from, floor, rows) = queue.next_dead_letters(first)?;
            let Some(last) = rows.last() else { return if fits { Ok(()) } else { Err(unusable()) } };
            first = RowId(last.id.0 + 1);
            // Else a crash could bring the rows back with fewer failed tries, while they are there too.
            queue.sync()?;
            let there = to.receive((from, floor), &rows, fits)?;
            queue.acknowledge(epoch, &there, queue.deletion())?;
            queue.lock().counters.dead_lettered += there.len() as u64;
        }
    }
}

impl Drop for DeadLetterMove<'_> {
    fn drop(&mut self) {
        self.queue.lock().dead_letters.busy = false;
        self.queue.write_lock_released.notify_all();
    }
}
