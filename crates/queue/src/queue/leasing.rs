//! Leases: a row is owned by whoever has its token, for a time, without a connection. A lease is written with
//! the next batch and not synced for its own sake; a crash may end it early, and then its token is refused.

use std::time::Duration;

use crate::Error;
use crate::format::policy::Past;
use crate::format::record::RowId;
use crate::queue::lease::{Clock, Doing, Entry, LeasedRow, Token};
use crate::queue::offer::{Candidate, offer};
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;
use crate::queue::{DEFERRED_BYTES_MAX, Queue};
use crate::sync::MutexGuard;

/// Rows whose leases end in one turn, before others get the queue.
const DUE_MAX: usize = 512;

/// What leases of a statement have in common.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// How long they last.
    pub(crate) length: Duration,
    /// What is random in their tokens.
    pub(crate) secret: u64,
}

impl Queue {
    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock()
    }

    /// Sets numbers for leases aside, with a checkpoint, so that none is given again after a crash. The first
    /// time this makes it a queue with leases.
    pub(crate) fn set_numbers_aside(&self, count: usize) -> Result<(), Error> {
        let _tidying = self.tidy()?;
        if self.lock().leases.want(count as u64) {
            self.checkpoint()?;
            self.lock().leases.allow();
        }
        Ok(())
    }

    /// Leases rows, which are owned by leases since `clock`. There must be numbers for them.
    pub(crate) fn lease(
        &self,
        state: &mut State,
        rows: &[RowId],
        terms: Terms,
        clock: Clock,
    ) -> Vec<LeasedRow> {
        let until = clock.up_ms.saturating_add(millis(terms.length));
        let mut leased = Vec::with_capacity(rows.len());
        for row in rows.iter().copied() {
            let failed = state.leases.get(row).map_or(0, |entry| entry.failed);
            // The number makes the token different from others of the same statement.
            let token = Token::new(state.leases.take_number(), terms.secret);
            state.note_lease(row, Some(Entry { token, failed, doing: Doing::Leased(until) }), clock);
            leased.push(LeasedRow { row, token, tries: failed + 1 });
        }
        state.counters.leases += leased.len() as u64;
        self.schedule_due(state, clock.up_ms);
        leased
    }

    /// Sees to it that what is in effect already is written: now if it is much, else later.
    pub(crate) fn write_deferred(&self, mut state: MutexGuard<'_, State>) -> Result<(), Error> {
        if state.gather.bytes.len() >= DEFERRED_BYTES_MAX && !state.led {
            return self.commit(state);
        }
        self.settle_later(&mut state);
        Ok(())
    }

    /// Like [`Queue::write_deferred`]; if it can't be written now, it is written with a later batch.
    pub(crate) fn write_leases(&self, state: MutexGuard<'_, State>) -> Result<(), Error> {
        match self.write_deferred(state) {
            Err(Error::Disk { .. }) => Ok(()),
            other => other,
        }
    }

    /// Makes the leases of these tokens longer: they are over after this time. One that has expired is
    /// renewed if nobody has taken the row. Returns how many tokens were good.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn extend(&self, tokens: &[Token], length: Duration) -> Result<u64, Error> {
        good(tokens, self.try_extend(tokens, length))
    }

    /// Like [`Queue::extend`], but returns the tokens that were not good.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn try_extend(&self, tokens: &[Token], length: Duration) -> Result<Vec<Token>, Error> {
        let clock = self.clock();
        let until = clock.up_ms.saturating_add(millis(length));
        self.change_leases(tokens, |of, state, row, entry| {
            // With a key, somebody may have another row of it by now.
            let is_over = entry.doing == Doing::Expired;
            if is_over && !(state.index.is_line_free(row)? && state.own_again(row, clock)?) {
                return Ok(None);
            }
            state.note_lease(row, Some(Entry { doing: Doing::Leased(until), ..entry }), clock);
            of.schedule_due(state, clock.up_ms);
            Ok(Some(false))
        })
    }

    /// Gives leased rows back because the work on them failed. They wait again, after the delay, or after as
    /// long as the policy says if there is none. Those that have no tries left are moved to the queue for
    /// them, or stay and are given to nobody. A queue with a policy keeps the reason. Returns how many tokens
    /// were good.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn nack(&self, tokens: &[Token], delay: Option<Duration>, why: &str) -> Result<u64, Error> {
        good(tokens, self.try_nack(tokens, delay, why))
    }

    /// Like [`Queue::nack`], but returns the tokens that were not good.
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
            of.note_why(state, row, why);
            state.counters.leases_failed += 1;
            of.schedule_due(state, clock.up_ms);
            Ok(Some(entry.doing == Doing::Free))
        })?;
        // What can't be moved now stays, and is tried again.
        self.bury().ok();
        Ok(stale)
    }

    /// What becomes of a row when a try has failed: it waits again, now or after a delay, or has no tries
    /// left.
    pub(crate) fn after_failure(&self, entry: Entry, delay: Option<u64>, clock: Clock) -> Entry {
        let policy = &self.definition.policy;
        let failed = entry.failed.saturating_add(1);
        let doing = match delay.unwrap_or_else(|| policy.backoff.after(failed)) {
            _ if policy.is_beyond(failed) => Doing::Dead,
            0 => Doing::Free,
            delay => Doing::Delayed(clock.up_ms.saturating_add(delay)),
        };
        Entry { failed, doing, ..entry }
    }

    fn note_why(&self, state: &mut State, row: RowId, why: &str) {
        if self.definition.policy.is_set() && !why.is_empty() {
            let tries = state.leases.past(row).map_or(0, |past| past.tries);
            let past = Past::new(tries, why);
            state.gather.past(row, &past);
            state.leases.set_past(row, past);
        }
    }

    /// Gives rows back that a connection owned when it ended: in a queue with a policy that is a failed try.
    /// Returns those that wait again.
    pub(crate) fn fail_owned(
        &self,
        state: &mut State,
        rows: &[RowId],
        owner: OwnerId,
    ) -> Result<Vec<RowId>, Error> {
        let clock = self.clock();
        let mut back = Vec::new();
        for row in rows {
            let Some(ownership) = state.owners.get_mut(row).filter(|of| of.owner == owner) else { continue };
            let entry = state.leases.get(*row).unwrap_or(Entry::NONE);
            let entry = self.after_failure(entry, None, clock);
            *ownership = Ownership { owner: OwnerId::LEASE, since_ms: clock.wall_ms };
            state.note_end(*row, entry, clock)?;
            state.counters.tries_cut += 1;
            if entry.doing == Doing::Free {
                back.extend(state.disown(&[*row], OwnerId::LEASE)?);
            }
        }
        self.schedule_due(state, clock.up_ms);
        self.settle_later(state);
        Ok(back)
    }

    /// Gives leased rows back as if they had not been leased. Returns how many tokens were good.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn release(&self, tokens: &[Token]) -> Result<u64, Error> {
        good(tokens, self.try_release(tokens))
    }

    /// Like [`Queue::release`], but returns the tokens that were not good.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn try_release(&self, tokens: &[Token]) -> Result<Vec<Token>, Error> {
        let clock = self.clock();
        self.change_leases(tokens, |_, state, row, entry| {
            if entry.is_over() {
                return Ok(None);
            }
            state.note_lease(row, Some(Entry { doing: Doing::Free, ..entry }), clock);
            Ok(Some(true))
        })
    }

    /// Changes the lease of each good token, in the queue in which it is now. `change` returns whether the
    /// row waits again, and nothing when the token is not good after all. Returns the tokens that were not
    /// good.
    fn change_leases(
        &self,
        tokens: &[Token],
        mut change: impl FnMut(&Queue, &mut State, RowId, Entry) -> Result<Option<bool>, Error>,
    ) -> Result<Vec<Token>, Error> {
        let mut state = match (self.room(), self.successor.get()) {
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
        offer(&mut state, back, self.shared.now_ms())?;
        if stale.len() < tokens.len() {
            self.write_leases(state)?;
        }
        Ok(stale)
    }

    /// Finds the rows of good tokens and keeps them from everybody: they are about to be ended.
    pub(crate) fn begin_to_end(&self, tokens: &[Token]) -> Result<Going, Error> {
        let mut state = self.lock();
        state.usable()?;
        state.begin_to_end(tokens, self.clock())
    }

    /// Undoes [`Queue::begin_to_end`] for rows that could not be ended.
    pub(crate) fn fail_to_end(&self, epoch: u64, rows: &[RowId]) {
        let mut state = self.lock();
        if state.epoch != epoch {
            return;
        }
        let clock = self.clock();
        state.lend_again(rows, OwnerId::LEASE, None, clock);
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
        let rows = state.lend_again(rows, owner, died.then_some(clock.up_ms), clock);
        self.schedule_due(state, clock.up_ms);
        if died && self.definition().policy.is_set() {
            self.fail_owned(state, &rows, owner)
        } else {
            state.disown(&rows, owner)
        }
    }

    /// Has this owner own the rows of good tokens, to end them. Until they are ended their leases are only
    /// interrupted: [`Queue::give_back`] has them go on.
    pub(crate) fn end_leases(&self, tokens: &[Token], owner: OwnerId) -> Result<Going, Error> {
        let mut state = self.lock();
        state.usable()?;
        let clock = self.clock();
        let going = state.begin_to_end(tokens, clock)?;
        let owned = |row: &RowId| (*row, Ownership { owner, since_ms: clock.wall_ms });
        state.owners.extend(going.rows.iter().map(owned));
        Ok(going)
    }

    /// Has a thread look when the next lease or delay is over, the next row is due or a kept row's time is
    /// over, or at once when a row has no tries left.
    pub(crate) fn schedule_due(&self, state: &mut State, up_ms: u64) {
        let later = state.later.look_after(|| self.shared.now_ms()).map(|left| up_ms.saturating_add(left));
        let over =
            state.index.keeps.look_after(|| self.shared.now_ms()).map(|left| up_ms.saturating_add(left));
        let due = state.leases.due().into_iter().chain(self.bury_at(state)).chain(later).chain(over).min();
        let Some(due) = due else { return };
        if state.leases.scheduled.is_none_or(|scheduled| due < scheduled) {
            state.leases.scheduled = Some(due);
            self.shared.schedule_due(self, Duration::from_millis(due.saturating_sub(up_ms)));
        }
    }

    /// When the lease or the delay of a row is over, milliseconds since 1970, and how many tries have failed.
    #[must_use]
    pub fn lease_of(&self, row: RowId) -> Option<(u64, u64)> {
        let state = self.lock();
        let (entry, clock) = (state.leases.get(row)?, self.clock());
        let until_ms = match entry.doing {
            Doing::Leased(until) | Doing::Delayed(until) | Doing::Late(until) | Doing::Ending(until) => {
                clock.wall_ms.saturating_add(until.saturating_sub(clock.up_ms))
            }
            Doing::Free | Doing::Expired | Doing::EndingLate(_) | Doing::Dead => 0,
        };
        Some((until_ms, entry.failed))
    }

    /// Ends leases and delays that are over, and lets rows come that are due: they wait, and are offered to
    /// waiting sessions. Kept rows go whose time is over.
    ///
    /// # Errors
    /// Those of [`Queue::extend`].
    pub fn end_due(&self) -> Result<(), Error> {
        loop {
            let mut state = self.lock();
            state.usable()?;
            let clock = self.clock();
            let ended = self.end_due_now(&mut state)?;
            let kept = self.trim_kept(&mut state)?;
            state.leases.scheduled = None;
            self.schedule_due(&mut state, clock.up_ms);
            let more =
                kept || state.leases.next_due(clock.up_ms).is_some() || state.later.is_due(clock.wall_ms);
            if ended {
                self.write_leases(state)?;
            } else {
                drop(state);
            }
            if !more {
                // What can't be moved now stays, and is tried again.
                self.bury_due().ok();
                return Ok(());
            }
        }
    }

    /// Ends some of the leases and delays that are over, and lets some of the rows come that are due. Returns
    /// whether leases or delays were ended.
    pub(crate) fn end_due_now(&self, state: &mut State) -> Result<bool, Error> {
        if state.leases.due().is_none() && state.later.is_empty() {
            return Ok(false);
        }
        let clock = self.clock();
        let (mut back, mut ended) = (Vec::new(), 0);
        while let Some(row) = state.leases.next_due(clock.up_ms).filter(|_| ended < DUE_MAX) {
            let Some(entry) = state.leases.get(row) else { break };
            ended += 1;
            let over = match entry.doing {
                Doing::Leased(_) => {
                    state.counters.leases_expired += 1;
                    let entry = self.after_failure(entry, None, clock);
                    let doing = match entry.doing {
                        Doing::Delayed(until) => Doing::Late(until),
                        Doing::Free => Doing::Expired,
                        other => other,
                    };
                    Entry { doing, ..entry }
                }
                Doing::Late(_) => Entry { doing: Doing::Expired, ..entry },
                _ => Entry { doing: Doing::Free, ..entry },
            };
            state.note_end(row, over, clock)?;
            if matches!(over.doing, Doing::Free | Doing::Expired) {
                back.extend(state.disown(&[row], OwnerId::LEASE)?);
            }
        }
        let room = DUE_MAX - ended;
        for row in std::iter::from_fn(|| state.later.take_due(clock.wall_ms)).take(room).collect::<Vec<_>>() {
            back.extend(state.arrive(row)?.then_some(row));
        }
        self.schedule_due(state, clock.up_ms);
        back.iter().for_each(|row| state.arrivals.note_late(*row, clock.wall_ms));
        back.sort_unstable();
        offer(state, back.into_iter().map(|id| Candidate { id, row: None }).collect(), clock.wall_ms)?;
        Ok(ended > 0)
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
    fn lend_again(&mut self, rows: &[RowId], owner: OwnerId, over: Option<u64>, clock: Clock) -> Vec<RowId> {
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

    /// Replaces what is known of the leases of a row; it is written with the next batch.
    fn note_lease(&mut self, row: RowId, entry: Option<Entry>, clock: Clock) {
        self.leases.set(row, entry);
        let written = self.leases.written(row, clock);
        self.gather.lease(&written);
    }

    /// Notes what becomes of a row whose lease is over or whose try has failed. Those behind one that has no
    /// tries left do not wait for it.
    fn note_end(&mut self, row: RowId, entry: Entry, clock: Clock) -> Result<(), Error> {
        self.note_lease(row, Some(entry), clock);
        if entry.doing == Doing::Dead { self.index.let_pass(row) } else { Ok(()) }
    }

    fn begin_to_end(&mut self, tokens: &[Token], clock: Clock) -> Result<Going, Error> {
        let mut going = Going { epoch: self.epoch, rows: Vec::new(), stale: Vec::new() };
        for token in tokens {
            let ending = match self.leases.find(*token) {
                Some((row, entry)) if matches!(entry.doing, Doing::Leased(_) | Doing::Late(_)) => {
                    Some((row, entry.ending()))
                }
                Some((row, entry)) if self.own_again(row, clock)? => {
                    Some((row, Entry { doing: Doing::EndingLate(clock.up_ms), ..entry }))
                }
                _ => None,
            };
            match ending {
                Some((row, entry)) => {
                    self.leases.set(row, Some(entry));
                    going.rows.push(row);
                }
                None => going.stale.push(*token),
            }
        }
        self.counters.leases_refused += going.stale.len() as u64;
        going.rows.sort_unstable();
        Ok(going)
    }

    /// Owns a row whose lease has expired, if it still waits.
    fn own_again(&mut self, row: RowId, clock: Clock) -> Result<bool, Error> {
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

/// Rows of good tokens that are about to be ended.
pub(crate) struct Going {
    pub(crate) epoch: u64,
    /// In order.
    pub(crate) rows: Vec<RowId>,
    /// The tokens that were not good.
    pub(crate) stale: Vec<Token>,
}

/// How many of the tokens were good.
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

    use crate::{Definition, Engine, Options, OwnerId, Patience, RowId, Session, Target};

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
            let mut one = Patience { rows_max: 1, ..Patience::poll() };
            Session::new(OwnerId(owner)).wait(&[target], &mut one).unwrap();
        }
        let rows = [1, 2, 3].map(RowId);
        let handed = queue.lock().hand_to_leases(&rows, OwnerId(1), queue.clock());
        assert_eq!(handed, [RowId(1)]);
        let owners = queue.owned().into_iter().map(|(row, ownership)| (row, ownership.owner));
        assert!(owners.eq([(RowId(1), OwnerId::LEASE), (RowId(2), OwnerId(2))]));
    }
}
