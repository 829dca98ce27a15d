//! The batch that the next group commit writes, and its result.

use std::sync::Arc;

use crate::Error;
use crate::format::batch::BATCH_HEADER;
use crate::format::dedupe::DedupeEntry;
use crate::format::lease_record::Lease;
use crate::format::origin::Origin;
use crate::format::record::{
    ROW_SUM, RowId, encode_acknowledge, encode_decide, encode_discard, encode_failure, encode_key,
    encode_lease, encode_prepare, encode_reader_end, encode_reader_reopen, encode_replay, encode_row,
};
use crate::format::retention::RetainedRun;
use crate::format::retry_policy::FailureInfo;
use crate::format::transaction::Prepared;
use crate::queue::owner::OwnerId;
use crate::sync::{Condvar, Mutex, lock, wait};

/// A row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRow {
    pub(crate) id: RowId,
    /// The offset of its checksum in the batch, header included.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// The owner that it has from the beginning: a statement that has not ended.
    pub(crate) owner: Option<OwnerId>,
}

/// How rows leave the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// Acknowledged: kept if the queue keeps such rows.
    Acknowledged,
    /// Removed, in a queue that keeps none.
    Deleted,
    /// Removed, in a queue that keeps acknowledged rows.
    Discarded,
}

/// What a batch says about a transaction.
#[derive(Debug)]
pub(crate) enum TransactionChange {
    /// It is prepared; `owner` owns the rows that it ends until then.
    Prepare { tx: u64, prepared: Prepared, owner: OwnerId },
    /// It is committed or rolled back.
    Decide { tx: u64, commit: bool },
}

/// Collects the next batch while the current one is written.
#[derive(Debug, Default)]
pub(crate) struct BatchBuilder {
    /// Tells its result.
    pub(crate) result: Arc<BatchResult>,
    /// Room for the header, then records.
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: Vec<BatchRow>,
    /// Rows that will be gone when this batch is written.
    pub(crate) acknowledged: Vec<(RowId, u64)>,
    /// Rows that will be gone then and are not kept, whatever the queue keeps.
    pub(crate) discarded: Vec<(RowId, u64)>,
    /// Kept rows that will wait again then: for this reader, or for all.
    pub(crate) replayed: Vec<(Option<usize>, RetainedRun)>,
    /// Rows that a reader will have ended then: its number, the first, how many.
    pub(crate) reader_ended: Vec<(usize, RowId, u64)>,
    /// Rows that a reader will not have ended any more: its number, the first, the end.
    pub(crate) reopened: Vec<(usize, u64, u64)>,
    /// Records of changes that are already in effect, whether this batch can be written or not.
    applied: Vec<u8>,
    /// Whether a caller waits for it. Else it is not synced on its own.
    pub(crate) awaited: bool,
    pub(crate) origins: usize,
    /// In the order of the records. With any, the batch is synced whatever the queue's definition says.
    pub(crate) changes: Vec<TransactionChange>,
    /// What is known of its rows.
    pub(crate) failures: Vec<(RowId, FailureInfo)>,
    /// The keys of rows that come when it is written, by which others are left out.
    pub(crate) keys: Vec<u128>,
    /// The same, in a queue that knows them for a time.
    pub(crate) dedupe_entries: Vec<DedupeEntry>,
}

impl BatchBuilder {
    fn begin(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.resize(BATCH_HEADER, 0);
        }
    }

    /// Takes over the changes already in effect from a batch that could not be written. They come first.
    pub(crate) fn inherit(&mut self, other: &BatchBuilder) {
        if !other.applied.is_empty() {
            self.begin();
            let more = other.applied.len();
            self.bytes.splice(BATCH_HEADER..BATCH_HEADER, other.applied.iter().copied());
            self.rows.iter_mut().for_each(|row| row.at += more);
            self.applied.splice(0..0, other.applied.iter().copied());
            self.awaited |= other.awaited;
        }
    }

    pub(crate) fn add_row(&mut self, id: RowId, row: &[u8], owner: Option<OwnerId>, origin: Option<&Origin>) {
        self.begin();
        self.awaited = true;
        let at = encode_row(&mut self.bytes, id, row, origin);
        self.rows.push(BatchRow { id, at, len: ROW_SUM + row.len(), owner });
        self.origins += usize::from(origin.is_some());
    }

    fn encode(&mut self, runs: impl Iterator<Item = (RowId, u64)>, ending: EndKind) {
        self.begin();
        self.awaited = true;
        let encode = match ending {
            EndKind::Acknowledged | EndKind::Deleted => encode_acknowledge,
            EndKind::Discarded => encode_discard,
        };
        runs.for_each(|(first, count)| encode(&mut self.bytes, first, count));
    }

    /// Records that a transaction is prepared; the caller adds its rows next.
    pub(crate) fn prepare(&mut self, tx: u64, prepared: Prepared, owner: OwnerId) {
        self.begin();
        encode_prepare(&mut self.bytes, tx, &prepared);
        self.changes.push(TransactionChange::Prepare { tx, prepared, owner });
    }

    /// Records that a prepared transaction is committed or rolled back.
    pub(crate) fn decide(&mut self, tx: u64, commit: bool) {
        self.begin();
        encode_decide(&mut self.bytes, tx, commit);
        self.changes.push(TransactionChange::Decide { tx, commit });
    }

    /// Records that a prepared transaction is committed; it is so already.
    pub(crate) fn record_applied_commit(&mut self, tx: u64) {
        self.record_applied(|bytes| encode_decide(bytes, tx, true));
    }

    /// How many transactions it prepares.
    pub(crate) fn prepares(&self) -> usize {
        self.changes.iter().filter(|change| matches!(change, TransactionChange::Prepare { .. })).count()
    }

    /// The transactions that it commits or rolls back.
    pub(crate) fn decided(&self) -> impl Iterator<Item = &u64> {
        self.changes.iter().filter_map(|change| match change {
            TransactionChange::Decide { tx, .. } => Some(tx),
            TransactionChange::Prepare { .. } => None,
        })
    }

    /// Records that rows are gone or kept; the caller applies it.
    pub(crate) fn record_applied_end(&mut self, rows: &[RowId], ending: EndKind) {
        let before = self.bytes.len().max(BATCH_HEADER);
        self.encode(runs(rows), ending);
        self.applied.extend(self.bytes.get(before..).unwrap_or_default());
    }

    /// Records what is known of the leases of a row; it is so already.
    pub(crate) fn record_lease(&mut self, lease: &Lease) {
        self.record_applied(|bytes| encode_lease(bytes, lease));
    }

    /// Records what is known of a row besides; it is so already.
    pub(crate) fn record_failure(&mut self, row: RowId, failure: &FailureInfo) {
        self.record_applied(|bytes| encode_failure(bytes, row, failure));
    }

    fn record_applied(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.begin();
        let before = self.bytes.len();
        encode(&mut self.bytes);
        self.applied.extend(self.bytes.get(before..).unwrap_or_default());
    }

    /// Records what is known of a row that this batch adds.
    pub(crate) fn add_failure(&mut self, row: RowId, failure: FailureInfo) {
        self.begin();
        encode_failure(&mut self.bytes, row, &failure);
        self.failures.push((row, failure));
    }

    /// Records that rows with keys come.
    pub(crate) fn record_keys(&mut self, entries: Vec<DedupeEntry>) {
        self.begin();
        entries.iter().for_each(|entry| encode_key(&mut self.bytes, entry));
        self.dedupe_entries.extend(entries);
    }

    /// Records that a row with a key came; it is so already.
    pub(crate) fn record_applied_key(&mut self, entry: &DedupeEntry) {
        self.record_applied(|bytes| encode_key(bytes, entry));
    }

    /// Records that rows are gone or kept; this is applied when the batch is written.
    pub(crate) fn acknowledge(&mut self, rows: &[RowId], ending: EndKind) {
        self.encode(runs(rows), ending);
        let ended =
            if ending == EndKind::Acknowledged { &mut self.acknowledged } else { &mut self.discarded };
        ended.extend(runs(rows));
    }

    /// Records that kept rows wait again; this is applied when the batch is written.
    pub(crate) fn replay(&mut self, reader: Option<usize>, rows: Vec<RetainedRun>) {
        self.begin();
        self.awaited = true;
        rows.iter().for_each(|run| encode_replay(&mut self.bytes, reader, RowId(run.first), run.count));
        self.replayed.extend(rows.into_iter().map(|run| (reader, run)));
    }

    /// Records that a reader has not ended rows any more; this is applied when the batch is written.
    pub(crate) fn reopen_for_reader(&mut self, reader: usize, rows: &[(u64, u64)]) {
        self.begin();
        self.awaited = true;
        for (first, end) in rows {
            encode_reader_reopen(&mut self.bytes, reader, RowId(*first), end - first);
            self.reopened.push((reader, *first, *end));
        }
    }

    /// Records that a reader has ended rows; this is applied when the batch is written.
    pub(crate) fn end_for_reader(&mut self, reader: usize, rows: &[RowId]) {
        self.begin();
        self.awaited = true;
        for (first, count) in runs(rows) {
            encode_reader_end(&mut self.bytes, reader, first, count);
            self.reader_ended.push((reader, first, count));
        }
    }

    /// Records that a reader has ended rows; it is so already.
    pub(crate) fn record_applied_reader_end(&mut self, reader: usize, rows: &[RowId]) {
        for (first, count) in runs(rows) {
            self.record_applied(|bytes| encode_reader_end(bytes, reader, first, count));
        }
    }

    /// The bytes of a row.
    pub(crate) fn row(&self, row: &BatchRow) -> &[u8] {
        self.bytes.get(row.at + ROW_SUM..row.at + row.len).unwrap_or_default()
    }
}

/// Consecutive rows as `(first, count)`.
pub(crate) fn runs(rows: &[RowId]) -> impl Iterator<Item = (RowId, u64)> {
    let runs = rows.chunk_by(|one, next| one.0 + 1 == next.0);
    runs.filter_map(|run| run.first().map(|first| (*first, run.len() as u64)))
}

/// The result of a batch, which its contributors wait for. It has its own lock, so that they need not
/// wait for the queue's lock when they wake.
#[derive(Debug, Default)]
pub(crate) struct BatchResult {
    outcome: Mutex<Option<Result<(), Error>>>,
    done: Condvar,
}

impl BatchResult {
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
