//! A connection as the queues see it: what it owns, and taking, ending, giving back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cursor::Cursor;
use crate::queue::{Published, Queue};
use crate::record::RowId;
use crate::scan::{BUDGET, Found, scan};
use crate::state::{Ownership, State};
use crate::sync::{MutexGuard, pass};
use crate::wait::{Alternative, Bell, Candidate, Given, News, Registration, offer};
use crate::{Error, Filter};

/// How long somebody who looks through many rows leaves a queue to others before it looks on.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// Who owns rows: the number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// A queue to take from, and which of its rows.
#[derive(Clone)]
pub struct Target {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Only rows that match; none for all.
    pub filter: Option<Arc<dyn Filter>>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The session owns rows of the target with this place in the list, counted from 0.
    Taken(usize),
    /// There was nothing for so long.
    TimedOut,
    /// It was interrupted.
    Interrupted,
    /// A queue was dropped, before or while it was waited for; nothing was taken.
    Dropped,
}

/// How long to wait, and for how many rows.
pub struct Patience<'session> {
    /// Rows to take at most; all come from one target.
    pub rows_max: usize,
    /// How long to wait; none for ever.
    pub timeout: Option<Duration>,
    /// Asked before every sleep and at least every `alive_every`: false ends the wait as an interrupt does.
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

    /// Takes one row, and waits for it as long as it takes.
    #[must_use]
    pub fn forever() -> Self {
        Patience { timeout: None, ..Self::poll() }
    }
}

/// Stops a wait from another thread.
#[derive(Clone)]
pub struct Interrupter(Arc<Bell>);

impl Interrupter {
    /// Ends the wait that is going on, if one is. A wait that begins later is not affected: who interrupts
    /// makes `alive` say so first.
    pub fn interrupt(&self) {
        self.0.tell(None, News::Interrupted);
    }
}

/// Rows that a session owns.
struct Held {
    queue: Arc<Queue>,
    epoch: u64,
    rows: Vec<RowId>,
}

impl Held {
    /// The same rows in what took their queue's place.
    fn moved(&self) -> Option<Held> {
        let successor = self.queue.successor.get()?;
        let rows = successor.translate(self.epoch, &self.rows)?;
        let queue = successor.queue.clone();
        let here = Held { queue, epoch: successor.epoch, rows };
        Some(here.moved().unwrap_or(here))
    }

    fn from(given: Given, targets: &[Target]) -> Held {
        let Given { target, epoch, rows } = given;
        Held { queue: targets[target].queue.clone(), epoch, rows }
    }
}

/// A connection.
pub struct Session {
    owner: OwnerId,
    bell: Arc<Bell>,
    held: Option<Held>,
    owning: bool,
    /// Rows that a statement has published which is not over.
    unsettled: Vec<Held>,
}

impl Session {
    /// A connection that owns nothing. No two may have the same number at a time.
    #[must_use]
    pub fn new(owner: OwnerId) -> Session {
        Session { owner, bell: Arc::default(), held: None, owning: false, unsettled: Vec::new() }
    }

    /// What interrupts this session's waits.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.bell.clone())
    }

    /// Whether the session sees its own rows only: since a wait that was not interrupted, until it ends or
    /// aborts.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.owning
    }

    /// The rows that the session owns, and the queue they are in.
    #[must_use]
    pub fn held(&mut self) -> Option<(&Arc<Queue>, &[RowId])> {
        if let Some(moved) = self.held.as_ref().and_then(Held::moved) {
            self.held = Some(moved);
        }
        self.held.as_ref().map(|held| (&held.queue, held.rows.as_slice()))
    }

    /// Lets the rows that the session owned be gone, then takes rows of the first target that has any, or
    /// waits until one has. A row of a later target is not taken while an earlier target has one.
    ///
    /// # Errors
    /// Those of [`Queue::publish`] and of reading rows; the session then owns nothing.
    pub fn wait(&mut self, targets: &[Target], patience: &mut Patience<'_>) -> Result<Waited, Error> {
        self.end()?;
        let until = patience.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let now = patience.timeout.is_some_and(|timeout| timeout.is_zero());
        loop {
            let tickets = match self.look(targets, patience.rows_max, !now) {
                Ok(Looked::Taken(target, held)) => {
                    self.held = Some(held);
                    self.owning = true;
                    return Ok(Waited::Taken(target));
                }
                Ok(Looked::Registered(tickets)) => tickets,
                Err(Error::Dropped) => return self.heard(targets, Some(News::Dropped)),
                Err(error) => return Err(error),
            };
            let news = if now { None } else { self.listen(until, patience) };
            let last = self.bell.end();
            unregister(targets, &tickets);
            match (news, last) {
                (Some(News::Interrupted), Some(News::Rows(given))) => {
                    // Nobody is there to take what came at the last moment.
                    self.held = Some(Held::from(given, targets));
                    self.abort()?;
                    return self.heard(targets, Some(News::Interrupted));
                }
                (Some(News::Again), None) | (None, Some(News::Again)) => {}
                (news, last) => return self.heard(targets, last.or(news)),
            }
        }
    }

    fn heard(&mut self, targets: &[Target], news: Option<News>) -> Result<Waited, Error> {
        match news {
            Some(News::Rows(given)) => {
                let target = given.target;
                let held = Held::from(given, targets);
                held.queue.lock().counters.wait_delayed += 1;
                self.held = Some(held);
                self.owning = true;
                Ok(Waited::Taken(target))
            }
            // Again is dealt with by looking again.
            Some(News::Interrupted | News::Again) => Ok(Waited::Interrupted),
            Some(News::Dropped) => {
                self.owning = true;
                Ok(Waited::Dropped)
            }
            Some(News::Broken(error)) => Err(error),
            None => {
                targets.iter().for_each(|target| target.queue.lock().counters.wait_timeout += 1);
                self.owning = true;
                Ok(Waited::TimedOut)
            }
        }
    }

    /// Waits until there are news, the deadline, or the end of being alive.
    fn listen(&self, until: Option<Instant>, patience: &mut Patience<'_>) -> Option<News> {
        loop {
            if patience.alive.as_mut().is_some_and(|alive| !alive()) {
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

    /// Looks at all targets; when none has anything, registers in all of them before anybody can add to one.
    fn look(&self, targets: &[Target], rows_max: usize, register: bool) -> Result<Looked, Error> {
        loop {
            give_way(targets);
            let mut locked = lock_all(targets);
            let mut budget = BUDGET;
            let mut more = false;
            for (at, target) in targets.iter().enumerate() {
                let Some(state) = locked.state(&target.queue) else { continue };
                state.usable()?;
                if state.held_back > 0 {
                    continue;
                }
                target.queue.touch(state);
                match scan(state, target.filter.as_deref(), rows_max, &mut budget)? {
                    Found::Rows(rows) => {
                        let since_ms = target.queue.shared.now_ms();
                        state.own(&rows, Ownership { owner: self.owner, since_ms })?;
                        state.counters.wait_immediate += 1;
                        let held = Held { queue: target.queue.clone(), epoch: state.epoch, rows };
                        return Ok(Looked::Taken(at, held));
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
        }
    }

    fn register(&self, targets: &[Target], locked: &mut Locked<'_>, rows_max: usize) -> Vec<(u64, u64)> {
        let round = self.bell.begin();
        let mut tickets = Vec::new();
        for (number, state) in &mut locked.states {
            let here = targets.iter().enumerate().filter(|(_, target)| target.queue.number == *number);
            let alternatives =
                here.map(|(at, target)| Alternative { target: at, filter: target.filter.clone() });
            let alternatives = alternatives.collect();
            state.tickets += 1;
            tickets.push((*number, state.tickets));
            let ticket = state.tickets;
            let (bell, owner) = (self.bell.clone(), self.owner);
            state.waiters.insert(ticket, Registration { bell, round, owner, rows_max, alternatives });
        }
        tickets
    }

    /// Lets the owned rows be gone. It is no error to own nothing.
    ///
    /// # Errors
    /// Those of [`Queue::publish`]; after [`Error::Disk`] the session owns the rows still, after others
    /// nothing.
    pub fn end(&mut self) -> Result<(), Error> {
        let owning = std::mem::take(&mut self.owning);
        let mut next = self.held.take();
        while let Some(held) = next {
            match held.queue.acknowledge(held.epoch, &held.rows) {
                // A dropped queue has taken its rows with it, but for one that was replaced.
                Err(Error::Dropped) => next = held.moved(),
                Err(error @ Error::Disk { .. }) => {
                    (self.owning, self.held) = (owning, Some(held));
                    return Err(error);
                }
                other => return other,
            }
        }
        Ok(())
    }

    /// As [`Queue::publish`], for a statement that may fail yet: nobody sees or takes the rows until
    /// [`Session::settle`]. After a crash they are there.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn publish_unsettled(&mut self, queue: &Arc<Queue>, rows: &[&[u8]]) -> Result<(), Error> {
        let published = queue.publish_as(rows, Some(self.owner), None)?;
        if let Published::New(first) = published {
            let ids = (first.0..first.0 + rows.len() as u64).map(RowId);
            let (queue, epoch) = (queue.clone(), queue.lock().epoch);
            match self
                .unsettled
                .last_mut()
                .filter(|held| Arc::ptr_eq(&held.queue, &queue) && held.epoch == epoch)
            {
                Some(held) => held.rows.extend(ids),
                None => self.unsettled.push(Held { queue, epoch, rows: ids.collect() }),
            }
        }
        Ok(())
    }

    /// Whether rows are there that [`Session::publish_unsettled`] has added.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Offers what [`Session::publish_unsettled`] has added, or lets it be gone.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when an index can't be read; [`Error::Failed`] when a queue is
    /// out of service.
    pub fn settle(&mut self, keep: bool) -> Result<(), Error> {
        let mut result = Ok(());
        for held in std::mem::take(&mut self.unsettled) {
            let settled = if keep {
                held.rows.chunks(BUDGET).try_for_each(|rows| self.offer_unsettled(&held, rows))
            } else {
                held.queue.take_back(held.epoch, &held.rows)
            };
            result = result.and(match settled {
                Err(Error::Dropped) => Ok(()),
                other => other,
            });
        }
        result
    }

    fn offer_unsettled(&self, held: &Held, rows: &[RowId]) -> Result<(), Error> {
        let mut state = held.queue.lock();
        state.usable()?;
        if state.epoch != held.epoch {
            return Ok(());
        }
        let back = state.disown(rows, self.owner)?.into_iter().map(|id| Candidate { id, row: None });
        offer(&mut state, back.collect(), held.queue.shared.now_ms())
    }

    /// Gives the owned rows back, to the places they had.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read.
    pub fn abort(&mut self) -> Result<(), Error> {
        self.give_back(false)
    }

    /// Gives the owned rows back because the connection is gone.
    ///
    /// # Errors
    /// Those of [`Session::abort`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.give_back(true)
    }

    fn give_back(&mut self, closing: bool) -> Result<(), Error> {
        if closing {
            self.settle(false)?;
        }
        self.owning = false;
        let Some(mut held) = self.held.take() else { return Ok(()) };
        while let Some(moved) = held.moved() {
            held = moved;
        }
        let mut state = held.queue.lock();
        if state.epoch != held.epoch || state.usable().is_err() {
            drop(state);
            // It may have been replaced just now.
            self.held = held.moved();
            return if self.held.is_some() { self.give_back(closing) } else { Ok(()) };
        }
        let back = state.disown(&held.rows, self.owner)?;
        let count = back.len() as u64;
        if closing {
            state.counters.restored_by_close += count;
        } else {
            state.counters.restored_by_abort += count;
        }
        let candidates = back.into_iter().map(|id| Candidate { id, row: None });
        offer(&mut state, candidates.collect(), held.queue.shared.now_ms())
    }

    /// Deletes rows: those that the session owns, and those that wait. Rows that others own stay. Returns how
    /// many went.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn delete(&mut self, queue: &Queue, rows: &[RowId]) -> Result<u64, Error> {
        let mut state = queue.room()?;
        let ownership = Ownership { owner: self.owner, since_ms: queue.shared.now_ms() };
        let (mut going, mut taken) = (Vec::new(), Vec::new());
        let rows: BTreeSet<RowId> = rows.iter().copied().collect();
        for id in &rows {
            let mine = state.owners.get(id).is_some_and(|ownership| ownership.owner == self.owner);
            if mine || state.is_waiting(*id)? {
                if !mine {
                    // Nobody is to be given a row whose end is being written.
                    state.own(&[*id], ownership)?;
                    taken.push(*id);
                }
                going.push(*id);
            }
        }
        if going.is_empty() {
            return Ok(0);
        }
        state.gather.acknowledge(&going);
        let deleted = queue.commit(state);
        if let Err(Error::Disk { .. }) = deleted {
            let mut state = queue.lock();
            let back = state.disown(&taken, self.owner)?.into_iter().map(|id| Candidate { id, row: None });
            offer(&mut state, back.collect(), queue.shared.now_ms())?;
        }
        deleted.map(|()| going.len() as u64)
    }

    /// How many rows of a queue the session sees: its own when it is an owner, else all, also those owned by
    /// others.
    #[must_use]
    pub fn count(&self, queue: &Arc<Queue>) -> u64 {
        let (epoch, rows) = self.held_in(queue);
        let mut state = queue.lock();
        if !self.owning {
            return state.index.live();
        }
        if epoch != state.epoch {
            return 0;
        }
        let live = |id: &RowId| state.index.doing(*id).is_ok_and(|doing| doing != crate::index::Doing::Gone);
        rows.into_iter().filter(live).count() as u64
    }

    /// The rows of a queue that the session sees: its own when it is an owner, else those that nobody owns.
    #[must_use]
    pub fn cursor(&self, queue: &Arc<Queue>) -> Cursor {
        if !self.owning {
            return Cursor::of_waiting(queue);
        }
        // Without the queue's lock: what the session owns only the session changes.
        let (epoch, rows) = self.held_in(queue);
        Cursor::of_own(queue, epoch, rows)
    }

    /// The rows of a queue that the session owns, and in which life of it.
    fn held_in(&self, queue: &Arc<Queue>) -> (u64, Vec<RowId>) {
        let Some(held) = &self.held else { return (0, Vec::new()) };
        if Arc::ptr_eq(&held.queue, queue) {
            return (held.epoch, held.rows.clone());
        }
        let moved = held.moved().filter(|moved| Arc::ptr_eq(&moved.queue, queue));
        moved.map(|moved| (moved.epoch, moved.rows)).unwrap_or_default()
    }
}

enum Looked {
    Taken(usize, Held),
    /// `(number of the queue, ticket in it)`.
    Registered(Vec<(u64, u64)>),
}

/// The states of several queues, each once, locked in the order of their numbers.
struct Locked<'queue> {
    states: Vec<(u64, MutexGuard<'queue, State>)>,
}

impl Locked<'_> {
    fn state(&mut self, queue: &Queue) -> Option<&mut State> {
        let state = self.states.iter_mut().find(|(number, _)| *number == queue.number);
        state.map(|(_, state)| &mut **state)
    }
}

fn lock_all(targets: &[Target]) -> Locked<'_> {
    let mut queues: Vec<&Queue> = targets.iter().map(|target| &*target.queue).collect();
    queues.sort_by_key(|queue| queue.number);
    queues.dedup_by_key(|queue| queue.number);
    Locked { states: queues.into_iter().map(|queue| (queue.number, queue.lock())).collect() }
}

/// Lets others have the queues that they wait for: who looks through many rows comes again and again, and
/// would be first each time.
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
