//! A consumer session: the rows that it owns, sees, acknowledges and returns.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::consumer::cursor::Cursor;
use crate::consumer::owned_rows::OwnedRows;
use crate::consumer::scan::BUDGET;
use crate::format::record::RowId;
use crate::index::RowState;
use crate::queue::batch::EndKind;
use crate::queue::delivery::Candidate;
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;
use crate::queue::waiter::{Notification, Notifier};
use crate::queue::{Published, Queue};
use crate::sync::MutexGuard;
use crate::{Counters, Error};

/// Stops a wait from another thread.
#[derive(Clone)]
pub struct Interrupter(Arc<Notifier>);

impl Interrupter {
    /// Interrupts the current wait, if any. Later waits are not affected: the caller must first make
    /// `alive` return false.
    pub fn interrupt(&self) {
        self.0.notify(None, Notification::Interrupted);
    }
}

/// A consumer session, one per connection.
pub struct Session {
    pub(super) owner: OwnerId,
    pub(super) notifier: Arc<Notifier>,
    pub(super) owned: Option<OwnedRows>,
    pub(super) owner_mode: bool,
    /// Rows published by a statement that has not ended.
    statement_rows: Vec<OwnedRows>,
}

impl Session {
    /// A new session. Two sessions must not have the same owner number at the same time.
    #[must_use]
    pub fn new(owner: OwnerId) -> Session {
        Session {
            owner,
            notifier: Arc::default(),
            owned: None,
            owner_mode: false,
            statement_rows: Vec::new(),
        }
    }

    /// A handle that interrupts this session's waits from another thread.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.notifier.clone())
    }

    /// Whether the session is in owner mode, in which it sees only its own rows: from a wait that was not
    /// interrupted until the rows are acknowledged or returned.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.owner_mode
    }

    /// The owned rows and their queue.
    #[must_use]
    pub fn owned_rows(&mut self) -> Option<(&Arc<Queue>, &[RowId])> {
        if let Some(moved) = self.owned.as_ref().and_then(OwnedRows::moved) {
            self.owned = Some(moved);
        }
        self.owned.as_ref().map(|owned| (&owned.queue, owned.rows.as_slice()))
    }

    /// Acknowledges the owned rows. It is no error to own nothing.
    ///
    /// # Errors
    /// Those of [`Queue::publish`]; the session then still owns the rows, unless their queue is out of
    /// service.
    pub fn end(&mut self) -> Result<(), Error> {
        let owner_mode = std::mem::take(&mut self.owner_mode);
        match self.owned.take().map_or(Ok(()), OwnedRows::end) {
            Err((_, Error::Dropped)) => Ok(()),
            Err((owned, error)) => {
                if owned.queue.lock().usable().is_ok() {
                    (self.owner_mode, self.owned) = (owner_mode, Some(owned));
                }
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Like [`Queue::publish`], for a statement that may still fail: the rows stay hidden until
    /// [`Session::end_statement`]. After a crash they are in the queue.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn publish_in_statement(&mut self, queue: &Arc<Queue>, rows: &[&[u8]]) -> Result<(), Error> {
        let published = queue.publish_as(rows, Some(self.owner), None)?;
        if let Published::New(first) = published {
            let ids = (first.0..first.0 + rows.len() as u64).map(RowId);
            let (queue, epoch) = (queue.clone(), queue.lock().epoch);
            match self
                .statement_rows
                .last_mut()
                .filter(|owned| Arc::ptr_eq(&owned.queue, &queue) && owned.epoch == epoch)
            {
                Some(owned) => owned.rows.extend(ids),
                None => {
                    self.statement_rows.push(OwnedRows { queue, epoch, rows: ids.collect(), reader: None })
                }
            }
        }
        Ok(())
    }

    /// Whether there are rows from [`Session::publish_in_statement`].
    #[must_use]
    pub fn has_statement_rows(&self) -> bool {
        !self.statement_rows.is_empty()
    }

    /// Offers the rows from [`Session::publish_in_statement`], or removes them. Returns how many were left
    /// out because they are doubles.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when an index can't be read; [`Error::Failed`] when a queue is
    /// out of service.
    pub fn end_statement(&mut self, keep: bool) -> Result<u64, Error> {
        let (mut result, mut left_out) = (Ok(()), 0);
        for owned in std::mem::take(&mut self.statement_rows) {
            let settled = if keep {
                let mut chunks = owned.rows.chunks(BUDGET);
                chunks.try_for_each(|rows| {
                    self.deliver_statement_rows(&owned, rows).map(|duplicates| left_out += duplicates)
                })
            } else {
                owned.queue.retract(owned.epoch, &owned.rows)
            };
            result = result.and(match settled {
                Err(Error::Dropped) => Ok(()),
                other => other,
            });
        }
        result.map(|()| left_out)
    }

    /// Returns how many of the rows were left out.
    fn deliver_statement_rows(&self, owned: &OwnedRows, rows: &[RowId]) -> Result<u64, Error> {
        let (mut state, rows, duplicates) = loop {
            let mut state = owned.queue.lock();
            state.usable()?;
            if state.epoch != owned.epoch {
                return Ok(0);
            }
            // The statement may have deleted some.
            let mine = |row: &&RowId| state.owners.get(row).is_some_and(|of| of.owner == self.owner);
            let rows: Vec<RowId> = rows.iter().filter(mine).copied().collect();
            match owned.queue.duplicates(&mut state, &rows)? {
                Some(duplicates) => break (state, rows, duplicates),
                // The result is told to those whose rows they are.
                None => owned.queue.commit(state).ok(),
            };
        };
        let rows: Vec<RowId> =
            rows.iter().filter(|row| duplicates.binary_search(row).is_err()).copied().collect();
        if state.record_applied_keys(&rows, owned.queue.shared.now_ms())? {
            owned.queue.schedule_flush(&mut state);
        }
        self.release_statement_rows(owned, state, &rows)?;
        if !duplicates.is_empty() {
            owned.queue.retract(owned.epoch, &duplicates)?;
            owned.queue.note_left_out(duplicates.len() as u64);
        }
        Ok(duplicates.len() as u64)
    }

    fn release_statement_rows(
        &self,
        owned: &OwnedRows,
        mut state: MutexGuard<'_, State>,
        rows: &[RowId],
    ) -> Result<(), Error> {
        let back = state.disown(rows, self.owner)?.into_iter().map(|id| Candidate { id, row: None });
        if !state.scheduled.is_empty() {
            owned.queue.schedule_due(&mut state, owned.queue.clock().up_ms);
        }
        owned.queue.deliver(&mut state, back.collect(), owned.queue.shared.now_ms())
    }

    /// Returns the owned rows to their former positions.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read.
    pub fn abort(&mut self) -> Result<(), Error> {
        self.owner_mode = false;
        let note = |counters: &mut Counters, count| counters.restored_by_abort += count;
        self.owned.take().map_or(Ok(()), |owned| owned.give_back(self.owner, note))
    }

    /// Returns the owned rows because the connection has ended. In a queue with a retry policy that is a
    /// failed try.
    ///
    /// # Errors
    /// Those of [`Session::abort`].
    pub fn close(&mut self) -> Result<(), Error> {
        let settled = self.end_statement(false);
        self.fail().and(settled.map(drop))
    }

    /// Returns the owned rows because they could not be sent to the client. In a queue with a retry
    /// policy that is a failed try.
    ///
    /// # Errors
    /// Those of [`Session::abort`].
    pub fn fail(&mut self) -> Result<(), Error> {
        self.owner_mode = false;
        self.owned.take().map_or(Ok(()), |owned| owned.give_back_failed(self.owner))
    }

    /// Deletes waiting and scheduled rows and those that the session owns. Rows of other owners stay.
    /// Returns the number of deleted rows.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn delete(&mut self, queue: &Queue, rows: &[RowId]) -> Result<u64, Error> {
        let mut state = queue.lock_with_room()?;
        let rows: BTreeSet<RowId> = rows.iter().copied().collect();
        let (to_end, taken) = claim(queue, &mut state, &rows, self.owner)?;
        if to_end.is_empty() {
            return Ok(0);
        }
        state.next_batch.acknowledge(&to_end, EndKind::Acknowledged);
        let deleted = queue.commit(state);
        if let Err(Error::Disk { .. }) = deleted {
            let mut state = queue.lock();
            let back = state.disown(&taken, self.owner)?.into_iter().map(|id| Candidate { id, row: None });
            queue.deliver(&mut state, back.collect(), queue.shared.now_ms())?;
        }
        deleted.map(|()| to_end.len() as u64)
    }

    /// The number of rows that the session sees: its own in owner mode, else all, including those of
    /// other owners.
    #[must_use]
    pub fn count(&self, queue: &Arc<Queue>) -> u64 {
        let (epoch, rows) = self.held_in(queue);
        let mut state = queue.lock();
        if !self.owner_mode {
            return state.index.live();
        }
        if epoch != state.epoch {
            return 0;
        }
        let live = |id: &RowId| state.index.row_state(*id).is_ok_and(RowState::is_live);
        rows.into_iter().filter(live).count() as u64
    }

    /// A cursor over the rows that the session sees: its own in owner mode, else those without an owner.
    #[must_use]
    pub fn cursor(&self, queue: &Arc<Queue>) -> Cursor {
        if !self.owner_mode {
            return Cursor::of_waiting(queue);
        }
        // Read without the queue's lock: only the session changes what it owns.
        let (epoch, rows) = self.held_in(queue);
        Cursor::of_own(queue, epoch, rows)
    }

    /// The rows of a queue that the session owns, and their epoch.
    fn held_in(&self, queue: &Arc<Queue>) -> (u64, Vec<RowId>) {
        let Some(owned) = &self.owned else { return (0, Vec::new()) };
        if Arc::ptr_eq(&owned.queue, queue) {
            return (owned.epoch, owned.rows.clone());
        }
        let moved = owned.moved().filter(|moved| Arc::ptr_eq(&moved.queue, queue));
        moved.map(|moved| (moved.epoch, moved.rows)).unwrap_or_default()
    }
}

/// Has an owner own those of these rows that wait or are due later, so that nobody else gets a row while its
/// end is being written. Returns all of these rows that it owns then, and those that it did not own before.
pub(super) fn claim(
    queue: &Queue,
    state: &mut State,
    rows: &BTreeSet<RowId>,
    owner: OwnerId,
) -> Result<(Vec<RowId>, Vec<RowId>), Error> {
    let (mut to_end, mut taken, since_ms) = (Vec::new(), Vec::new(), queue.shared.now_ms());
    for id in rows {
        let mine = state.owners.get(id).is_some_and(|ownership| ownership.owner == owner);
        let claimed =
            if mine { Ok(false) } else { take_one(queue, state, *id, Ownership { owner, since_ms }) };
        match claimed {
            Ok(new) => {
                taken.extend(new.then_some(*id));
                to_end.extend((mine || new).then_some(*id));
            }
            Err(error) => {
                let back = state.disown(&taken, owner)?.into_iter().map(|id| Candidate { id, row: None });
                queue.deliver(state, back.collect(), since_ms)?;
                return Err(error);
            }
        }
    }
    Ok((to_end, taken))
}

/// Has somebody own a row that waits or is due later; false when it does neither.
fn take_one(queue: &Queue, state: &mut State, id: RowId, ownership: Ownership) -> Result<bool, Error> {
    if state.readers.is_owned(id) {
        return Ok(false);
    }
    queue.make_available(state, id)?;
    let waits = state.is_waiting(id)?;
    if waits {
        state.own(&[id], ownership)?;
    }
    Ok(waits)
}
