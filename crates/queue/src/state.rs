//! What a queue knows, behind its one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::batch::{BATCH_HEADER, Incarnation};
use crate::copy::Copying;
use crate::index::{Doing, Index};
use crate::log::Log;
use crate::origin::{Journal, Origin};
use crate::rate::Rate;
use crate::record::{ROW_SUM, RowId, encode_acknowledge, encode_row};
use crate::session::OwnerId;
use crate::sync::{Condvar, Mutex, lock, wait};
use crate::wait::Registration;
use crate::{Condition, Counters, Error, Filter};

/// Conditions whose progress is kept.
const CONDITIONS_MAX: usize = 256;

/// Rows that came back behind a condition's progress, before it starts over from the first of them.
const LATE_MAX: usize = 4096;

/// Who has a row. A record of its own: the row and its place in the index do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The connection.
    pub owner: OwnerId,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}

/// A row in a batch that is being gathered or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    pub(crate) id: RowId,
    /// Where its checksum is in the batch, header included.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// Who has it from the beginning: a statement that is not over.
    pub(crate) owner: Option<OwnerId>,
}

/// What comes together while a batch is being written: the next batch.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Room for the header, then records.
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: Vec<Gathered>,
    /// Rows that are gone when this is written.
    pub(crate) acknowledged: Vec<(RowId, u64)>,
    /// Rows that are gone already, whether this can be written or not.
    gone: Vec<(RowId, u64)>,
    pub(crate) origins: usize,
}

impl Gather {
    fn begin(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.resize(BATCH_HEADER, 0);
        }
    }

    pub(crate) fn add_row(&mut self, id: RowId, row: &[u8], owner: Option<OwnerId>, origin: Option<&Origin>) {
        self.begin();
        let at = encode_row(&mut self.bytes, id, row, origin);
        self.rows.push(Gathered { id, at, len: ROW_SUM + row.len(), owner });
        self.origins += usize::from(origin.is_some());
    }

    fn encode(&mut self, runs: &[(RowId, u64)]) {
        self.begin();
        runs.iter().for_each(|(first, count)| encode_acknowledge(&mut self.bytes, *first, *count));
    }

    /// Records that rows are gone; who calls applies it.
    pub(crate) fn record(&mut self, rows: &[RowId]) {
        let runs: Vec<_> = runs(rows).collect();
        self.encode(&runs);
        self.gone.extend(runs);
    }

    /// Records that rows are gone, to be applied when that is written.
    pub(crate) fn acknowledge(&mut self, rows: &[RowId]) {
        let runs: Vec<_> = runs(rows).collect();
        self.encode(&runs);
        self.acknowledged.extend(runs);
    }

    /// The rows that nobody has yet, with their bytes.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (RowId, &[u8])> {
        let bytes = |row: &Gathered| self.bytes.get(row.at + ROW_SUM..row.at + row.len).unwrap_or_default();
        self.rows.iter().filter(|row| row.owner.is_none()).map(move |row| (row.id, bytes(row)))
    }
}

/// Rows that follow each other as `(first, count)`.
fn runs(rows: &[RowId]) -> impl Iterator<Item = (RowId, u64)> {
    let runs = rows.chunk_by(|one, next| one.0 + 1 == next.0);
    runs.filter_map(|run| run.first().map(|first| (*first, run.len() as u64)))
}

/// What those wait for who put something into a batch. Its lock is its own: who is woken need not wait for
/// the queue's.
#[derive(Default)]
pub(crate) struct Batch {
    outcome: Mutex<Option<Result<(), Error>>>,
    done: Condvar,
}

impl Batch {
    /// Waits for what became of it.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut outcome = lock(&self.outcome);
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => outcome = wait(&self.done, outcome),
            }
        }
    }

    /// Says what became of it; the first word counts.
    pub(crate) fn finish(&self, result: Result<(), Error>) {
        lock(&self.outcome).get_or_insert(result);
        self.done.notify_all();
    }
}

/// How far a condition has looked through the queue.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Rows before this one do not match, but for those that were not looked at: they are in `late`.
    pub(crate) next: u64,
    /// Rows before `next` that came back to the queue.
    pub(crate) late: BTreeSet<RowId>,
    used: u64,
    /// What it was compiled to.
    compiled: Option<Arc<Condition>>,
}

/// The progress of each condition, by its text.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    known: BTreeMap<Arc<str>, Progress>,
    uses: u64,
}

impl Conditions {
    /// A condition that was compiled before.
    pub(crate) fn compiled(&mut self, text: &str) -> Option<Arc<Condition>> {
        self.known.get(text).and_then(|progress| progress.compiled.clone())
    }

    /// Keeps a condition, to be compiled once.
    pub(crate) fn keep(&mut self, condition: &Arc<Condition>) {
        self.of(condition.text()).compiled = Some(condition.clone());
    }

    /// How far a condition has come.
    pub(crate) fn progress(&mut self, filter: &dyn Filter) -> &mut Progress {
        self.of(filter.text())
    }

    fn of(&mut self, text: &str) -> &mut Progress {
        self.uses += 1;
        if self.known.len() >= CONDITIONS_MAX && !self.known.contains_key(text) {
            let oldest = self.known.iter().min_by_key(|(_, progress)| progress.used);
            oldest.map(|(text, _)| text.clone()).into_iter().for_each(|text| {
                self.known.remove(&text);
            });
        }
        let progress = self.known.entry(text.into()).or_default();
        progress.used = self.uses;
        progress
    }

    /// A row came back: whoever has passed it must look at it.
    pub(crate) fn came_back(&mut self, id: RowId) {
        for progress in self.known.values_mut().filter(|progress| id.0 < progress.next) {
            progress.late.insert(id);
            if progress.late.len() > LATE_MAX {
                progress.next = progress.late.first().map_or(0, |first| first.0);
                progress.late.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

/// What a queue knows.
pub(crate) struct State {
    pub(crate) incarnation: Incarnation,
    /// How often the queue was emptied since it was opened.
    pub(crate) epoch: u64,
    pub(crate) index: Index,
    /// The id of the next row.
    pub(crate) next: RowId,
    /// The id after the last row that has arrived; rows from it to `next` are still being written.
    pub(crate) arrived: RowId,
    /// The id that the next row had when the active segment was begun.
    pub(crate) active_next: RowId,
    pub(crate) journal: Journal,
    /// Sources of rows that are not written yet, in order.
    pub(crate) pending: Vec<Origin>,
    pub(crate) gather: Gather,
    pub(crate) open: Option<Arc<Batch>>,
    /// How many have a part in that batch beside the one who will write it.
    pub(crate) joined: u64,
    /// Several had a part in the batch before.
    pub(crate) crowded: bool,
    /// Somebody has the log: writes, syncs, or empties the queue.
    pub(crate) writing: bool,
    /// Somebody compacts or writes a checkpoint.
    pub(crate) maintaining: bool,
    /// Absent while somebody writes.
    pub(crate) log: Option<Log>,
    /// Something is not written yet, or not synced, and somebody sees to it before long.
    pub(crate) unsettled: bool,
    pub(crate) waiters: BTreeMap<u64, Registration>,
    pub(crate) tickets: u64,
    pub(crate) owners: BTreeMap<RowId, Ownership>,
    pub(crate) conditions: Conditions,
    /// Its files were used since somebody looked.
    pub(crate) used: bool,
    /// Somebody looks now and then whether its files are used.
    pub(crate) watched: bool,
    /// How many want that no row is taken.
    pub(crate) held_back: usize,
    /// The copy that is being made meanwhile.
    pub(crate) copying: Option<Copying>,
    pub(crate) failed: Option<Arc<str>>,
    pub(crate) dropped: bool,
    pub(crate) counters: Counters,
    pub(crate) written: Rate,
    pub(crate) removed: Rate,
}

impl State {
    /// An error when the queue is out of service.
    pub(crate) fn usable(&self) -> Result<(), Error> {
        match &self.failed {
            Some(why) => Err(Error::Failed { why: why.clone() }),
            None if self.dropped => Err(Error::Dropped),
            None => Ok(()),
        }
    }

    /// Takes note that what was gathered could not be written: its rows never came, and nothing has become of
    /// those that it would have ended. What is gone already is recorded with the next batch.
    pub(crate) fn give_up(&mut self, gather: &Gather) {
        self.pending.drain(..gather.origins);
        if !gather.gone.is_empty() {
            self.gather.encode(&gather.gone);
            self.gather.gone.extend(&gather.gone);
        }
    }

    /// Whether a relayed row came already, or is on its way.
    pub(crate) fn is_duplicate(&self, origin: &Origin) -> bool {
        let repeated = self.pending.iter().rev().find_map(|earlier| origin.repeats(earlier));
        repeated.unwrap_or_else(|| self.journal.has(origin))
    }

    /// Gives rows to somebody who was found to have a right to them.
    pub(crate) fn own(&mut self, rows: &[RowId], ownership: Ownership) -> Result<(), Error> {
        for id in rows {
            self.index.take(*id)?;
            self.owners.insert(*id, ownership);
        }
        Ok(())
    }

    /// Takes rows from their owner and puts them back in their places; those that were still owned are
    /// returned.
    pub(crate) fn disown(&mut self, rows: &[RowId], owner: OwnerId) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for id in rows {
            if self.owners.get(id).is_none_or(|ownership| ownership.owner != owner) {
                continue;
            }
            self.owners.remove(id);
            if self.index.restore(*id)? {
                self.conditions.came_back(*id);
                back.push(*id);
            }
        }
        Ok(back)
    }

    /// Whether a row is there for somebody else than an owner.
    pub(crate) fn is_waiting(&mut self, id: RowId) -> Result<bool, Error> {
        Ok(self.index.doing(id)? == Doing::Waiting)
    }
}
