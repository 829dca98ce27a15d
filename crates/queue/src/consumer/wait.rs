//! Waiting for rows of several queues at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::consumer::owned_rows::OwnedRows;
use crate::consumer::scan::{BUDGET, ScanResult, scan};
use crate::consumer::session::Session;
use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;
use crate::queue::waiter::{Alternative, Delivery, Notification, Registration};
use crate::sync::{MutexGuard, pass};
use crate::{Counters, Error, Filter};

/// How long a session that looks through many rows leaves a queue to others before it continues.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// A queue to take rows from, and which rows.
#[derive(Clone)]
pub struct Target {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Only rows that match, or all.
    pub filter: Option<Arc<dyn Filter>>,
    /// The reader, by its number from [`Definition::reader`](crate::Definition::reader); none in a queue
    /// without readers.
    pub reader: Option<usize>,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The session owns rows of the target with this index.
    Taken(usize),
    /// The timeout passed.
    TimedOut,
    /// It was interrupted.
    Interrupted,
    /// A queue was dropped before or during the wait; nothing was taken.
    Dropped,
}

/// Options of a wait.
pub struct WaitOptions<'session> {
    /// Maximum number of rows; all come from one target.
    pub rows_max: usize,
    /// Timeout; none to wait forever.
    pub timeout: Option<Duration>,
    /// Called before every sleep, at least every `alive_every`, and during long scans. False interrupts
    /// the wait.
    pub alive: Option<&'session mut dyn FnMut() -> bool>,
    /// How often to call `alive`.
    pub alive_every: Option<Duration>,
}

impl WaitOptions<'_> {
    /// One row, without waiting.
    #[must_use]
    pub fn poll() -> Self {
        WaitOptions { rows_max: 1, timeout: Some(Duration::ZERO), alive: None, alive_every: None }
    }

    /// One row, without a timeout.
    #[must_use]
    pub fn forever() -> Self {
        WaitOptions { timeout: None, ..Self::poll() }
    }

    fn is_alive(&mut self) -> bool {
        self.alive.as_mut().is_none_or(|alive| alive())
    }
}

impl Session {
    /// Acknowledges the rows that the session owns, then takes rows of the first target that has any, or
    /// waits for one. A row of a later target is not taken while an earlier target has one.
    ///
    /// # Errors
    /// Those of [`Queue::publish`] and those of reading rows; the session then owns nothing.
    pub fn wait(&mut self, targets: &[Target], options: &mut WaitOptions<'_>) -> Result<WaitOutcome, Error> {
        self.end()?;
        let owner = self.owner;
        let (waited, owned) = self.take(targets, options, |found| found.own(owner))?;
        self.owner_mode = waited != WaitOutcome::Interrupted;
        self.owned = owned;
        Ok(waited)
    }

    /// Takes rows of the first target that has any, or waits until one has. `keep` says what becomes of rows
    /// that are there at once; the session owns those that came later.
    pub(super) fn take<T: From<OwnedRows>>(
        &mut self,
        targets: &[Target],
        options: &mut WaitOptions<'_>,
        keep: impl Fn(FoundRows<'_>) -> Result<T, Error>,
    ) -> Result<WaitResult<T>, Error> {
        let until = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let now = options.timeout.is_some_and(|timeout| timeout.is_zero());
        loop {
            let tickets = match self.look(targets, options, !now) {
                Ok(PollResult::Found(target, found)) => {
                    return Ok((WaitOutcome::Taken(target), Some(keep(found)?)));
                }
                Ok(PollResult::Registered(tickets)) => tickets,
                Ok(PollResult::Interrupted) => return outcome_of(targets, Some(Notification::Interrupted)),
                Err(Error::Dropped) => return outcome_of(targets, Some(Notification::Dropped)),
                Err(error) => return Err(error),
            };
            let notification = if now { None } else { self.wait_for_notification(until, options) };
            let last = self.notifier.end();
            unregister(targets, &tickets);
            match (notification, last) {
                (Some(Notification::Interrupted), Some(Notification::Rows(given))) => {
                    // The client is gone, and nobody can take what arrived at the last moment.
                    let note = |counters: &mut Counters, count| counters.restored_by_abort += count;
                    owned_rows(given, targets).give_back(self.owner, note)?;
                    return outcome_of(targets, Some(Notification::Interrupted));
                }
                (Some(Notification::Again), None) | (None, Some(Notification::Again)) => {}
                (notification, last) => return outcome_of(targets, last.or(notification)),
            }
        }
    }

    /// Waits until there is news, the deadline passes, or `alive` returns false.
    fn wait_for_notification(
        &self,
        until: Option<Instant>,
        options: &mut WaitOptions<'_>,
    ) -> Option<Notification> {
        loop {
            if !options.is_alive() {
                return Some(Notification::Interrupted);
            }
            let ask = options.alive_every.and_then(|every| Instant::now().checked_add(every));
            let pause = match (until, ask) {
                (Some(until), Some(ask)) => Some(until.min(ask)),
                (one, other) => one.or(other),
            };
            let notification = self.notifier.wait_for_notification(pause);
            if notification.is_some() || until.is_some_and(|until| until <= Instant::now()) {
                return notification;
            }
        }
    }

    /// Looks at all targets. When none has anything, registers in all of them before anybody can add a row to
    /// one.
    fn look<'targets>(
        &self,
        targets: &'targets [Target],
        options: &mut WaitOptions<'_>,
        register: bool,
    ) -> Result<PollResult<'targets>, Error> {
        let rows_max = options.rows_max;
        loop {
            let mut locked = lock_all(targets);
            let mut budget = BUDGET;
            let mut more = false;
            for (at, target) in targets.iter().enumerate() {
                let Some(state) = locked.state(&target.queue) else { continue };
                state.usable()?;
                target.queue.definition().check_reader(target.reader)?;
                if state.is_held() {
                    continue;
                }
                target.queue.touch(state);
                if target.queue.end_due_now(state)? {
                    target.queue.schedule_flush(state);
                }
                let rows_max = target.queue.rows_left(state, rows_max);
                if rows_max == 0 {
                    continue;
                }
                match scan(state, (target.filter.as_deref(), target.reader), rows_max, &mut budget)? {
                    ScanResult::Rows(rows) => {
                        target.queue.note_given(state, rows.len());
                        state.counters.wait_immediate += 1;
                        let Some(state) = locked.take(&target.queue) else { continue };
                        return Ok(PollResult::Found(at, FoundRows { target, state, rows }));
                    }
                    ScanResult::Nothing => {}
                    ScanResult::More => {
                        more = true;
                        break;
                    }
                }
            }
            if !more {
                let tickets =
                    if register { self.register(targets, &mut locked, rows_max) } else { Vec::new() };
                return Ok(PollResult::Registered(tickets));
            }
            drop(locked);
            if !options.is_alive() {
                return Ok(PollResult::Interrupted);
            }
            give_way(targets);
        }
    }

    fn register(
        &self,
        targets: &[Target],
        locked: &mut LockedQueues<'_>,
        rows_max: usize,
    ) -> Vec<(u64, u64)> {
        let round = self.notifier.begin();
        let mut tickets = Vec::new();
        for (number, state) in &mut locked.states {
            let here = targets.iter().enumerate().filter(|(_, target)| target.queue.number == *number);
            let alternatives =
                here.map(|(target, of)| Alternative { target, filter: of.filter.clone(), reader: of.reader });
            let alternatives = alternatives.collect();
            let (notifier, owner) = (self.notifier.clone(), self.owner);
            let waiter = Registration { notifier, round, owner, rows_max, alternatives };
            tickets.push((*number, state.waiters.add(waiter)));
        }
        tickets
    }
}

/// Rows that a session has found and nobody owns, in the state of their queue.
pub(super) struct FoundRows<'targets> {
    pub(super) target: &'targets Target,
    pub(super) state: MutexGuard<'targets, State>,
    pub(super) rows: Vec<RowId>,
}

impl FoundRows<'_> {
    /// Has a session own them.
    pub(super) fn own(mut self, owner: OwnerId) -> Result<OwnedRows, Error> {
        let (queue, reader) = (self.target.queue.clone(), self.target.reader);
        let since_ms = queue.shared.now_ms();
        self.state.assign(reader, &self.rows, Ownership { owner, since_ms })?;
        queue.schedule_key_rate(&mut self.state);
        Ok(OwnedRows { queue, epoch: self.state.epoch, rows: self.rows, reader })
    }
}

/// How a wait has ended, by the last news.
fn outcome_of<T: From<OwnedRows>>(
    targets: &[Target],
    notification: Option<Notification>,
) -> Result<WaitResult<T>, Error> {
    match notification {
        Some(Notification::Rows(given)) => {
            let target = given.target;
            let owned = owned_rows(given, targets);
            owned.queue.lock().counters.wait_delayed += 1;
            Ok((WaitOutcome::Taken(target), Some(owned.into())))
        }
        // `take` has already handled Again, by looking again.
        Some(Notification::Interrupted | Notification::Again) => Ok((WaitOutcome::Interrupted, None)),
        Some(Notification::Dropped) => Ok((WaitOutcome::Dropped, None)),
        Some(Notification::Broken(error)) => Err(error),
        None => {
            targets.iter().for_each(|target| target.queue.lock().counters.wait_timeout += 1);
            Ok((WaitOutcome::TimedOut, None))
        }
    }
}

/// What a session was given, in the form in which it holds it.
fn owned_rows(given: Delivery, targets: &[Target]) -> OwnedRows {
    let Delivery { target, epoch, rows } = given;
    OwnedRows { queue: targets[target].queue.clone(), epoch, rows, reader: targets[target].reader }
}

/// How a wait ended, and the rows that it took.
pub(super) type WaitResult<T> = (WaitOutcome, Option<T>);

enum PollResult<'targets> {
    /// Rows of the target with this index.
    Found(usize, FoundRows<'targets>),
    /// `(number of the queue, ticket in it)`.
    Registered(Vec<(u64, u64)>),
    Interrupted,
}

/// The states of several queues, each locked once, in the order of their numbers.
struct LockedQueues<'queue> {
    states: Vec<(u64, MutexGuard<'queue, State>)>,
}

impl<'queue> LockedQueues<'queue> {
    fn state(&mut self, queue: &Queue) -> Option<&mut State> {
        let state = self.states.iter_mut().find(|(number, _)| *number == queue.number);
        state.map(|(_, state)| &mut **state)
    }

    /// One of them, which stays locked for longer than the others.
    fn take(&mut self, queue: &Queue) -> Option<MutexGuard<'queue, State>> {
        let at = self.states.iter().position(|(number, _)| *number == queue.number)?;
        Some(self.states.swap_remove(at).1)
    }
}

fn lock_all(targets: &[Target]) -> LockedQueues<'_> {
    let mut queues: Vec<&Queue> = targets.iter().map(|target| &*target.queue).collect();
    queues.sort_by_key(|queue| queue.number);
    queues.dedup_by_key(|queue| queue.number);
    LockedQueues { states: queues.into_iter().map(|queue| (queue.number, queue.lock())).collect() }
}

/// Leaves the queues to those who wait for them: a session that looks through many rows comes again and
/// again, and would be first each time.
fn give_way(targets: &[Target]) {
    for target in targets {
        let started = Instant::now();
        while target.queue.is_wanted() && started.elapsed() < GIVE_WAY {
            pass();
        }
    }
}

fn unregister(targets: &[Target], tickets: &[(u64, u64)]) {
    for (number, ticket) in tickets {
        let target = targets.iter().find(|target| target.queue.number == *number);
        target.into_iter().for_each(|target| {
            target.queue.lock().waiters.remove(*ticket);
        });
    }
}
