//! What a file is, judged by its first bytes.
//!
//! Every dialect that is possible at all is tried on the sample and scored by how well its records agree in
//! their number of fields and how many fields look like something on their own (`sniff/trial.rs`); the idea is
//! that of the sniffers of CleverCSV and DuckDB. Then the first record is compared with the others
//! (`sniff/header.rs`), and words that stand for NULL are looked for (`sniff/null.rs`).

mod header;
mod null;
mod trial;

use std::fmt;

use crate::encoding::UTF8_BOM;
use crate::{Dialect, Encoding, Field, LineEnd, Nulls, fields, records};

/// More of a sample than this changes no decision, in bytes.
const SAMPLE_BYTES_MAX: usize = 1 << 20;
/// And more records than this neither.
const RECORDS_MAX: usize = 2000;

/// What the caller knows already. Everything that is set is taken as it is.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Separates fields.
    pub delimiter: Option<u8>,
    /// Encloses fields; `Some(None)` says that nothing does.
    pub quote: Option<Option<u8>>,
    /// Escapes bytes; `Some(None)` says that nothing does.
    pub escape: Option<Option<u8>>,
    /// Ends records.
    pub line_end: Option<LineEnd>,
    /// The first record has names in it.
    pub header: Option<bool>,
    /// How characters are written.
    pub encoding: Option<Encoding>,
    /// The columns of the table the rows are for, to tell a header by.
    pub columns: Option<Vec<String>>,
}

/// What a sample says about its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// How its characters are written.
    pub encoding: Encoding,
    /// How its fields and records are told apart.
    pub dialect: Dialect,
    /// The first record has names in it.
    pub header: bool,
    /// The names as they stand in the header, but trimmed; empty without one. There may be more or fewer of
    /// them than `columns`.
    pub names: Vec<String>,
    /// How many fields most records have; at least 1.
    pub columns: usize,
    /// What seems to stand for NULL.
    pub nulls: Nulls,
    /// What a user may want to know, one sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, ", self.encoding, self.dialect)?;
        f.write_str(if self.header { "header" } else { "no header" })?;
        write!(f, " ({} column{})", self.columns, if self.columns == 1 { "" } else { "s" })
    }
}

/// The encoding of a file by its first bytes: what a byte order mark says; else UTF-16 if half of the bytes,
/// the even or the odd ones, are mostly zero; else UTF-8 if it is valid, and latin1 if not.
pub fn sniff_encoding(sample: &[u8]) -> Encoding {
    if sample.starts_with(b"\xff\xfe") {
        return Encoding::Utf16Le;
    }
    if sample.starts_with(b"\xfe\xff") {
        return Encoding::Utf16Be;
    }
    let pairs = sample.chunks_exact(2);
    let total = pairs.len();
    let (high_first, low_first) = pairs.fold((0, 0), |(first, second), pair| {
        (
            first + usize::from(pair[0] == 0 && pair[1] != 0),
            second + usize::from(pair[1] == 0 && pair[0] != 0),
        )
    });
    // Text in most languages of the world still has a delimiter, a digit or a line end in every third place.
    if total >= 2 && low_first * 3 >= total && high_first * 20 <= total {
        return Encoding::Utf16Le;
    }
    if total >= 2 && high_first * 3 >= total && low_first * 20 <= total {
        return Encoding::Utf16Be;
    }
    match std::str::from_utf8(sample) {
        Err(error) if error.error_len().is_some() => Encoding::Latin1,
        _ => Encoding::Utf8,
    }
}

/// Finds out what a file is by a sample of it from its start, decoded to UTF-8. `whole` says that the sample is
/// all of it; otherwise its last record may be cut off and does not count.
///
/// There is always an answer. Where the sample does not say, a file is comma-separated and quoted with `"`, and
/// has no header.
pub fn sniff(sample_utf8: &[u8], whole: bool, encoding: Encoding, hints: &Hints) -> Findings {
    let bytes = sample_utf8.strip_prefix(UTF8_BOM).unwrap_or(sample_utf8);
    let sample = match bytes.get(..SAMPLE_BYTES_MAX) {
        Some(start) => Sample { bytes: start, whole: whole && bytes.len() == start.len() },
        None => Sample { bytes, whole },
    };
    let trial = trial::best(sample, hints);
    let dialect = Dialect {
        line_end: hints.line_end.unwrap_or_else(|| sample.line_end(&trial.dialect)),
        ..trial.dialect
    };
    let table = Table::read(sample, &dialect);
    let header =
        hints.header.unwrap_or_else(|| header::detect(&table, trial.columns, hints.columns.as_deref()));
    let names = match table.rows.first() {
        Some(first) if header => first.iter().map(|cell| cell.name()).collect(),
        _ => Vec::new(),
    };
    let body = table.rows.get(usize::from(header)..).unwrap_or_default();
    let columns = trial.columns.max(1);
    let nulls = null::suggest(body, &dialect, columns);
    let mut findings = Findings {
        encoding: hints.encoding.unwrap_or(encoding),
        dialect,
        header,
        names,
        columns,
        nulls,
        notes: Vec::new(),
    };
    findings.notes = notes(&findings, body);
    findings
}

fn notes(findings: &Findings, body: &[Vec<Cell>]) -> Vec<String> {
    let mut notes = Vec::new();
    let names = findings.names.len();
    if findings.header && names != findings.columns {
        notes
            .push(format!("the header has {names} names, but most records have {} fields", findings.columns));
    }
    let ragged = body.iter().filter(|row| row.len() != findings.columns).count();
    if ragged > 0 {
        notes.push(format!(
            "{ragged} of the first {} records do not have {} fields",
            body.len(),
            findings.columns
        ));
    }
    let malformed = body.iter().filter(|row| row.iter().any(|cell| cell.malformed)).count();
    if malformed > 0 {
        notes.push(format!(
            "{malformed} of the first {} records have text behind a closing quote",
            body.len()
        ));
    }
    if findings.dialect.line_end == LineEnd::Any {
        notes.push("some lines end with \\r\\n and some with \\n".to_owned());
    }
    for word in &findings.nulls.words {
        notes.push(format!("the word {} is read as NULL", String::from_utf8_lossy(word)));
    }
    notes
}

/// The start of a file, without a byte order mark.
#[derive(Clone, Copy)]
struct Sample<'a> {
    bytes: &'a [u8],
    whole: bool,
}

impl<'a> Sample<'a> {
    /// The records that are surely complete, or the only one there is. Blank lines are left out.
    fn records(self, dialect: &Dialect) -> impl Iterator<Item = &'a [u8]> {
        let length = self.bytes.len();
        let mut records = records(dialect, self.bytes);
        let mut count = 0;
        std::iter::from_fn(move || {
            loop {
                let start = records.offset();
                let record = records.next()?;
                let cut_off = start + record.len() == length && !self.whole;
                if count >= RECORDS_MAX || (cut_off && count > 0) {
                    return None;
                }
                if !record.is_empty() {
                    count += 1;
                    return Some(record);
                }
            }
        })
    }

    /// What ends the records, quoted line ends not counted. `dialect` has [`LineEnd::Any`] or [`LineEnd::Cr`].
    fn line_end(self, dialect: &Dialect) -> LineEnd {
        if dialect.line_end != LineEnd::Any {
            return dialect.line_end;
        }
        let mut records = records(dialect, self.bytes);
        let (mut short, mut long) = (0, 0);
        loop {
            let start = records.offset();
            let Some(record) = records.next() else { break };
            match records.offset() - start - record.len() {
                1 => short += 1,
                2 => long += 1,
                _ => {}
            }
        }
        match (short, long) {
            (_, 0) => LineEnd::Lf,
            (0, _) => LineEnd::CrLf,
            _ => LineEnd::Any,
        }
    }
}

/// A field of the sample, with its text.
struct Cell {
    text: Vec<u8>,
    quoted: bool,
    malformed: bool,
    /// NULL in the dialect itself.
    null: bool,
}

impl Cell {
    /// The cell as the name of a column.
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.text).trim().to_owned()
    }
}

/// The sample taken apart.
struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    fn read(sample: Sample<'_>, dialect: &Dialect) -> Table {
        let (mut row, mut scratch) = (Vec::<Field<'_>>::new(), Vec::new());
        let mut cells = |record| {
            fields(dialect, record, &mut row);
            let cell = |field: &Field<'_>| Cell {
                text: field.text(dialect, &mut scratch).to_vec(),
                quoted: field.quoted,
                malformed: field.malformed,
                null: field.is_null(&Nulls::default()),
            };
            row.iter().map(cell).collect()
        };
        Table { rows: sample.records(dialect).map(&mut cells).collect() }
    }
}

#[cfg(test)]
mod tests;
