//! What a queue knows about its copy, both while the copy is made and after it took the queue's place.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::record::RowId;
use crate::format::retention::RetainedRun;
use crate::queue::Queue;

/// The state of a copy that is being made.
#[derive(Debug, Default)]
pub(crate) struct CopyState {
    /// How many rows were read for the copy.
    read: u64,
    /// Rows that were owned when they were read, or of which leases are known, and their ids in the copy,
    /// which start at 1.
    pub(crate) rows: BTreeMap<RowId, RowId>,
    /// The rows that were kept when the copy began, in the order of their ids.
    pub(crate) before: Vec<RetainedRun>,
    /// Rows that were kept when they were read: their ids in the copy, and when they were ended.
    pub(crate) kept: Vec<RetainedRun>,
    /// Rows that readers had ended and others had not: their ids in the copy, and a bit for each reader.
    pub(crate) reading: Vec<(u64, u64)>,
    /// The copy, once it is complete: rows that are ended here are ended in the copy first.
    pub(crate) copy: Option<Arc<Queue>>,
}

impl CopyState {
    /// Notes the next row that is read; `readers`: a bit for each that has ended it.
    pub(crate) fn note(&mut self, id: RowId, is_owned: bool, readers: u64) {
        self.read += 1;
        if readers != 0 {
            self.reading.push((self.read, readers));
        }
        if is_owned {
            self.rows.insert(id, RowId(self.read));
        }
    }

    /// The second in which a row was ended that was kept when the copy began.
    pub(crate) fn ended_s(&self, id: RowId) -> Option<u64> {
        let after = self.before.partition_point(|run| run.first <= id.0);
        let run = self.before.get(after.checked_sub(1)?)?;
        (id.0 < run.end()).then_some(run.ended_s)
    }

    /// Notes the next row that is read, which was ended in this second and is kept.
    pub(crate) fn note_kept(&mut self, ended_s: u64) {
        self.read += 1;
        match self.kept.last_mut().filter(|last| last.end() == self.read && last.ended_s == ended_s) {
            Some(last) => last.count += 1,
            None => self.kept.push(RetainedRun { first: self.read, count: 1, ended_s }),
        }
    }

    /// The copy, if it is complete, and the ids of these rows in it.
    pub(crate) fn there(&self, rows: &[RowId]) -> Option<(Arc<Queue>, Vec<RowId>)> {
        let there = rows.iter().filter_map(|row| self.rows.get(row).copied());
        self.copy.clone().map(|copy| (copy, there.collect()))
    }
}

/// The queue that took another's place.
pub(crate) struct Successor {
    pub(crate) queue: Arc<Queue>,
    pub(crate) epoch: u64,
    /// The epoch of the other queue in which it was copied.
    pub(crate) of: u64,
    /// The ids of the owned rows here, by their ids there.
    pub(crate) rows: BTreeMap<RowId, RowId>,
}

impl Successor {
    /// The ids of these rows here; none when they are from an earlier epoch of the other queue.
    pub(crate) fn translate(&self, epoch: u64, rows: &[RowId]) -> Option<Vec<RowId>> {
        let rows = rows.iter().filter_map(|row| self.rows.get(row).copied());
        (epoch == self.of).then(|| rows.collect())
    }
}
