//! Sends records to the server: LOAD DATA LOCAL INFILE from memory, or multi-row INSERT if the server does
//! not allow that.
//!
//! A chunk is sent unchanged when the server reads it as this program does; otherwise each record is
//! rewritten into LOAD DATA's own dialect on the way. The bytes of each chunk decide.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memmem;
use rows::{Dialect, DialectCheck, Encoding, Exact, FieldRule, LineEnd, Rewriter, Unfit};
use server::{About, LoadReport, Session, TableName, Warning, quote_name};

use crate::chunk::Chunk;
use crate::job::{Field, Job};
use crate::request::FieldTarget;
use crate::{Duplicates, Error, insert, reject};

/// Bytes handed to the connection at a time, so that a signal is noticed soon.
const PIECE_BYTES: usize = 256 * 1024;

/// Some records of a chunk, as ranges of its bytes without line ends; `None` for all records.
pub(crate) type Part = Option<Vec<Range<usize>>>;

/// How the records of a job are sent.
pub(crate) struct ChunkSender {
    /// The decisions of the import.
    pub job: Job,
    /// For files with the column order of the first one.
    usual: Layout,
    /// For files with another order.
    others: BTreeMap<usize, Layout>,
    local_infile: bool,
    empty_is_null: bool,
    always_rewrite: bool,
    /// Whether a column may change values.
    is_judged: bool,
    /// The guesses that every chunk must confirm.
    pub dialect_check: Option<DialectCheck>,
    /// A line to leave out wherever it occurs again.
    skipped: Option<memmem::Finder<'static>>,
    stop: Arc<AtomicBool>,
}

/// The statements for records with one order of fields.
struct Layout {
    fields: Vec<Field>,
    /// LOAD DATA for unchanged text.
    as_is: String,
    /// LOAD DATA for rewritten text.
    rewritten: String,
    insert: insert::Statement,
}

impl Layout {
    fn new(job: &Job, fields: Vec<Field>, table: &TableName, about: &About) -> Layout {
        Layout {
            as_is: load_data((job, &fields), table, &job.dialect, false),
            rewritten: load_data((job, &fields), table, &Dialect::LOAD_DATA, true),
            insert: insert::Statement::new(job, &fields, table, about),
            fields,
        }
    }
}

/// Which statement sends records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMethod {
    /// LOAD DATA LOCAL: the fastest, but for it every row with an existing key is an error.
    Load,
    /// INSERT of many rows.
    Insert,
}

/// The server's answer to some records.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The number of records, if all were accepted without a warning.
    pub clean: Option<u64>,
    /// Server warnings, as far as the server keeps them.
    pub warnings: Vec<Warning>,
    /// The error, if the statement failed.
    pub failure: Option<server::Error>,
    /// Records that were not sent because they are malformed: place and reason.
    pub ragged: Vec<(Range<usize>, String)>,
    /// The accepted records whose key already existed.
    pub duplicates: Duplicates,
}

impl Outcome {
    /// The server's first warning about a chunk that can't be retried.
    pub(crate) fn first_warning(&self) -> Option<String> {
        let failure = self.failure.as_ref().map(reject::server_words);
        failure.or_else(|| self.warnings.first().map(|warning| warning.message.clone()))
    }
}

/// What was sent; filled in while sending.
#[derive(Default)]
struct SentBytes {
    records: u64,
    ragged: Vec<(Range<usize>, String)>,
}

impl ChunkSender {
    /// Prepares the statements of a job for its table.
    pub(crate) fn new(job: Job, table: &TableName, about: &About, stop: Arc<AtomicBool>) -> ChunkSender {
        let rules = || job.fields.iter().map(|field| field.rule);
        let empty_is_null = rules().any(|rule| match rule {
            FieldRule::EmptyIsNull => true,
            FieldRule::Copy => job.nulls.empty,
            _ => false,
        });
        let transforms = rules().any(FieldRule::changes_text);
        let always_rewrite = !job.nulls.words.is_empty() || transforms;
        let layout = |file: &usize| (*file, Layout::new(&job, job.fields_in(*file), table, about));
        ChunkSender {
            usual: Layout::new(&job, job.fields.clone(), table, about),
            others: job.orders.keys().map(layout).collect(),
            local_infile: about.local_infile,
            empty_is_null,
            always_rewrite,
            is_judged: job.fields.iter().any(|field| field.exact != Exact::Server),
            dialect_check: job.guessed.any().then(|| job.dialect_check()),
            skipped: job.skipped().map(|header| memmem::Finder::new(header).into_owned()),
            stop,
            job,
        }
    }

    /// Which statement sends a chunk at first.
    pub(crate) fn first_method(&self) -> SendMethod {
        if self.local_infile { SendMethod::Load } else { SendMethod::Insert }
    }

    fn layout(&self, chunk: &Chunk) -> &Layout {
        self.others.get(&chunk.file).unwrap_or(&self.usual)
    }

    /// Sends records of a chunk as one statement (or several INSERTs).
    ///
    /// # Errors
    /// Only errors that say nothing about the records; a refused record is part of the outcome.
    pub(crate) fn send(
        self: &Arc<ChunkSender>,
        session: &mut Session,
        chunk: &Arc<Chunk>,
        part: Part,
        method: SendMethod,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let result = match method {
            SendMethod::Load => self.load(session, chunk, part, &mut outcome),
            SendMethod::Insert => self.insert_rows(session, chunk, part, &mut outcome),
        };
        match result {
            Ok(clean) => outcome.clean = clean,
            Err(_) if self.stop.load(Ordering::Relaxed) => return Err(Error::Stopped),
            Err(error) if error.is_passing() => return Err(error),
            Err(Error::Server(error))
                if error.code().is_some() || matches!(error, server::Error::PacketTooLarge { .. }) =>
            {
                outcome.failure = Some(error);
            }
            Err(error) => return Err(error),
        }
        if outcome.clean.is_none() && outcome.failure.is_none() {
            outcome.warnings = session.warnings()?;
        }
        Ok(outcome)
    }

    fn load(
        self: &Arc<ChunkSender>,
        session: &mut Session,
        chunk: &Arc<Chunk>,
        part: Part,
        outcome: &mut Outcome,
    ) -> Result<Option<u64>, Error> {
        let layout = self.layout(chunk);
        let as_is = part.is_none() && self.is_sent_unchanged(chunk.bytes(), layout);
        let sql = if as_is { &layout.as_is } else { &layout.rewritten };
        let sent = Arc::new(Mutex::new(SentBytes::default()));
        let (wire, chunk, shared) = (Arc::clone(self), Arc::clone(chunk), Arc::clone(&sent));
        let source = move |out: &mut dyn Write| {
            let sent = match as_is {
                true => wire.write_as_is(&chunk, out)?,
                false => wire.write_rewritten(&chunk, part.as_deref(), out)?,
            };
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = sent;
            Ok(())
        };
        let report = session.load(sql, Box::new(source))?;
        let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.ragged = std::mem::take(&mut sent.ragged);
        Ok(is_clean(&report, sent.records).then_some(sent.records))
    }

    /// Whether the server reads these bytes exactly as this program does, and keeps all values.
    fn is_sent_unchanged(&self, bytes: &[u8], layout: &Layout) -> bool {
        let dialect = &self.job.dialect;
        let delimiter = dialect.delimiter;
        let quoted = |quote| memchr::memchr(quote, bytes).is_some();
        !self.always_rewrite
            && matches!(dialect.escape, None | Some(b'\\'))
            && !dialect.quote.is_some_and(quoted)
            && match dialect.line_end {
                LineEnd::Lf | LineEnd::Cr => true,
                // Half a line end at the end of a file is a line end to this program, but data to the server.
                LineEnd::CrLf => !bytes.ends_with(b"\r"),
                LineEnd::Any => memchr::memchr(b'\r', bytes).is_none(),
            }
            && self.skipped.as_ref().is_none_or(|header| header.find(bytes).is_none())
            && !(self.empty_is_null && has_empty_field(bytes, delimiter, dialect.line_end))
            && (!self.is_judged || self.job.rewriter(&layout.fields).is_exact(bytes))
    }

    fn write_as_is(&self, chunk: &Chunk, out: &mut dyn Write) -> io::Result<SentBytes> {
        for piece in chunk.bytes().chunks(PIECE_BYTES) {
            self.go_on()?;
            out.write_all(piece)?;
        }
        Ok(SentBytes { records: chunk.records, ragged: Vec::new() })
    }

    fn write_rewritten(
        &self,
        chunk: &Chunk,
        part: Option<&[Range<usize>]>,
        out: &mut dyn Write,
    ) -> io::Result<SentBytes> {
        let mut text = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        let sent = self.rewrite(chunk, part, &mut text, &mut |text| {
            if text.len() >= PIECE_BYTES {
                self.go_on()?;
                out.write_all(text)?;
                text.clear();
            }
            Ok(())
        })?;
        out.write_all(&text)?;
        Ok(sent)
    }

    /// Rewrites records one after the other into `text`; `each` is called after each record.
    fn rewrite(
        &self,
        chunk: &Chunk,
        part: Option<&[Range<usize>]>,
        text: &mut Vec<u8>,
        each: &mut dyn FnMut(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<SentBytes> {
        let fields = &self.layout(chunk).fields;
        let mut rewriter = self.job.rewriter(fields);
        let mut sent = SentBytes::default();
        let mut one = |range: Range<usize>| {
            let record = chunk.bytes().get(range.clone()).unwrap_or_default();
            match rewriter.rewrite(record, text) {
                Ok(()) => sent.records += 1,
                Err(unfit) => {
                    let reason = self.job.format.reason(&self.job.dialect, record);
                    sent.ragged.push((range, reason.unwrap_or_else(|| unfit_reason(&unfit, fields))));
                }
            }
            each(text)
        };
        match part {
            Some(ranges) => ranges.iter().cloned().try_for_each(&mut one)?,
            None => self.job.records(chunk.bytes()).try_for_each(&mut one)?,
        }
        Ok(sent)
    }

    fn insert_rows(
        &self,
        session: &mut Session,
        chunk: &Chunk,
        part: Part,
        outcome: &mut Outcome,
    ) -> Result<Option<u64>, Error> {
        let mut lines = Vec::new();
        let rewritten = self.rewrite(chunk, part.as_deref(), &mut lines, &mut |_| Ok(()));
        let sent = rewritten.map_err(|source| Error::Read { name: chunk.name.to_string(), source })?;
        outcome.ragged = sent.ragged;
        let stop = || self.stop.load(Ordering::Relaxed);
        let insert = &self.layout(chunk).insert;
        let inserted = insert.run(session, &lines, &stop, &mut outcome.warnings)?;
        Ok(inserted.map(|(rows, duplicates)| {
            outcome.duplicates = duplicates;
            rows
        }))
    }

    /// Why the server refuses a record: INSERT gives the reason when LOAD DATA of MySQL 5.6 only counts. This
    /// may leave the record in the table, so the caller rolls back.
    pub(crate) fn explain(
        &self,
        session: &mut Session,
        chunk: &Chunk,
        record: Range<usize>,
    ) -> Result<Option<String>, Error> {
        let mut outcome = Outcome::default();
        match self.insert_rows(session, chunk, Some(vec![record]), &mut outcome) {
            Ok(_) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(Error::Server(error)) => outcome.failure = Some(error),
            Err(error) => return Err(error),
        }
        Ok(outcome.first_warning())
    }

    fn go_on(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(io::Error::other("stopped by a signal")) } else { Ok(()) }
    }
}

impl Job {
    /// Turns records of this job's dialect into LOAD DATA's.
    fn rewriter(&self, fields: &[Field]) -> Rewriter {
        let rules = fields.iter().map(|field| field.rule).collect();
        let exact = fields.iter().map(|field| field.exact.clone()).collect();
        Rewriter::new(self.dialect, self.nulls.clone(), rules, fields.len()).exact(exact)
    }

    /// The records of a chunk as ranges of its bytes.
    pub(crate) fn records<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        rows::records(&self.dialect, bytes)
            .filter(|record| self.is_row(record))
            .map(|record| place(bytes, record))
    }

    /// Whether a record is a row. In a file with several columns a blank line is none, because people end
    /// files with them.
    pub(crate) fn is_row(&self, record: &[u8]) -> bool {
        !(record.is_empty() && self.fields.len() > 1) && self.skipped() != Some(record)
    }
}

/// What is wrong with a record, with the column named as the server names it.
fn unfit_reason(unfit: &Unfit, fields: &[Field]) -> String {
    if let Unfit::Value { field, what, .. } = unfit
        && let Some(Field { target: FieldTarget::Column(name), .. }) = fields.get(field.saturating_sub(1))
    {
        return format!("{what} for column {}", quote_name(name));
    }
    unfit.to_string()
}

/// Where a part of a text is in it.
pub(crate) fn place(text: &[u8], part: &[u8]) -> Range<usize> {
    let from = part.as_ptr().addr() - text.as_ptr().addr();
    from..from + part.len()
}

fn is_clean(report: &LoadReport, sent: u64) -> bool {
    report.records == sent && report.skipped == 0 && report.warnings == 0 && report.deleted == 0
}

/// Whether a line has two adjacent delimiters, or one at either end: an empty field.
fn has_empty_field(bytes: &[u8], delimiter: u8, line_end: LineEnd) -> bool {
    let end = line_end.bytes();
    let (first, last) = (end.first().copied().unwrap_or(b'\n'), end.last().copied().unwrap_or(b'\n'));
    bytes.first() == Some(&delimiter)
        || bytes.last() == Some(&delimiter)
        || [[delimiter, delimiter], [delimiter, first], [last, delimiter], [last, first]]
            .iter()
            .any(|pair| memmem::find(bytes, pair).is_some())
}

/// The statement for records in a dialect; rewritten records come without the fields that go nowhere.
fn load_data(
    (job, fields): (&Job, &[Field]),
    table: &TableName,
    dialect: &Dialect,
    rewritten: bool,
) -> String {
    let charset = if job.encoding == Encoding::Binary { "binary" } else { "utf8mb4" };
    let mut sql = format!(
        "LOAD DATA LOCAL INFILE '{}' INTO TABLE {table} CHARACTER SET {charset} FIELDS TERMINATED BY 0x{:02x} ESCAPED BY ",
        Session::STREAM,
        dialect.delimiter,
    );
    match dialect.escape {
        Some(escape) => write!(sql, "0x{escape:02x}").ok(),
        None => write!(sql, "''").ok(),
    };
    let ends: String = dialect.line_end.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    write!(sql, " LINES TERMINATED BY 0x{ends} (").ok();
    let mut separator = "";
    for field in fields {
        let name = match &field.target {
            FieldTarget::Column(name) => quote_name(name),
            FieldTarget::Variable(name) => format!("@{}", quote_name(name)),
            FieldTarget::Skip if rewritten => continue,
            FieldTarget::Skip => "@`remora skips this`".to_owned(),
        };
        write!(sql, "{separator}{name}").ok();
        separator = ", ";
    }
    sql.push(')');
    for (at, (column, expression)) in job.set.iter().enumerate() {
        let lead = if at == 0 { " SET " } else { ", " };
        write!(sql, "{lead}{} = {expression}", quote_name(column)).ok();
    }
    sql
}
