//! The rows that a session owns, also after ALTER TABLE has replaced their queue.

use std::sync::Arc;

use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::batch::EndKind;
use crate::queue::delivery::Candidate;
use crate::queue::owner::OwnerId;
use crate::queue::state::State;
use crate::{Counters, Error};

/// Rows that a session owns.
pub(super) struct OwnedRows {
    pub(super) queue: Arc<Queue>,
    pub(super) epoch: u64,
    pub(super) rows: Vec<RowId>,
    /// The reader of the queue that was given them, if it has readers.
    pub(super) reader: Option<usize>,
}

impl OwnedRows {
    /// The same rows in the queue that replaced theirs.
    pub(super) fn moved(&self) -> Option<OwnedRows> {
        let successor = self.queue.successor.get()?;
        let rows = successor.translate(self.epoch, &self.rows)?;
        let queue = successor.queue.clone();
        // A queue is not copied while a reader has rows.
        let here = OwnedRows { queue, epoch: successor.epoch, rows, reader: None };
        Some(here.moved().unwrap_or(here))
    }

    /// Ends the rows: they are gone. After an error they are returned as they are.
    pub(super) fn end(mut self) -> Result<(), (OwnedRows, Error)> {
        loop {
            let ended = match self.reader {
                Some(reader) => self.queue.end_for_reader(reader, self.epoch, &self.rows),
                None => self.queue.acknowledge(self.epoch, &self.rows, EndKind::Acknowledged),
            };
            let error = match ended {
                Ok(()) => return Ok(()),
                // A dropped queue has taken its rows with it, unless it was replaced.
                Err(Error::Dropped) => match self.moved() {
                    Some(moved) => {
                        self = moved;
                        continue;
                    }
                    None => Error::Dropped,
                },
                Err(error) => error,
            };
            return Err((self, error));
        }
    }

    /// Gives the rows back to their former places, in the queue in which they are now; `note` counts them.
    pub(super) fn give_back(self, owner: OwnerId, note: impl Fn(&mut Counters, u64)) -> Result<(), Error> {
        let reader = self.reader;
        self.give_back_with(|queue, state, rows| {
            let back = match reader {
                Some(reader) => state.readers.take_back(reader, rows, owner, &mut state.index)?,
                None => queue.give_back(state, rows, owner, false)?,
            };
            note(&mut state.counters, back.len() as u64);
            Ok(back)
        })
    }

    /// Gives the rows back because their owner is gone. With a policy that is a failed try.
    pub(super) fn give_back_failed(self, owner: OwnerId) -> Result<(), Error> {
        let reader = self.reader;
        self.give_back_with(|queue, state, rows| {
            let back = match reader {
                Some(reader) => state.readers.take_back(reader, rows, owner, &mut state.index)?,
                None => queue.give_back(state, rows, owner, true)?,
            };
            state.counters.restored_by_close += back.len() as u64;
            Ok(back)
        })
    }

    /// Has `give_back` take the rows from their owner, in the queue in which they are now, and offers those
    /// that it returns.
    fn give_back_with(
        mut self,
        give_back: impl FnOnce(&Queue, &mut State, &[RowId]) -> Result<Vec<RowId>, Error>,
    ) -> Result<(), Error> {
        loop {
            while let Some(moved) = self.moved() {
                self = moved;
            }
            let mut state = self.queue.lock();
            if state.epoch != self.epoch || state.usable().is_err() {
                drop(state);
                // The queue may have been replaced just now.
                let Some(moved) = self.moved() else { return Ok(()) };
                self = moved;
                continue;
            }
            let back = give_back(&self.queue, &mut state, &self.rows)?;
            let candidates = back.into_iter().map(|id| Candidate { id, row: None });
            return self.queue.deliver(&mut state, candidates.collect(), self.queue.shared.now_ms());
        }
    }
}
