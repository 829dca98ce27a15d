//! Delivers each row to exactly one waiting session, first come, first served.
//!
//! A waiter registers in all of its queues in the critical section in which none had a row for it.
//! Whoever makes a row available offers it to the waiters before releasing the queue's lock. So no row
//! that matches a registered waiter is missed.

use crate::format::record::RowId;
use crate::index::OrderKey;
use crate::queue::owner::Ownership;
use crate::queue::state::State;
use crate::queue::waiter::{Delivery, Notification, Registration};
use crate::{Error, Filter};

/// A row that became available, with its bytes if they are at hand.
pub(crate) struct Candidate<'bytes> {
    pub(crate) id: RowId,
    pub(crate) row: Option<&'bytes [u8]>,
}

/// Delivers rows that became available to waiting sessions, in order. All others call `Queue::deliver`.
pub(super) fn deliver(
    state: &mut State,
    mut candidates: Vec<Candidate<'_>>,
    now_ms: u64,
) -> Result<(), Error> {
    if state.index.has_groups() {
        candidates = group_heads(state, &candidates);
    }
    if state.is_held() {
        return Ok(());
    }
    if let Some(limit) = &state.rate_limit {
        // Who waits looks how many may be given; if none may, when that is over.
        if !limit.is_stalled() && !candidates.is_empty() {
            state.waiters.wake_all(&Notification::Again);
        }
        return Ok(());
    }
    if state.index.has_priorities() && !state.waiters.is_empty() {
        candidates = in_delivery_order(state, candidates)?;
    }
    let mut from = 0;
    while !candidates.is_empty() {
        let Some((ticket, waiter)) = state.waiters.take_from(from) else { break };
        from = ticket + 1;
        let (target, reader, rows) = match choose(state, &waiter, &candidates) {
            Ok(Some(chosen)) => chosen,
            Ok(None) => {
                state.waiters.put_back(ticket, waiter);
                continue;
            }
            Err(_) => {
                // The waiter looks for itself, and gets the error if it is still there.
                waiter.notifier.notify(Some(waiter.round), Notification::Again);
                continue;
            }
        };
        // The session is told before the rows are marked, but it can't look at the queue before we release
        // its lock.
        let given = Delivery { target, epoch: state.epoch, rows: rows.clone() };
        if waiter.notifier.notify(Some(waiter.round), Notification::Rows(given)) {
            // The others are given them too.
            if reader.is_none() {
                let mut gone = rows.iter().peekable();
                candidates.retain(|candidate| gone.next_if(|id| **id == candidate.id).is_none());
            }
            state.assign(reader, &rows, Ownership { owner: waiter.owner, since_ms: now_ms })?;
            state.counters.handed_over += rows.len() as u64;
        }
    }
    Ok(())
}

/// In a queue with keys: the rows that may be given now and could not be before, whatever came, went or came
/// back.
fn group_heads<'bytes>(state: &mut State, came: &[Candidate<'bytes>]) -> Vec<Candidate<'bytes>> {
    let ready = state.index.take_ready();
    ready.iter().for_each(|order_key| state.readers.revisit(*order_key));
    let row = |id| came.binary_search_by_key(&id, |candidate| candidate.id).map_or(None, |at| came[at].row);
    let mut ready: Vec<_> =
        ready.iter().map(|order_key| Candidate { id: order_key.id, row: row(order_key.id) }).collect();
    ready.sort_by_key(|candidate| candidate.id);
    ready
}

/// Candidates in the order in which they are given.
fn in_delivery_order<'bytes>(
    state: &mut State,
    candidates: Vec<Candidate<'bytes>>,
) -> Result<Vec<Candidate<'bytes>>, Error> {
    let order_key = |candidate: Candidate<'bytes>| Ok((state.index.order_key(candidate.id)?, candidate));
    let mut deliverable =
        candidates.into_iter().map(order_key).collect::<Result<Vec<(OrderKey, _)>, Error>>()?;
    deliverable.sort_by_key(|(order_key, _)| *order_key);
    Ok(deliverable.into_iter().map(|(_, candidate)| candidate).collect())
}

/// The index of a target, the reader that it names, and rows.
type Selection = (usize, Option<usize>, Vec<RowId>);

/// The candidates that a waiter takes: those of the first of its alternatives that has any.
fn choose(
    state: &mut State,
    waiter: &Registration,
    candidates: &[Candidate<'_>],
) -> Result<Option<Selection>, Error> {
    for alternative in &waiter.alternatives {
        let filter = alternative.filter.as_deref();
        let mut rows = Vec::new();
        for candidate in candidates {
            if rows.len() >= waiter.rows_max {
                break;
            }
            let reader = alternative.reader;
            let given =
                reader.is_some() && !state.readers.is_available(reader, &mut state.index, candidate.id)?;
            if !given && matches(state, filter, candidate)? {
                rows.push(candidate.id);
            }
        }
        if !rows.is_empty() {
            return Ok(Some((alternative.target, alternative.reader, rows)));
        }
    }
    Ok(None)
}

fn matches(state: &mut State, filter: Option<&dyn Filter>, candidate: &Candidate<'_>) -> Result<bool, Error> {
    let Some(filter) = filter else { return Ok(true) };
    state.counters.evaluations += 1;
    if let Some(row) = candidate.row {
        return Ok(state.is_wanted(filter, candidate.id, row));
    }
    let Some(location) = state.index.locate(candidate.id)? else { return Ok(false) };
    let row = location.read(candidate.id)?;
    Ok(state.is_wanted(filter, candidate.id, &row))
}
