//! How far each table is, for whoever watches.

use std::sync::atomic::{AtomicU64, Ordering};

use progress::{Part, Progress};
use server::TableName;

/// Counts what is done of a table, from several threads.
pub(crate) struct Tally {
    name: String,
    bytes_total: u64,
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl Tally {
    /// For a table of about so many bytes; 0 where nobody knows.
    pub(crate) fn new(name: &TableName, bytes_total: u64) -> Tally {
        // As people write it: the quotes are for SQL.
        let name = format!("{}.{}", name.schema, name.table);
        Tally { name, bytes_total, bytes: AtomicU64::new(0), rows: AtomicU64::new(0) }
    }

    /// Takes in what was done; returns the rows that are done by now.
    pub(crate) fn add(&self, progress: &dyn Progress, rows: u64, bytes: u64) -> u64 {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tell(progress, false);
        rows
    }

    /// Nothing of it is left.
    pub(crate) fn end(&self, progress: &dyn Progress) {
        self.tell(progress, true);
    }

    fn tell(&self, progress: &dyn Progress, is_whole: bool) {
        progress.part(&Part {
            name: &self.name,
            rows: self.rows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            is_whole,
        });
    }
}
