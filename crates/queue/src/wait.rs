//! Waiting for rows: who waits, and how a row is handed to exactly one of them, in the order they came.
//!
//! A waiter is registered in every queue it waits on, in the same critical section in which all of them were
//! found to have nothing for it. Whoever makes a row available offers it to the waiters of that queue before
//! letting go of the queue's lock. So a row that matches a registered waiter is never left lying.

use std::sync::Arc;
use std::time::Instant;

use crate::record::RowId;
use crate::session::OwnerId;
use crate::state::{Ownership, State};
use crate::sync::{Condvar, Mutex, lock, wait_for};
use crate::{Error, Filter};

/// Rows that a session owns from now on.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// The place of their queue in the list of targets.
    pub(crate) target: usize,
    /// Which life of the queue they are from.
    pub(crate) epoch: u64,
    pub(crate) rows: Vec<RowId>,
}

/// What a session is told.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// It has rows.
    Rows(Given),
    /// It shall stop waiting.
    Interrupted,
    /// A queue that it waited on was held back and is no more: it shall look again.
    Again,
    /// A queue that it waited on was dropped.
    Dropped,
    /// A queue it waited on is out of service.
    Broken(Error),
}

/// Where a session waits and is told.
#[derive(Default)]
pub(crate) struct Bell {
    inside: Mutex<Inside>,
    ring: Condvar,
}

#[derive(Default)]
struct Inside {
    /// Which wait this is: what was registered for an earlier one is void.
    round: u64,
    waiting: bool,
    news: Option<News>,
}

impl Bell {
    /// Begins a wait; news of earlier ones do not reach it.
    pub(crate) fn begin(&self) -> u64 {
        let mut inside = lock(&self.inside);
        inside.round += 1;
        inside.waiting = true;
        inside.news = None;
        inside.round
    }

    /// Tells the session, if it still waits in this round; says whether it was told. What must be true before
    /// the session goes on is done by the caller under the queue's lock.
    pub(crate) fn tell(&self, round: Option<u64>, news: News) -> bool {
        let mut inside = lock(&self.inside);
        if !inside.waiting || round.is_some_and(|round| round != inside.round) {
            return false;
        }
        inside.waiting = false;
        inside.news = Some(news);
        self.ring.notify_one();
        true
    }

    /// Waits for news until the deadline, or until `pause` is over; `None` means neither came to an end of
    /// the wait.
    pub(crate) fn listen(&self, until: Option<Instant>) -> Option<News> {
        let mut inside = lock(&self.inside);
        loop {
            if let Some(news) = inside.news.take() {
                return Some(news);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            inside = wait_for(&self.ring, inside, left);
        }
    }

    /// Stops waiting; news that came at the last moment are returned.
    pub(crate) fn end(&self) -> Option<News> {
        let mut inside = lock(&self.inside);
        inside.waiting = false;
        inside.news.take()
    }
}

/// One of the things a waiter would take from a queue.
pub(crate) struct Alternative {
    /// Its place in the list of targets.
    pub(crate) target: usize,
    pub(crate) filter: Option<Arc<dyn Filter>>,
}

/// A waiter in one queue.
pub(crate) struct Registration {
    pub(crate) bell: Arc<Bell>,
    pub(crate) round: u64,
    pub(crate) owner: OwnerId,
    pub(crate) rows_max: usize,
    /// In the order in which the waiter prefers them.
    pub(crate) alternatives: Vec<Alternative>,
}

/// Tells all who wait.
pub(crate) fn tell_all(state: &mut State, news: &News) {
    for (_, waiter) in std::mem::take(&mut state.waiters) {
        waiter.bell.tell(Some(waiter.round), news.clone());
    }
}

/// A row that became available, with its bytes if they are at hand.
pub(crate) struct Candidate<'bytes> {
    pub(crate) id: RowId,
    pub(crate) row: Option<&'bytes [u8]>,
}

/// Hands rows that became available to those who wait, in order.
pub(crate) fn offer(state: &mut State, mut candidates: Vec<Candidate<'_>>, now_ms: u64) -> Result<(), Error> {
    if state.held_back > 0 {
        return Ok(());
    }
    let mut from = 0;
    while !candidates.is_empty() {
        let Some(ticket) = state.waiters.range(from..).next().map(|(ticket, _)| *ticket) else { break };
        let Some(waiter) = state.waiters.remove(&ticket) else { break };
        from = ticket + 1;
        let (target, rows) = match choose(state, &waiter, &candidates) {
            Ok(Some(chosen)) => chosen,
            Ok(None) => {
                state.waiters.insert(ticket, waiter);
                continue;
            }
            Err(_) => {
                // It looks for itself, and is told what is wrong if that has not passed.
                waiter.bell.tell(Some(waiter.round), News::Again);
                continue;
            }
        };
        // Told before the rows are marked, but the session can't look at the queue before we let go of its
        // lock.
        let given = Given { target, epoch: state.epoch, rows: rows.clone() };
        if waiter.bell.tell(Some(waiter.round), News::Rows(given)) {
            candidates.retain(|candidate| !rows.contains(&candidate.id));
            state.own(&rows, Ownership { owner: waiter.owner, since_ms: now_ms })?;
            state.counters.handed_over += rows.len() as u64;
        }
    }
    Ok(())
}

/// What a waiter takes of the candidates: the first of its alternatives that has any.
fn choose(
    state: &mut State,
    waiter: &Registration,
    candidates: &[Candidate<'_>],
) -> Result<Option<(usize, Vec<RowId>)>, Error> {
    for alternative in &waiter.alternatives {
        let filter = alternative.filter.as_deref();
        let mut rows = Vec::new();
        for candidate in candidates {
            if rows.len() >= waiter.rows_max {
                break;
            }
            if matches(state, filter, candidate)? {
                rows.push(candidate.id);
            }
        }
        if !rows.is_empty() {
            return Ok(Some((alternative.target, rows)));
        }
    }
    Ok(None)
}

fn matches(state: &mut State, filter: Option<&dyn Filter>, candidate: &Candidate<'_>) -> Result<bool, Error> {
    let Some(filter) = filter else { return Ok(true) };
    state.counters.evaluations += 1;
    if let Some(row) = candidate.row {
        return Ok(filter.matches(row));
    }
    let Some(place) = state.index.locate(candidate.id)? else { return Ok(false) };
    Ok(filter.matches(&place.read(candidate.id)?))
}
