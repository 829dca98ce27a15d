//! What is gathered for one write, and the result that its contributors wait for.

use std::sync::Arc;

use crate::Error;
use crate::format::batch::BATCH_HEADER;
use crate::format::dedupe::Recent;
use crate::format::keep::KeptRun;
use crate::format::lease::Lease;
use crate::format::origin::Origin;
use crate::format::policy::Past;
use crate::format::record::{
    ROW_SUM, RowId, encode_acknowledge, encode_again, encode_decide, encode_discard, encode_key,
    encode_lease, encode_past, encode_prepare, encode_read, encode_row, encode_unread,
};
use crate::format::transaction::Prepared;
use crate::queue::owner::OwnerId;
use crate::sync::{Condvar, Mutex, lock, wait};

/// A row in a batch that is being gathered or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    pub(crate) id: RowId,
    /// The offset of its checksum in the batch, header included.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// The owner that it has from the beginning: a statement that has not ended.
    pub(crate) owner: Option<OwnerId>,
}

/// How rows end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Their work is done: they are kept where the queue keeps such rows.
    Done,
    /// They are gone, in a queue that keeps none.
    Gone,
    /// They are gone, in a queue that keeps those whose work is done.
    NotKept,
}

/// What a batch says about a transaction.
#[derive(Debug)]
pub(crate) enum Change {
    /// It is prepared; `owner` owns the rows that it ends until then.
    Prepare { tx: u64, prepared: Prepared, owner: OwnerId },
    /// It is committed or rolled back.
    Decide { tx: u64, commit: bool },
}

/// The next batch, gathered while the current one is written.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Tells its result.
    pub(crate) batch: Arc<Batch>,
    /// Room for the header, then records.
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: Vec<Gathered>,
    /// Rows that will be gone when this batch is written.
    pub(crate) acknowledged: Vec<(RowId, u64)>,
    /// Rows that will be gone then and are not kept, whatever the queue keeps.
    pub(crate) discarded: Vec<(RowId, u64)>,
    /// Kept rows that will wait again then: for this reader, or for all.
    pub(crate) again: Vec<(Option<usize>, KeptRun)>,
    /// Rows that a reader will have ended then: its number, the first, how many.
    pub(crate) read: Vec<(usize, RowId, u64)>,
    /// Rows that a reader will not have ended any more: its number, the first, the end.
    pub(crate) read_again: Vec<(usize, u64, u64)>,
    /// Records of what is so already, whether this batch can be written or not.
    settled: Vec<u8>,
    /// Whether somebody relies on it when it is written. Else it is not synced for its own sake.
    pub(crate) awaited: bool,
    pub(crate) origins: usize,
    /// In the order of the records. With any, the batch is synced whatever the queue's definition says.
    pub(crate) changes: Vec<Change>,
    /// What is known of its rows.
    pub(crate) pasts: Vec<(RowId, Past)>,
    /// The keys of rows that come when it is written, by which others are left out.
    pub(crate) keys: Vec<u128>,
    /// The same, in a queue that knows them for a time.
    pub(crate) recent: Vec<Recent>,
}

impl Gather {
    fn begin(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.resize(BATCH_HEADER, 0);
        }
    }

    /// Takes over what is so already from a batch that could not be written. It comes first, because it
    /// happened before.
    pub(crate) fn inherit(&mut self, other: &Gather) {
        if !other.settled.is_empty() {
            self.begin();
            let more = other.settled.len();
            self.bytes.splice(BATCH_HEADER..BATCH_HEADER, other.settled.iter().copied());
            self.rows.iter_mut().for_each(|row| row.at += more);
            self.settled.splice(0..0, other.settled.iter().copied());
            self.awaited |= other.awaited;
        }
    }

    pub(crate) fn add_row(&mut self, id: RowId, row: &[u8], owner: Option<OwnerId>, origin: Option<&Origin>) {
        self.begin();
        self.awaited = true;
        let at = encode_row(&mut self.bytes, id, row, origin);
        self.rows.push(Gathered { id, at, len: ROW_SUM + row.len(), owner });
        self.origins += usize::from(origin.is_some());
    }

    fn encode(&mut self, runs: impl Iterator<Item = (RowId, u64)>, ending: Ending) {
        self.begin();
        self.awaited = true;
        let encode = match ending {
            Ending::Done | Ending::Gone => encode_acknowledge,
            Ending::NotKept => encode_discard,
        };
        runs.for_each(|(first, count)| encode(&mut self.bytes, first, count));
    }

    /// Records that a transaction is prepared; the caller adds its rows next.
    pub(crate) fn prepare(&mut self, tx: u64, prepared: Prepared, owner: OwnerId) {
        self.begin();
        encode_prepare(&mut self.bytes, tx, &prepared);
        self.changes.push(Change::Prepare { tx, prepared, owner });
    }

    /// Records that a prepared transaction is committed or rolled back.
    pub(crate) fn decide(&mut self, tx: u64, commit: bool) {
        self.begin();
        encode_decide(&mut self.bytes, tx, commit);
        self.changes.push(Change::Decide { tx, commit });
    }

    /// Records that a prepared transaction is committed; it is so already.
    pub(crate) fn committed(&mut self, tx: u64) {
        self.settle(|bytes| encode_decide(bytes, tx, true));
    }

    /// How many transactions it prepares.
    pub(crate) fn prepares(&self) -> usize {
        self.changes.iter().filter(|change| matches!(change, Change::Prepare { .. })).count()
    }

    /// The transactions that it commits or rolls back.
    pub(crate) fn decided(&self) -> impl Iterator<Item = &u64> {
        self.changes.iter().filter_map(|change| match change {
            Change::Decide { tx, .. } => Some(tx),
            Change::Prepare { .. } => None,
        })
    }

    /// Records that rows are gone or kept; the caller applies it.
    pub(crate) fn record(&mut self, rows: &[RowId], ending: Ending) {
        let before = self.bytes.len().max(BATCH_HEADER);
        self.encode(runs(rows), ending);
        self.settled.extend(self.bytes.get(before..).unwrap_or_default());
    }

    /// Records what is known of the leases of a row; it is so already.
    pub(crate) fn lease(&mut self, lease: &Lease) {
        self.settle(|bytes| encode_lease(bytes, lease));
    }

    /// Records what is known of a row besides; it is so already.
    pub(crate) fn past(&mut self, row: RowId, past: &Past) {
        self.settle(|bytes| encode_past(bytes, row, past));
    }

    fn settle(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.begin();
        let before = self.bytes.len();
        encode(&mut self.bytes);
        self.settled.extend(self.bytes.get(before..).unwrap_or_default());
    }

    /// Records what is known of a row that this batch adds.
    pub(crate) fn new_past(&mut self, row: RowId, past: Past) {
        self.begin();
        encode_past(&mut self.bytes, row, &past);
        self.pasts.push((row, past));
    }

    /// Records that rows with keys come.
    pub(crate) fn come(&mut self, recent: Vec<Recent>) {
        self.begin();
        recent.iter().for_each(|recent| encode_key(&mut self.bytes, recent));
        self.recent.extend(recent);
    }

    /// Records that a row with a key came; it is so already.
    pub(crate) fn came(&mut self, recent: &Recent) {
        self.settle(|bytes| encode_key(bytes, recent));
    }

    /// Records that rows are gone or kept; this is applied when the batch is written.
    pub(crate) fn acknowledge(&mut self, rows: &[RowId], ending: Ending) {
        self.encode(runs(rows), ending);
        let ended = if ending == Ending::Done { &mut self.acknowledged } else { &mut self.discarded };
        ended.extend(runs(rows));
    }

    /// Records that kept rows wait again; this is applied when the batch is written.
    pub(crate) fn again(&mut self, reader: Option<usize>, rows: Vec<KeptRun>) {
        self.begin();
        self.awaited = true;
        rows.iter().for_each(|run| encode_again(&mut self.bytes, reader, RowId(run.first), run.count));
        self.again.extend(rows.into_iter().map(|run| (reader, run)));
    }

    /// Records that a reader has not ended rows any more; this is applied when the batch is written.
    pub(crate) fn read_again(&mut self, reader: usize, rows: &[(u64, u64)]) {
        self.begin();
        self.awaited = true;
        for (first, end) in rows {
            encode_unread(&mut self.bytes, reader, RowId(*first), end - first);
            self.read_again.push((reader, *first, *end));
        }
    }

    /// Records that a reader has ended rows; this is applied when the batch is written.
    pub(crate) fn end_read(&mut self, reader: usize, rows: &[RowId]) {
        self.begin();
        self.awaited = true;
        for (first, count) in runs(rows) {
            encode_read(&mut self.bytes, reader, first, count);
            self.read.push((reader, first, count));
        }
    }

    /// Records that a reader has ended rows; it is so already.
    pub(crate) fn record_read(&mut self, reader: usize, rows: &[RowId]) {
        for (first, count) in runs(rows) {
            self.settle(|bytes| encode_read(bytes, reader, first, count));
        }
    }

    /// The bytes of a row.
    pub(crate) fn row(&self, row: &Gathered) -> &[u8] {
        self.bytes.get(row.at + ROW_SUM..row.at + row.len).unwrap_or_default()
    }
}

/// Consecutive rows as `(first, count)`.
pub(crate) fn runs(rows: &[RowId]) -> impl Iterator<Item = (RowId, u64)> {
    let runs = rows.chunk_by(|one, next| one.0 + 1 == next.0);
    runs.filter_map(|run| run.first().map(|first| (*first, run.len() as u64)))
}

/// The result of a batch, which its contributors wait for. It has its own lock, so that those who are woken
/// need not wait for the queue's lock.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    outcome: Mutex<Option<Result<(), Error>>>,
    done: Condvar,
}

impl Batch {
    /// The result, once there is one.
    pub(crate) fn outcome(&self) -> Option<Result<(), Error>> {
        lock(&self.outcome).clone()
    }

    /// Waits for the result.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut outcome = lock(&self.outcome);
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => outcome = wait(&self.done, outcome),
            }
        }
    }

    /// Sets the result; only the first call counts.
    pub(crate) fn finish(&self, result: Result<(), Error>) {
        lock(&self.outcome).get_or_insert(result);
        self.done.notify_all();
    }
}
