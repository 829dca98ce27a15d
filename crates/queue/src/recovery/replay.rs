//! What the records of the log come to, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Error;
use crate::format::checkpoint::Checkpoint;
use crate::format::lease_record::Lease;
use crate::format::origin::Journal;
use crate::format::readers::RowIdSet;
use crate::format::record::{ROW_SUM, Record, RowId};
use crate::format::retry_policy::FailureInfo;
use crate::format::segment_index::DueTime;
use crate::format::transaction::Transactions;
use crate::index::dedupe_window::DedupeWindow;
use crate::index::{Index, NewRow};
use crate::row_attributes::AttributeReader;
use crate::store::file::SegmentFile;

/// A batch of the log.
pub(super) struct ReplayedBatch<'log> {
    pub(super) file: &'log Arc<SegmentFile>,
    /// Its records, and their offset in the file.
    pub(super) body: &'log [u8],
    pub(super) body_at: u64,
    /// When it was written.
    pub(super) time_ms: u64,
}

/// What the replay builds.
pub(super) struct LogReplay {
    pub(super) index: Index,
    pub(super) journal: Journal,
    pub(super) transactions: Transactions,
    pub(super) leases: BTreeMap<RowId, Lease>,
    pub(super) failures: BTreeMap<RowId, FailureInfo>,
    /// Rows that are due later.
    pub(super) dues: Vec<DueTime>,
    pub(super) dedupe_window: DedupeWindow,
    /// The runs `(first, end)` of rows that the checkpoint says are kept, in order.
    kept: Vec<(u64, u64)>,
    /// For each reader: the rows that it has ended.
    pub(super) ended: Vec<RowIdSet>,
    pub(super) attribute_reader: Option<AttributeReader>,
    now_ms: u64,
    pub(super) next: RowId,
    /// The id that the next row had when the last segment began.
    pub(super) active_next: RowId,
}

impl LogReplay {
    /// What a checkpoint says, before the log is read.
    pub(super) fn new(checkpoint: &Checkpoint, now_ms: u64) -> Result<LogReplay, Error> {
        let mut kept: Vec<_> = checkpoint.kept.iter().map(|run| (run.first, run.end())).collect();
        kept.sort_unstable();
        let mut dedupe_window =
            DedupeWindow::new(checkpoint.definition.dedupe.map_or(0, |dedupe| dedupe.for_ms));
        dedupe_window.adopt(&checkpoint.dedupe_entries);
        Ok(LogReplay {
            index: Index::new(&checkpoint.definition),
            journal: checkpoint.journal.clone(),
            transactions: checkpoint.transactions.clone(),
            leases: checkpoint.leases.rows.iter().map(|lease| (lease.row, *lease)).collect(),
            failures: checkpoint.failures.iter().cloned().collect(),
            dues: Vec::new(),
            dedupe_window,
            kept,
            ended: checkpoint.ended.clone(),
            attribute_reader: AttributeReader::of(&checkpoint.definition)?,
            now_ms,
            next: checkpoint.next,
            active_next: checkpoint.next,
        })
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, batch: &ReplayedBatch<'_>, record: Record) -> Result<(), Error> {
        let time_ms = batch.time_ms;
        match record {
            Record::Row { id, at, len, time_ms: moved, origin } => {
                let offset = batch.body_at + at as u64;
                if id < self.next {
                    return Err(batch.file.corrupt("a row id that was used before", offset));
                }
                let time_ms = moved.unwrap_or(time_ms);
                let row = batch.body.get(at + ROW_SUM..at + len).unwrap_or_default();
                let attributes =
                    AttributeReader::read(self.attribute_reader.as_ref(), self.now_ms, time_ms, row);
                self.index.push(batch.file, &NewRow { id, offset, len, time_ms, attributes })?;
                if self.was_kept(id) {
                    self.index.set_kept(id)?;
                }
                let due_ms = attributes.due_ms;
                self.dues.extend((due_ms > 0).then_some(DueTime { id, due_ms }));
                self.next = RowId(id.0 + 1);
                origin.iter().for_each(|origin| self.journal.add(origin));
            }
            Record::Acknowledge { first, count } => {
                self.index.end_run(first, count, time_ms)?;
                self.forget_reading(first, count);
            }
            Record::ReaderEnd { reader, first, count } => {
                self.end_rows_for_reader(reader, (first, count), time_ms)?
            }
            Record::Discard { first, count } => self.index.remove_run(first, count)?,
            Record::Replay { reader, first, count } => self.replay_rows(reader, first, count)?,
            Record::ReaderReopen { reader, first, count } => self.unread(reader, first, count)?,
            Record::Prepare { tx, prepared } => {
                self.transactions.note(tx);
                self.transactions.open.insert(tx, prepared);
            }
            Record::Lease(lease) => {
                self.leases.insert(lease.row, lease);
            }
            Record::Failure { row, failure } => {
                self.failures.insert(row, failure);
            }
            Record::Key(recent) => self.dedupe_window.set(recent),
            // The checkpoint may be newer than this record, and no longer have the transaction.
            Record::Decide { tx, commit } => {
                self.transactions.note(tx);
                let Some(prepared) = self.transactions.open.remove(&tx) else { return Ok(()) };
                if !commit {
                    return self.index.remove_run(RowId(prepared.rows.0), prepared.rows.1);
                }
                for (first, count) in prepared.ended {
                    self.index.end_run(RowId(first), count, time_ms)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the checkpoint says that a row is kept.
    fn was_kept(&self, id: RowId) -> bool {
        let after = self.kept.partition_point(|(first, _)| *first <= id.0);
        self.kept.get(after.wrapping_sub(1)).is_some_and(|(_, end)| id.0 < *end)
    }

    /// Has rows wait again that were kept: for this reader, or for all. With a newer checkpoint they may wait
    /// already, and what follows in the log leads to the same.
    fn replay_rows(&mut self, reader: Option<usize>, first: RowId, count: u64) -> Result<(), Error> {
        self.revive(first, count)?;
        let end = first.0.saturating_add(count);
        let Some(reader) = reader else {
            self.forget_reading(first, count);
            return Ok(());
        };
        let mut from = first;
        while let Some(id) = self.index.next_live(from)?.filter(|id| id.0 < end) {
            from = RowId(id.0 + 1);
            self.ended_by_others(reader, id);
        }
        Ok(())
    }

    /// Notes that a reader has not ended rows any more that another one has not ended.
    fn unread(&mut self, reader: usize, first: RowId, count: u64) -> Result<(), Error> {
        let revived = self.revive(first, count)?;
        revived.into_iter().for_each(|id| self.ended_by_others(reader, id));
        let end = first.0.saturating_add(count);
        self.ended.get_mut(reader).map(|ended| ended.remove(first.0, end));
        Ok(())
    }

    /// Has rows wait that are kept. Returns them.
    fn revive(&mut self, first: RowId, count: u64) -> Result<Vec<RowId>, Error> {
        let ids = first.0..first.0.saturating_add(count);
        self.index.retained.cut(&ids, &(0..=u64::MAX), u64::MAX);
        self.index.revive_run(first, count)
    }

    fn ended_by_others(&mut self, reader: usize, id: RowId) {
        for (nth, ended) in self.ended.iter_mut().enumerate() {
            if nth == reader {
                ended.remove(id.0, id.0 + 1);
            } else {
                ended.add(id.0, id.0 + 1);
            }
        }
    }

    /// Notes that a reader has ended rows, and ends those that all have ended.
    fn end_rows_for_reader(
        &mut self,
        reader: usize,
        (first, count): (RowId, u64),
        time_ms: u64,
    ) -> Result<(), Error> {
        let end = first.0.saturating_add(count);
        // Not for a row that the checkpoint says is kept: it may be given again later.
        let mut from = first;
        while let Some(id) = self.index.next_live(from)?.filter(|id| id.0 < end) {
            from = RowId(id.0 + 1);
            self.ended.get_mut(reader).into_iter().for_each(|ended| ended.add(id.0, id.0 + 1));
            if self.ended.iter().all(|ended| ended.end_of(id.0).is_some()) {
                self.index.end(id, time_ms)?;
                self.forget_reading(id, 1);
            }
        }
        Ok(())
    }

    /// Forgets what readers did with rows that were ended without them.
    fn forget_reading(&mut self, first: RowId, count: u64) {
        let end = first.0.saturating_add(count);
        for ended in &mut self.ended {
            ended.remove(first.0, end);
        }
    }
}
