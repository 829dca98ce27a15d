//! Deduplication: a row is discarded if a row with the same key came before. The order is decided when a
//! row becomes visible: at its INSERT, or at the end of its statement or transaction. A row that is
//! rolled back does not count.

use std::collections::BTreeSet;

use crate::Error;
use crate::format::record::{KEY_RECORD_MAX, ROW_OVERHEAD_MAX, RowId};
use crate::queue::state::State;
use crate::queue::{PUBLISH_BYTES_MAX, Queue};

impl Queue {
    /// Like [`Queue::publish`], but discards duplicates by the queue's definition. Returns how many.
    ///
    /// # Errors
    /// Those of [`Queue::publish`].
    pub fn publish_once(&self, rows: &[&[u8]]) -> Result<u64, Error> {
        if self.definition.dedupe.is_none() {
            return self.publish(rows, None).map(|_| 0);
        }
        self.check_size(rows)?;
        let keys = self.keys_of(rows);
        loop {
            let mut state = self.lock_with_room()?;
            let Some(new) = self.admit(&state, &keys) else {
                // The result is told to those whose rows they are.
                self.commit(state).ok();
                continue;
            };
            let left_out = new.iter().filter(|new| !**new).count() as u64;
            if left_out == rows.len() as u64 {
                drop(state);
            } else {
                let added = rows.iter().zip(&new).filter(|(_, new)| **new);
                added.for_each(|(row, _)| state.append_row(row, None, None));
                state.record_keys(&keys_of_new(&keys, &new), self.shared.now_ms());
                self.commit(state)?;
            }
            self.note_left_out(left_out);
            return Ok(left_out);
        }
    }

    /// Counts discarded rows.
    pub(crate) fn note_left_out(&self, rows: u64) {
        if rows > 0 {
            self.lock().counters.left_out += rows;
        }
    }

    /// Returns an error if the rows are too large for one statement.
    pub(crate) fn check_size(&self, rows: &[&[u8]]) -> Result<(), Error> {
        let bytes = rows.iter().map(|row| self.bytes_of(row)).sum();
        if bytes > PUBLISH_BYTES_MAX {
            Err(Error::TooLarge { bytes, limit: PUBLISH_BYTES_MAX })
        } else {
            Ok(())
        }
    }

    /// The most bytes that a row takes in a batch.
    pub(crate) fn bytes_of(&self, row: &[u8]) -> usize {
        let key = if self.definition.dedupe.is_some() { KEY_RECORD_MAX } else { 0 };
        row.len() + ROW_OVERHEAD_MAX + key
    }

    /// The keys of rows, 0 for none; empty in a queue without deduplication.
    pub(crate) fn keys_of(&self, rows: &[impl AsRef<[u8]>]) -> Vec<u128> {
        let attribute_reader = self.attribute_reader.as_ref().filter(|_| self.definition.dedupe.is_some());
        attribute_reader.map_or(Vec::new(), |attribute_reader| {
            rows.iter().map(|row| attribute_reader.key(row.as_ref())).collect()
        })
    }

    /// Which of the rows with these keys are new; empty in a queue without deduplication. `None` if a row
    /// with one of the keys is being written: the caller waits for that and asks again, because it may
    /// fail.
    pub(crate) fn admit(&self, state: &State, keys: &[u128]) -> Option<Vec<bool>> {
        let Some(dedupe) = self.definition.dedupe else { return Some(Vec::new()) };
        let (now_ms, mut first) = (self.shared.now_ms(), BTreeSet::new());
        let mut admit = |key: u128| {
            if state.dedupe.is_pending(key) {
                return None;
            }
            let known = if dedupe.for_ms == 0 {
                state.index.waits(key)
            } else {
                state.dedupe.window.has(key, now_ms)
            };
            Some(key == 0 || !known && first.insert(key))
        };
        keys.iter().map(|key| admit(*key)).collect()
    }

    /// Which of these rows, which are about to become visible, are duplicates; `None` as in
    /// [`Queue::admit`].
    pub(crate) fn duplicates(&self, state: &mut State, rows: &[RowId]) -> Result<Option<Vec<RowId>>, Error> {
        if self.definition.dedupe.is_none() {
            return Ok(Some(Vec::new()));
        }
        let keys = state.index.keys(rows)?;
        let new = self.admit(state, &keys);
        let duplicates =
            |new: Vec<bool>| rows.iter().zip(new).filter(|(_, new)| !new).map(|(row, _)| *row).collect();
        Ok(new.map(duplicates))
    }
}

/// The keys of the new rows.
pub(crate) fn keys_of_new(keys: &[u128], new: &[bool]) -> Vec<u128> {
    keys.iter().zip(new).filter(|(_, new)| **new).map(|(key, _)| *key).collect()
}

impl State {
    /// Notes that rows with these keys are being written, and come then.
    pub(crate) fn record_keys(&mut self, keys: &[u128], now_ms: u64) {
        if keys.is_empty() {
            return;
        }
        let keys: Vec<u128> = keys.iter().copied().filter(|key| *key != 0).collect();
        self.next_batch.record_keys(self.dedupe.window.of(&keys, now_ms));
        self.dedupe.add_pending(&keys);
        self.next_batch.keys.extend(keys);
    }

    /// Notes that rows came that are written already. Returns whether that is to be written too.
    pub(crate) fn record_applied_keys(&mut self, rows: &[RowId], now_ms: u64) -> Result<bool, Error> {
        if !self.dedupe.window.is_kept() {
            return Ok(false);
        }
        let keys = self.index.keys(rows)?;
        for entry in self.dedupe.window.of(&keys, now_ms) {
            self.next_batch.record_applied_key(&entry);
            self.dedupe.window.set(entry);
        }
        Ok(true)
    }
}
