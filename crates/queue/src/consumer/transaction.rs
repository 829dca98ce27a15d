//! A transaction in one queue: the rows that it adds and acknowledges until it is committed or rolled
//! back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Error;
use crate::consumer::owned_rows::OwnedRows;
use crate::consumer::session::{Session, claim};
use crate::format::record::RowId;
use crate::format::transaction::Xid;
use crate::queue::batch::BatchResult;
use crate::queue::owner::OwnerId;
use crate::queue::{PUBLISH_BYTES_MAX, Queue};

/// The changes of a connection to one queue between BEGIN and COMMIT. New rows are kept in memory, hidden
/// from others; acknowledged rows stay owned. Dropping the value rolls back.
pub struct Transaction {
    queue: Arc<Queue>,
    owner: OwnerId,
    rows: Vec<Vec<u8>>,
    /// Bytes of the rows as they will be written.
    bytes: usize,
    /// The rows that it ends.
    ended: Vec<EndedRow>,
}

/// A row that a transaction acknowledges.
#[derive(Clone, Copy)]
struct EndedRow {
    epoch: u64,
    row: RowId,
    /// Whether it had been taken before, so that a rollback may count as a failed try.
    taken: bool,
}

/// A savepoint, or the start of a statement. The default is the start of the transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Savepoint {
    rows: usize,
    ended: usize,
}

/// A transaction that is about to be prepared: with the next batch that somebody writes, or with
/// [`PendingPrepare::finish`], which must be called, also to roll it back.
pub struct PendingPrepare {
    transaction: Transaction,
    tx: u64,
    result: Arc<BatchResult>,
}

/// A prepared transaction: it survives a crash, and [`Queue::recover`] lists it until it is committed or
/// rolled back.
#[derive(Debug)]
pub struct PreparedTransaction {
    queue: Arc<Queue>,
    tx: u64,
}

impl Session {
    /// Begins a transaction in a queue. A connection has at most one in each queue.
    ///
    /// # Errors
    /// [`Error::NotTransactional`].
    pub fn begin(&self, queue: &Arc<Queue>) -> Result<Transaction, Error> {
        if !queue.definition().transactional {
            return Err(Error::NotTransactional);
        }
        let (queue, owner) = (queue.clone(), self.owner);
        queue.transactions.fetch_add(1, Ordering::Relaxed);
        Ok(Transaction { queue, owner, rows: Vec::new(), bytes: 0, ended: Vec::new() })
    }

    /// Like [`Session::end`], but the rows are gone when the transaction is committed, and come back when
    /// it is rolled back. Returns false, and does nothing, when the session owns rows of another queue.
    pub fn end_within(&mut self, transaction: &mut Transaction) -> bool {
        if let Some(moved) = self.owned.as_ref().and_then(OwnedRows::moved) {
            self.owned = Some(moved);
        }
        if self.owned.as_ref().is_some_and(|owned| !Arc::ptr_eq(&owned.queue, &transaction.queue)) {
            return false;
        }
        self.owner_mode = false;
        if let Some(owned) = self.owned.take() {
            transaction.end(owned.epoch, &owned.rows);
        }
        true
    }

    /// Like [`Transaction::roll_back_to`], but of the rows that were ended since the mark the session owns
    /// these again. They are those that it owned at the mark; it must own no others now.
    ///
    /// # Errors
    /// Those of [`Transaction::roll_back_to`].
    pub fn roll_back_to(
        &mut self,
        transaction: &mut Transaction,
        savepoint: Savepoint,
        again: &[RowId],
    ) -> Result<(), Error> {
        let (mine, back): (Vec<_>, Vec<_>) =
            transaction.undo(savepoint).into_iter().partition(|ended| again.contains(&ended.row));
        if let Some(epoch) = mine.last().map(|ended| ended.epoch) {
            let rows = mine.iter().map(|ended| ended.row).collect();
            self.owned = Some(OwnedRows { queue: transaction.queue.clone(), epoch, rows, reader: None });
            self.owner_mode = true;
        }
        transaction.give_back(&back, false)
    }

    /// Like [`Session::delete`], for rows of the transaction's queue: they are gone when it is committed. All
    /// of them come back when it is rolled back, also those that the session owned.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn delete_within(&mut self, transaction: &mut Transaction, rows: &[RowId]) -> Result<u64, Error> {
        let queue = transaction.queue.clone();
        let mut state = queue.lock();
        state.usable()?;
        let epoch = state.epoch;
        let rows: BTreeSet<RowId> = rows.iter().copied().collect();
        let claimed = claim(&queue, &mut state, &rows, self.owner);
        drop(state);
        let (mut to_end, taken) = claimed?;
        if to_end.len() > taken.len() {
            // Some were this session's before: the transaction may end them already.
            let known: BTreeSet<RowId> = transaction.ended_in(epoch).collect();
            to_end.retain(|id| !known.contains(id));
        }
        let here = |owned: &&mut OwnedRows| Arc::ptr_eq(&owned.queue, &queue) && owned.epoch == epoch;
        if let Some(owned) = self.owned.as_mut().filter(here) {
            owned.rows.retain(|id| to_end.binary_search(id).is_err());
        }
        let ended = |row: &RowId| EndedRow { epoch, row: *row, taken: taken.binary_search(row).is_err() };
        transaction.ended.extend(to_end.iter().map(ended));
        Ok(to_end.len() as u64)
    }
}

impl Transaction {
    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.ended.is_empty()
    }

    /// Ends rows of this epoch, which its connection has taken, when it is committed.
    pub(super) fn end(&mut self, epoch: u64, rows: &[RowId]) {
        self.ended.extend(rows.iter().map(|row| EndedRow { epoch, row: *row, taken: true }));
    }

    /// The rows of this epoch that it ends.
    fn ended_in(&self, epoch: u64) -> impl Iterator<Item = RowId> + '_ {
        self.ended.iter().filter(move |ended| ended.epoch == epoch).map(|ended| ended.row)
    }

    /// Adds rows when the transaction is committed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the rows of the transaction have too many bytes; none of these is added then.
    pub fn publish(&mut self, rows: &[&[u8]]) -> Result<(), Error> {
        let more: usize = rows.iter().map(|row| self.queue.bytes_of(row)).sum();
        let bytes = self.bytes + more;
        if bytes > PUBLISH_BYTES_MAX {
            return Err(Error::TooLarge { bytes, limit: PUBLISH_BYTES_MAX });
        }
        self.bytes = bytes;
        self.rows.extend(rows.iter().map(|row| row.to_vec()));
        Ok(())
    }

    /// A savepoint at the current point.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { rows: self.rows.len(), ended: self.ended.len() }
    }

    /// Undoes what was done since the mark: later rows are not added, and rows that were ended later come
    /// back. Later marks are void.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        let back = self.undo(savepoint);
        self.give_back(&back, false)
    }

    /// Undoes what was done since the mark, but for the rows that were ended since, which are returned: they
    /// are still owned.
    fn undo(&mut self, savepoint: Savepoint) -> Vec<EndedRow> {
        let rows = self.rows.split_off(savepoint.rows.min(self.rows.len()));
        self.bytes -= rows.iter().map(|row| self.queue.bytes_of(row)).sum::<usize>();
        self.ended.split_off(savepoint.ended.min(self.ended.len()))
    }

    /// Rows wait again, and leases go on; with `died` that is a failed try of those that were taken.
    fn give_back(&self, back: &[EndedRow], died: bool) -> Result<(), Error> {
        let mut result = Ok(());
        for same in back.chunk_by(|one, next| one.epoch == next.epoch && one.taken == next.taken) {
            let Some(EndedRow { epoch, taken, .. }) = same.first().copied() else { continue };
            let rows = same.iter().map(|ended| ended.row).collect();
            let owned = OwnedRows { queue: self.queue.clone(), epoch, rows, reader: None };
            result = result.and(if died && taken {
                owned.give_back_failed(self.owner)
            } else {
                owned.give_back(self.owner, |counters, count| counters.restored_by_abort += count)
            });
        }
        result
    }

    /// Rolls back.
    ///
    /// # Errors
    /// Those of [`Transaction::roll_back_to`].
    pub fn rollback(mut self) -> Result<(), Error> {
        self.roll_back_to(Savepoint::default())
    }

    /// Undoes everything because its connection is gone. For rows that it ended and somebody had taken before
    /// that is a failed try, as in [`Session::close`]; leases that it ended are over.
    ///
    /// # Errors
    /// Those of [`Transaction::roll_back_to`].
    pub fn abandon(mut self) -> Result<(), Error> {
        let back = self.undo(Savepoint::default());
        self.give_back(&back, true)
    }

    /// The epoch of the rows that are ended, and these rows in order. Those of an earlier one are gone
    /// already.
    fn ending(&self) -> (u64, Vec<RowId>) {
        let epoch = self.ended.last().map_or(0, |ended| ended.epoch);
        let mut rows: Vec<RowId> = self.ended_in(epoch).collect();
        rows.sort_unstable();
        (epoch, rows)
    }

    fn forget(&mut self) {
        self.rows.clear();
        self.ended.clear();
    }

    /// Commits with one write, all or nothing. It is then as durable as the queue's definition says, and its
    /// rows were offered to waiting sessions.
    ///
    /// # Errors
    /// Those of [`Queue::publish`]; the transaction is then rolled back.
    pub fn commit_one_phase(mut self) -> Result<(), Error> {
        let (epoch, ended) = self.ending();
        self.queue.commit_at_once(&self.rows, epoch, &ended)?;
        self.forget();
        Ok(())
    }

    /// Makes the transaction durable, whatever the queue's definition says, so that it can be committed or
    /// rolled back, also after a crash. Nobody sees its rows, and nobody takes the rows that it ends.
    ///
    /// # Errors
    /// [`Error::KnownTransaction`]; [`Error::Copied`]; those of [`Queue::publish`]. The transaction is then
    /// rolled back.
    pub fn prepare(self, xid: &Xid) -> Result<PreparedTransaction, Error> {
        self.begin_prepare(xid)?.finish()
    }

    /// Begins what [`Transaction::prepare`] does: until [`PendingPrepare::finish`] others may write it along
    /// with what is theirs.
    ///
    /// # Errors
    /// Those of [`Transaction::prepare`].
    pub fn begin_prepare(self, xid: &Xid) -> Result<PendingPrepare, Error> {
        let (epoch, ended) = self.ending();
        let (tx, result) = self.queue.prepare(xid, &self.rows, (epoch, &ended), self.owner)?;
        Ok(PendingPrepare { transaction: self, tx, result })
    }
}

impl PendingPrepare {
    /// The queue that it is in.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.transaction.queue
    }

    /// Waits until it is prepared, and writes it unless somebody else does.
    ///
    /// # Errors
    /// Those of [`Transaction::prepare`].
    pub fn finish(self) -> Result<PreparedTransaction, Error> {
        let PendingPrepare { mut transaction, tx, result } = self;
        transaction.queue.written(&result)?;
        transaction.forget();
        Ok(PreparedTransaction { queue: transaction.queue.clone(), tx })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.queue.transactions.fetch_sub(1, Ordering::Relaxed);
        // There is nobody to tell; a queue whose index can't be read tells the next who uses it.
        self.roll_back_to(Savepoint::default()).ok();
    }
}

impl PreparedTransaction {
    /// The queue that it is in.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The name of the first row that it adds, for [`Queue::has_row`].
    #[must_use]
    pub fn first_row(&self) -> Option<String> {
        self.queue.name_of_added(self.tx)
    }

    /// Commits it or rolls it back. False when that could not be written and must be tried again; true also
    /// when the queue is gone or out of service, so that nothing is left to do before the next start.
    #[must_use]
    pub fn decide(&self, commit: bool) -> bool {
        !matches!(self.queue.decide(self.tx, commit), Err(Error::Disk { .. }))
    }

    /// Commits it, as [`Queue::commit_by_xid`] does. After [`Error::Disk`] this can be called again.
    ///
    /// # Errors
    /// Those of [`Queue::commit_by_xid`].
    pub fn commit(&self) -> Result<(), Error> {
        self.queue.decide(self.tx, true)
    }

    /// Commits it for a coordinator that remembers this until [`Queue::sync`] was called and has returned: a
    /// start before that may list it as prepared again. So nothing waits for the disk here. The result is
    /// that of [`PreparedTransaction::decide`].
    #[must_use]
    pub fn commit_remembered(&self) -> bool {
        !matches!(self.queue.commit_remembered(self.tx), Err(Error::Disk { .. }))
    }

    /// Rolls it back, as [`Queue::rollback_by_xid`] does. After [`Error::Disk`] this can be called again.
    ///
    /// # Errors
    /// Those of [`Queue::commit_by_xid`].
    pub fn rollback(&self) -> Result<(), Error> {
        self.queue.decide(self.tx, false)
    }
}
