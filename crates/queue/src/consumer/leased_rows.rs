//! Leasing rows through a session, and acknowledging them by token.

use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::consumer::cursor::Cursor;
use crate::consumer::owned_rows::OwnedRows;
use crate::consumer::session::Session;
use crate::consumer::transaction::Transaction;
use crate::consumer::wait::{FoundRows, Target, WaitOptions, WaitOutcome};
use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::lease::{EndingRows, LeaseTerms, good};
use crate::queue::lease_table::{Clock, LeasedRow, Token};
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;
use crate::sync::MutexGuard;

/// Rows that were leased by one call.
pub struct LeasedRows {
    queue: Arc<Queue>,
    epoch: u64,
    rows: Vec<LeasedRow>,
    /// The first walk over them. It knows where the first rows are, so it need not lock the queue for them.
    walk: Option<Cursor>,
}

impl LeasedRows {
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
    pub fn cursor(&mut self) -> Cursor {
        self.walk.take().unwrap_or_else(|| walk_over(&self.queue, self.epoch, &self.rows))
    }

    /// Gives them back, because nobody was told of them.
    ///
    /// # Errors
    /// Those of [`Queue::release`].
    pub fn give_back(self) -> Result<(), Error> {
        self.end_with(|queue, tokens| queue.release(tokens))
    }

    /// Gives them back because whoever leased them could not be told. That is a failed try.
    ///
    /// # Errors
    /// Those of [`Queue::nack`].
    pub fn fail(self) -> Result<(), Error> {
        self.end_with(|queue, tokens| queue.nack(tokens, None, ""))
    }

    fn end_with(self, end: impl FnOnce(&Queue, &[Token]) -> Result<u64, Error>) -> Result<(), Error> {
        let tokens: Vec<Token> = self.rows.iter().map(|leased| leased.token).collect();
        match end(&self.queue, &tokens) {
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
        options: &mut WaitOptions<'_>,
        length: Duration,
    ) -> Result<(WaitOutcome, Option<LeasedRows>), Error> {
        if targets.iter().any(|target| target.reader.is_some()) {
            return Err(Error::ReaderLease);
        }
        // Before a queue is locked: the system is asked for it.
        let random = targets.first().map(|target| (target.queue.shared.options.random)());
        let secret = u64::try_from(u128::from_le_bytes(random.unwrap_or_default()) >> 64).unwrap_or_default();
        let (owner, terms) = (self.owner, LeaseTerms { length, secret });
        let (waited, got) = self.take(targets, options, |found| found.lease(owner, terms))?;
        let leased = match got {
            Some(LeaseAttempt::Leased(leased)) => Some(leased),
            Some(LeaseAttempt::Owned(owned)) => owned.lease(owner, terms)?,
            None => None,
        };
        Ok((waited, leased))
    }

    /// Like [`Queue::ack`], for tokens of the transaction's queue: the rows are gone when it is committed.
    /// When it is rolled back the leases go on, and the tokens are good again.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn ack_within(&self, transaction: &mut Transaction, tokens: &[Token]) -> Result<u64, Error> {
        good(tokens, self.try_ack_within(transaction, tokens))
    }

    /// Like [`Session::ack_within`], but returns the tokens that were not good.
    ///
    /// # Errors
    /// Those of [`Session::ack_within`].
    pub fn try_ack_within(
        &self,
        transaction: &mut Transaction,
        tokens: &[Token],
    ) -> Result<Vec<Token>, Error> {
        let EndingRows { epoch, rows, stale } = transaction.queue().end_leases(tokens, self.owner)?;
        transaction.end(epoch, &rows);
        Ok(stale)
    }
}

/// What a session has of rows that it wants to lease.
enum LeaseAttempt {
    /// They are leased.
    Leased(LeasedRows),
    /// The session owns them so far.
    Owned(OwnedRows),
}

impl From<OwnedRows> for LeaseAttempt {
    fn from(owned: OwnedRows) -> LeaseAttempt {
        LeaseAttempt::Owned(owned)
    }
}

fn walk_over(queue: &Arc<Queue>, epoch: u64, rows: &[LeasedRow]) -> Cursor {
    let rows = rows.iter().map(|leased| leased.row).collect();
    Cursor::of_own(queue, epoch, rows).for_lessee()
}

/// Leases rows, which are owned by leases since `clock`, and looks up where they are: whoever reads them need
/// not lock the queue again. There must be numbers for them.
fn lease(
    queue: &Arc<Queue>,
    mut state: MutexGuard<'_, State>,
    rows: &[RowId],
    (terms, clock): (LeaseTerms, Clock),
) -> Result<LeasedRows, Error> {
    let epoch = state.epoch;
    let rows = queue.lease(&mut state, rows, terms, clock);
    let mut walk = walk_over(queue, epoch, &rows);
    // After an error the next walk has the same error.
    let located = walk.locate(&mut state).is_ok();
    queue.write_leases(state)?;
    Ok(LeasedRows { queue: queue.clone(), epoch, rows, walk: located.then_some(walk) })
}

impl FoundRows<'_> {
    /// Leases them, or has the session own them if numbers must be reserved before.
    fn lease(mut self, owner: OwnerId, terms: LeaseTerms) -> Result<LeaseAttempt, Error> {
        if self.state.leases.want(self.rows.len() as u64) {
            return self.own(owner).map(LeaseAttempt::Owned);
        }
        let queue = &self.target.queue;
        let clock = queue.clock();
        let ownership = Ownership { owner: OwnerId::LEASE, since_ms: clock.wall_ms };
        self.state.assign(None, &self.rows, ownership)?;
        lease(queue, self.state, &self.rows, (terms, clock)).map(LeaseAttempt::Leased)
    }
}

impl OwnedRows {
    /// Leases the rows, in the queue in which they are now. `None` when they are gone with it.
    fn lease(mut self, owner: OwnerId, terms: LeaseTerms) -> Result<Option<LeasedRows>, Error> {
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
            if !state.leases.want(self.rows.len() as u64) {
                let clock = queue.clock();
                let rows = state.hand_to_leases(&self.rows, owner, clock);
                return lease(&queue, state, &rows, (terms, clock)).map(Some);
            }
            drop(state);
            if let Err(error) = queue.reserve_numbers(self.rows.len()) {
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
        good(tokens, self.try_ack(tokens))
    }

    /// Like [`Queue::ack`], but returns the tokens that were not good.
    ///
    /// # Errors
    /// Those of [`Queue::ack`].
    pub fn try_ack(self: &Arc<Queue>, tokens: &[Token]) -> Result<Vec<Token>, Error> {
        let mut queue = self.clone();
        let EndingRows { epoch, rows, stale } = loop {
            match (queue.begin_to_end(tokens), queue.successor.get()) {
                (Err(Error::Dropped), Some(successor)) => queue = successor.queue.clone(),
                (begun, _) => break begun?,
            }
        };
        if rows.is_empty() {
            return Ok(stale);
        }
        let owned = OwnedRows { queue, epoch, rows, reader: None };
        owned.end().map(|()| stale).map_err(|(owned, error)| {
            owned.queue.cancel_end(owned.epoch, &owned.rows);
            error
        })
    }
}
