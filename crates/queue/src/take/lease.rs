//! Leases: rows that a session takes for whoever has their tokens, and what is done with tokens.

use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::queue::Queue;
use crate::queue::lease::{LeasedRow, Token};
use crate::queue::owner::OwnerId;
use crate::take::cursor::Cursor;
use crate::take::held::Held;
use crate::take::session::Session;
use crate::take::transaction::Transaction;
use crate::take::wait::{Patience, Target, Waited};

/// Rows that were leased together.
pub struct Leased {
    queue: Arc<Queue>,
    epoch: u64,
    rows: Vec<LeasedRow>,
}

impl Leased {
    /// The queue that the rows are in.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The rows, in the order of the queue.
    #[must_use]
    pub fn rows(&self) -> &[LeasedRow] {
        &self.rows
    }

    /// A walk over them.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let rows = self.rows.iter().map(|leased| leased.row).collect();
        Cursor::of_own(&self.queue, self.epoch, rows).for_lessee()
    }

    /// Gives them back, because nobody was told of them.
    ///
    /// # Errors
    /// Those of [`Queue::release`].
    pub fn give_back(self) -> Result<(), Error> {
        let tokens: Vec<Token> = self.rows.iter().map(|leased| leased.token).collect();
        match self.queue.release(&tokens) {
            Err(Error::Dropped) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

impl Session {
    /// Like [`Session::wait`], but the rows are leased: whoever has their tokens can end them or give them
    /// back until this time is over. What the session owned stays as it is, and so does what it sees.
    ///
    /// # Errors
    /// [`Error::ReaderLease`]; those of [`Queue::publish`] and those of reading rows; nothing is leased then.
    pub fn lease(
        &mut self,
        targets: &[Target],
        patience: &mut Patience<'_>,
        length: Duration,
    ) -> Result<(Waited, Option<Leased>), Error> {
        if targets.iter().any(|target| target.reader.is_some()) {
            return Err(Error::ReaderLease);
        }
        match self.take(targets, patience)? {
            (Waited::Taken(at), Some(held)) => Ok((Waited::Taken(at), held.lease(self.owner, length)?)),
            (waited, _) => Ok((waited, None)),
        }
    }

    /// Like [`Queue::ack`], for tokens of the transaction's queue: the rows are gone when it is committed.
    /// When it is rolled back they wait again, and the tokens are void.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn ack_within(&self, transaction: &mut Transaction, tokens: &[Token]) -> Result<u64, Error> {
        let (epoch, rows) = transaction.queue().end_leases(tokens, self.owner)?;
        transaction.end(epoch, &rows);
        Ok(rows.len() as u64)
    }
}

impl Held {
    /// Leases the rows, in the queue in which they are now. `None` when they are gone with it.
    fn lease(mut self, owner: OwnerId, length: Duration) -> Result<Option<Leased>, Error> {
        // Before the queue is locked: the system is asked for it.
        let random = u128::from_le_bytes((self.queue.shared.options.random)());
        let secret = u64::try_from(random >> 64).unwrap_or_default();
        loop {
            while let Some(moved) = self.moved() {
                self = moved;
            }
            let queue = self.queue.clone();
            let mut state = queue.lock();
            let usable = state.usable();
            if state.epoch != self.epoch || usable.is_err() {
                drop(state);
                let Some(moved) = self.moved() else { return usable.map(|()| None) };
                self = moved;
                continue;
            }
            if let Some(rows) = queue.lease(&mut state, &self.rows, owner, (length, secret)) {
                queue.write_leases(state)?;
                return Ok(Some(Leased { queue, epoch: self.epoch, rows }));
            }
            drop(state);
            if let Err(error) = queue.set_numbers_aside(self.rows.len()) {
                self.give_back(owner, |counters, count| counters.restored_by_abort += count)?;
                return Err(error);
            }
        }
    }
}

impl Queue {
    /// Ends leased rows: they are gone, as after [`Session::end`]. A lease that has expired counts as long as
    /// nobody has taken the row. Returns how many tokens were good.
    ///
    /// # Errors
    /// Those of [`Queue::publish`]; the rows are then still leased.
    pub fn ack(self: &Arc<Queue>, tokens: &[Token]) -> Result<u64, Error> {
        let mut queue = self.clone();
        let (epoch, rows) = loop {
            match (queue.begin_to_end(tokens), queue.successor.get()) {
                (Err(Error::Dropped), Some(successor)) => queue = successor.queue.clone(),
                (begun, _) => break begun?,
            }
        };
        let good = rows.len() as u64;
        if rows.is_empty() {
            return Ok(0);
        }
        let held = Held { queue, epoch, rows, reader: None };
        held.end().map(|()| good).map_err(|(held, error)| {
            held.queue.fail_to_end(held.epoch, &held.rows);
            error
        })
    }
}
