//! Finding the bad rows of a chunk that the server did not take clean.
//!
//! LOAD DATA LOCAL never fails because of a row: it skips duplicates and bends values, and says so in
//! counts and warnings. A chunk with any of these is rolled back and loaded again in parts, until the
//! parts that go in are clean and the records that don't are alone. Warnings that name a row number
//! shorten the search; where they don't (duplicate keys), it is a search by halves.

use std::ops::Range;
use std::sync::Arc;

use server::{Session, Warning};

use crate::chunk::Chunk;
use crate::reject::Reject;
use crate::wire::{Outcome, Through, Wire};
use crate::{Duplicates, Error, reject};

/// A chunk, loaded carefully.
#[derive(Default)]
pub(crate) struct Settled {
    /// Rows that are in (not yet committed).
    pub loaded: u64,
    /// Rows that are not.
    pub rejects: Vec<Reject>,
    /// Rows whose key was there already.
    pub duplicates: Duplicates,
}

/// Loads a chunk inside the session's transaction, leaving bad rows out.
pub(crate) struct Careful<'a> {
    /// What sends them.
    pub wire: &'a Arc<Wire>,
    /// The session, inside a transaction.
    pub session: &'a mut Session,
    /// The chunk.
    pub chunk: &'a Arc<Chunk>,
    /// How records are sent.
    pub through: Through,
    /// When more rejects than this are found, only the first of them are of interest.
    pub rejects_max: u64,
    /// What was done so far, without rejects.
    pub settled: Settled,
    /// Rejects by where they begin.
    pub found: Vec<(usize, Reject)>,
}

impl Careful<'_> {
    /// Loads what can be loaded. When there are more rejects than allowed it stops early, but not before it
    /// knows the first ones: what is told of a bad file must not change from run to run.
    pub(crate) fn run(mut self) -> Result<Settled, Error> {
        let all: Vec<_> = self.wire.job.records(self.chunk.bytes()).collect();
        let mut parts = vec![all];
        while let Some(mut part) = parts.pop() {
            if let Some(enough) = self.enough() {
                part.retain(|range| range.start < enough);
            }
            parts.extend(self.settle(part)?);
        }
        let mut found = self.found;
        found.sort_by_key(|(start, _)| *start);
        self.settled.rejects = found.into_iter().map(|(_, reject)| reject).collect();
        Ok(self.settled)
    }

    /// Where the first reject begins that is one too many; what is behind it is of no interest any more.
    fn enough(&self) -> Option<usize> {
        let allowed = usize::try_from(self.rejects_max).ok()?;
        if self.found.len() <= allowed {
            return None;
        }
        let mut starts: Vec<usize> = self.found.iter().map(|(start, _)| *start).collect();
        starts.sort_unstable();
        starts.get(allowed).copied()
    }

    /// Loads a part; what is left to do when it was not clean, the first part last.
    fn settle(&mut self, part: Vec<Range<usize>>) -> Result<Vec<Vec<Range<usize>>>, Error> {
        if part.is_empty() {
            return Ok(Vec::new());
        }
        self.session.execute("SAVEPOINT remora")?;
        let outcome = self.wire.send(self.session, self.chunk, Some(part.clone()), self.through)?;
        let unsent: Vec<_> = outcome.ragged.iter().map(|(range, _)| range.start).collect();
        if let Some(loaded) = outcome.clean {
            self.settled.loaded += loaded;
            self.settled.duplicates.add(&outcome.duplicates);
            for (range, reason) in outcome.ragged {
                self.reject(range, reason, None);
            }
            return Ok(Vec::new());
        }
        self.session.execute("ROLLBACK TO SAVEPOINT remora")?;
        let sent: Vec<_> = part.iter().filter(|range| !unsent.contains(&range.start)).cloned().collect();
        if let [only] = sent.as_slice() {
            let mut complaint = first_complaint(&outcome);
            if complaint.is_none() {
                complaint = self.wire.explain(self.session, self.chunk, only.clone())?;
                self.session.execute("ROLLBACK TO SAVEPOINT remora")?;
            }
            let column = complaint.as_deref().and_then(named_column);
            self.reject(
                only.clone(),
                complaint.unwrap_or_else(|| "the server did not take this row".to_owned()),
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

    fn reject(&mut self, range: Range<usize>, reason: String, column: Option<String>) {
        let record = self.chunk.bytes().get(range.clone()).unwrap_or_default();
        let value = column
            .as_deref()
            .and_then(|column| self.wire.job.field_of(self.chunk.file, column))
            .and_then(|at| {
                let mut fields = Vec::new();
                rows::fields(&self.wire.job.dialect, record, &mut fields);
                let mut scratch = Vec::new();
                let field = fields.get(at)?;
                // What stands for NULL is shown as it stands there.
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

/// What the server says of a chunk where nothing can be tried again: the first complaint.
pub(crate) fn first_complaint(outcome: &Outcome) -> Option<String> {
    let failure = outcome.failure.as_ref().map(reject::server_words);
    failure.or_else(|| outcome.warnings.first().map(|warning| warning.message.clone()))
}

/// The rows that warnings name by number, from 0, each with its first warning. Empty unless every
/// warning names one: a duplicate that names none could then be any row.
fn named_rows(warnings: &[Warning], rows: usize) -> Vec<(usize, &Warning)> {
    let mut named: Vec<(usize, &Warning)> = Vec::new();
    for warning in warnings {
        let Some(row) = row_number(&warning.message).filter(|row| (1..=rows).contains(row)) else {
            return Vec::new();
        };
        if !named.iter().any(|(known, _)| *known == row - 1) {
            named.push((row - 1, warning));
        }
    }
    named
}

/// The number in "... at row 17", or in "Row 17 ..." as LOAD DATA's own complaints begin.
fn row_number(message: &str) -> Option<usize> {
    let number = match message.rsplit_once(" at row ") {
        Some((_, number)) => number,
        None => message.strip_prefix("Row ")?.split(' ').next()?,
    };
    number.trim_end_matches('.').parse().ok()
}

/// A message without the row number, which counts from the start of the statement and means nothing here.
pub(crate) fn without_row(message: &str) -> &str {
    match message.rsplit_once(" at row ") {
        Some((head, number)) if number.parse::<u64>().is_ok() => head,
        _ => match message.strip_prefix("Row ").and_then(|rest| rest.split_once(' ')) {
            Some((number, rest)) if number.parse::<u64>().is_ok() => rest,
            _ => message,
        },
    }
}

/// A complaint as the user needs it: the column is told apart, under the name of the table it waits in
/// nobody knows it.
fn plain_reason(message: &str, column_is_told: bool) -> &str {
    let plain = without_row(message);
    match plain.rsplit_once(" for column ") {
        Some((reason, _)) if column_is_told => reason,
        _ => plain,
    }
}

/// The column in "... for column 'a' ...", "... for column `db`.`t`.`a` ..." or "Column 'a' ...".
fn named_column(message: &str) -> Option<String> {
    let rest = match message.strip_prefix("Column '") {
        Some(rest) => rest.split_once('\'')?.0,
        None => {
            ["for column ", "to column ", "NOT NULL column "]
                .iter()
                .find_map(|before| message.split_once(before))?
                .1
        }
    };
    let end = rest.rfind(" at row ").unwrap_or(rest.len());
    let name = rest.get(..end)?.trim();
    let name = name.rsplit_once("`.`").map_or(name, |(_, column)| column);
    Some(name.trim_matches(|quote| matches!(quote, '\'' | '`')).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_read_from_the_servers_words() {
        for (message, row, column, plain) in [
            ("Out of range value for column 'a' at row 3", 3, "a", "Out of range value for column 'a'"),
            (
                "Incorrect integer value: 'x at row 9' for column `d`.`t`.`a b` at row 12",
                12,
                "a b",
                "Incorrect integer value: 'x at row 9' for column `d`.`t`.`a b`",
            ),
        ] {
            assert_eq!(row_number(message), Some(row), "{message}");
            assert_eq!(named_column(message).as_deref(), Some(column), "{message}");
            assert_eq!(without_row(message), plain);
        }
        for message in ["Column 'a b' cannot be null", "NULL supplied to NOT NULL column 'a b' at row 2"] {
            assert_eq!(named_column(message).as_deref(), Some("a b"));
        }
        let short = "Row 2 doesn't contain data for all columns";
        assert_eq!((row_number(short), named_column(short)), (Some(2), None));
        assert_eq!(without_row(short), "doesn't contain data for all columns");
        assert_eq!(row_number("Duplicate entry '5' for key 'PRIMARY'"), None);
    }
}
