//! The state of a queue, behind its one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::batch::Incarnation;
use crate::format::origin::{Journal, Origin};
use crate::format::record::RowId;
use crate::format::transaction::Transactions;
use crate::index::arrival_times::ArrivalTimes;
use crate::index::scheduled::ScheduledRows;
use crate::index::{Index, RowState};
use crate::queue::batch::{BatchBuilder, runs};
use crate::queue::copy_state::CopyState;
use crate::queue::dedupe_state::DedupeState;
use crate::queue::lease_table::LeaseTable;
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::rate::Rate;
use crate::queue::rate_limit::RateLimit;
use crate::queue::readers::ReaderSet;
use crate::queue::shared::Shared;
use crate::queue::waiter::WaitList;
use crate::recovery::RecoveredState;
use crate::store::log::Log;
use crate::{Counters, Definition, Error, Filter};

/// How moving rows without tries left continues.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterState {
    /// Somebody is at it.
    pub(crate) busy: bool,
    /// When to try again.
    pub(crate) not_before_ms: u64,
    /// Why it failed last.
    pub(crate) why: Option<Error>,
}

/// The state of a queue.
pub(crate) struct State {
    pub(crate) incarnation: Incarnation,
    /// How often the queue was emptied since it was opened; this number names one life of the queue.
    pub(crate) epoch: u64,
    pub(crate) index: Index,
    /// The id of the next row.
    pub(crate) next: RowId,
    /// The id after the last applied row; the rows from here to `next` are still being written.
    pub(crate) arrived: RowId,
    /// The id that the next row had when the active segment began.
    pub(crate) active_next: RowId,
    pub(crate) journal: Journal,
    /// The prepared transactions; each owns its rows.
    pub(crate) transactions: Transactions,
    /// Prepared transactions whose decision is being written.
    pub(crate) deciding: BTreeSet<u64>,
    /// Prepared transactions whose decision was forgotten, and how many rows each adds or ends.
    pub(crate) in_doubt: BTreeMap<u64, u64>,
    /// Origins of rows that are not written yet, in order.
    pub(crate) pending: Vec<Origin>,
    pub(crate) next_batch: BatchBuilder,
    /// How many batches could not be written. What is in effect already of each is gathered again.
    pub(crate) abandoned_batches: u64,
    /// Somebody waits to write what is gathered.
    pub(crate) has_leader: bool,
    /// How many wait with them.
    pub(crate) followers: u64,
    /// Whether several contributed to the batch before.
    pub(crate) last_batch_was_shared: bool,
    /// The active segment is closed before the next batch, however short it is.
    pub(crate) closing: bool,
    /// Somebody uses the log: writes, syncs, or empties the queue.
    pub(crate) writing: bool,
    /// Somebody compacts or writes a checkpoint.
    pub(crate) maintaining: bool,
    /// Absent while somebody writes.
    pub(crate) log: Option<Log>,
    /// Something is not written or synced yet, and is scheduled to be.
    pub(crate) flush_scheduled: bool,
    pub(crate) waiters: WaitList,
    pub(crate) owners: BTreeMap<RowId, Ownership>,
    pub(crate) leases: LeaseTable,
    /// Those who are each given every row, and how far conditions have looked.
    pub(crate) readers: ReaderSet,
    /// When rows came.
    pub(crate) arrivals: ArrivalTimes,
    /// Rows that are due later.
    pub(crate) scheduled: ScheduledRows,
    pub(crate) dedupe: DedupeState,
    /// What becomes of rows that have no tries left.
    pub(crate) dead_letters: DeadLetterState,
    /// Whether its files were used since the last look.
    pub(crate) used: bool,
    /// Whether somebody looks from time to time whether its files are used.
    pub(crate) watched: bool,
    /// How many callers want no row to be taken.
    pub(crate) holds: usize,
    /// Whether somebody has paused the queue.
    pub(crate) is_paused: bool,
    /// How many rows may be given, if only so many may be within a time.
    pub(crate) rate_limit: Option<RateLimit>,
    /// Milliseconds of the clock that is never set.
    up_ms: fn() -> u64,
    /// The copy that is being made meanwhile.
    pub(crate) copy_state: Option<CopyState>,
    pub(crate) failed: Option<Arc<str>>,
    pub(crate) dropped: bool,
    pub(crate) counters: Counters,
    pub(crate) written: Rate,
    pub(crate) removed: Rate,
}

impl State {
    /// The state of a queue that nobody uses yet.
    pub(crate) fn new(recovered: RecoveredState, definition: &Definition, shared: &Shared) -> State {
        let clock = shared.clock();
        // That of keys is kept with them.
        let rate = definition.rate.filter(|_| definition.order.rate_key.is_none());
        let owners = owners_of(&recovered, clock.wall_ms);
        let mut leases = LeaseTable::opened(recovered.leases, recovered.failures, clock);
        let prepared = recovered.prepared_rows.iter().flat_map(|(_, rows)| rows);
        prepared.for_each(|id| leases.begin_to_end(*id));
        State {
            incarnation: recovered.incarnation,
            epoch: 0,
            index: recovered.index,
            next: recovered.next,
            arrived: recovered.next,
            active_next: recovered.active_next,
            journal: recovered.journal,
            transactions: recovered.transactions,
            deciding: BTreeSet::new(),
            in_doubt: BTreeMap::new(),
            pending: Vec::new(),
            next_batch: BatchBuilder::default(),
            abandoned_batches: 0,
            has_leader: false,
            closing: false,
            writing: false,
            maintaining: false,
            log: Some(recovered.log),
            followers: 0,
            last_batch_was_shared: false,
            flush_scheduled: false,
            waiters: WaitList::default(),
            owners,
            leases,
            readers: ReaderSet::new(recovered.ended),
            arrivals: ArrivalTimes::from(recovered.next),
            scheduled: recovered.scheduled,
            dedupe: DedupeState::new(recovered.dedupe_window),
            dead_letters: DeadLetterState::default(),
            used: false,
            watched: false,
            holds: 0,
            is_paused: recovered.is_paused,
            rate_limit: rate.map(RateLimit::new),
            up_ms: shared.options.up_ms,
            copy_state: None,
            failed: None,
            dropped: false,
            counters: Counters::default(),
            written: Rate::default(),
            removed: Rate::default(),
        }
    }

    /// Whether a consumer wants a row with these bytes.
    pub(crate) fn is_wanted(&self, filter: &dyn Filter, id: RowId, row: &[u8]) -> bool {
        if !filter.asks_tries() {
            return filter.matches(row);
        }
        let known = self.leases.delivery_info(id, false);
        filter.matches_tried(row, known.failed, &known.why)
    }

    /// Whether nobody is given a row.
    pub(crate) fn is_held(&self) -> bool {
        self.holds > 0 || self.is_paused
    }

    /// Returns an error when the queue is out of service.
    pub(crate) fn usable(&self) -> Result<(), Error> {
        match &self.failed {
            Some(why) => Err(Error::Failed { why: why.clone() }),
            None if self.dropped => Err(Error::Dropped),
            None => Ok(()),
        }
    }

    /// Notes that a batch could not be written: its rows never existed, and the rows that it would have ended
    /// stay as they are. Rows that are gone already are recorded with the next batch.
    pub(crate) fn abandon_batch(&mut self, batch: &BatchBuilder) {
        self.abandoned_batches += 1;
        self.pending.drain(..batch.origins);
        batch.decided().for_each(|tx| {
            self.deciding.remove(tx);
        });
        self.dedupe.forget_pending(&batch.keys);
        let cut: Vec<_> = batch.replayed.iter().map(|(_, run)| *run).collect();
        self.index.return_runs(&cut);
        self.next_batch.inherit(batch);
    }

    /// Whether a relayed row has already arrived or is being written.
    pub(crate) fn is_duplicate(&self, origin: &Origin) -> bool {
        let repeated = self.pending.iter().rev().find_map(|earlier| origin.repeats(earlier));
        repeated.unwrap_or_else(|| self.journal.has(origin))
    }

    /// Adds a row to the next batch.
    pub(crate) fn append_row(&mut self, row: &[u8], owner: Option<OwnerId>, origin: Option<&Origin>) {
        self.next_batch.add_row(self.next, row, owner, origin);
        self.next = RowId(self.next.0 + 1);
        self.pending.extend(origin);
    }

    /// Gives rows to whoever was found to have a right to them: an owner, or with a reader, that reader.
    pub(crate) fn assign(
        &mut self,
        reader: Option<usize>,
        rows: &[RowId],
        ownership: Ownership,
    ) -> Result<(), Error> {
        for (came_ms, times) in self.arrivals.times(rows) {
            self.counters.waited.count(ownership.since_ms.saturating_sub(came_ms), times);
        }
        if self.readers.give(reader, rows, ownership) {
            return Ok(());
        }
        if self.index.has_key_rate() {
            self.index.give_all(rows, (self.up_ms)())?;
        }
        self.own(rows, ownership)
    }

    /// Gives rows to an owner who was found to have a right to them.
    pub(crate) fn own(&mut self, rows: &[RowId], ownership: Ownership) -> Result<(), Error> {
        self.index.take_all(rows)?;
        self.owners.extend(rows.iter().map(|id| (*id, ownership)));
        Ok(())
    }

    /// Counts for how long those who end rows now have had them.
    pub(crate) fn note_worked(&mut self, rows: &[RowId], now_ms: u64) {
        let owners = runs(rows).flat_map(|(first, count)| self.owners.range(first..RowId(first.0 + count)));
        for (_, ownership) in owners {
            self.counters.worked.count(now_ms.saturating_sub(ownership.since_ms), 1);
        }
    }

    /// Takes rows from their owner and puts them back in their places. Returns those that were still owned,
    /// but for new rows that are due later.
    pub(crate) fn disown(&mut self, rows: &[RowId], owner: OwnerId) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for id in rows {
            if self.owners.get(id).is_none_or(|ownership| ownership.owner != owner) {
                continue;
            }
            self.owners.remove(id);
            if !self.index.restore(*id)? {
                continue;
            }
            if let Some(due_ms) = self.scheduled.take_kept(*id) {
                self.postpone(*id, due_ms)?;
                continue;
            }
            let order_key = self.index.order_key(*id)?;
            self.readers.revisit(order_key);
            back.push(*id);
        }
        Ok(back)
    }

    /// Gives a row that waits to nobody until it is due.
    pub(crate) fn postpone(&mut self, id: RowId, due_ms: u64) -> Result<(), Error> {
        if self.index.postpone(id)? {
            self.scheduled.add(id, due_ms);
        }
        Ok(())
    }

    /// Has a row wait that is due now. False when it is gone.
    pub(crate) fn make_due(&mut self, id: RowId) -> Result<bool, Error> {
        let arrived = self.index.make_due(id)?;
        if arrived {
            let order_key = self.index.order_key(id)?;
            self.readers.revisit(order_key);
        }
        Ok(arrived)
    }

    /// The rows of a range `(first, count)` that this owner owns.
    pub(crate) fn owned_in(&self, (first, count): (u64, u64), owner: OwnerId) -> Vec<RowId> {
        let rows = self.owners.range(RowId(first)..RowId(first.saturating_add(count)));
        rows.filter(|(_, ownership)| ownership.owner == owner).map(|(id, _)| *id).collect()
    }

    /// The lowest row that is not gone, or the next one: none before it will come to anybody.
    pub(crate) fn floor(&mut self) -> Result<RowId, Error> {
        if self.index.scheduled() > 0 {
            return Ok(self.index.next_live(RowId(0))?.unwrap_or(self.next));
        }
        let waiting = self.index.next_waiting(RowId(0))?;
        let owned = self.owners.keys().next().copied();
        Ok(waiting.into_iter().chain(owned).min().unwrap_or(self.next))
    }

    /// Whether a row waits.
    pub(crate) fn is_waiting(&mut self, id: RowId) -> Result<bool, Error> {
        Ok(self.index.row_state(id)? == RowState::Waiting)
    }
}

/// Who owns rows after recovery: leases and prepared transactions.
fn owners_of(recovered: &RecoveredState, since_ms: u64) -> BTreeMap<RowId, Ownership> {
    let leased = recovered.leases.rows.iter().filter(|lease| lease.blocks_delivery());
    let leased = leased.map(|lease| (lease.row, OwnerId::LEASE));
    let prepared = recovered.prepared_rows.iter().flat_map(|(tx, rows)| {
        let owner = OwnerId::transaction(*tx);
        rows.iter().map(move |row| (*row, owner))
    });
    leased.chain(prepared).map(|(row, owner)| (row, Ownership { owner, since_ms })).collect()
}
