//! Looking at every value of every file before the table is made: the types hold for the whole file, not
//! for a sample of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use rows::{ColumnStats, Dialect, Field, KeyStats, Nulls};

use crate::Error;
use crate::chunk::{Chunk, Chunker, Cut};
use crate::job::Order;
use crate::reject::Reject;
use crate::source::Files;
use progress::Progress;

/// What a survey needs to know.
pub(crate) struct Survey<'a> {
    /// The files.
    pub files: &'a Files<'a>,
    /// How they are cut.
    pub cut: Cut,
    /// What stands for NULL.
    pub nulls: &'a Nulls,
    /// Files whose columns are in an order of their own.
    pub orders: &'a BTreeMap<usize, Order>,
    /// Fields of a record.
    pub columns: usize,
    /// Bad rows that are allowed.
    pub rejects_max: u64,
    /// Threads that look.
    pub threads: usize,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// Where to tell how far it is.
    pub progress: &'a dyn Progress,
}

/// What all values have in common.
pub(crate) struct Found {
    /// Each field's values.
    pub columns: Vec<ColumnStats>,
    /// The first field as a key.
    pub key: KeyStats,
    /// Records that count.
    pub rows: u64,
}

/// The same for one chunk.
struct Part {
    number: u32,
    columns: Vec<ColumnStats>,
    key: KeyStats,
    rows: u64,
    ragged: Vec<Reject>,
}

impl Survey<'_> {
    /// Looks at everything.
    pub(crate) fn run(&self) -> Result<Found, Error> {
        let (send_chunk, chunks) = crossbeam_channel::bounded::<Chunk>(1);
        let (send_part, parts) = crossbeam_channel::unbounded::<Part>();
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                let (chunks, send_part) = (chunks.clone(), send_part.clone());
                scope.spawn(move || self.look(&chunks, &send_part));
            }
            drop((chunks, send_part));
            let merge = scope.spawn(move || self.merge(&parts));
            let read = self.read(send_chunk);
            let merged =
                merge.join().unwrap_or_else(|_| Err(Error::Mismatch("the survey failed".to_owned())));
            read.and(merged)
        })
    }

    fn read(&self, chunks: Sender<Chunk>) -> Result<(), Error> {
        let mut chunker = Chunker::new(self.files, self.cut, self.threads + 2, self.progress);
        loop {
            let next = chunker.next_chunk();
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let Some(chunk) = next? else { break };
            // Nobody takes it any more: too many bad rows, which the merging side reports.
            if chunks.send(chunk).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn look(&self, chunks: &Receiver<Chunk>, parts: &Sender<Part>) {
        for chunk in chunks {
            let part = self.look_at(&chunk);
            self.progress.done(part.rows, chunk.bytes().len() as u64);
            if parts.send(part).is_err() {
                break;
            }
        }
    }

    fn look_at(&self, chunk: &Chunk) -> Part {
        let mut part = Part {
            number: chunk.number,
            columns: vec![ColumnStats::new(); self.columns],
            key: KeyStats::new(),
            rows: 0,
            ragged: Vec::new(),
        };
        let dialect: &Dialect = &self.cut.dialect;
        let mut scratch = Vec::new();
        let mut row: Vec<Field<'_>> = Vec::new();
        let order = self.orders.get(&chunk.file);
        let start = chunk.bytes().as_ptr().addr();
        for record in rows::records(dialect, chunk.bytes()) {
            if record.is_empty() && self.columns > 1 {
                continue;
            }
            rows::fields(dialect, record, &mut row);
            if row.len() != self.columns {
                part.ragged.push(self.ragged(chunk, record, record.as_ptr().addr() - start, row.len()));
                continue;
            }
            part.rows += 1;
            if let Some(order) = order {
                // As the first file has them.
                let places = order.fields.iter().zip(row.clone());
                places.for_each(|(at, field)| row.get_mut(*at).into_iter().for_each(|place| *place = field));
            }
            for (at, (column, field)) in part.columns.iter_mut().zip(&row).enumerate() {
                let value = (!field.is_null(self.nulls)).then(|| field.text(dialect, &mut scratch));
                column.observe(value);
                if at == 0 {
                    part.key.observe(value);
                }
            }
        }
        part
    }

    fn ragged(&self, chunk: &Chunk, record: &[u8], offset: usize, found: usize) -> Reject {
        Reject {
            file: chunk.file,
            name: chunk.name.to_string(),
            line: chunk.line_at(offset),
            column: None,
            value: None,
            reason: rows::Ragged { expected: self.columns, found }.to_string(),
            record: record.to_vec(),
        }
    }

    /// Puts the parts together in the order of the file, which is what a key's order is about.
    fn merge(&self, parts: &Receiver<Part>) -> Result<Found, Error> {
        let mut found =
            Found { columns: vec![ColumnStats::new(); self.columns], key: KeyStats::new(), rows: 0 };
        let mut waiting = BTreeMap::new();
        let mut next = 1;
        let mut ragged: Vec<Reject> = Vec::new();
        for part in parts {
            waiting.insert(part.number, part);
            while let Some(part) = waiting.remove(&next) {
                next += 1;
                for (column, later) in found.columns.iter_mut().zip(&part.columns) {
                    column.merge(later);
                }
                found.key.merge(&part.key);
                found.rows += part.rows;
                ragged.extend(part.ragged);
                if ragged.len() as u64 > self.rejects_max {
                    let limit = self.rejects_max;
                    ragged.truncate(usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1));
                    return Err(Error::Rejects { rejects: ragged, limit });
                }
            }
        }
        Ok(found)
    }
}
