//! Recognises a file by its first bytes.
//!
//! Every possible dialect is tried on the sample and scored by how well its records agree in their number of
//! fields and how many fields look like proper fields (`sniff/trial.rs`); the idea comes from the sniffers of
//! CleverCSV and DuckDB. Then the first record is compared with the others (`sniff/header.rs`), and words
//! that mean NULL are searched for (`sniff/null.rs`).

mod encoding;
mod guess;
mod header;
mod null;
mod shape;
mod trial;

use std::fmt;

use memchr::memchr;

use crate::encoding::UTF8_BOM;
use crate::error::count;
use crate::{
    ColumnStats, Dialect, Encoding, Field, Format, GuessedOptions, Habits, Json, Lenient, LineEnd, Nulls,
    fields, records,
};
pub use encoding::{NotUtf8, not_utf8, sniff_encoding};

/// The most bytes of a sample: more would not change a decision.
const SAMPLE_BYTES_MAX: usize = 1 << 20;
/// The most records, for the same reason.
const RECORDS_MAX: usize = 2000;

/// What the caller already knows. Everything that is set is taken as given.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Separates fields.
    pub delimiter: Option<u8>,
    /// Encloses fields; `Some(None)` means that there are no quotes.
    pub quote: Option<Option<u8>>,
    /// Escapes bytes; `Some(None)` means that there are no escapes.
    pub escape: Option<Option<u8>>,
    /// Ends records.
    pub line_end: Option<LineEnd>,
    /// Whether the first record is a header.
    pub header: Option<bool>,
    /// The encoding of characters.
    pub encoding: Option<Encoding>,
    /// Whether the text is read as it is: plain delimited text from the first line on.
    pub plain: bool,
    /// Deviations from strict text, as far as they are given.
    pub lenient: Lenient,
    /// `Some(true)`: JSON lines; `Some(false)`: delimited text.
    pub json: Option<bool>,
    /// Keys of JSON lines: all keys, or the requested ones.
    pub json_keys: Option<Json>,
    /// Lines to skip at the start.
    pub skip_lines: Option<u64>,
    /// The columns of the target table, to recognise a header by.
    pub columns: Option<Vec<String>>,
    /// Records from later in the file, a few at a time, that contradicted an earlier guess.
    pub evidence: Vec<Vec<u8>>,
}

/// What a sample shows about its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The encoding of its characters.
    pub encoding: Encoding,
    /// How to convert its text before it is in the dialect.
    pub format: Format,
    /// How many lines at its start are neither rows nor header.
    pub skip_lines: u64,
    /// How fields and records are separated.
    pub dialect: Dialect,
    /// Whether the first record is a header.
    pub header: bool,
    /// The names in the header, trimmed; empty without a header. There may be more or fewer of them than
    /// `columns`.
    pub names: Vec<String>,
    /// The number of fields in most records; at least 1.
    pub columns: usize,
    /// What seems to mean NULL.
    pub nulls: Nulls,
    /// Which of these findings are guesses that the rest of the file may contradict.
    pub guessed: GuessedOptions,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl Findings {
    /// How the values of the file are written, with what its form and the values of its columns tell.
    #[must_use]
    pub fn habits(&self, habits: Habits, nulls: &Nulls, columns: &[ColumnStats]) -> Habits {
        let points = self.dialect.delimiter == b','
            || self.format.is_json()
            || matches!(self.format, Format::Typed(_))
            || columns.iter().any(ColumnStats::has_points);
        Habits { points, empty_is_null: nulls.empty, ..habits }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Format::Typed(typed) = &self.format {
            return write!(f, "{} ({})", typed.name, count(self.columns, "column"));
        }
        write!(f, "{}, ", self.encoding)?;
        match self.skip_lines {
            0 => {}
            lines => write!(f, "{} skipped, ", count(lines, "line"))?,
        }
        match &self.format {
            format @ Format::JsonLines(_) => write!(f, "{format}")?,
            format @ Format::JsonArrays(_) => write!(f, "{format}, {}", header_word(self.header))?,
            format => {
                let dialect = self.dialect.to_string();
                match (format, dialect.split_once("-separated")) {
                    (Format::Lenient(Lenient { delimiter: Some(delimiter), .. }), Some((_, rest))) => {
                        write!(f, "'{}'-separated{rest}{format}, ", delimiter.escape_default())?;
                    }
                    _ => write!(f, "{dialect}{format}, ")?,
                }
                f.write_str(header_word(self.header))?;
            }
        }
        write!(f, " ({})", count(self.columns, "column"))
    }
}

fn header_word(header: bool) -> &'static str {
    if header { "header" } else { "no header" }
}

/// Recognises a file by a sample from its start, decoded to UTF-8. `whole` says that the sample is the whole
/// file; otherwise its last record may be incomplete and does not count.
///
/// There is always a result. If the sample does not tell, a file is comma-separated and quoted with `"`, and
/// has no header.
pub fn sniff(sample_utf8: &[u8], whole: bool, encoding: Encoding, hints: &Hints) -> Findings {
    let bytes = sample_utf8.strip_prefix(UTF8_BOM).unwrap_or(sample_utf8);
    let (bytes, whole) = match bytes.get(..SAMPLE_BYTES_MAX) {
        Some(start) => (start, whole && bytes.len() == start.len()),
        None => (bytes, whole),
    };
    let mut findings =
        if hints.plain { read(bytes, whole, hints).0 } else { shape::find(bytes, whole, hints) };
    findings.encoding = hints.encoding.unwrap_or(encoding);
    // What was only tried on the way is a guess all the same; what the user has said is not.
    let GuessedOptions { escape, quote, quoted_lines, other_quote, line_end, nulls, header } =
        findings.guessed;
    findings.guessed = GuessedOptions {
        escape: escape && hints.escape.is_none(),
        quote: quote && hints.quote.is_none(),
        quoted_lines: quoted_lines && hints.quote.is_none(),
        other_quote: other_quote && hints.quote.is_none(),
        line_end: line_end && hints.line_end.is_none(),
        nulls,
        header: header && hints.header.is_none(),
    };
    findings
}

/// The findings for a text that is read as it is, and how well they fit.
fn read(bytes: &[u8], whole: bool, hints: &Hints) -> (Findings, Fit) {
    let sample = Sample { bytes, whole, evidence: &hints.evidence };
    let trial = trial::best(sample, hints);
    let dialect = Dialect {
        line_end: hints.line_end.unwrap_or_else(|| sample.line_end(&trial.dialect)),
        ..trial.dialect
    };
    let table = Table::read(sample, &dialect);
    let found = header::detect(&table, trial.columns, hints.columns.as_deref());
    let header = hints.header.unwrap_or(found == Some(true));
    let mut names: Vec<String> = match table.rows.first() {
        Some(first) if header => first.iter().map(|cell| cell.name()).collect(),
        _ => Vec::new(),
    };
    let body = table.rows.get(usize::from(header)..).unwrap_or_default();
    let columns = trial.columns.max(1);
    if header && header::lacks_the_first(&names, body, columns) {
        names.insert(0, String::new());
    }
    let nulls = null::suggest(body, &dialect, columns);
    let mut findings = Findings {
        encoding: Encoding::Utf8,
        format: Format::Plain,
        skip_lines: 0,
        dialect,
        header,
        names,
        columns,
        nulls,
        guessed: guess::left_open(sample, &dialect, body),
        notes: Vec::new(),
    };
    findings.notes = notes(&findings, body);
    if hints.header.is_none() && found.is_none() {
        findings.notes.push(UNDECIDED.to_owned());
    }
    (findings, Fit { score: trial.score, table })
}

/// What is said of a first line that may be either.
const UNDECIDED: &str = "it is unclear whether the first line is a header, so it is read as a row; \
                         --header or --no-header says which";

/// How well a text fits its findings.
struct Fit {
    score: f64,
    table: Table,
}

fn notes(findings: &Findings, body: &[Vec<Cell>]) -> Vec<String> {
    let mut notes = Vec::new();
    let names = findings.names.len();
    if findings.header && names != findings.columns {
        notes.push(format!(
            "the header has {}, but most records have {}",
            count(names, "name"),
            count(findings.columns, "field")
        ));
    }
    let ragged = body.iter().filter(|row| row.len() != findings.columns).count();
    if ragged > 0 {
        notes.push(format!(
            "{ragged} of the first {} {} not have {}",
            count(body.len(), "record"),
            if ragged == 1 { "does" } else { "do" },
            count(findings.columns, "field")
        ));
    }
    let malformed = body.iter().filter(|row| row.iter().any(|cell| cell.malformed)).count();
    if malformed > 0 {
        notes.push(format!(
            "text after a closing quote in {malformed} of the first {}",
            count(body.len(), "record")
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

/// The start of a file, without a byte order mark, and the later records to be weighed with it.
#[derive(Clone, Copy)]
struct Sample<'a> {
    bytes: &'a [u8],
    whole: bool,
    evidence: &'a [Vec<u8>],
}

impl<'a> Sample<'a> {
    /// All of its bytes.
    fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.bytes).chain(self.evidence.iter().map(Vec::as_slice))
    }

    /// The complete records, or the only one, and the evidence. Blank lines are left out.
    fn records(self, dialect: &Dialect) -> impl Iterator<Item = &'a [u8]> {
        let length = self.bytes.len();
        let mut start = records(dialect, self.bytes);
        let mut count = 0;
        let first = std::iter::from_fn(move || {
            loop {
                let at = start.offset();
                let record = start.next()?;
                let cut_off = at + record.len() == length && !self.whole;
                if count >= RECORDS_MAX || (cut_off && count > 0) {
                    return None;
                }
                if !record.is_empty() {
                    count += 1;
                    return Some(record);
                }
            }
        });
        let dialect = *dialect;
        let later = self.evidence.iter().flat_map(move |part| records(&dialect, part));
        first.chain(later.filter(|record| !record.is_empty()))
    }

    /// Whether there is a `\r` that is not the very last byte: there it may be half of a line end.
    fn has_lone_return(self) -> bool {
        let end = if self.whole { self.bytes.len() } else { self.bytes.len().saturating_sub(1) };
        self.bytes.get(..end).is_some_and(|bytes| memchr(b'\r', bytes).is_some())
    }

    /// The line end of the records; quoted line ends do not count. `dialect` has [`LineEnd::Any`] or
    /// [`LineEnd::Cr`].
    fn line_end(self, dialect: &Dialect) -> LineEnd {
        if dialect.line_end != LineEnd::Any {
            return dialect.line_end;
        }
        let (mut short, mut long) = (0, 0);
        for part in self.parts() {
            let mut records = records(dialect, part);
            loop {
                let start = records.offset();
                let Some(record) = records.next() else { break };
                match &part[start + record.len()..records.offset()] {
                    b"\n" => short += 1,
                    // Half a line end at the end of the file counts too.
                    b"\r\n" => long += 1,
                    b"\r" if self.whole => long += 1,
                    _ => {}
                }
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
    /// Whether it is the dialect's own NULL.
    null: bool,
}

impl Cell {
    /// The cell as the name of a column.
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.text).trim().to_owned()
    }
}

/// The sample, split into cells.
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
