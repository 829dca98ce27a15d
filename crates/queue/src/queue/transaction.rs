//! Transactions with two phases. A prepared transaction owns the rows that it adds and those that it
//! ends. Its commit gives the first back and ends the second; its rollback does the opposite.

use std::sync::Arc;

use crate::Error;
use crate::format::record::RowId;
use crate::format::transaction::{Prepared, Xid};
use crate::queue::Queue;
use crate::queue::batch::{BatchBuilder, BatchResult, EndKind, TransactionChange, runs};
use crate::queue::commit::fail;
use crate::queue::dedupe::keys_of_new;
use crate::queue::owner::OwnerId;
use crate::queue::state::State;
use crate::sync::MutexGuard;

/// The coordinator of transactions that the server decides.
const SERVER: [u8; 16] = [0; 16];

impl Queue {
    /// The state, once the next batch has room. These rows of this epoch, which are to be ended, were
    /// ended in the copy before, if there is one.
    pub(crate) fn lock_to_end(&self, epoch: u64, rows: &[RowId]) -> Result<MutexGuard<'_, State>, Error> {
        let mut told = false;
        loop {
            let state = self.lock_with_room()?;
            let copy_state = state.copy_state.as_ref().filter(|_| !told && state.epoch == epoch);
            let Some((copy, there)) = copy_state.and_then(|copy_state| copy_state.there(rows)) else {
                return Ok(state);
            };
            drop(state);
            // The copy comes first: if that fails, nothing has happened.
            copy.end_copied(&there)?;
            told = true;
        }
    }

    /// Adds rows and ends others of this epoch, all or nothing.
    pub(crate) fn commit_at_once(&self, rows: &[Vec<u8>], epoch: u64, ended: &[RowId]) -> Result<(), Error> {
        if rows.is_empty() && ended.is_empty() {
            return Ok(());
        }
        let keys = self.keys_of(rows);
        let (mut state, new) = loop {
            let state = self.lock_to_end(epoch, ended)?;
            match self.admit(&state, &keys) {
                Some(new) => break (state, new),
                None => self.commit(state).ok(),
            };
        };
        let left_out = new.iter().filter(|new| !**new).count() as u64;
        let is_new = |nth: usize| new.get(nth).copied().unwrap_or(true);
        for (_, row) in rows.iter().enumerate().filter(|(nth, _)| is_new(*nth)) {
            state.append_row(row, None, None);
        }
        state.record_keys(&keys_of_new(&keys, &new), self.shared.now_ms());
        if state.epoch == epoch {
            state.note_worked(ended, self.shared.now_ms());
            state.next_batch.acknowledge(ended, EndKind::Acknowledged);
        }
        self.commit(state)?;
        self.note_left_out(left_out);
        Ok(())
    }

    /// Has the next batch prepare a transaction, and returns the transaction's number and that batch, which
    /// is synced. `ended` are rows of this epoch in the order of their ids, and `owner` owns them.
    pub(crate) fn prepare(
        &self,
        xid: &Xid,
        rows: &[Vec<u8>],
        (epoch, ended): (u64, &[RowId]),
        owner: OwnerId,
    ) -> Result<(u64, Arc<BatchResult>), Error> {
        let mut state = self.lock_with_room()?;
        if state.copy_state.is_some() {
            return Err(Error::Copied);
        }
        if state.prepared_as(xid).is_some() {
            return Err(Error::KnownTransaction);
        }
        let ended = if state.epoch == epoch { ended } else { &[] };
        let ended = runs(ended).map(|(first, count)| (first.0, count)).collect();
        let tx = state.transactions.next;
        state.transactions.next += 1;
        let rows_added = (state.next.0, rows.len() as u64);
        let prepared = Prepared { xid: xid.clone(), coordinator: SERVER, rows: rows_added, ended };
        state.next_batch.prepare(tx, prepared, owner);
        for row in rows {
            state.append_row(row, Some(OwnerId::transaction(tx)), None);
        }
        Ok((tx, state.next_batch.result.clone()))
    }

    /// Commits a prepared transaction whose coordinator remembers that until [`Queue::sync`] has returned.
    /// What is decided is written with the next batch, or within a second.
    pub(crate) fn commit_remembered(&self, tx: u64) -> Result<(), Error> {
        if self.definition().dedupe.is_some() {
            return self.decide(tx, true);
        }
        let mut state = self.lock_with_room()?;
        if !state.transactions.open.contains_key(&tx) {
            return Err(Error::UnknownTransaction);
        }
        state.next_batch.record_applied_commit(tx);
        self.schedule_flush(&mut state);
        let applied = self.apply_decision(&mut state, tx, true);
        let back = applied.inspect_err(|error| fail(&mut state, error))?;
        self.deliver_all(&mut state, &back, Vec::new(), self.shared.now_ms())
    }

    /// Commits a prepared transaction or rolls it back; what was decided is durable when this returns. After
    /// [`Error::Disk`] it is still prepared.
    pub(crate) fn decide(&self, tx: u64, commit: bool) -> Result<(), Error> {
        loop {
            let mut state = self.lock_with_room()?;
            if !state.transactions.open.contains_key(&tx) {
                return Err(Error::UnknownTransaction);
            }
            let asks = commit && self.definition().dedupe.is_some();
            let added = state.transactions.open.get(&tx).filter(|_| asks).map(|prepared| prepared.rows);
            let added = added.map(|rows| state.owned_in(rows, OwnerId::transaction(tx))).unwrap_or_default();
            // Those that came before it was committed leave its own rows out.
            if let Some(duplicates) = self.duplicates(&mut state, &added)?
                && state.deciding.insert(tx)
            {
                if !duplicates.is_empty() {
                    state.next_batch.acknowledge(&duplicates, self.deletion());
                }
                state.next_batch.decide(tx, commit);
                if asks {
                    let new: Vec<RowId> =
                        added.into_iter().filter(|row| duplicates.binary_search(row).is_err()).collect();
                    let keys = state.index.keys(&new)?;
                    state.record_keys(&keys, self.shared.now_ms());
                }
                self.commit(state)?;
                self.note_left_out(duplicates.len() as u64);
                return Ok(());
            }
            // Somebody else decides, or adds a row with the same key. When that can't be written, this call
            // continues.
            self.commit(state).ok();
        }
    }

    /// The XIDs of the prepared transactions, which wait to be committed or rolled back.
    #[must_use]
    pub fn recover(&self) -> Vec<Xid> {
        self.lock().transactions.open.values().map(|prepared| prepared.xid.clone()).collect()
    }

    /// Commits a prepared transaction: its rows can be taken, and the rows that it ended are gone. This is
    /// durable when it returns.
    ///
    /// # Errors
    /// [`Error::UnknownTransaction`]; [`Error::Disk`] when it could not be written, and then the transaction
    /// is still prepared; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of service.
    pub fn commit_by_xid(&self, xid: &Xid) -> Result<(), Error> {
        self.decide(self.prepared_as(xid)?, true)
    }

    /// Rolls a prepared transaction back: its rows are gone, and the rows that it ended come back. This is
    /// durable when it returns.
    ///
    /// # Errors
    /// Those of [`Queue::commit_by_xid`].
    pub fn rollback_by_xid(&self, xid: &Xid) -> Result<(), Error> {
        self.decide(self.prepared_as(xid)?, false)
    }

    /// Notes that the decision of a prepared transaction was forgotten, so that somebody has to make one.
    pub fn doubt(&self, xid: &Xid) {
        let mut state = self.lock();
        if let Some((tx, prepared)) = state.prepared_as(xid) {
            let rows = prepared.ranges().map(|(_, count)| count).sum();
            state.in_doubt.insert(tx, rows);
        }
    }

    fn prepared_as(&self, xid: &Xid) -> Result<u64, Error> {
        self.lock().prepared_as(xid).map(|(tx, _)| tx).ok_or(Error::UnknownTransaction)
    }

    /// Applies what a batch says about transactions, after its rows were applied. Returns the rows that came
    /// back.
    pub(crate) fn apply_transactions(
        &self,
        state: &mut State,
        batch: &BatchBuilder,
    ) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for change in &batch.changes {
            match change {
                TransactionChange::Prepare { tx, prepared, owner } => {
                    for range in &prepared.ended {
                        for id in state.owned_in(*range, *owner) {
                            let ownership = state.owners.get_mut(&id);
                            ownership.into_iter().for_each(|of| of.owner = OwnerId::transaction(*tx));
                        }
                    }
                    state.transactions.open.insert(*tx, prepared.clone());
                }
                TransactionChange::Decide { tx, commit } => {
                    state.deciding.remove(tx);
                    back.extend(self.apply_decision(state, *tx, *commit)?);
                }
            }
        }
        Ok(back)
    }

    fn apply_decision(&self, state: &mut State, tx: u64, commit: bool) -> Result<Vec<RowId>, Error> {
        let Some(prepared) = state.transactions.open.remove(&tx) else { return Ok(Vec::new()) };
        state.in_doubt.remove(&tx);
        let owner = OwnerId::transaction(tx);
        let added = state.owned_in(prepared.rows, owner);
        let ended: Vec<_> = prepared.ended.iter().flat_map(|range| state.owned_in(*range, owner)).collect();
        if commit {
            state.note_worked(&ended, self.shared.now_ms());
        }
        let (gone, back, ending) =
            if commit { (ended, added, EndKind::Acknowledged) } else { (added, ended, self.deletion()) };
        self.remove_from_index(state, &gone, ending)?;
        self.give_back(state, &back, owner, false)
    }
}

impl State {
    /// The prepared transaction with this XID, and its number.
    fn prepared_as(&self, xid: &Xid) -> Option<(u64, &Prepared)> {
        let mut open = self.transactions.open.iter();
        open.find(|(_, prepared)| prepared.xid == *xid).map(|(tx, prepared)| (*tx, prepared))
    }

    /// Returns an error when there are prepared transactions, which must not lose their rows.
    pub(crate) fn nothing_prepared(&self) -> Result<(), Error> {
        match self.transactions.open.len() + self.next_batch.prepares() {
            0 => Ok(()),
            transactions => Err(Error::Prepared { transactions }),
        }
    }
}
