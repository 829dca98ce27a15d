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
        let clock = self.clock();
        let good = self.change_leases(tokens, |of, state, row, entry| {
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
        Ok(good)
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
    /// row waits again, and nothing when the token is not good after all.
    fn change_leases(
        &self,
        tokens: &[Token],
        mut change: impl FnMut(&Queue, &mut State, RowId, Entry) -> Result<Option<bool>, Error>,
    ) -> Result<u64, Error> {
        let mut state = match (self.room(), self.successor.get()) {
            (Err(Error::Dropped), Some(successor)) => return successor.queue.change_leases(tokens, change),
            (state, _) => state?,
        };
        let (mut good, mut back) = (0, Vec::new());
        for token in tokens {
            let Some((row, entry)) = state.leases.find(*token) else { continue };
            let Some(waits) = change(self, &mut state, row, entry)? else { continue };
            good += 1;
            if waits {
                back.extend(state.disown(&[row], OwnerId::LEASE)?);
            }
        }
        state.counters.leases_refused += tokens.len() as u64 - good;
        back.sort_unstable();
        let back = back.into_iter().map(|id| Candidate { id, row: None }).collect();
        offer(&mut state, back, self.shared.now_ms())?;
        if good > 0 {
            self.write_leases(state)?;
        }
        Ok(good)
    }

    /// Finds the rows of good tokens and keeps them from everybody: they are about to be ended. Returns their
    /// epoch and the rows in order.
    pub(crate) fn begin_to_end(&self, tokens: &[Token]) -> Result<(u64, Vec<RowId>), Error> {
        let mut state = self.lock();
        state.usable()?;
        let rows = state.begin_to_end(tokens, self.clock())?;
        Ok((state.epoch, rows))
    }

    /// Undoes [`Queue::begin_to_end`] for rows that could not be ended.
    pub(crate) fn fail_to_end(&self, epoch: u64, rows: &[RowId]) {
        let mut state = self.lock();
        if state.epoch != epoch {
            return;
        }
        for row in rows {
            let Some(entry) = state.leases.get(*row) else { continue };
            if let Doing::Ending(until) = entry.doing {
                state.leases.set(*row, Some(Entry { doing: Doing::Leased(until), ..entry }));
            }
        }
        let up_ms = self.clock().up_ms;
        self.schedule_due(&mut state, up_ms);
    }

    /// Takes the rows of good tokens out of their leases; this owner owns them then. Returns their epoch and
    /// the rows.
    pub(crate) fn end_leases(&self, tokens: &[Token], owner: OwnerId) -> Result<(u64, Vec<RowId>), Error> {
        let mut state = self.lock();
        state.usable()?;
        let (epoch, clock) = (state.epoch, self.clock());
        let rows = state.begin_to_end(tokens, clock)?;
        for row in &rows {
            let entry = state.leases.get(*row).map(|entry| Entry { doing: Doing::Free, ..entry });
            state.note_lease(*row, entry, clock);
            state.owners.insert(*row, Ownership { owner, since_ms: clock.wall_ms });
        }
        if !rows.is_empty() {
            self.write_leases(state)?;
        }
        Ok((epoch, rows))
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
            Doing::Free | Doing::Expired | Doing::Dead => 0,
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

    fn begin_to_end(&mut self, tokens: &[Token], clock: Clock) -> Result<Vec<RowId>, Error> {
        let mut rows = Vec::new();
        for token in tokens {
            let Some((row, entry)) = self.leases.find(*token) else { continue };
            let until = match entry.doing {
                Doing::Leased(until) => until,
                Doing::Late(_) => clock.up_ms,
                _ if self.own_again(row, clock)? => clock.up_ms,
                _ => continue,
            };
            self.leases.set(row, Some(Entry { doing: Doing::Ending(until), ..entry }));
            rows.push(row);
        }
        self.counters.leases_refused += (tokens.len() - rows.len()) as u64;
        rows.sort_unstable();
        Ok(rows)
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
