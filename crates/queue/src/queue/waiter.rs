//! Waiting sessions and their notifications.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::format::record::RowId;
use crate::queue::owner::OwnerId;
use crate::sync::{Condvar, Mutex, lock, wait_for};
use crate::{Error, Filter};

/// Rows that a session owns from now on.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// The index of their queue in the list of targets.
    pub(crate) target: usize,
    /// The epoch of the queue that they are from.
    pub(crate) epoch: u64,
    pub(crate) rows: Vec<RowId>,
}

/// A notification to a waiting session.
#[derive(Clone, Debug)]
pub(crate) enum Notification {
    /// It has rows.
    Rows(Delivery),
    /// Stop waiting.
    Interrupted,
    /// A queue was paused and no longer is: look again.
    Again,
    /// A queue was dropped.
    Dropped,
    /// A queue is out of service.
    Broken(Error),
}

/// What a session waits on.
#[derive(Default)]
pub(crate) struct Notifier {
    inside: Mutex<NotifierState>,
    ring: Condvar,
}

#[derive(Default)]
struct NotifierState {
    /// The number of this wait: registrations for an earlier one are void.
    round: u64,
    waiting: bool,
    notification: Option<Notification>,
}

impl Notifier {
    /// Begins a wait; news for earlier ones do not reach it.
    pub(crate) fn begin(&self) -> u64 {
        let mut inside = lock(&self.inside);
        inside.round += 1;
        inside.waiting = true;
        inside.notification = None;
        inside.round
    }

    /// Tells the session, if it still waits in this round; returns whether it did. The caller, under the
    /// queue's lock, sees to what must be true before the session continues.
    pub(crate) fn notify(&self, round: Option<u64>, notification: Notification) -> bool {
        let mut inside = lock(&self.inside);
        if !inside.waiting || round.is_some_and(|round| round != inside.round) {
            return false;
        }
        inside.waiting = false;
        inside.notification = Some(notification);
        self.ring.notify_one();
        true
    }

    /// Waits for news until the deadline, or until `pause` is over; `None` when there were none and the wait
    /// continues.
    pub(crate) fn wait_for_notification(&self, until: Option<Instant>) -> Option<Notification> {
        let mut inside = lock(&self.inside);
        loop {
            if let Some(notification) = inside.notification.take() {
                return Some(notification);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            inside = wait_for(&self.ring, inside, left);
        }
    }

    /// Stops waiting; returns news that came at the last moment.
    pub(crate) fn end(&self) -> Option<Notification> {
        let mut inside = lock(&self.inside);
        inside.waiting = false;
        inside.notification.take()
    }
}

/// A target of a waiter in a queue.
pub(crate) struct Alternative {
    /// Its index in the list of targets.
    pub(crate) target: usize,
    pub(crate) filter: Option<Arc<dyn Filter>>,
    pub(crate) reader: Option<usize>,
}

/// A waiter in one queue.
pub(crate) struct Registration {
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) round: u64,
    pub(crate) owner: OwnerId,
    pub(crate) rows_max: usize,
    /// In the waiter's order of preference.
    pub(crate) alternatives: Vec<Alternative>,
}

/// The sessions that wait on a queue, in the order in which they came.
#[derive(Default)]
pub(crate) struct WaitList {
    by_ticket: BTreeMap<u64, Registration>,
    last_ticket: u64,
}

impl WaitList {
    /// Adds a waiter at the end. Returns its ticket.
    pub(crate) fn add(&mut self, waiter: Registration) -> u64 {
        self.last_ticket += 1;
        self.by_ticket.insert(self.last_ticket, waiter);
        self.last_ticket
    }

    /// Removes a waiter, if it is still there.
    pub(crate) fn remove(&mut self, ticket: u64) {
        self.by_ticket.remove(&ticket);
    }

    /// Takes the first waiter with this ticket or a later one.
    pub(crate) fn take_from(&mut self, ticket: u64) -> Option<(u64, Registration)> {
        let ticket = *self.by_ticket.range(ticket..).next()?.0;
        self.by_ticket.remove_entry(&ticket)
    }

    /// Puts a waiter back that was taken.
    pub(crate) fn put_back(&mut self, ticket: u64, waiter: Registration) {
        self.by_ticket.insert(ticket, waiter);
    }

    /// Tells all waiters, who leave the list.
    pub(crate) fn wake_all(&mut self, notification: &Notification) {
        for waiter in std::mem::take(&mut self.by_ticket).into_values() {
            waiter.notifier.notify(Some(waiter.round), notification.clone());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }
}
