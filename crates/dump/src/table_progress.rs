//! The progress of each table.

use std::sync::atomic::{AtomicU64, Ordering};

use progress::{Part, Progress};
use server::TableName;

/// Counts the work done on a table, from several threads.
pub(crate) struct TableProgress {
    name: String,
    bytes_total: u64,
    bytes: AtomicU64,
    text_bytes: AtomicU64,
    rows: AtomicU64,
}

impl TableProgress {
    /// For a table of about this many bytes; 0 if unknown.
    pub(crate) fn new(name: &TableName, bytes_total: u64) -> TableProgress {
        // As people write it, without the quotes of SQL.
        let name = format!("{}.{}", name.schema, name.table);
        TableProgress {
            name,
            bytes_total,
            bytes: AtomicU64::new(0),
            text_bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        }
    }

    /// Adds work that was done: rows, their bytes in the measure of the total, and those of their text.
    /// Returns the number of rows done so far.
    pub(crate) fn add(&self, progress: &dyn Progress, rows: u64, bytes: u64, text_bytes: u64) -> u64 {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.text_bytes.fetch_add(text_bytes, Ordering::Relaxed);
        self.tell(progress, false);
        rows
    }

    /// Reports that nothing of the table is left.
    pub(crate) fn end(&self, progress: &dyn Progress) {
        self.tell(progress, true);
    }

    fn tell(&self, progress: &dyn Progress, is_whole: bool) {
        progress.part(&Part {
            name: &self.name,
            rows: self.rows.load(Ordering::Relaxed),
            bytes: if is_whole { &self.text_bytes } else { &self.bytes }.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            is_whole,
        });
    }
}
