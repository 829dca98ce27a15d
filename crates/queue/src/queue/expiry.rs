//! What happens when a time is over: leases and delays end, scheduled rows become available, retained rows
//! go.

use std::time::Duration;

use crate::Error;
use crate::queue::Queue;
use crate::queue::delivery::{Candidate, deliver};
use crate::queue::lease_table::{LeaseEntry, LeaseStatus};
use crate::queue::owner::OwnerId;
use crate::queue::rate_limit::RateLimit;
use crate::queue::state::State;
use crate::queue::waiter::Notification;

/// Rows whose leases end in one turn, before others get the queue.
const DUE_MAX: usize = 512;

impl Queue {
    /// Schedules a background check for the next expiry of a lease or delay, due time or retention time,
    /// or at once for dead letters.
    pub(crate) fn schedule_due(&self, state: &mut State, up_ms: u64) {
        let scheduled =
            state.scheduled.look_after(|| self.shared.now_ms()).map(|left| up_ms.saturating_add(left));
        let over =
            state.index.retained.look_after(|| self.shared.now_ms()).map(|left| up_ms.saturating_add(left));
        let due = state
            .leases
            .due()
            .into_iter()
            .chain(self.dead_letters_due_at(state))
            .chain(scheduled)
            .chain(over)
            .chain(state.rate_limit.as_ref().and_then(RateLimit::due))
            .chain(state.index.key_rate_due())
            .min();
        let Some(due) = due else { return };
        if state.leases.next_check_ms.is_none_or(|next| due < next) {
            state.leases.next_check_ms = Some(due);
            self.shared.schedule_due(self, Duration::from_millis(due.saturating_sub(up_ms)));
        }
    }

    /// How many of these rows may be given now. If none may, who waits is woken when that is over.
    pub(crate) fn rows_left(&self, state: &mut State, rows_max: usize) -> usize {
        let Some(limit) = &mut state.rate_limit else { return rows_max };
        let up_ms = self.clock().up_ms;
        let left = limit.left(up_ms);
        if left == 0 {
            limit.stall();
            self.schedule_due(state, up_ms);
        }
        rows_max.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Notes that rows are given, for the rate.
    pub(crate) fn note_given(&self, state: &mut State, rows: usize) {
        if let Some(limit) = &mut state.rate_limit {
            limit.note(self.clock().up_ms, rows as u64);
        }
    }

    /// Delivers rows that became available to waiting sessions, in order.
    pub(crate) fn deliver(
        &self,
        state: &mut State,
        candidates: Vec<Candidate<'_>>,
        now_ms: u64,
    ) -> Result<(), Error> {
        let delivered = deliver(state, candidates, now_ms);
        // What was given may have brought a key to its rate, and nobody looks at the queue meanwhile.
        self.schedule_key_rate(state);
        delivered
    }

    /// Schedules the check at which the rate of a key lets more of its rows be given.
    pub(crate) fn schedule_key_rate(&self, state: &mut State) {
        if state.index.key_rate_due().is_some() {
            self.schedule_due(state, self.clock().up_ms);
        }
    }

    /// Expires leases and delays, makes due rows available, removes kept rows whose retention time is over,
    /// and wakes who waits for the rate.
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
            if state.rate_limit.as_mut().is_some_and(|limit| limit.end_stall(clock.up_ms)) {
                state.waiters.wake_all(&Notification::Again);
            }
            state.leases.next_check_ms = None;
            self.schedule_due(&mut state, clock.up_ms);
            let more = kept
                || state.leases.next_due(clock.up_ms).is_some()
                || state.scheduled.is_due(clock.wall_ms)
                || state.index.key_rate_due().is_some_and(|due| due <= clock.up_ms);
            if ended {
                self.write_leases(state)?;
            } else {
                drop(state);
            }
            if !more {
                // What can't be moved now stays, and is tried again.
                self.move_due_dead_letters().ok();
                return Ok(());
            }
        }
    }

    /// Expires some leases and delays, and makes some due rows available. Returns whether leases or
    /// delays have expired.
    pub(crate) fn end_due_now(&self, state: &mut State) -> Result<bool, Error> {
        if state.leases.due().is_none() && state.scheduled.is_empty() && state.index.key_rate_due().is_none()
        {
            return Ok(false);
        }
        let clock = self.clock();
        state.index.forget_given(clock.up_ms, DUE_MAX)?;
        let (mut back, mut ended) = (Vec::new(), 0);
        while let Some(row) = state.leases.next_due(clock.up_ms).filter(|_| ended < DUE_MAX) {
            let Some(entry) = state.leases.get(row) else { break };
            ended += 1;
            let over = match entry.status {
                LeaseStatus::Leased(_) => {
                    state.counters.leases_expired += 1;
                    let entry = self.after_failure(entry, None, clock);
                    let status = match entry.status {
                        LeaseStatus::Delayed(until) => LeaseStatus::ExpiredDelayed(until),
                        LeaseStatus::Free => LeaseStatus::Expired,
                        other => other,
                    };
                    LeaseEntry { status, ..entry }
                }
                LeaseStatus::ExpiredDelayed(_) => LeaseEntry { status: LeaseStatus::Expired, ..entry },
                _ => LeaseEntry { status: LeaseStatus::Free, ..entry },
            };
            state.note_end(row, over, clock)?;
            if matches!(over.status, LeaseStatus::Free | LeaseStatus::Expired) {
                back.extend(state.disown(&[row], OwnerId::LEASE)?);
            }
        }
        let room = DUE_MAX - ended;
        for row in
            std::iter::from_fn(|| state.scheduled.take_due(clock.wall_ms)).take(room).collect::<Vec<_>>()
        {
            back.extend(state.make_due(row)?.then_some(row));
        }
        self.schedule_due(state, clock.up_ms);
        back.iter().for_each(|row| state.arrivals.note_late(*row, clock.wall_ms));
        back.sort_unstable();
        self.deliver(state, back.into_iter().map(|id| Candidate { id, row: None }).collect(), clock.wall_ms)?;
        Ok(ended > 0)
    }
}
