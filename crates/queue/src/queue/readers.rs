//! Readers: each is given every row once, at its own pace. A row is ended when all of them have ended it.

use std::ops::Range;

use crate::Error;
use crate::format::readers::RowIdSet;
use crate::format::record::RowId;
use crate::index::{Index, OrderKey};
use crate::queue::owner::{OwnerId, Ownership};
use crate::queue::reader::Reader;
use crate::queue::scan_progress::ConditionCache;

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

/// The readers of a queue, in the order of its definition; none when each row is given once. A `reader` of
/// `None` is a consumer of such a queue.
#[derive(Debug, Default)]
pub(crate) struct ReaderSet {
    readers: Vec<Reader>,
    /// The compiled conditions, and their progress without readers.
    conditions: ConditionCache,
}

impl ReaderSet {
    /// Readers that have ended these rows and were given none.
    pub(crate) fn new(ended: Vec<RowIdSet>) -> ReaderSet {
        let reader = |ended| Reader { ended, ..Reader::default() };
        ReaderSet { readers: ended.into_iter().map(reader).collect(), ..ReaderSet::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Forgets all rows, because they are gone.
    pub(crate) fn clear(&mut self) {
        self.readers.iter_mut().for_each(|reader| *reader = Reader::default());
        self.conditions.clear();
    }

    /// For each reader: the rows that it has ended, and another one has not.
    pub(crate) fn ended(&self) -> Vec<RowIdSet> {
        self.readers.iter().map(|reader| reader.ended.clone()).collect()
    }

    /// Takes over what readers have ended in the queue that this one replaces.
    pub(crate) fn adopt(&mut self, ended: Vec<RowIdSet>) {
        self.readers.iter_mut().zip(ended).for_each(|(reader, ended)| reader.ended = ended);
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        self.readers.iter().map(|reader| reader.ended.memory()).sum()
    }

    fn get(&self, reader: Option<usize>) -> Option<&Reader> {
        self.readers.get(reader?)
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

    /// The first place from `from` on at which a row waits; for this reader, if there is one.
    pub(crate) fn next_in_order(
        &self,
        reader: Option<usize>,
        index: &mut Index,
        mut from: OrderKey,
    ) -> Result<Option<OrderKey>, Error> {
        loop {
            let Some(order_key) = index.next_in_order(from)? else { return Ok(None) };
            let Some(reader) = self.get(reader) else { return Ok(Some(order_key)) };
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
    pub(crate) fn is_available(
        &self,
        reader: Option<usize>,
        index: &mut Index,
        id: RowId,
    ) -> Result<bool, Error> {
        Ok(!self.get(reader).is_some_and(|reader| reader.has(id)) && index.is_ready(id)?)
    }

    /// Gives rows to a reader. False when there is no reader.
    pub(crate) fn give(&mut self, reader: Option<usize>, rows: &[RowId], ownership: Ownership) -> bool {
        let Some(reader) = reader.and_then(|reader| self.readers.get_mut(reader)) else { return false };
        reader.owned.extend(rows.iter().map(|id| (*id, ownership)));
        true
    }

    /// Takes rows from a reader's connection; the reader is given them again. Returns those that it had.
    pub(crate) fn take_back(
        &mut self,
        reader: usize,
        rows: &[RowId],
        owner: OwnerId,
        index: &mut Index,
    ) -> Result<Vec<RowId>, Error> {
        let Some(reader) = self.readers.get_mut(reader) else { return Ok(Vec::new()) };
        let mut back = Vec::new();
        for id in rows {
            let order_key = index.order_key(*id)?;
            if reader.owned.get(id).is_some_and(|ownership| ownership.owner == owner) {
                reader.owned.remove(id);
                reader.conditions.revisit(order_key);
                back.push(*id);
            }
        }
        Ok(back)
    }

    /// How many rows readers have that they have not ended.
    pub(crate) fn owned(&self) -> usize {
        self.readers.iter().map(|reader| reader.owned.len()).sum()
    }

    /// Whether a reader has a row that it has not ended.
    pub(crate) fn is_owned(&self, id: RowId) -> bool {
        self.readers.iter().any(|reader| reader.owned.contains_key(&id))
    }

    /// Those who have ended a row, as bits.
    pub(crate) fn bits_ended(&self, id: RowId) -> u64 {
        let ended = self.readers.iter().map(|reader| u64::from(reader.ended.end_of(id.0).is_some()));
        ended.enumerate().fold(0, |bits, (nth, ended)| bits | ended << nth)
    }

    /// Forgets what readers did with a row that is gone or kept.
    pub(crate) fn forget(&mut self, id: RowId) {
        for reader in &mut self.readers {
            reader.ended.remove(id.0, id.0 + 1);
            reader.owned.remove(&id);
        }
    }

    /// Takes rows that a reader ends from whoever had them. Returns since when they did.
    pub(crate) fn disown(&mut self, reader: usize, rows: &[RowId]) -> Vec<Ownership> {
        let Some(reader) = self.readers.get_mut(reader) else { return Vec::new() };
        rows.iter().filter_map(|id| reader.owned.remove(id)).collect()
    }

    /// Notes that a reader has ended rows. Returns those that all have ended now.
    pub(crate) fn end(
        &mut self,
        reader: usize,
        rows: &[RowId],
        index: &mut Index,
    ) -> Result<Vec<RowId>, Error> {
        let mut done = Vec::new();
        for id in rows {
            if !index.row_state(*id)?.is_live() {
                continue;
            }
            let Some(of) = self.readers.get_mut(reader) else { continue };
            of.ended.add(id.0, id.0 + 1);
            if self.readers.iter().all(|reader| reader.ended.end_of(id.0).is_some()) {
                done.push(*id);
            }
        }
        Ok(done)
    }

    /// Notes that all readers but this one have ended a row.
    pub(crate) fn end_for_others(&mut self, reader: usize, id: RowId) {
        let others = self.readers.iter_mut().enumerate().filter(|(nth, _)| *nth != reader);
        others.for_each(|(_, other)| other.ended.add(id.0, id.0 + 1));
    }

    /// The first rows of a range that a reader has ended and another one has not, as runs `(first, end)`: at
    /// most so many rows.
    pub(crate) fn ended_within(&self, reader: usize, rows: &Range<u64>, rows_max: u64) -> Vec<(u64, u64)> {
        let runs = self.readers.get(reader).map(|reader| reader.ended.runs());
        first_within(runs.into_iter().flatten(), rows, rows_max)
    }

    /// Gives readers rows again: for each run its reader, the first row and the end. Returns those that were
    /// still there.
    pub(crate) fn reopen(
        &mut self,
        runs: &[(usize, u64, u64)],
        index: &mut Index,
    ) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for (reader, first, end) in runs {
            let Some(reader) = self.readers.get_mut(*reader) else { continue };
            for id in (*first..*end).map(RowId) {
                let order_key = index.order_key(id)?;
                if reader.ended.remove(id.0, id.0 + 1) > 0 {
                    reader.conditions.revisit(order_key);
                    back.push(id);
                }
            }
        }
        Ok(back)
    }

    /// What each reader has before it. `new`: the next new row.
    pub(crate) fn status(
        &self,
        names: &[String],
        index: &mut Index,
        new: RowId,
    ) -> Result<Vec<ReaderStatus>, Error> {
        let mut all = Vec::new();
        for (name, reader) in names.iter().zip(&self.readers) {
            let mut next = index.next_live(RowId(0))?;
            while let Some(end) = next.and_then(|id| reader.ended.end_of(id.0)) {
                next = index.next_live(RowId(end))?;
            }
            let oldest_ms = next.and_then(|id| index.inserted_ms(id));
            let there = index.live() - index.owned() - index.scheduled();
            let owned = reader.owned.len() as u64;
            let waiting = there.saturating_sub(reader.ended.count() + owned);
            let next = next.unwrap_or(new);
            all.push(ReaderStatus { name: name.clone(), waiting, owned, next, oldest_ms });
        }
        Ok(all)
    }

    /// The rows that readers were given and have not ended, with their readers' names.
    pub(crate) fn owned_rows(&self, names: &[String]) -> Vec<(String, RowId, Ownership)> {
        let rows = |(name, reader): (&String, &Reader)| {
            reader.owned.iter().map(|(id, of)| (name.clone(), *id, *of)).collect::<Vec<_>>()
        };
        names.iter().zip(&self.readers).flat_map(rows).collect()
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
