//! What a queue knows of its copy, while that is made and once it has taken its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Error;
use crate::format::record::RowId;
use crate::queue::Queue;

/// What is known of a copy that is being made.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// How many rows were read for it.
    read: u64,
    /// Rows that somebody owned when they were read, and their ids in the copy, which counts from 1.
    pub(crate) rows: BTreeMap<RowId, RowId>,
    /// The copy, once it is complete: what is ended here is ended there first.
    pub(crate) copy: Option<Arc<Queue>>,
}

impl Copying {
    /// Notes the next row that is read.
    pub(crate) fn note(&mut self, id: RowId, is_owned: bool) {
        self.read += 1;
        if is_owned {
            self.rows.insert(id, RowId(self.read));
        }
    }

    /// A complete copy, and which rows these are in it.
    pub(crate) fn there(&self, rows: &[RowId]) -> Option<(Arc<Queue>, Vec<RowId>)> {
        let there = rows.iter().filter_map(|row| self.rows.get(row).copied());
        self.copy.clone().map(|copy| (copy, there.collect()))
    }
}

/// The queue that took the place of another.
pub(crate) struct Successor {
    pub(crate) queue: Arc<Queue>,
    pub(crate) epoch: u64,
    /// Which life of the other was copied.
    pub(crate) of: u64,
    /// What became of the rows that were owned.
    pub(crate) rows: BTreeMap<RowId, RowId>,
}

impl Successor {
    /// The same rows here; none when they are of an earlier life of the other queue.
    pub(crate) fn translate(&self, epoch: u64, rows: &[RowId]) -> Option<Vec<RowId>> {
        let rows = rows.iter().filter_map(|row| self.rows.get(row).copied());
        (epoch == self.of).then(|| rows.collect())
    }
}

impl Queue {
    /// Ends rows that were ended in the queue that this one is a copy of.
    pub(crate) fn end_copied(&self, rows: &[RowId]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.room().and_then(|mut state| {
            state.gather.acknowledge(rows);
            self.commit(state)
        });
        match written {
            // The copy is not to be after all.
            Err(Error::Dropped) => Ok(()),
            other => other,
        }
    }
}
