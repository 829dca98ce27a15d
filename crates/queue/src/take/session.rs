//! A connection as the queues see it: which rows it owns, sees, ends and gives back.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::format::record::RowId;
use crate::index::Doing;
use crate::queue::gather::Ending;
use crate::queue::offer::{Candidate, offer};
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;
use crate::queue::waiter::{Bell, News};
use crate::queue::{Published, Queue};
use crate::sync::MutexGuard;
use crate::take::cursor::Cursor;
use crate::take::held::Held;
use crate::take::scan::BUDGET;
use crate::{Counters, Error};

/// Stops a wait from another thread.
#[derive(Clone)]
pub struct Interrupter(Arc<Bell>);

impl Interrupter {
    /// Ends the current wait, if there is one. A wait that begins later is not affected: the caller must
    /// first make `alive` return false.
    pub fn interrupt(&self) {
        self.0.tell(None, News::Interrupted);
    }
}

/// A connection.
pub struct Session {
    pub(super) owner: OwnerId,
    pub(super) bell: Arc<Bell>,
    pub(super) held: Option<Held>,
    pub(super) owning: bool,
    /// Rows published by a statement that has not ended.
    unsettled: Vec<Held>,
}

impl Session {
    /// A connection that owns nothing. Two connections must not have the same number at the same time.
    #[must_use]
    pub fn new(owner: OwnerId) -> Session {
        Session { owner, bell: Arc::default(), held: None, owning: false, unsettled: Vec::new() }
    }

    /// Interrupts this session's waits.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.bell.clone())
    }

    /// Whether the session sees only its own rows: from a wait that was not interrupted until it ends or
    /// aborts.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.owning
    }

    /// The rows that the session owns, and the queue they are in.
    #[must_use]
    pub fn held(&mut self) -> Option<(&Arc<Queue>, &[RowId])> {
        if let Some(moved) = self.held.as_ref().and_then(Held::moved) {
            self.held = Some(moved);
        }
        self.held.as_ref().map(|held| (&held.queue, held.rows.as_slice()))
    }

    /// Ends the owned rows: they are gone. It is no error to own nothing.
    ///
    /// # Errors
    /// Those of [`Queue::publish`]; the session then still owns the rows, unless their queue is out of
    /// service.
    pub fn end(&mut self) -> Result<(), Error> {
        let owning = std::mem::take(&mut self.owning);
        match self.held.take().map_or(Ok(()), Held::end) {
            Err((_, Error::Dropped)) => Ok(()),
            Err((held, error)) => {
                if held.queue.lock().usable().is_ok() {
                    (self.owning, self.held) = (owning, Some(held));
                }
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Like [`Queue::publish`], for a statement that may still fail: nobody sees or takes the rows until
    /// [`Session::settle`]. After a crash they are in the queue.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn publish_unsettled(&mut self, queue: &Arc<Queue>, rows: &[&[u8]]) -> Result<(), Error> {
        let published = queue.publish_as(rows, Some(self.owner), None)?;
        if let Published::New(first) = published {
            let ids = (first.0..first.0 + rows.len() as u64).map(RowId);
            let (queue, epoch) = (queue.clone(), queue.lock().epoch);
            match self
                .unsettled
                .last_mut()
                .filter(|held| Arc::ptr_eq(&held.queue, &queue) && held.epoch == epoch)
            {
                Some(held) => held.rows.extend(ids),
                None => self.unsettled.push(Held { queue, epoch, rows: ids.collect(), reader: None }),
            }
        }
        Ok(())
    }

    /// Whether there are rows from [`Session::publish_unsettled`].
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Offers the rows from [`Session::publish_unsettled`], or removes them. Returns how many were left out
    /// because they are doubles.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when an index can't be read; [`Error::Failed`] when a queue is
    /// out of service.
    pub fn settle(&mut self, keep: bool) -> Result<u64, Error> {
        let (mut result, mut left_out) = (Ok(()), 0);
        for held in std::mem::take(&mut self.unsettled) {
            let settled = if keep {
                let mut chunks = held.rows.chunks(BUDGET);
                chunks
                    .try_for_each(|rows| self.offer_unsettled(&held, rows).map(|doubles| left_out += doubles))
            } else {
                held.queue.take_back(held.epoch, &held.rows)
            };
            result = result.and(match settled {
                Err(Error::Dropped) => Ok(()),
                other => other,
            });
        }
        result.map(|()| left_out)
    }

    /// Returns how many of the rows were left out.
    fn offer_unsettled(&self, held: &Held, rows: &[RowId]) -> Result<u64, Error> {
        let (mut state, rows, doubles) = loop {
            let mut state = held.queue.lock();
            state.usable()?;
            if state.epoch != held.epoch {
                return Ok(0);
            }
            // The statement may have deleted some.
            let mine = |row: &&RowId| state.owners.get(row).is_some_and(|of| of.owner == self.owner);
            let rows: Vec<RowId> = rows.iter().filter(mine).copied().collect();
            match held.queue.doubles(&mut state, &rows)? {
                Some(doubles) => break (state, rows, doubles),
                // The result is told to those whose rows they are.
                None => held.queue.commit(state).ok(),
            };
        };
        let rows: Vec<RowId> =
            rows.iter().filter(|row| doubles.binary_search(row).is_err()).copied().collect();
        if state.came(&rows, held.queue.shared.now_ms())? {
            held.queue.settle_later(&mut state);
        }
        self.give_unsettled(held, state, &rows)?;
        if !doubles.is_empty() {
            held.queue.take_back(held.epoch, &doubles)?;
            held.queue.note_left_out(doubles.len() as u64);
        }
        Ok(doubles.len() as u64)
    }

    fn give_unsettled(
        &self,
        held: &Held,
        mut state: MutexGuard<'_, State>,
        rows: &[RowId],
    ) -> Result<(), Error> {
        let back = state.disown(rows, self.owner)?.into_iter().map(|id| Candidate { id, row: None });
        if !state.later.is_empty() {
            held.queue.schedule_due(&mut state, held.queue.clock().up_ms);
        }
        offer(&mut state, back.collect(), held.queue.shared.now_ms())
    }

    /// Gives the owned rows back to their former places.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read.
    pub fn abort(&mut self) -> Result<(), Error> {
        self.owning = false;
        let note = |counters: &mut Counters, count| counters.restored_by_abort += count;
        self.held.take().map_or(Ok(()), |held| held.give_back(self.owner, note))
    }

    /// Gives the owned rows back because the connection is gone. In a queue with a policy that is a failed
    /// try.
    ///
    /// # Errors
    /// Those of [`Session::abort`].
    pub fn close(&mut self) -> Result<(), Error> {
        let settled = self.settle(false);
        self.fail().and(settled.map(drop))
    }

    /// Gives the owned rows back because nobody works on them: whoever took them could not be told. In a
    /// queue with a policy that is a failed try.
    ///
    /// # Errors
    /// Those of [`Session::abort`].
    pub fn fail(&mut self) -> Result<(), Error> {
        self.owning = false;
        self.held.take().map_or(Ok(()), |held| held.give_back_failed(self.owner))
    }

    /// Deletes rows that the session owns and rows that wait or are due later. Rows that others own stay.
    /// Returns how many were deleted.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn delete(&mut self, queue: &Queue, rows: &[RowId]) -> Result<u64, Error> {
        let mut state = queue.room()?;
        let rows: BTreeSet<RowId> = rows.iter().copied().collect();
        let (going, taken) = claim(queue, &mut state, &rows, self.owner)?;
        if going.is_empty() {
            return Ok(0);
        }
        state.gather.acknowledge(&going, Ending::Done);
        let deleted = queue.commit(state);
        if let Err(Error::Disk { .. }) = deleted {
            let mut state = queue.lock();
            let back = state.disown(&taken, self.owner)?.into_iter().map(|id| Candidate { id, row: None });
            offer(&mut state, back.collect(), queue.shared.now_ms())?;
        }
        deleted.map(|()| going.len() as u64)
    }

    /// How many rows of a queue the session sees: its own when it is an owner, else all, including those that
    /// others own.
    #[must_use]
    pub fn count(&self, queue: &Arc<Queue>) -> u64 {
        let (epoch, rows) = self.held_in(queue);
        let mut state = queue.lock();
        if !self.owning {
            return state.index.live();
        }
        if epoch != state.epoch {
            return 0;
        }
        let live = |id: &RowId| state.index.doing(*id).is_ok_and(Doing::is_live);
        rows.into_iter().filter(live).count() as u64
    }

    /// The rows of a queue that the session sees: its own when it is an owner, else those that nobody owns.
    #[must_use]
    pub fn cursor(&self, queue: &Arc<Queue>) -> Cursor {
        if !self.owning {
            return Cursor::of_waiting(queue);
        }
        // Read without the queue's lock: only the session changes what it owns.
        let (epoch, rows) = self.held_in(queue);
        Cursor::of_own(queue, epoch, rows)
    }

    /// The rows of a queue that the session owns, and their epoch.
    fn held_in(&self, queue: &Arc<Queue>) -> (u64, Vec<RowId>) {
        let Some(held) = &self.held else { return (0, Vec::new()) };
        if Arc::ptr_eq(&held.queue, queue) {
            return (held.epoch, held.rows.clone());
        }
        let moved = held.moved().filter(|moved| Arc::ptr_eq(&moved.queue, queue));
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
    let (mut going, mut taken, since_ms) = (Vec::new(), Vec::new(), queue.shared.now_ms());
    for id in rows {
        let mine = state.owners.get(id).is_some_and(|ownership| ownership.owner == owner);
        let claimed =
            if mine { Ok(false) } else { take_one(queue, state, *id, Ownership { owner, since_ms }) };
        match claimed {
            Ok(new) => {
                taken.extend(new.then_some(*id));
                going.extend((mine || new).then_some(*id));
            }
            Err(error) => {
                let back = state.disown(&taken, owner)?.into_iter().map(|id| Candidate { id, row: None });
                offer(state, back.collect(), since_ms)?;
                return Err(error);
            }
        }
    }
    Ok((going, taken))
}

/// Has somebody own a row that waits or is due later; false when it does neither.
fn take_one(queue: &Queue, state: &mut State, id: RowId, ownership: Ownership) -> Result<bool, Error> {
    if state.is_being_read(id) {
        return Ok(false);
    }
    queue.hasten(state, id)?;
    let waits = state.is_waiting(id)?;
    if waits {
        state.own(&[id], ownership)?;
    }
    Ok(waits)
}
