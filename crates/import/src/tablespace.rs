//! Fills the staging table by writing its tablespace file: no row is sent to the server.
//!
//! What can't be stored in such a file, and what only the server can check, is refused with the reason; then
//! the rows are sent to the server.

mod cell;
mod sample;
mod server_values;

use std::ops::Range;
use std::path::Path;

use innodb::table::{Generated, Table, Type};
use innodb::write::Row;
use physical::write::{INCREMENTAL, Input, Outcome, Piece, Request as Order, RowSink};
use rows::{Encoding, Exact, Format, Rewriter};
use server::{Session, TableName, definition};

use crate::chunk::{Chunk, Chunker};
use crate::context::Context;
use crate::contradiction::FileContradiction;
use crate::job::{Field, Job, LoadStrategy, Names};
use crate::request::{FieldTarget, OnDuplicate, Physical, Request};
use crate::sender::place;
use crate::source::Files;
use crate::{Error, Reject};
use cell::{Cells, Rules};
use sample::Sample;
use server_values::{default, is_utc};

/// How many bytes of rows and index entries are in memory while they are sorted.
const MEMORY: usize = 384 << 20;
/// How many bits of a row's position are its line number. The others are its file number.
const LINE_BITS: u32 = 40;

/// The outcome.
pub(crate) enum FillOutcome {
    /// All rows are in the table.
    Whole {
        /// How many.
        rows: u64,
        /// Bytes of text that were read.
        bytes: u64,
    },
    /// The table is as before; the reason.
    Refused(String),
}

/// Where the value of a column comes from.
enum Source {
    /// The file.
    Field,
    /// It is the same in all rows: the stored bytes, `None` for NULL and for columns that are not stored.
    Constant(Option<Vec<u8>>),
    /// Numbers that begin with this one.
    Counter(u64),
}

/// How the records of a file become rows.
struct Layout {
    fields: Vec<Field>,
    /// The column of each field.
    columns: Vec<Option<usize>>,
}

/// An import whose table is filled by its file.
pub(crate) struct TablespaceFill<'a> {
    pub(crate) request: &'a Request,
    pub(crate) context: &'a Context<'a>,
    pub(crate) files: &'a Files<'a>,
    pub(crate) job: &'a Job,
}

/// Removes what a run left that was killed while it wrote the file.
pub(crate) fn sweep(session: &mut Session, names: &Names, context: &Context<'_>) -> Result<(), Error> {
    physical::write::remove_leftovers(session, context.server, &names.shadow, context.progress).map_err(own)
}

impl TablespaceFill<'_> {
    /// Fills a table that exists and is empty.
    pub(crate) fn run(&self, session: &mut Session, name: &TableName) -> Result<FillOutcome, Error> {
        if let Some(why) = self.unsupported() {
            return Ok(FillOutcome::Refused(why));
        }
        let text = session.definition(name)?;
        let table = match physical::write::table(session, &text) {
            Ok(table) => table,
            Err(error) => return self.judge(error),
        };
        let plan = match RowPlan::new(self, session, (name, &text, &table))? {
            Ok(plan) => plan,
            Err(why) => return Ok(FillOutcome::Refused(why)),
        };
        let folder = std::env::temp_dir();
        let order = self.order(name, &text, &folder);
        let tried = physical::write::check(session, &order)
            .and_then(|()| physical::write::trial(session, self.context.server, &order));
        if let Err(error) = tried {
            return self.judge(error);
        }
        let is_readable_again = (0..self.files.len()).all(|file| self.files.is_readable_again(file));
        // Rows may be in their order already. Where only the server could say so, it would write a line to
        // its log for each that is not.
        let sorted = is_readable_again && physical::write::knows_order(&table);
        if is_readable_again && !sorted {
            self.context
                .progress
                .note("the primary key has a collation: rows are first sorted by its weights");
        }
        let filled = self.fill(session, Order { sorted, ..order }, &plan);
        let filled = match filled {
            Err(error) if error.is_of_order() && is_readable_again => {
                let place = match error {
                    physical::Error::Row { place, .. } => {
                        let (file, line) = self.place(place);
                        format!(" ({}:{line})", self.files.name(file))
                    }
                    _ => String::new(),
                };
                self.context
                    .progress
                    .note(&format!("rows are not in primary key order{place}: they are sorted first"));
                self.fill(session, Order { sorted: false, ..order }, &plan)
            }
            filled => filled,
        };
        match filled {
            Ok((Outcome { rows, bytes: size, added }, bytes)) => {
                if let Some(why) = plan.sample.compare(self, name)? {
                    return Ok(FillOutcome::Refused(why));
                }
                let mut note = format!("the tablespace file was written directly: {}", progress::size(size));
                if !added.is_empty() {
                    note += &format!("; the server built {}", added.join(", "));
                }
                note += &format!(". {INCREMENTAL}");
                self.context.progress.note(&note);
                Ok(FillOutcome::Whole { rows, bytes })
            }
            Err(error) => self.judge(error),
        }
    }

    /// Why this import needs the server for its rows.
    fn unsupported(&self) -> Option<String> {
        let TablespaceFill { request, job, .. } = self;
        let why = if job.strategy == LoadStrategy::ShadowUnsafe {
            "the table is not an InnoDB table"
        } else if job.strategy != LoadStrategy::Shadow {
            "rows are added to the existing table instead of replacing it"
        } else if job.on_duplicate != OnDuplicate::Error {
            "only the server knows which keys exist (--on-duplicate)"
        } else if request.physical == Physical::Only && request.rejects_max > 0 {
            "bad rows can't be skipped (--max-rejects)"
        } else if !job.set.is_empty() {
            "the server computes a column"
        } else if job.encoding == Encoding::Binary {
            "the text has no character set (--encoding binary)"
        } else if request.sql_mode.is_some() {
            "--sql-mode applies to the server only"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    /// What the writer is told.
    fn order<'a>(&'a self, name: &'a TableName, definition: &'a str, folder: &'a Path) -> Order<'a> {
        Order {
            target: name,
            definition,
            sorted: true,
            threads: self.request.sessions.unwrap_or(self.context.cores).max(1),
            memory: MEMORY,
            bytes: self.files.bytes(),
            folder,
            unlogged: self.job.no_binlog,
            connect: self.context.connect,
            stop: &self.context.stop,
            progress: self.context.progress,
        }
    }

    /// Writes the file; returns how many bytes of text were read too.
    fn fill(
        &self,
        session: &mut Session,
        request: Order<'_>,
        plan: &RowPlan,
    ) -> Result<(Outcome, u64), physical::Error> {
        plan.sample.clear();
        let context = self.context;
        let packet = usize::try_from(session.about.max_allowed_packet).unwrap_or(usize::MAX);
        let mut chunker =
            Chunker::new(self.files, self.job.cut(packet), request.threads + 2, context.progress);
        let mut bytes = 0;
        let mut next = || {
            let chunk = chunker.next_chunk().map_err(|error| input(context.stopped(error)))?;
            Ok(chunk.map(|chunk| {
                let (rows, length) = (chunk.records, chunk.bytes().len() as u64);
                bytes += length;
                Piece { input: chunk, rows, bytes: length }
            }))
        };
        let dialect_check = self.job.guessed.any().then(|| self.job.dialect_check());
        let rows = |table: &Table, chunk: Chunk, before: u64, take: &mut RowSink<'_>| {
            if let Some(contradiction) =
                dialect_check.as_ref().and_then(|dialect_check| FileContradiction::of(&chunk, dialect_check))
            {
                return Err(input(contradiction.error()));
            }
            self.rows(plan, (table, &chunk, before), take)
        };
        // Otherwise the text is longer or shorter than the files.
        let is_as_is = self.job.encoding == Encoding::Utf8 && self.job.format == Format::Plain;
        let total = self.files.bytes().filter(|_| is_as_is && self.files.are_plain());
        let input = Input { next: &mut next, bytes: total, rows: &rows, back: None };
        let outcome = physical::write::write(session, context.server, &request, input)?;
        Ok((outcome, bytes))
    }

    /// Gives the rows of a chunk.
    fn rows(
        &self,
        plan: &RowPlan,
        (table, chunk, before): (&Table, &Chunk, u64),
        take: &mut RowSink<'_>,
    ) -> Result<(), physical::Error> {
        let Job { dialect, nulls, .. } = self.job;
        let layout = plan.layout(chunk.file);
        let rules = layout.fields.iter().map(|field| field.rule).collect();
        // Values of other types are read strictly anyway.
        let exact = layout.fields.iter().map(|field| match &field.exact {
            exact @ Exact::Real { .. } => exact.clone(),
            _ => Exact::Server,
        });
        let mut rewriter =
            Rewriter::new(*dialect, nulls.clone(), rules, layout.fields.len()).exact(exact.collect());
        let mut cells = Cells::new(table.columns().len());
        let (mut row, mut number) = (Row::default(), before);
        let mut wanted = plan.sample.wanted(chunk);
        let (mut sample, mut next) = (Vec::new(), wanted.next());
        let mut values = rewriter.values(chunk.bytes());
        loop {
            let line = chunk.line + values.lines();
            cells.clear();
            let read = values.next(|field, value| {
                if let Some(Some(column)) = layout.columns.get(field) {
                    cells.set(*column, value);
                }
            });
            let Some((record, read)) = read else { break };
            if !self.job.is_row(record) {
                continue;
            }
            let range = || place(chunk.bytes(), record);
            if let Err(unfit) = read {
                let reason = self.job.format.reason(dialect, record).unwrap_or_else(|| unfit.to_string());
                return Err(self.reject((chunk, line, range()), None, reason));
            }
            row.clear();
            for (at, column) in table.columns().iter().enumerate() {
                let pushed = match plan.sources.get(at) {
                    Some(Source::Field) => cells.push(at, column, plan.rules, &mut row),
                    Some(Source::Counter(first)) => {
                        row.push_as(&column.kind, first.saturating_add(number).to_string().as_bytes())
                    }
                    Some(Source::Constant(stored)) => {
                        row.push(stored.as_deref());
                        Ok(())
                    }
                    None => {
                        row.push(None);
                        Ok(())
                    }
                };
                if let Err(what) = pushed {
                    let value = cells.get(at).map(|text| String::from_utf8_lossy(text).into_owned());
                    return Err(self.reject(
                        (chunk, line, range()),
                        Some((&column.name, value)),
                        what.to_owned(),
                    ));
                }
            }
            if next == Some(number - before) {
                sample.push(range());
                next = wanted.next();
            }
            number += 1;
            take(&row, (chunk.file as u64) << LINE_BITS | line)?;
        }
        plan.sample.take(chunk, &sample, dialect.line_end.bytes());
        self.context.progress.done(number - before, chunk.bytes().len() as u64);
        Ok(())
    }

    /// The error for a record that can't be a row.
    fn reject(
        &self,
        (chunk, line, range): (&Chunk, u64, Range<usize>),
        column: Option<(&str, Option<String>)>,
        reason: String,
    ) -> physical::Error {
        let (column, value) = column.map_or((None, None), |(name, value)| (Some(name.to_owned()), value));
        let record = chunk.bytes().get(range).unwrap_or_default().to_vec();
        let reject =
            Reject { file: chunk.file, name: chunk.name.to_string(), line, column, value, reason, record };
        input(Error::Rejects { rejects: vec![reject], limit: 0 })
    }

    /// The file and the line of a row.
    fn place(&self, place: u64) -> (usize, u64) {
        let file = usize::try_from(place >> LINE_BITS).unwrap_or(usize::MAX);
        (file, place & ((1 << LINE_BITS) - 1))
    }

    /// Tells a refusal from an error. If the rows may go to the server, what it may take is no error.
    fn judge(&self, error: physical::Error) -> Result<FillOutcome, Error> {
        let may_go_on = self.request.physical == Physical::Auto;
        let error = match error {
            physical::Error::Refused(why) => return Ok(FillOutcome::Refused(why)),
            // Of the table, which only its empty file shows to be of a kind that is not written here.
            physical::Error::Bytes(error) => return Ok(FillOutcome::Refused(error.to_string())),
            physical::Error::Row { place, earlier, source } => {
                let is_duplicate = matches!(source, innodb::Error::Duplicate { .. });
                let reject = self.repeated(place, earlier, &source);
                if may_go_on && !(is_duplicate && self.request.rejects_max == 0) {
                    return Ok(FillOutcome::Refused(reject.to_string()));
                }
                match may_go_on {
                    true => Error::Rejects { rejects: vec![reject], limit: 0 },
                    false => Error::Unjudged { rejects: vec![reject] },
                }
            }
            physical::Error::Input(source) => match source.downcast::<Error>().map(|error| *error) {
                Ok(Error::Rejects { rejects, .. }) if may_go_on => {
                    let first = rejects.first().map(ToString::to_string).unwrap_or_default();
                    return Ok(FillOutcome::Refused(first));
                }
                Ok(Error::Rejects { rejects, .. }) => Error::Unjudged { rejects },
                Ok(error) => error,
                Err(other) => Error::Target(other.to_string()),
            },
            other if may_go_on => match other.into_reason() {
                Ok(why) => return Ok(FillOutcome::Refused(why)),
                Err(error) => own(error),
            },
            other => own(other),
        };
        Err(error)
    }

    /// A row that the table can't have, as far as it is known when all rows are sorted.
    fn repeated(&self, place: u64, earlier: Option<u64>, source: &innodb::Error) -> Reject {
        let (file, line) = self.place(place);
        let mut reason = source.to_string();
        if let Some((file, line)) = earlier.map(|place| self.place(place)) {
            reason += &format!(", which {}:{line} has", self.files.name(file));
        }
        let name = self.files.name(file).to_owned();
        Reject { file, name, line, column: None, value: None, reason, record: Vec::new() }
    }
}

fn own(error: physical::Error) -> Error {
    match error {
        physical::Error::Stopped => Error::Ended,
        physical::Error::Server(error) => Error::Server(error),
        other => Error::Target(other.to_string()),
    }
}

/// Passes an error of the input through the writer.
fn input(error: Error) -> physical::Error {
    physical::Error::Input(Box::new(error))
}

/// How records become rows of the table.
struct RowPlan {
    sources: Vec<Source>,
    usual: Layout,
    /// For files whose columns are in another order.
    others: Vec<(usize, Layout)>,
    rules: Rules,
    sample: Sample,
}

impl RowPlan {
    fn layout(&self, file: usize) -> &Layout {
        self.others.iter().find(|(other, _)| *other == file).map_or(&self.usual, |(_, layout)| layout)
    }

    /// Decides where the value of each column comes from; or says why it can't be told.
    fn new(
        fill: &TablespaceFill<'_>,
        session: &mut Session,
        (name, text, table): (&TableName, &str, &Table),
    ) -> Result<Result<RowPlan, String>, Error> {
        let job = fill.job;
        let layout = |fields: Vec<Field>| {
            let columns = fields.iter().map(|field| match &field.target {
                FieldTarget::Column(name) => {
                    table.columns().iter().position(|column| column.name.eq_ignore_ascii_case(name))
                }
                FieldTarget::Variable(_) | FieldTarget::Skip => None,
            });
            Layout { columns: columns.collect(), fields }
        };
        let usual = layout(job.fields.clone());
        let others = job.orders.keys().map(|file| (*file, layout(job.fields_in(*file)))).collect();
        let rules = Rules::of(&session.about.sql_mode);
        let mut sources = Vec::new();
        for (at, column) in table.columns().iter().enumerate() {
            if column.hidden || column.generated == Generated::Virtual {
                sources.push(Source::Constant(None));
                continue;
            }
            let is_given = usual.columns.contains(&Some(at));
            if let Some(why) = cell::unsupported(&column.kind).filter(|_| is_given) {
                return Ok(Err(format!("`{}`: {why}", column.name)));
            }
            if is_given && matches!(column.kind, Type::Timestamp { .. }) && !is_utc(fill, session)? {
                return Ok(Err(format!(
                    "`{}` is a TIMESTAMP, and the times are not in UTC (--time-zone +00:00 says that they are)",
                    column.name
                )));
            }
            sources.push(if is_given {
                Source::Field
            } else if column.auto_increment {
                Source::Counter(definition::counter(text).unwrap_or(1))
            } else {
                match default(session, name, column)? {
                    Some(stored) => Source::Constant(stored),
                    None => {
                        return Ok(Err(format!(
                            "`{}` is not in the files, and has no constant default",
                            column.name
                        )));
                    }
                }
            });
        }
        let counter = sources.iter().find_map(|source| match source {
            Source::Counter(first) => Some(*first),
            Source::Field | Source::Constant(_) => None,
        });
        let steps = "SELECT @@SESSION.auto_increment_increment <> 1 OR @@SESSION.auto_increment_offset <> 1";
        if counter.is_some() && session.value(steps)?.as_deref() != Some("0") {
            return Ok(Err(
                "the server does not number rows one by one (auto_increment_increment)".to_owned()
            ));
        }
        Ok(Ok(RowPlan { sources, usual, others, rules, sample: Sample::new(table, counter) }))
    }
}
