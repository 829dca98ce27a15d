//! The order in which rows are given, where it is not that of their ids, and the keys of rows that wait.

use std::collections::BTreeSet;

use super::message_groups::{GroupChange, MessageGroups};
use super::{Index, OrderKey, RowKeys, RowState};
use crate::Error;
use crate::format::record::RowId;

impl Index {
    /// Whether a row with this key waits or is due later.
    pub(crate) fn waits(&self, key: u128) -> bool {
        let from = (key, RowId(0));
        let next = self.waits.as_ref().and_then(|waits| waits.range(from..).next());
        next.is_some_and(|(of, _)| *of == key)
    }

    /// The keys of rows by which rows are left out; 0 for a row without one.
    pub(crate) fn keys(&mut self, rows: &[RowId]) -> Result<Vec<u128>, Error> {
        let key = |id: &RowId| self.segment_with(*id).map_or(Ok(0), |of| of.row_keys(*id).map(|row| row.key));
        rows.iter().map(key).collect()
    }

    /// Whether it matters for other rows what a row does.
    pub(super) fn is_ordered(&self) -> bool {
        self.deliverable.is_some() || self.waits.is_some()
    }

    /// Whether not all waiting rows of a key may be given.
    pub(crate) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Whether only so many rows of a key may be given within a time.
    pub(crate) fn has_key_rate(&self) -> bool {
        self.groups.as_ref().is_some_and(MessageGroups::has_rate)
    }

    /// Has somebody be given rows that wait, for the rate of their keys.
    pub(crate) fn give_all(&mut self, rows: &[RowId], up_ms: u64) -> Result<(), Error> {
        for id in rows {
            let group = self.row_keys(*id)?.group;
            self.groups.iter_mut().for_each(|groups| groups.note_given(group, up_ms));
            self.take(*id)?;
        }
        Ok(())
    }

    /// Forgets rows that were given long enough ago for their keys' rate, at most so many, so that others of
    /// these keys may be given.
    pub(crate) fn forget_given(&mut self, up_ms: u64, most: usize) -> Result<(), Error> {
        for _ in 0..most {
            let change = self.groups.as_mut().and_then(|groups| groups.forget_given(up_ms));
            let Some(change) = change else { break };
            self.regroup(change, None)?;
        }
        Ok(())
    }

    /// When to look again whether the rate of a key lets more rows be given.
    pub(crate) fn key_rate_due(&self) -> Option<u64> {
        self.groups.as_ref().and_then(MessageGroups::due)
    }

    /// The keys that are paused.
    pub(crate) fn paused_keys(&self) -> BTreeSet<u64> {
        self.groups.as_ref().map_or(BTreeSet::new(), |groups| groups.paused().clone())
    }

    /// Has these keys be paused, and no others.
    pub(crate) fn pause_keys(&mut self, keys: &BTreeSet<u64>) -> Result<(), Error> {
        let before = self.paused_keys();
        for key in before.symmetric_difference(keys) {
            let change = self.groups.as_mut().map(|groups| groups.set_paused(*key, keys.contains(key)));
            self.regroup(change.unwrap_or_default(), None)?;
        }
        Ok(())
    }

    /// How many keys are paused.
    pub(crate) fn keys_paused(&self) -> u64 {
        self.groups.as_ref().map_or(0, |groups| groups.paused().len() as u64)
    }

    /// The place of a row that is not gone in the order in which rows are given.
    pub(crate) fn order_key(&mut self, id: RowId) -> Result<OrderKey, Error> {
        Ok(self.row_keys(id)?.order_key)
    }

    pub(super) fn row_keys(&mut self, id: RowId) -> Result<RowKeys, Error> {
        let segment = if self.is_ordered() { self.segment_with(id) } else { None };
        let first = RowKeys { order_key: OrderKey { priority: 0, id }, group: 0, key: 0 };
        segment.map_or(Ok(first), |segment| segment.row_keys(id))
    }

    /// Whether a row may be given: it waits, and it is among the first of its key, of which somebody may have
    /// another row.
    pub(crate) fn is_ready(&mut self, id: RowId) -> Result<bool, Error> {
        if self.groups.is_none() {
            return Ok(self.row_state(id)? == RowState::Waiting);
        }
        let order_key = self.order_key(id)?;
        Ok(self.deliverable.as_ref().is_some_and(|deliverable| deliverable.contains(&order_key)))
    }

    /// Whether somebody may have another row of the same key.
    pub(crate) fn is_group_free(&mut self, id: RowId) -> Result<bool, Error> {
        let group = self.row_keys(id)?.group;
        Ok(self.groups.as_ref().is_none_or(|groups| !groups.is_busy(group)))
    }

    /// Lets the rows behind a row that somebody owns be given before it: it has no tries left.
    pub(crate) fn unblock_group(&mut self, id: RowId) -> Result<(), Error> {
        let keys = self.row_keys(id)?;
        self.update_order(keys, RowState::Gone)
    }

    /// The rows that may be given since the last call, and still may, in a queue with keys.
    pub(crate) fn take_ready(&mut self) -> BTreeSet<OrderKey> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|order_key| {
            self.deliverable.as_ref().is_some_and(|deliverable| deliverable.contains(order_key))
        });
        ready
    }

    /// How many rows wait because of others of their key, of its rate, or because it is paused.
    pub(crate) fn behind(&self) -> u64 {
        let waiting = self.live - self.owned - self.scheduled;
        let ready =
            self.groups.as_ref().and(self.deliverable.as_ref()).map(|deliverable| deliverable.len() as u64);
        ready.map_or(0, |ready| waiting - ready)
    }

    /// How many keys there are of which somebody has a row.
    pub(crate) fn keys_busy(&self) -> u64 {
        self.groups.as_ref().map_or(0, MessageGroups::busy)
    }

    /// Puts all rows that wait in order, for an index that recovery has filled.
    pub(crate) fn order(&mut self) -> Result<(), Error> {
        if !self.is_ordered() {
            return Ok(());
        }
        let mut waiting = Vec::new();
        for segment in self.segments.values_mut().filter(|segment| segment.waiting() > 0) {
            waiting.extend(segment.waiting_rows()?);
        }
        waiting.into_iter().try_for_each(|keys| self.update_order(keys, RowState::Waiting))
    }

    /// Notes what a row is doing, for the order in which rows are given.
    pub(super) fn update_order(&mut self, row: RowKeys, row_state: RowState) -> Result<(), Error> {
        if let Some(waits) = self.waits.as_mut().filter(|_| row.key != 0) {
            let entry = (row.key, row.order_key.id);
            if matches!(row_state, RowState::Waiting | RowState::Scheduled) {
                waits.insert(entry)
            } else {
                waits.remove(&entry)
            };
        }
        let Some(groups) = self.groups.as_mut().filter(|_| row.group != 0) else {
            let waits = row_state == RowState::Waiting;
            if self.groups.is_some() && waits {
                self.ready.insert(row.order_key);
            }
            self.deliverable.iter_mut().for_each(|deliverable| {
                if waits {
                    deliverable.insert(row.order_key)
                } else {
                    deliverable.remove(&row.order_key)
                };
            });
            return Ok(());
        };
        let change = groups.set(row.group, row.order_key, row_state);
        self.regroup(change, Some(row.order_key))
    }

    /// Notes which rows may be given after a change of their group. `known` is the place of the row that
    /// changed: what is known of it may be forgotten already.
    fn regroup(&mut self, change: GroupChange, known: Option<OrderKey>) -> Result<(), Error> {
        let mut order_key = |id| match known.filter(|known| known.id == id) {
            Some(known) => Ok(known),
            None => self.order_key(id),
        };
        let gone = change.gone.into_iter().map(&mut order_key).collect::<Result<Vec<OrderKey>, Error>>()?;
        let came = change.came.into_iter().map(&mut order_key).collect::<Result<Vec<OrderKey>, Error>>()?;
        let deliverable = self.deliverable.get_or_insert_default();
        for head in &gone {
            deliverable.remove(head);
        }
        deliverable.extend(came.iter().copied());
        self.ready.extend(came);
        Ok(())
    }
}
