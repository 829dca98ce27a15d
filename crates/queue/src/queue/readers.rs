//! Readers: each is given every row once, at its own pace. A row is ended when all of them have ended it.

use std::ops::Range;

use crate::format::record::RowId;
use crate::index::OrderKey;
use crate::queue::Queue;
use crate::queue::batch::{BatchBuilder, EndKind};
use crate::queue::commit::fail;
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::reader::Reader;
use crate::queue::retention::ROWS_MAX;
use crate::queue::scan_progress::ConditionCache;
use crate::queue::state::State;
use crate::{Error, Sync};

/// What a reader has before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Its name.
    pub name: String,
    /// Rows that it has not been given.
    pub waiting: u64,
    /// Rows that it was given and has not ended.
    pub owned: u64,
    /// The first row that it has not ended, or the next new one.
    pub next: RowId,
    /// When that one was inserted: milliseconds since 1970, exact to the second; `None` when there is none.
    pub oldest_ms: Option<u64>,
}

impl State {
    /// The first place from `from` on at which a row waits; for this reader, if there is one.
    pub(crate) fn next_in_order(
        &mut self,
        reader: Option<usize>,
        mut from: OrderKey,
    ) -> Result<Option<OrderKey>, Error> {
        loop {
            let Some(order_key) = self.index.next_in_order(from)? else { return Ok(None) };
            let Some(reader) = reader.and_then(|reader| self.readers.get(reader)) else {
                return Ok(Some(order_key));
            };
            if let Some(end) = reader.ended.end_of(order_key.id.0) {
                from = OrderKey { id: RowId(end), ..order_key };
            } else if reader.owned.contains_key(&order_key.id) {
                from = order_key.after();
            } else {
                return Ok(Some(order_key));
            }
        }
    }

    /// Whether a row may be given; to this reader, if there is one.
    pub(crate) fn is_available(&mut self, reader: Option<usize>, id: RowId) -> Result<bool, Error> {
        let given = reader.and_then(|reader| self.readers.get(reader)).is_some_and(|reader| reader.has(id));
        Ok(!given && self.index.is_ready(id)?)
    }

    /// The progress of conditions, of this reader if there is one.
    pub(crate) fn conditions(&mut self, reader: Option<usize>) -> &mut ConditionCache {
        match reader.and_then(|reader| self.readers.get_mut(reader)) {
            Some(reader) => &mut reader.conditions,
            None => &mut self.conditions,
        }
    }

    /// A row came back, or is seen late: conditions that have passed its place must look at it.
    pub(crate) fn revisit(&mut self, order_key: OrderKey) {
        self.conditions.revisit(order_key);
        self.readers.iter_mut().for_each(|reader| reader.conditions.revisit(order_key));
    }

    /// Gives rows to whoever was found to have a right to them: an owner, or with a reader, that reader.
    pub(crate) fn assign(
        &mut self,
        reader: Option<usize>,
        rows: &[RowId],
        ownership: Ownership,
    ) -> Result<(), Error> {
        for (came_ms, times) in self.arrivals.times(rows) {
            self.counters.waited.count(ownership.since_ms.saturating_sub(came_ms), times);
        }
        let Some(reader) = reader.and_then(|reader| self.readers.get_mut(reader)) else {
            return self.own(rows, ownership);
        };
        reader.owned.extend(rows.iter().map(|id| (*id, ownership)));
        Ok(())
    }

    /// Takes rows from a reader's connection; the reader is given them again. Returns those that it had.
    pub(crate) fn take_from_reader(
        &mut self,
        reader: usize,
        rows: &[RowId],
        owner: OwnerId,
    ) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for id in rows {
            let order_key = self.index.order_key(*id)?;
            let Some(of) = self.readers.get_mut(reader) else { continue };
            if of.owned.get(id).is_some_and(|ownership| ownership.owner == owner) {
                of.owned.remove(id);
                of.conditions.revisit(order_key);
                back.push(*id);
            }
        }
        Ok(back)
    }

    /// Whether a reader has a row that it has not ended.
    pub(crate) fn is_owned_by_reader(&self, id: RowId) -> bool {
        self.readers.iter().any(|reader| reader.owned.contains_key(&id))
    }

    /// Forgets what readers did with a row that is gone or kept.
    pub(crate) fn forget_reading(&mut self, id: RowId) {
        for reader in &mut self.readers {
            reader.ended.remove(id.0, id.0 + 1);
            reader.owned.remove(&id);
        }
    }

    /// Notes that a reader has ended rows. Returns those that all have ended now.
    pub(crate) fn end_rows_for_reader(
        &mut self,
        reader: usize,
        rows: &[RowId],
        now_ms: u64,
    ) -> Result<Vec<RowId>, Error> {
        let mut done = Vec::new();
        for id in rows {
            let is_live = self.index.row_state(*id)?.is_live();
            let Some(of) = self.readers.get_mut(reader) else { continue };
            if let Some(ownership) = of.owned.remove(id) {
                self.counters.worked.count(now_ms.saturating_sub(ownership.since_ms), 1);
            }
            if !is_live {
                continue;
            }
            of.ended.add(id.0, id.0 + 1);
            if self.readers.iter().all(|reader| reader.ended.end_of(id.0).is_some()) {
                done.push(*id);
            }
        }
        Ok(done)
    }
}

impl Queue {
    /// The number of the reader with this name.
    ///
    /// # Errors
    /// [`Error::Reader`] when there is none.
    pub fn reader(&self, name: &str) -> Result<usize, Error> {
        let readers = &self.definition.readers;
        let found = readers.iter().position(|reader| reader == name);
        found.ok_or_else(|| Error::Reader { name: name.to_owned(), readers: readers.join(", ") })
    }

    /// Returns an error when the queue has readers and none is named, or the other way round.
    pub(crate) fn must_name_reader(&self, reader: Option<usize>) -> Result<(), Error> {
        let readers = &self.definition.readers;
        match reader {
            None if readers.is_empty() => Ok(()),
            Some(reader) if reader < readers.len() => Ok(()),
            _ => Err(Error::Reader { name: String::new(), readers: readers.join(", ") }),
        }
    }

    /// Ends rows that a reader was given. They are durable as those of [`Queue::acknowledge`].
    pub(crate) fn end_for_reader(&self, reader: usize, epoch: u64, rows: &[RowId]) -> Result<(), Error> {
        let mut state = self.lock_with_room()?;
        if state.epoch != epoch {
            return Ok(());
        }
        if self.definition.sync == Sync::Always {
            state.next_batch.end_for_reader(reader, rows);
            return self.commit(state);
        }
        state.next_batch.record_applied_reader_end(reader, rows);
        let ended = self.apply_reader_end(&mut state, reader, rows);
        ended.inspect_err(|error| fail(&mut state, error))?;
        self.write_deferred(state)
    }

    /// Notes that a reader has ended rows, and ends those that all have ended.
    pub(crate) fn apply_reader_end(
        &self,
        state: &mut State,
        reader: usize,
        rows: &[RowId],
    ) -> Result<(), Error> {
        let done = state.end_rows_for_reader(reader, rows, self.shared.now_ms())?;
        if done.is_empty() { Ok(()) } else { self.remove_from_index(state, &done, EndKind::Acknowledged) }
    }

    /// Gives a reader rows again that it has ended and that are still there because another one has not, with
    /// these numbers. Returns how many.
    pub(crate) fn replay_unended(&self, reader: usize, rows: &Range<RowId>) -> Result<u64, Error> {
        let (mut rows, mut replayed) = (rows.start.0..rows.end.0, 0);
        loop {
            let mut state = self.lock_with_room()?;
            if state.copy_state.is_some() {
                return Err(Error::Copied);
            }
            let Some(of) = state.readers.get(reader) else { return Ok(replayed) };
            let again = first_within(of.ended.runs(), &rows, ROWS_MAX);
            let Some((_, last)) = again.last() else { return Ok(replayed) };
            rows.start = *last;
            let count: u64 = again.iter().map(|(first, end)| end - first).sum();
            state.next_batch.reopen_for_reader(reader, &again);
            self.commit(state)?;
            replayed += count;
        }
    }

    /// Gives readers rows again that a batch gives again and that are still there. Returns them.
    pub(crate) fn apply_reopened(
        &self,
        state: &mut State,
        batch: &BatchBuilder,
    ) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for (number, first, end) in &batch.reopened {
            for id in (*first..*end).map(RowId) {
                let order_key = state.index.order_key(id)?;
                let Some(reader) = state.readers.get_mut(*number) else { continue };
                if reader.ended.remove(id.0, id.0 + 1) > 0 {
                    reader.conditions.revisit(order_key);
                    back.push(id);
                }
            }
        }
        state.counters.replayed += back.len() as u64;
        Ok(back)
    }

    /// What each reader has before it, in the order of the definition.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read.
    pub fn readers(&self) -> Result<Vec<ReaderStatus>, Error> {
        let mut state = self.lock();
        let mut all = Vec::new();
        for (number, name) in self.definition.readers.iter().enumerate() {
            let mut next = state.index.next_live(RowId(0))?;
            while let Some(id) = next {
                let ended = state.readers.get(number).and_then(|reader| reader.ended.end_of(id.0));
                let Some(end) = ended else { break };
                next = state.index.next_live(RowId(end))?;
            }
            let oldest_ms = match next {
                Some(id) => state.index.inserted_ms(id),
                None => None,
            };
            let Some(reader) = state.readers.get(number) else { continue };
            let there = state.index.live() - state.index.owned() - state.index.scheduled();
            let owned = reader.owned.len() as u64;
            let waiting = there.saturating_sub(reader.ended.count() + owned);
            let next = next.unwrap_or(state.arrived);
            all.push(ReaderStatus { name: name.clone(), waiting, owned, next, oldest_ms });
        }
        Ok(all)
    }

    /// The rows that readers were given and have not ended, with their readers' names.
    #[must_use]
    pub fn owned_by_readers(&self) -> Vec<(String, RowId, Ownership)> {
        let state = self.lock();
        let named = self.definition.readers.iter().zip(&state.readers);
        let rows = |(name, reader): (&String, &Reader)| {
            reader.owned.iter().map(|(id, of)| (name.clone(), *id, *of)).collect::<Vec<_>>()
        };
        named.flat_map(rows).collect()
    }
}

/// The first rows of these runs `(first, end)` that are in a range, at most so many.
fn first_within(runs: impl Iterator<Item = (u64, u64)>, rows: &Range<u64>, mut room: u64) -> Vec<(u64, u64)> {
    let mut within = Vec::new();
    for (first, end) in runs {
        let first = first.max(rows.start);
        let end = end.min(rows.end).min(first.saturating_add(room));
        if first < end {
            room -= end - first;
            within.push((first, end));
        }
    }
    within
}
