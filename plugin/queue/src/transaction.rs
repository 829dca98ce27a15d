//! Transactions of a connection: what it does in queues with TRANSACTIONAL=1 until the server commits it or
//! rolls it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use queue::{
    Error, PendingPrepare, PreparedTransaction, Queue, RowId, Savepoint, Session, Transaction, Xid,
    commit_multi_queue,
};

use crate::commit_order;
use crate::engine::random;
use crate::fault;
use crate::guard::Fault;
use crate::pending_decisions;
use crate::schedule;

/// The transaction of a connection, over all queues that take part.
#[derive(Default)]
pub(crate) struct Transactions {
    branches: Vec<Branch>,
    /// Rises with each savepoint and each wait that takes rows, so that these have an order.
    time: u64,
    /// When a wait within the transaction took the rows that the connection owns.
    taken: Option<u64>,
    /// Where the current statement began.
    statement: SavepointState,
    savepoints: BTreeMap<u64, SavepointState>,
    /// Its commit, once the coordinator remembers that.
    remembered: Option<commit_order::Commit>,
    /// For tests: its commit fails inside.
    pub(crate) fails: bool,
}

/// The part of a transaction in one queue.
enum Branch {
    Open(Transaction),
    PendingPrepare(PendingPrepare),
    Prepared(PreparedTransaction),
}

/// A point in time to which the transaction can be rolled back.
#[derive(Default)]
struct SavepointState {
    /// For each queue that took part then.
    marks: Vec<Savepoint>,
    time: u64,
    /// The rows that the connection owned then, and their queue.
    held: Option<(Arc<Queue>, Vec<RowId>)>,
    /// Whether these were taken within the transaction, and when.
    taken: Option<u64>,
}

impl Transactions {
    /// The part in this queue, begun if there is none.
    pub(crate) fn branch(
        &mut self,
        session: &Session,
        queue: &Arc<Queue>,
    ) -> Result<&mut Transaction, Fault> {
        let here = |branch: &Branch| match branch {
            Branch::Open(transaction) => Arc::ptr_eq(transaction.queue(), queue),
            Branch::PendingPrepare(_) | Branch::Prepared(_) => false,
        };
        let at = match self.branches.iter().position(here) {
            Some(at) => at,
            None => {
                self.branches.push(Branch::Open(session.begin(queue)?));
                self.branches.len() - 1
            }
        };
        match self.branches.get_mut(at) {
            Some(Branch::Open(transaction)) => Ok(transaction),
            _ => Err(Error::UnknownTransaction.into()),
        }
    }

    /// The queues that take part.
    pub(crate) fn queues(&self) -> Vec<Arc<Queue>> {
        let queue = |branch: &Branch| match branch {
            Branch::Open(transaction) => transaction.queue().clone(),
            Branch::PendingPrepare(preparing) => preparing.queue().clone(),
            Branch::Prepared(prepared) => prepared.queue().clone(),
        };
        self.branches.iter().map(queue).collect()
    }

    /// Ends what the session owns: within the transaction if the queue has transactions, else now.
    pub(crate) fn end(&mut self, session: &mut Session) -> Result<(), Fault> {
        self.taken = None;
        let queue = session.owned_rows().map(|(queue, _)| queue.clone());
        match queue.filter(|queue| queue.definition().transactional) {
            Some(queue) => {
                let transaction = self.branch(session, &queue)?;
                session.end_within(transaction);
            }
            None => session.end()?,
        }
        Ok(())
    }

    /// Notes that a wait within the transaction took rows: they go with it, if their queue has transactions.
    pub(crate) fn took(&mut self, session: &mut Session) -> Result<(), Fault> {
        self.time += 1;
        self.taken = None;
        let queue = session.owned_rows().map(|(queue, _)| queue.clone());
        if let Some(queue) = queue.filter(|queue| queue.definition().transactional) {
            self.taken = Some(self.time);
            // Its queue counts the transaction from now on.
            self.branch(session, &queue)?;
        }
        Ok(())
    }

    /// A statement has ended; without `keep`, what it did is undone. With `died`, because its client could
    /// not be told, what it has taken is a failed try.
    pub(crate) fn end_statement(
        &mut self,
        session: &mut Session,
        keep: bool,
        died: bool,
    ) -> Result<(), Fault> {
        let statement = std::mem::take(&mut self.statement);
        let undone = if keep { Ok(()) } else { self.roll_back_to(&statement, session, died) };
        self.statement = self.now(session);
        undone
    }

    /// Makes a savepoint and returns its number, which is not 0.
    pub(crate) fn set_savepoint(&mut self, session: &mut Session) -> u64 {
        let point = self.now(session);
        let number = point.time;
        self.savepoints.insert(number, point);
        number
    }

    /// Undoes what arrived after a savepoint, which stays. Later ones go.
    pub(crate) fn undo_to_savepoint(&mut self, number: u64, session: &mut Session) -> Result<(), Fault> {
        self.savepoints.split_off(&(number + 1));
        let point = self.savepoints.remove(&number).ok_or(Error::UnknownTransaction)?;
        let undone = self.roll_back_to(&point, session, false);
        self.savepoints.insert(number, point);
        self.statement = self.now(session);
        undone
    }

    /// Removes a savepoint.
    pub(crate) fn release_savepoint(&mut self, number: u64) {
        self.savepoints.remove(&number);
    }

    fn now(&mut self, session: &mut Session) -> SavepointState {
        let mark = |branch: &Branch| match branch {
            Branch::Open(transaction) => transaction.savepoint(),
            Branch::PendingPrepare(_) | Branch::Prepared(_) => Savepoint::default(),
        };
        self.time += 1;
        let held = session.owned_rows().map(|(queue, rows)| (queue.clone(), rows.to_vec()));
        let marks = self.branches.iter().map(mark).collect();
        SavepointState { marks, time: self.time, held, taken: self.taken }
    }

    fn roll_back_to(
        &mut self,
        point: &SavepointState,
        session: &mut Session,
        died: bool,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        if self.taken.is_some_and(|taken| taken > point.time) {
            result = if died { session.fail() } else { session.abort() };
            self.taken = None;
        }
        let marks = point.marks.iter().copied().chain(std::iter::repeat(Savepoint::default()));
        for (branch, mark) in self.branches.iter_mut().zip(marks) {
            if let Branch::Open(transaction) = branch {
                let here = |(queue, _): &&(Arc<Queue>, _)| Arc::ptr_eq(queue, transaction.queue());
                let again = match point.held.as_ref().filter(here) {
                    Some((_, rows)) if session.owned_rows().is_none() => rows.as_slice(),
                    _ => &[],
                };
                result = result.and(session.roll_back_to(transaction, mark, again));
            }
        }
        if session.owned_rows().is_some() && self.taken.is_none() {
            self.taken = point.taken;
        }
        Ok(result?)
    }

    /// What was taken within the transaction is ended with it.
    fn end_taken(&mut self, session: &mut Session) -> Result<(), Fault> {
        if self.taken.is_some() { self.end(session) } else { Ok(()) }
    }

    /// Has what [`Transactions::prepare`] writes wait for whoever writes next.
    pub(crate) fn begin_prepare(&mut self, xid: &Xid, session: &mut Session) -> Result<(), Fault> {
        commit_order::failed()?;
        self.end_taken(session)?;
        let mut begun = Vec::new();
        let mut result = Ok(());
        for branch in std::mem::take(&mut self.branches) {
            match branch {
                Branch::Open(transaction) if transaction.is_empty() => {}
                Branch::Open(transaction) => match transaction.begin_prepare(xid) {
                    Ok(preparing) => begun.push(Branch::PendingPrepare(preparing)),
                    // The server now rolls the transaction back.
                    Err(error) => result = result.and(Err(error)),
                },
                other => begun.push(other),
            }
        }
        self.branches = begun;
        Ok(result?)
    }

    /// Waits until everything is prepared that was begun to be.
    fn finish_preparing(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for branch in std::mem::take(&mut self.branches) {
            match branch {
                Branch::PendingPrepare(preparing) => match preparing.finish() {
                    Ok(prepared) => self.branches.push(Branch::Prepared(prepared)),
                    Err(error) => result = result.and(Err(error)),
                },
                other => self.branches.push(other),
            }
        }
        result
    }

    pub(crate) fn prepare(&mut self, xid: &Xid, session: &mut Session) -> Result<(), Fault> {
        self.begin_prepare(xid, session)?;
        Ok(self.finish_preparing()?)
    }

    /// The coordinator remembers the commit, which is about to come.
    pub(crate) fn remembered(&mut self) {
        self.remembered = Some(commit_order::Commit::begin());
    }

    pub(crate) fn commit(&mut self, session: &mut Session) -> Result<(), Fault> {
        let ended = self.end_taken(session);
        if self.fails {
            fault::arm();
        }
        self.finish_preparing()?;
        let queues = self.queues();
        let Transactions { branches, remembered, .. } = std::mem::take(self);
        let mut open = Vec::new();
        for branch in branches {
            if let Branch::Prepared(prepared) = &branch {
                schedule::note_commit(prepared);
            }
            match branch {
                Branch::Open(transaction) => open.push(transaction),
                Branch::Prepared(prepared) if remembered.is_some() => {
                    pending_decisions::commit_remembered(prepared)
                }
                Branch::Prepared(prepared) => pending_decisions::decide(prepared, true),
                Branch::PendingPrepare(_) => {}
            }
        }
        if let Some(commit) = remembered {
            commit.end(queues);
        }
        ended?;
        let mut left = Vec::new();
        let committed = commit_multi_queue(open, random, &mut left);
        pending_decisions::add(left);
        Ok(committed?)
    }

    /// Rolls back. Rows that the connection has taken within it go back, and leases that it ended go on; with
    /// `died` that is a failed try.
    pub(crate) fn rollback(&mut self, session: &mut Session, died: bool) -> Result<(), Fault> {
        // What can't be prepared is rolled back by that.
        self.finish_preparing().ok();
        let all = std::mem::take(self);
        let mut result = match all.taken {
            Some(_) if died => session.close(),
            Some(_) => session.abort(),
            None => Ok(()),
        };
        for branch in all.branches {
            match branch {
                Branch::Open(transaction) if died => result = result.and(transaction.abandon()),
                Branch::Open(transaction) => result = result.and(transaction.rollback()),
                Branch::Prepared(prepared) => pending_decisions::decide(prepared, false),
                Branch::PendingPrepare(_) => {}
            }
        }
        Ok(result?)
    }
}
