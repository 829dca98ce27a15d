//! Waiting for rows of several queues at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::state::State;
use crate::queue::waiter::{Alternative, Given, News, Registration};
use crate::sync::{MutexGuard, pass};
use crate::take::held::Held;
use crate::take::scan::{BUDGET, Found, scan};
use crate::take::session::Session;
use crate::{Counters, Error, Filter};

/// How long a session that looks through many rows leaves a queue to others before it continues.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// A queue to take from, and which of its rows.
#[derive(Clone)]
pub struct Target {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Only rows that match; none for all.
    pub filter: Option<Arc<dyn Filter>>,
    /// For which of its readers, by the number that [`Queue::reader`] returns; none in a queue without
    /// readers.
    pub reader: Option<usize>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The session owns rows of the target with this index.
    Taken(usize),
    /// Nothing came before the timeout.
    TimedOut,
    /// It was interrupted.
    Interrupted,
    /// A queue was dropped, before or while it was waited for; nothing was taken.
    Dropped,
}

/// How long to wait, and for how many rows.
pub struct Patience<'session> {
    /// The most rows to take; all come from one target.
    pub rows_max: usize,
    /// How long to wait; none for ever.
    pub timeout: Option<Duration>,
    /// Asked before every sleep, at least every `alive_every`, and while many rows are looked at. False ends
    /// the wait as an interrupt does.
    pub alive: Option<&'session mut dyn FnMut() -> bool>,
    /// How often to ask while nothing happens.
    pub alive_every: Option<Duration>,
}

impl Patience<'_> {
    /// Takes one row if there is one, and does not wait.
    #[must_use]
    pub fn poll() -> Self {
        Patience { rows_max: 1, timeout: Some(Duration::ZERO), alive: None, alive_every: None }
    }

    /// Takes one row, and waits as long as it takes.
    #[must_use]
    pub fn forever() -> Self {
        Patience { timeout: None, ..Self::poll() }
    }

    fn is_alive(&mut self) -> bool {
        self.alive.as_mut().is_none_or(|alive| alive())
    }
}

impl Session {
    /// Ends the rows that the session owned, then takes rows of the first target that has any, or waits until
    /// one has. A row of a later target is not taken while an earlier target has one.
    ///
    /// # Errors
    /// Those of [`Queue::publish`] and those of reading rows; the session then owns nothing.
    pub fn wait(&mut self, targets: &[Target], patience: &mut Patience<'_>) -> Result<Waited, Error> {
        self.end()?;
        let owner = self.owner;
        let (waited, held) = self.take(targets, patience, |finding| finding.own(owner))?;
        self.owning = waited != Waited::Interrupted;
        self.held = held;
        Ok(waited)
    }

    /// Takes rows of the first target that has any, or waits until one has. `keep` says what becomes of rows
    /// that are there at once; the session owns those that came later.
    pub(super) fn take<T: From<Held>>(
        &mut self,
        targets: &[Target],
        patience: &mut Patience<'_>,
        keep: impl Fn(Finding<'_>) -> Result<T, Error>,
    ) -> Result<Taken<T>, Error> {
        let until = patience.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let now = patience.timeout.is_some_and(|timeout| timeout.is_zero());
        loop {
            let tickets = match self.look(targets, patience, !now) {
                Ok(Looked::Found(target, finding)) => {
                    return Ok((Waited::Taken(target), Some(keep(finding)?)));
                }
                Ok(Looked::Registered(tickets)) => tickets,
                Ok(Looked::Interrupted) => return heard(targets, Some(News::Interrupted)),
                Err(Error::Dropped) => return heard(targets, Some(News::Dropped)),
                Err(error) => return Err(error),
            };
            let news = if now { None } else { self.listen(until, patience) };
            let last = self.bell.end();
            unregister(targets, &tickets);
            match (news, last) {
                (Some(News::Interrupted), Some(News::Rows(given))) => {
                    // The client is gone, and nobody can take what came at the last moment.
                    let note = |counters: &mut Counters, count| counters.restored_by_abort += count;
                    held(given, targets).give_back(self.owner, note)?;
                    return heard(targets, Some(News::Interrupted));
                }
                (Some(News::Again), None) | (None, Some(News::Again)) => {}
                (news, last) => return heard(targets, last.or(news)),
            }
        }
    }

    /// Waits until there is news, the deadline passes, or `alive` returns false.
    fn listen(&self, until: Option<Instant>, patience: &mut Patience<'_>) -> Option<News> {
        loop {
            if !patience.is_alive() {
                return Some(News::Interrupted);
            }
            let ask = patience.alive_every.and_then(|every| Instant::now().checked_add(every));
            let pause = match (until, ask) {
                (Some(until), Some(ask)) => Some(until.min(ask)),
                (one, other) => one.or(other),
            };
            let news = self.bell.listen(pause);
            if news.is_some() || until.is_some_and(|until| until <= Instant::now()) {
                return news;
            }
        }
    }

    /// Looks at all targets. When none has anything, registers in all of them before anybody can add a row to
    /// one.
    fn look<'targets>(
        &self,
        targets: &'targets [Target],
        patience: &mut Patience<'_>,
        register: bool,
    ) -> Result<Looked<'targets>, Error> {
        let rows_max = patience.rows_max;
        loop {
            let mut locked = lock_all(targets);
            let mut budget = BUDGET;
            let mut more = false;
            for (at, target) in targets.iter().enumerate() {
                let Some(state) = locked.state(&target.queue) else { continue };
                state.usable()?;
                target.queue.must_name_reader(target.reader)?;
                if state.held_back > 0 {
                    continue;
                }
                target.queue.touch(state);
                if target.queue.end_due_now(state)? {
                    target.queue.settle_later(state);
                }
                match scan(state, (target.filter.as_deref(), target.reader), rows_max, &mut budget)? {
                    Found::Rows(rows) => {
                        state.counters.wait_immediate += 1;
                        let Some(state) = locked.take(&target.queue) else { continue };
                        return Ok(Looked::Found(at, Finding { target, state, rows }));
                    }
                    Found::Nothing => {}
                    Found::More => {
                        more = true;
                        break;
                    }
                }
            }
            if !more {
                let tickets =
                    if register { self.register(targets, &mut locked, rows_max) } else { Vec::new() };
                return Ok(Looked::Registered(tickets));
            }
            drop(locked);
            if !patience.is_alive() {
                return Ok(Looked::Interrupted);
            }
            give_way(targets);
        }
    }

    fn register(&self, targets: &[Target], locked: &mut Locked<'_>, rows_max: usize) -> Vec<(u64, u64)> {
        let round = self.bell.begin();
        let mut tickets = Vec::new();
        for (number, state) in &mut locked.states {
            let here = targets.iter().enumerate().filter(|(_, target)| target.queue.number == *number);
            let alternatives =
                here.map(|(target, of)| Alternative { target, filter: of.filter.clone(), reader: of.reader });
            let alternatives = alternatives.collect();
            state.tickets += 1;
            tickets.push((*number, state.tickets));
            let ticket = state.tickets;
            let (bell, owner) = (self.bell.clone(), self.owner);
            state.waiters.insert(ticket, Registration { bell, round, owner, rows_max, alternatives });
        }
        tickets
    }
}

/// Rows that a session has found and nobody owns, in the state of their queue.
pub(super) struct Finding<'targets> {
    pub(super) target: &'targets Target,
    pub(super) state: MutexGuard<'targets, State>,
    pub(super) rows: Vec<RowId>,
}

impl Finding<'_> {
    /// Has a session own them.
    pub(super) fn own(mut self, owner: OwnerId) -> Result<Held, Error> {
        let (queue, reader) = (self.target.queue.clone(), self.target.reader);
        let since_ms = queue.shared.now_ms();
        self.state.give(reader, &self.rows, Ownership { owner, since_ms })?;
        Ok(Held { queue, epoch: self.state.epoch, rows: self.rows, reader })
    }
}

/// How a wait has ended, by the last news.
fn heard<T: From<Held>>(targets: &[Target], news: Option<News>) -> Result<Taken<T>, Error> {
    match news {
        Some(News::Rows(given)) => {
            let target = given.target;
            let held = held(given, targets);
            held.queue.lock().counters.wait_delayed += 1;
            Ok((Waited::Taken(target), Some(held.into())))
        }
        // `take` has already handled Again, by looking again.
        Some(News::Interrupted | News::Again) => Ok((Waited::Interrupted, None)),
        Some(News::Dropped) => Ok((Waited::Dropped, None)),
        Some(News::Broken(error)) => Err(error),
        None => {
            targets.iter().for_each(|target| target.queue.lock().counters.wait_timeout += 1);
            Ok((Waited::TimedOut, None))
        }
    }
}

/// What a session was given, in the form in which it holds it.
fn held(given: Given, targets: &[Target]) -> Held {
    let Given { target, epoch, rows } = given;
    Held { queue: targets[target].queue.clone(), epoch, rows, reader: targets[target].reader }
}

/// How a wait ended, and the rows that it took.
pub(super) type Taken<T> = (Waited, Option<T>);

enum Looked<'targets> {
    /// Rows of the target with this index.
    Found(usize, Finding<'targets>),
    /// `(number of the queue, ticket in it)`.
    Registered(Vec<(u64, u64)>),
    Interrupted,
}

/// The states of several queues, each locked once, in the order of their numbers.
struct Locked<'queue> {
    states: Vec<(u64, MutexGuard<'queue, State>)>,
}

impl<'queue> Locked<'queue> {
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

fn lock_all(targets: &[Target]) -> Locked<'_> {
    let mut queues: Vec<&Queue> = targets.iter().map(|target| &*target.queue).collect();
    queues.sort_by_key(|queue| queue.number);
    queues.dedup_by_key(|queue| queue.number);
    Locked { states: queues.into_iter().map(|queue| (queue.number, queue.lock())).collect() }
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
            target.queue.lock().waiters.remove(ticket);
        });
    }
}
