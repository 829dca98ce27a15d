//! Finds the bad rows of a chunk for which the server returned warnings.
//!
//! LOAD DATA LOCAL never fails because of a row: it skips duplicates and alters values, which shows only in
//! its counts and warnings. Such a chunk is rolled back and loaded again in parts, until every bad record is
//! isolated and the others are loaded. If warnings have row numbers these narrow the search; otherwise
//! (duplicate keys) it is a binary search.

use std::ops::Range;
use std::sync::Arc;

use server::Session;

use crate::chunk::Chunk;
use crate::reject::Reject;
use crate::sender::{ChunkSender, SendMethod};
use crate::server_warnings::{named_column, named_rows, plain_reason};
use crate::{Duplicates, Error};

/// The result of loading a chunk by bisection.
#[derive(Default)]
pub(crate) struct BisectResult {
    /// Rows that were loaded, but not committed yet.
    pub loaded: u64,
    /// Rows that were not loaded.
    pub rejects: Vec<Reject>,
    /// Rows whose key already existed.
    pub duplicates: Duplicates,
}

/// Loads a chunk in the session's transaction without its bad rows.
pub(crate) struct Bisect<'a> {
    /// Sends the records.
    pub wire: &'a Arc<ChunkSender>,
    /// The session, inside a transaction.
    pub session: &'a mut Session,
    /// The chunk.
    pub chunk: &'a Arc<Chunk>,
    /// How records are sent.
    pub method: SendMethod,
    /// Beyond this number only the first rejects matter.
    pub rejects_max: u64,
    /// The result so far, without rejects.
    pub result: BisectResult,
    /// Rejects by the offset of their beginning.
    pub found: Vec<(usize, Reject)>,
}

impl Bisect<'_> {
    /// Loads everything that can be loaded. With more rejects than allowed it stops early, but only once it
    /// knows the first ones: what is reported about a bad file must not change from run to run.
    pub(crate) fn run(mut self) -> Result<BisectResult, Error> {
        let all: Vec<_> = self.wire.job.records(self.chunk.bytes()).collect();
        let mut parts = vec![all];
        while let Some(mut part) = parts.pop() {
            if let Some(enough) = self.enough() {
                part.retain(|range| range.start < enough);
            }
            parts.extend(self.load_part(part)?);
        }
        let mut found = self.found;
        found.sort_by_key(|(start, _)| *start);
        self.result.rejects = found.into_iter().map(|(_, reject)| reject).collect();
        Ok(self.result)
    }

    /// Where the first reject begins that exceeds the limit; what follows it does not matter any more.
    fn enough(&self) -> Option<usize> {
        let allowed = usize::try_from(self.rejects_max).ok()?;
        if self.found.len() <= allowed {
            return None;
        }
        let mut starts: Vec<usize> = self.found.iter().map(|(start, _)| *start).collect();
        starts.sort_unstable();
        starts.get(allowed).copied()
    }

    /// Loads a part. If it was not clean, returns what is left to do, the first part last.
    fn load_part(&mut self, part: Vec<Range<usize>>) -> Result<Vec<Vec<Range<usize>>>, Error> {
        if part.is_empty() {
            return Ok(Vec::new());
        }
        self.session.execute("SAVEPOINT remora")?;
        let outcome = self.wire.send(self.session, self.chunk, Some(part.clone()), self.method)?;
        let unsent: Vec<_> = outcome.ragged.iter().map(|(range, _)| range.start).collect();
        if let Some(loaded) = outcome.clean {
            self.result.loaded += loaded;
            self.result.duplicates.add(&outcome.duplicates);
            for (range, reason) in outcome.ragged {
                let column = named_column(&reason);
                self.reject(range, reason, column);
            }
            return Ok(Vec::new());
        }
        self.session.execute("ROLLBACK TO SAVEPOINT remora")?;
        let sent: Vec<_> = part.iter().filter(|range| !unsent.contains(&range.start)).cloned().collect();
        if let [only] = sent.as_slice() {
            let mut complaint = outcome.first_warning();
            if complaint.is_none() {
                complaint = self.wire.explain(self.session, self.chunk, only.clone())?;
                self.session.execute("ROLLBACK TO SAVEPOINT remora")?;
            }
            let column = complaint.as_deref().and_then(named_column);
            self.reject(
                only.clone(),
                complaint.unwrap_or_else(|| "the server did not accept this row".to_owned()),
                column,
            );
            let rest = part.iter().filter(|range| unsent.contains(&range.start)).cloned().collect();
            return Ok(vec![rest]);
        }
        let named = named_rows(&outcome.warnings, sent.len());
        if named.is_empty() {
            let (first, second) = part.split_at(part.len() / 2);
            return Ok(vec![second.to_vec(), first.to_vec()]);
        }
        for (row, warning) in &named {
            if let Some(range) = sent.get(*row) {
                self.reject(range.clone(), warning.message.clone(), named_column(&warning.message));
            }
        }
        let bad: Vec<_> =
            named.iter().filter_map(|(row, _)| sent.get(*row)).map(|range| range.start).collect();
        Ok(vec![part.into_iter().filter(|range| !bad.contains(&range.start)).collect()])
    }

    /// The column of the first field that is not UTF-8, which MySQL does not name.
    fn not_utf8(&self, record: &[u8]) -> Option<String> {
        let mut fields = Vec::new();
        rows::fields(&self.wire.job.dialect, record, &mut fields);
        let at = fields.iter().position(|field| str::from_utf8(field.raw).is_err())?;
        self.wire.job.column_of(self.chunk.file, at)
    }

    fn reject(&mut self, range: Range<usize>, reason: String, column: Option<String>) {
        let record = self.chunk.bytes().get(range.clone()).unwrap_or_default();
        let column = column.or_else(|| self.not_utf8(record).filter(|_| reason.starts_with("Invalid utf8")));
        let value = column
            .as_deref()
            .and_then(|column| self.wire.job.field_of(self.chunk.file, column))
            .and_then(|at| {
                let mut fields = Vec::new();
                rows::fields(&self.wire.job.dialect, record, &mut fields);
                let mut scratch = Vec::new();
                let field = fields.get(at)?;
                // A text that means NULL is shown as it is in the file.
                let shown = match field.is_null(&self.wire.job.nulls) {
                    true => field.raw,
                    false => field.text(&self.wire.job.dialect, &mut scratch),
                };
                Some(String::from_utf8_lossy(shown).into_owned())
            });
        let reject = Reject {
            file: self.chunk.file,
            name: self.chunk.name.to_string(),
            line: self.chunk.line_at(range.start),
            reason: plain_reason(&reason, column.is_some()).to_owned(),
            column,
            value,
            record: record.to_vec(),
        };
        self.found.push((range.start, reject));
    }
}
