//! Operations on leases: a lease gives the holder of its token a row for a limited time (visibility
//! timeout), without a connection. A lease is written with the next batch and not synced on its own; a
//! crash may end it early, and its token is then stale.

use std::time::Duration;

use crate::Error;
use crate::format::record::RowId;
use crate::format::retry_policy::FailureInfo;
use crate::queue::Queue;
use crate::queue::delivery::Candidate;
use crate::queue::lease_table::{Clock, LeaseEntry, LeaseStatus, LeasedRow, Token};
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;

/// What the leases of a statement have in common.
#[derive(Clone, Copy)]
pub(crate) struct LeaseTerms {
    /// The visibility timeout.
    pub(crate) length: Duration,
    /// The random part of their tokens.
    pub(crate) secret: u64,
}

impl Queue {
    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock()
    }

    /// Reserves lease numbers with a checkpoint, so that none is used again after a crash. The first call
    /// makes this a queue with leases.
    pub(crate) fn reserve_numbers(&self, count: usize) -> Result<(), Error> {
        let _maintenance = self.begin_maintenance()?;
        if self.lock().leases.want(count as u64) {
            self.checkpoint()?;
            self.lock().leases.allow();
        }
        Ok(())
    }

    /// Leases rows, which leases own since `clock`. Numbers must have been reserved.
    pub(crate) fn lease(
        &self,
        state: &mut State,
        rows: &[RowId],
        terms: LeaseTerms,
        clock: Clock,
    ) -> Vec<LeasedRow> {
        let until = clock.up_ms.saturating_add(millis(terms.length));
        let mut leased = Vec::with_capacity(rows.len());
        for row in rows.iter().copied() {
            let failed = state.leases.get(row).map_or(0, |entry| entry.failed);
            // The number makes the token different from others of the same statement.
            let token = Token::new(state.leases.take_number(), terms.secret);
            state.note_lease(
                row,
                Some(LeaseEntry { token, failed, status: LeaseStatus::Leased(until) }),
                clock,
            );
            leased.push(LeasedRow { row, token, tries: failed + 1 });
        }
        state.counters.leases += leased.len() as u64;
        self.schedule_due(state, clock.up_ms);
        leased
    }

    /// Extends the leases of these tokens: they expire after this time. An expired lease is renewed if no
    /// other consumer has the row. Returns the number of valid tokens.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn extend(&self, tokens: &[Token], length: Duration) -> Result<u64, Error> {
        good(tokens, self.try_extend(tokens, length))
    }

    /// Like [`Queue::extend`], but returns the stale tokens.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn try_extend(&self, tokens: &[Token], length: Duration) -> Result<Vec<Token>, Error> {
        let clock = self.clock();
        let until = clock.up_ms.saturating_add(millis(length));
        self.change_leases(tokens, |of, state, row, entry| {
            // With a key, somebody may have another row of it by now.
            let is_over = entry.status == LeaseStatus::Expired;
            if is_over && !(state.index.is_group_free(row)? && state.reacquire(row, clock)?) {
                return Ok(None);
            }
            state.note_lease(row, Some(LeaseEntry { status: LeaseStatus::Leased(until), ..entry }), clock);
            of.schedule_due(state, clock.up_ms);
            Ok(Some(false))
        })
    }

    /// Returns leased rows as failed. They are delivered again after the delay, or after the policy's
    /// backoff if there is none. Rows without tries left move to the dead letter queue, or stay
    /// undelivered. A queue with a policy stores the reason. Returns the number of valid tokens.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn nack(&self, tokens: &[Token], delay: Option<Duration>, why: &str) -> Result<u64, Error> {
        good(tokens, self.try_nack(tokens, delay, why))
    }

    /// Like [`Queue::nack`], but returns the stale tokens.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn try_nack(
        &self,
        tokens: &[Token],
        delay: Option<Duration>,
        why: &str,
    ) -> Result<Vec<Token>, Error> {
        let clock = self.clock();
        let stale = self.change_leases(tokens, |of, state, row, entry| {
            if entry.is_over() {
                return Ok(None);
            }
            let entry = of.after_failure(entry, delay.map(millis), clock);
            state.note_end(row, entry, clock)?;
            of.note_reason(state, row, why);
            state.counters.leases_failed += 1;
            of.schedule_due(state, clock.up_ms);
            Ok(Some(entry.status == LeaseStatus::Free))
        })?;
        // What can't be moved now stays, and is tried again.
        self.move_dead_letters().ok();
        Ok(stale)
    }

    /// The state of a row after a failed try: available at once or after a delay, or without tries left.
    pub(crate) fn after_failure(&self, entry: LeaseEntry, delay: Option<u64>, clock: Clock) -> LeaseEntry {
        let policy = &self.definition.policy;
        let failed = entry.failed.saturating_add(1);
        let status = match delay.unwrap_or_else(|| policy.backoff.after(failed)) {
            _ if policy.is_exhausted(failed) => LeaseStatus::Dead,
            0 => LeaseStatus::Free,
            delay => LeaseStatus::Delayed(clock.up_ms.saturating_add(delay)),
        };
        LeaseEntry { failed, status, ..entry }
    }

    fn note_reason(&self, state: &mut State, row: RowId, why: &str) {
        if self.definition.policy.is_set() && !why.is_empty() {
            let tries = state.leases.failure(row).map_or(0, |failure| failure.tries);
            let failure = FailureInfo::new(tries, why);
            state.next_batch.record_failure(row, &failure);
            state.leases.set_failure(row, failure);
        }
    }

    /// Counts a failed try for rows that a connection owned when it ended, and returns those that are
    /// available again.
    pub(crate) fn count_failed_tries(
        &self,
        state: &mut State,
        rows: &[RowId],
        owner: OwnerId,
    ) -> Result<Vec<RowId>, Error> {
        let clock = self.clock();
        let mut back = Vec::new();
        for row in rows {
            let Some(ownership) = state.owners.get_mut(row).filter(|of| of.owner == owner) else { continue };
            let entry = state.leases.get(*row).unwrap_or(LeaseEntry::NONE);
            let entry = self.after_failure(entry, None, clock);
            *ownership = Ownership { owner: OwnerId::LEASE, since_ms: clock.wall_ms };
            state.note_end(*row, entry, clock)?;
            state.counters.tries_cut += 1;
            if entry.status == LeaseStatus::Free {
                back.extend(state.disown(&[*row], OwnerId::LEASE)?);
            }
        }
        self.schedule_due(state, clock.up_ms);
        self.schedule_flush(state);
        Ok(back)
    }

    /// Returns leased rows without counting a try. Returns the number of valid tokens.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn release(&self, tokens: &[Token]) -> Result<u64, Error> {
        good(tokens, self.try_release(tokens))
    }

    /// Like [`Queue::release`], but returns the stale tokens.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn try_release(&self, tokens: &[Token]) -> Result<Vec<Token>, Error> {
        let clock = self.clock();
        self.change_leases(tokens, |_, state, row, entry| {
            if entry.is_over() {
                return Ok(None);
            }
            state.note_lease(row, Some(LeaseEntry { status: LeaseStatus::Free, ..entry }), clock);
            Ok(Some(true))
        })
    }

    /// Changes the lease of each valid token, in the queue that has it now. `change` returns whether the
    /// row is available again, or `None` for a stale token. Returns the stale tokens.
    fn change_leases(
        &self,
        tokens: &[Token],
        mut change: impl FnMut(&Queue, &mut State, RowId, LeaseEntry) -> Result<Option<bool>, Error>,
    ) -> Result<Vec<Token>, Error> {
        let mut state = match (self.lock_with_room(), self.successor.get()) {
            (Err(Error::Dropped), Some(successor)) => return successor.queue.change_leases(tokens, change),
            (state, _) => state?,
        };
        let (mut stale, mut back) = (Vec::new(), Vec::new());
        for token in tokens {
            let changed = match state.leases.find(*token) {
                Some((row, entry)) => change(self, &mut state, row, entry)?.map(|waits| (row, waits)),
                None => None,
            };
            match changed {
                Some((row, true)) => back.extend(state.disown(&[row], OwnerId::LEASE)?),
                Some((_, false)) => {}
                None => stale.push(*token),
            }
        }
        state.counters.leases_refused += stale.len() as u64;
        back.sort_unstable();
        let back = back.into_iter().map(|id| Candidate { id, row: None }).collect();
        self.deliver(&mut state, back, self.shared.now_ms())?;
        if stale.len() < tokens.len() {
            self.write_leases(state)?;
        }
        Ok(stale)
    }

    /// Finds the rows of valid tokens and hides them from others: they are about to be acknowledged.
    pub(crate) fn begin_to_end(&self, tokens: &[Token]) -> Result<EndingRows, Error> {
        let mut state = self.lock();
        state.usable()?;
        state.begin_to_end(tokens, self.clock())
    }

    /// Undoes [`Queue::begin_to_end`] for rows that could not be acknowledged.
    pub(crate) fn cancel_end(&self, epoch: u64, rows: &[RowId]) {
        let mut state = self.lock();
        if state.epoch != epoch {
            return;
        }
        let clock = self.clock();
        state.resume_leases(rows, OwnerId::LEASE, None, clock);
        self.schedule_due(&mut state, clock.up_ms);
    }

    /// Gives rows back that their owner was about to end, or only owned. Leases that the rows had go on; with
    /// `died`, because the owner's connection has ended, they are over. That is a failed try, as it is for
    /// other rows in a queue with a policy. Returns those that wait again.
    pub(crate) fn give_back(
        &self,
        state: &mut State,
        rows: &[RowId],
        owner: OwnerId,
        died: bool,
    ) -> Result<Vec<RowId>, Error> {
        let clock = self.clock();
        let rows = state.resume_leases(rows, owner, died.then_some(clock.up_ms), clock);
        self.schedule_due(state, clock.up_ms);
        if died && self.definition().policy.is_set() {
            self.count_failed_tries(state, &rows, owner)
        } else {
            state.disown(&rows, owner)
        }
    }

    /// Has this owner own the rows of good tokens, to end them. Until they are ended their leases are only
    /// interrupted: [`Queue::give_back`] has them go on.
    pub(crate) fn end_leases(&self, tokens: &[Token], owner: OwnerId) -> Result<EndingRows, Error> {
        let mut state = self.lock();
        state.usable()?;
        let clock = self.clock();
        let to_end = state.begin_to_end(tokens, clock)?;
        let owned = |row: &RowId| (*row, Ownership { owner, since_ms: clock.wall_ms });
        state.owners.extend(to_end.rows.iter().map(owned));
        Ok(to_end)
    }

    /// When the lease or delay of a row ends, in milliseconds since 1970, and the number of failed tries.
    #[must_use]
    pub fn lease_of(&self, row: RowId) -> Option<(u64, u64)> {
        let state = self.lock();
        let (entry, clock) = (state.leases.get(row)?, self.clock());
        let until_ms = match entry.status {
            LeaseStatus::Leased(until)
            | LeaseStatus::Delayed(until)
            | LeaseStatus::ExpiredDelayed(until)
            | LeaseStatus::EndKind(until) => clock.wall_ms.saturating_add(until.saturating_sub(clock.up_ms)),
            LeaseStatus::Free | LeaseStatus::Expired | LeaseStatus::EndingExpired(_) | LeaseStatus::Dead => 0,
        };
        Some((until_ms, entry.failed))
    }
}

impl State {
    /// Has leases own the rows that this owner owns. Returns these.
    pub(crate) fn hand_to_leases(&mut self, rows: &[RowId], owner: OwnerId, clock: Clock) -> Vec<RowId> {
        let mut handed = rows.to_vec();
        handed.retain(|row| {
            let ownership = self.owners.get_mut(row).filter(|of| of.owner == owner);
            let leased = Ownership { owner: OwnerId::LEASE, since_ms: clock.wall_ms };
            ownership.map(|ownership| *ownership = leased).is_some()
        });
        handed
    }

    /// Has leases own the rows again that this owner was about to end. With `over` they are over by then.
    /// Returns the other rows.
    fn resume_leases(
        &mut self,
        rows: &[RowId],
        owner: OwnerId,
        over: Option<u64>,
        clock: Clock,
    ) -> Vec<RowId> {
        let mut others = rows.to_vec();
        others.retain(|row| {
            let owned = self.owners.get_mut(row).filter(|of| of.owner == owner);
            let entry = self.leases.get(*row).and_then(|entry| entry.not_ended(over));
            let (Some(ownership), Some(entry)) = (owned, entry) else { return true };
            *ownership = Ownership { owner: OwnerId::LEASE, since_ms: clock.wall_ms };
            self.leases.set(*row, Some(entry));
            false
        });
        others
    }

    /// Replaces the lease of a row; it is written with the next batch.
    fn note_lease(&mut self, row: RowId, entry: Option<LeaseEntry>, clock: Clock) {
        self.leases.set(row, entry);
        let written = self.leases.written(row, clock);
        self.next_batch.record_lease(&written);
    }

    /// Notes what becomes of a row whose lease is over or whose try has failed. Those behind one that has no
    /// tries left do not wait for it.
    pub(crate) fn note_end(&mut self, row: RowId, entry: LeaseEntry, clock: Clock) -> Result<(), Error> {
        self.note_lease(row, Some(entry), clock);
        if entry.status == LeaseStatus::Dead { self.index.unblock_group(row) } else { Ok(()) }
    }

    fn begin_to_end(&mut self, tokens: &[Token], clock: Clock) -> Result<EndingRows, Error> {
        let mut to_end = EndingRows { epoch: self.epoch, rows: Vec::new(), stale: Vec::new() };
        for token in tokens {
            let ending = match self.leases.find(*token) {
                Some((row, entry))
                    if matches!(entry.status, LeaseStatus::Leased(_) | LeaseStatus::ExpiredDelayed(_)) =>
                {
                    Some((row, entry.ending()))
                }
                Some((row, entry)) if self.reacquire(row, clock)? => {
                    Some((row, LeaseEntry { status: LeaseStatus::EndingExpired(clock.up_ms), ..entry }))
                }
                _ => None,
            };
            match ending {
                Some((row, entry)) => {
                    self.leases.set(row, Some(entry));
                    to_end.rows.push(row);
                }
                None => to_end.stale.push(*token),
            }
        }
        self.counters.leases_refused += to_end.stale.len() as u64;
        to_end.rows.sort_unstable();
        Ok(to_end)
    }

    /// Takes a row again whose lease has expired, if it is still available.
    fn reacquire(&mut self, row: RowId, clock: Clock) -> Result<bool, Error> {
        let waits = self.is_waiting(row)?;
        if waits {
            self.own(&[row], Ownership { owner: OwnerId::LEASE, since_ms: clock.wall_ms })?;
        }
        Ok(waits)
    }

    /// The feature flags of a new segment.
    pub(crate) fn features(&self, definition: &crate::Definition) -> u64 {
        definition.features() | self.leases.features()
    }
}

/// Rows of valid tokens that are about to be acknowledged.
pub(crate) struct EndingRows {
    pub(crate) epoch: u64,
    /// In order.
    pub(crate) rows: Vec<RowId>,
    /// The stale tokens.
    pub(crate) stale: Vec<Token>,
}

/// The number of valid tokens.
pub(crate) fn good(tokens: &[Token], stale: Result<Vec<Token>, Error>) -> Result<u64, Error> {
    stale.map(|stale| (tokens.len() - stale.len()) as u64)
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use disk::faults::FaultDisk;

    use crate::{Definition, Engine, Options, OwnerId, RowId, Session, Target, WaitOptions};

    #[test]
    fn only_rows_of_the_owner_are_handed_to_leases() {
        let options = Options::new(|| 7, || [3; 16]);
        let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
        let folder = Path::new("/db/q");
        engine.create(folder, &Definition::default()).unwrap();
        let queue = engine.open(folder).unwrap();
        queue.publish(&[b"a", b"b", b"c"], None).unwrap();
        for owner in [1, 2] {
            let target = Target { queue: queue.clone(), filter: None, reader: None };
            let mut one = WaitOptions { rows_max: 1, ..WaitOptions::poll() };
            Session::new(OwnerId(owner)).wait(&[target], &mut one).unwrap();
        }
        let rows = [1, 2, 3].map(RowId);
        let handed = queue.lock().hand_to_leases(&rows, OwnerId(1), queue.clock());
        assert_eq!(handed, [RowId(1)]);
        let owners = queue.owned().into_iter().map(|(row, ownership)| (row, ownership.owner));
        assert!(owners.eq([(RowId(1), OwnerId::LEASE), (RowId(2), OwnerId(2))]));
    }
}
