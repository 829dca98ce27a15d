//! Examines every value of every file before the table is created: the types hold for the whole file, not for
//! a sample of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use rows::{ColumnStats, Dialect, DialectCheck, Encoding, Field, Format, KeyStats, Nulls, WordStats};

use crate::Error;
use crate::chunk::{Chunk, Chunker, Cut};
use crate::contradiction::{self, FileContradiction};
use crate::job::Order;
use crate::reject::Reject;
use crate::server_warnings::{named_column, plain_reason};
use crate::source::Files;
use progress::Progress;

/// What a survey needs to know.
pub(crate) struct Survey<'a> {
    /// The files.
    pub files: &'a Files<'a>,
    /// How they are cut.
    pub cut: Cut,
    /// The texts that mean NULL.
    pub nulls: &'a Nulls,
    /// Files whose columns are in another order.
    pub orders: &'a BTreeMap<usize, Order>,
    /// The number of fields in a record.
    pub columns: usize,
    /// Their names, if they have some.
    pub names: &'a [String],
    /// A line to leave out wherever it occurs again: the header.
    pub skipped: Option<&'a [u8]>,
    /// Which properties of the files' form are guesses.
    pub dialect_check: &'a DialectCheck,
    /// The most bad rows allowed.
    pub rejects_max: u64,
    /// Threads that examine values.
    pub threads: usize,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

/// What all values have in common.
pub(crate) struct SurveyedTypes {
    /// The values of each field.
    pub columns: Vec<ColumnStats>,
    /// The first field as a key.
    pub key: KeyStats,
    /// Words for NULL that occurred, by column.
    pub words: WordStats,
    /// Records that are rows.
    pub rows: u64,
}

/// The result of a survey.
pub(crate) enum SurveyResult {
    /// All values were examined, and nothing contradicts the guesses.
    SurveyedTypes(Box<SurveyedTypes>),
    /// A place that contradicts them.
    FileContradiction(FileContradiction),
}

/// The result for one chunk.
struct ChunkSurvey {
    number: u32,
    columns: Vec<ColumnStats>,
    key: KeyStats,
    words: WordStats,
    rows: u64,
    ragged: Vec<Reject>,
    /// The first contradiction, or bytes that are not text.
    trouble: Option<Result<FileContradiction, Error>>,
}

impl Survey<'_> {
    /// Examines everything.
    pub(crate) fn run(&self) -> Result<SurveyResult, Error> {
        let (send_chunk, chunks) = crossbeam_channel::bounded::<Chunk>(1);
        let (send_part, parts) = crossbeam_channel::unbounded::<ChunkSurvey>();
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
            match merged {
                // A wrong guess may be the reason why the rest can't be read.
                Ok(SurveyResult::FileContradiction(contradiction)) => {
                    Ok(SurveyResult::FileContradiction(contradiction))
                }
                merged => read.and(merged),
            }
        })
    }

    fn read(&self, chunks: Sender<Chunk>) -> Result<(), Error> {
        let mut chunker = Chunker::new(self.files, self.cut.clone(), self.threads + 2, self.progress);
        loop {
            let next = chunker.next_chunk();
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let Some(chunk) = next? else { break };
            // Nobody takes it any more: there are too many bad rows, which the merging side reports.
            if chunks.send(chunk).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn look(&self, chunks: &Receiver<Chunk>, parts: &Sender<ChunkSurvey>) {
        for chunk in chunks {
            let part = self.look_at(&chunk);
            self.progress.done(part.rows, chunk.bytes().len() as u64);
            if parts.send(part).is_err() {
                break;
            }
        }
    }

    fn look_at(&self, chunk: &Chunk) -> ChunkSurvey {
        let mut part = ChunkSurvey {
            number: chunk.number,
            columns: vec![ColumnStats::new(); self.columns],
            key: KeyStats::new(),
            words: self.words(),
            rows: 0,
            ragged: Vec::new(),
            trouble: self
                .not_text(chunk)
                .map(Err)
                .or_else(|| FileContradiction::of(chunk, self.dialect_check).map(Ok)),
        };
        if part.trouble.is_some() {
            return part;
        }
        let dialect: &Dialect = &self.cut.dialect;
        let mut scratch = Vec::new();
        let mut row: Vec<Field<'_>> = Vec::new();
        let order = self.orders.get(&chunk.file);
        let start = chunk.bytes().as_ptr().addr();
        for record in rows::records(dialect, chunk.bytes()) {
            if (record.is_empty() && self.columns > 1) || self.skipped.is_some_and(|header| header == record)
            {
                continue;
            }
            rows::fields(dialect, record, &mut row);
            if row.len() != self.columns {
                if let Some(contradiction) =
                    self.dialect_check.ragged(chunk.bytes(), record.as_ptr().addr() - start)
                {
                    part.trouble = Some(Ok(FileContradiction::at(chunk, contradiction)));
                    return part;
                }
                part.ragged.push(self.ragged(chunk, record, record.as_ptr().addr() - start, row.len()));
                continue;
            }
            part.rows += 1;
            if let Some(order) = order {
                // In the order of the first file.
                let places = order.fields.iter().zip(row.clone());
                places.for_each(|(at, field)| row.get_mut(*at).into_iter().for_each(|place| *place = field));
            }
            for (at, (column, field)) in part.columns.iter_mut().zip(&row).enumerate() {
                let value = (!field.is_null(self.nulls)).then(|| field.text(dialect, &mut scratch));
                if !part.words.take(at, field, self.nulls) {
                    column.observe(value);
                }
                if at == 0 {
                    part.key.observe(value);
                }
            }
        }
        part
    }

    /// The words for NULL need confirmation only if they were guessed.
    fn words(&self) -> WordStats {
        WordStats::new(if self.dialect_check.guessed().nulls { self.columns } else { 0 })
    }

    /// Finds bytes that are not UTF-8 in a file that should be UTF-8; binary values must be requested
    /// explicitly.
    fn not_text(&self, chunk: &Chunk) -> Option<Error> {
        if self.cut.encoding == Encoding::Binary {
            return None;
        }
        let bad = std::str::from_utf8(chunk.bytes()).err()?;
        let what = contradiction::bad_text(chunk.bytes().get(bad.valid_up_to()..).unwrap_or_default());
        Some(Error::Encoding { name: chunk.name.to_string(), line: chunk.line_at(bad.valid_up_to()), what })
    }

    fn ragged(&self, chunk: &Chunk, record: &[u8], offset: usize, found: usize) -> Reject {
        let reason = (self.cut.format.reason(&self.cut.dialect, record))
            .unwrap_or_else(|| rows::Ragged { expected: self.columns, found }.to_string());
        let column = named_column(&reason).filter(|_| matches!(self.cut.format, Format::Typed(_)));
        Reject {
            file: chunk.file,
            name: chunk.name.to_string(),
            line: chunk.line_at(offset),
            value: column.as_deref().and_then(|column| self.value(record, column)),
            reason: plain_reason(&reason, column.is_some()).to_owned(),
            column,
            record: record.to_vec(),
        }
    }

    /// The value of a column as far as it can be shown.
    fn value(&self, record: &[u8], column: &str) -> Option<String> {
        let at = self.names.iter().position(|name| name == column)?;
        let (mut fields, mut scratch) = (Vec::new(), Vec::new());
        rows::fields(&self.cut.dialect, record, &mut fields);
        Some(String::from_utf8_lossy(fields.get(at)?.text(&self.cut.dialect, &mut scratch)).into_owned())
    }

    /// Combines the results in the order of the file, on which the order of a key depends.
    fn merge(&self, parts: &Receiver<ChunkSurvey>) -> Result<SurveyResult, Error> {
        let mut found = SurveyedTypes {
            columns: vec![ColumnStats::new(); self.columns],
            key: KeyStats::new(),
            words: self.words(),
            rows: 0,
        };
        let mut waiting = BTreeMap::new();
        let mut next = 1;
        let mut ragged: Vec<Reject> = Vec::new();
        for part in parts {
            waiting.insert(part.number, part);
            while let Some(part) = waiting.remove(&next) {
                next += 1;
                match part.trouble {
                    Some(Ok(contradiction)) => return Ok(SurveyResult::FileContradiction(contradiction)),
                    Some(Err(error)) => return Err(error),
                    None => {}
                }
                for (column, later) in found.columns.iter_mut().zip(&part.columns) {
                    column.merge(later);
                }
                found.key.merge(&part.key);
                found.words.merge(&part.words);
                found.rows += part.rows;
                ragged.extend(part.ragged);
                if ragged.len() as u64 > self.rejects_max {
                    let limit = self.rejects_max;
                    ragged.truncate(usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1));
                    return Err(Error::Rejects { rejects: ragged, limit });
                }
            }
        }
        Ok(SurveyResult::SurveyedTypes(Box::new(found)))
    }
}
