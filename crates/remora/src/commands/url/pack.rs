//! `remora url pack` and `remora url unpack`: for lines, or for a column of a file of records.

use std::io::{self, BufWriter, Read, Write};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use progress::{Progress as _, count};
use rows::{
    Dialect, Encoding, Field, Findings, Hints, Nulls, Splitter, fields, records, sniff, sniff_encoding,
};
use urlpack::{Model, STRING_MAX};

use super::ModelArgs;
use crate::exit::Exit;
use crate::report::Report;

/// Bytes per read.
const BLOCK: usize = 1 << 20;
/// Longest record: a lost quote must not gather the rest of the input in memory.
const RECORD_MAX: usize = 1 << 28;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArgs,

    /// The input has records, as CSV has: work on this column, a name from the header or a number from 1
    #[arg(long, short, value_name = "COLUMN")]
    column: Option<String>,

    /// How packed values are written: hex, for UNHEX() in SQL; or escaped, as LOAD DATA reads bytes, for
    /// lines only
    #[arg(long = "as", value_name = "FORM", default_value = "hex")]
    form: Form,
}

/// How a packed value is written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Hex,
    Escaped,
}

/// The direction of the conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Pack,
    Unpack,
}

pub(super) fn run(arguments: &Arguments, direction: Direction, report: &Report) -> anyhow::Result<Exit> {
    if arguments.form == Form::Escaped && arguments.column.is_some() {
        return Err(failure::usage(
            "--as escaped is for lines; in a column packed values are hex, which reads the same in every dialect: \
             leave --as out",
        ));
    }
    let mut out = BufWriter::with_capacity(BLOCK, report.output()?);
    let mut worker =
        Worker { model: arguments.model.load()?, form: arguments.form, direction, value: Vec::new() };
    let (_, mut input) = codec::decoder(Box::new(io::stdin())).context("standard input")?;
    let mut head = Vec::with_capacity(BLOCK);
    input.by_ref().take(BLOCK as u64).read_to_end(&mut head).context("standard input")?;
    let place = match &arguments.column {
        None => Place { dialect: LINES, nulls: Nulls::default(), index: None, header: false },
        Some(column) => find(column, &head, report)?,
    };
    let mut stream = Stream { splitter: Splitter::new(&place.dialect), held: Vec::new(), line: 1 };
    let mut block = head;
    let mut header = place.header;
    while !block.is_empty() {
        stream.take(&block, &mut |record, line| {
            if std::mem::take(&mut header) {
                return Ok(out.write_all(record)?);
            }
            worker.record(&place, record, line, &mut out)
        })?;
        block.clear();
        input.by_ref().take(BLOCK as u64).read_to_end(&mut block).context("standard input")?;
    }
    stream.end(&mut |record, line| match std::mem::take(&mut header) {
        true => Ok(out.write_all(record)?),
        false => worker.record(&place, record, line, &mut out),
    })?;
    out.flush()?;
    Ok(Exit::Done)
}

/// Lines without fields.
const LINES: Dialect = Dialect { delimiter: b'\n', quote: None, escape: None, line_end: rows::LineEnd::Lf };

/// Where in a record the value is; without an index the whole record is the value.
#[derive(Debug)]
struct Place {
    dialect: Dialect,
    /// Which fields mean NULL: they stay unchanged.
    nulls: Nulls,
    index: Option<usize>,
    header: bool,
}

/// Finds the column by its name or number.
fn find(column: &str, head: &[u8], report: &Report) -> anyhow::Result<Place> {
    let number = column.parse::<usize>().ok();
    let hints = Hints { header: number.is_none().then_some(true), plain: true, ..Hints::default() };
    let encoding = sniff_encoding(head);
    if matches!(encoding, Encoding::Utf16Le | Encoding::Utf16Be) {
        bail!("standard input is {encoding}; turn it into UTF-8 first, with iconv");
    }
    if head.is_empty() {
        return Ok(Place { dialect: LINES, nulls: Nulls::default(), index: None, header: false });
    }
    let found: Findings = sniff(head, head.len() < BLOCK, encoding, &hints);
    report.note(&format!("standard input: {found}"));
    let index = match number {
        Some(0) => return Err(failure::usage("--column 0: columns are numbered from 1")),
        Some(number) => Some(number - 1),
        None => found.names.iter().position(|name| name == column),
    };
    match index {
        Some(index) if index < found.columns => {
            Ok(Place { dialect: found.dialect, nulls: found.nulls, index: Some(index), header: found.header })
        }
        Some(_) => {
            Err(failure::usage(format!("--column {column}: the input has columns 1 to {}", found.columns)))
        }
        None => Err(failure::usage(format!("--column {column}: the header has {}", found.names.join(", ")))),
    }
}

/// Cuts input that arrives in blocks into records with their line ends.
struct Stream {
    splitter: Splitter,
    /// The beginning of a record that continues in the next block.
    held: Vec<u8>,
    /// Line on which the next record begins.
    line: u64,
}

type Each<'a> = &'a mut dyn FnMut(&[u8], u64) -> anyhow::Result<()>;

impl Stream {
    fn take(&mut self, block: &[u8], each: Each<'_>) -> anyhow::Result<()> {
        let mut rest = block;
        while !rest.is_empty() {
            // Up to the next record end, wherever that is.
            let scan = self.splitter.scan_to(rest, 0);
            let (now, later) = rest.split_at(scan.consumed);
            rest = later;
            self.held.extend_from_slice(now);
            if scan.last_end.is_some() {
                self.give(each)?;
            }
            if self.held.len() > RECORD_MAX {
                bail!("line {}: a record of more than {RECORD_MAX} bytes; is a quote missing?", self.line);
            }
        }
        Ok(())
    }

    fn end(&mut self, each: Each<'_>) -> anyhow::Result<()> {
        self.splitter.finish()?;
        if self.held.is_empty() { Ok(()) } else { self.give(each) }
    }

    fn give(&mut self, each: Each<'_>) -> anyhow::Result<()> {
        each(&self.held, self.line)?;
        self.line = self.splitter.lines() + 1;
        self.held.clear();
        Ok(())
    }
}

/// Converts one value.
struct Worker {
    model: Model,
    form: Form,
    direction: Direction,
    value: Vec<u8>,
}

impl Worker {
    /// Writes a record with its value replaced; all other bytes stay the same.
    fn record(
        &mut self,
        place: &Place,
        record: &[u8],
        line: u64,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let end = record.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        // A carriage return belongs to the line end if there is one.
        let end = if record.ends_with(b"\n") { end } else { record.len() };
        let (text, line_end) = record.split_at(end);
        let Some(index) = place.index else {
            self.convert(text, line)?;
            if self.value.contains(&b'\n') {
                bail!("line {line}: the unpacked string has a line end in it, and would be two lines here");
            }
            out.write_all(&self.value)?;
            return Ok(out.write_all(line_end)?);
        };
        let record = records(&place.dialect, text).next().unwrap_or_default();
        let mut parts: Vec<Field<'_>> = Vec::new();
        fields(&place.dialect, record, &mut parts);
        let field = parts.get(index).ok_or_else(|| {
            anyhow!("line {line}: there is no column {} in {}", index + 1, count(parts.len(), "field"))
        })?;
        if field.is_null(&place.nulls) {
            out.write_all(record)?;
            return Ok(out.write_all(line_end)?);
        }
        if field.malformed {
            bail!("line {line}: the quotes of column {} are not closed, or text follows them", index + 1);
        }
        let mut scratch = Vec::new();
        self.convert(field.text(&place.dialect, &mut scratch), line)?;
        let (from, to) = span(record, field);
        out.write_all(record.get(..from).unwrap_or_default())?;
        self.write_field(&place.dialect, out)?;
        out.write_all(record.get(to..).unwrap_or_default())?;
        Ok(out.write_all(line_end)?)
    }

    /// Converts `text` into `self.value`.
    fn convert(&mut self, text: &[u8], line: u64) -> anyhow::Result<()> {
        self.value.clear();
        if self.direction == Direction::Pack {
            if text.len() > STRING_MAX {
                bail!("line {line}: a value of {} bytes; at most {STRING_MAX} are packed", text.len());
            }
            let mut packed = Vec::new();
            self.model.pack(text, &mut packed);
            match self.form {
                Form::Hex => packed.iter().for_each(|byte| {
                    self.value
                        .extend([byte >> 4, byte & 15].map(|digit| b"0123456789ABCDEF"[usize::from(digit)]));
                }),
                Form::Escaped => rows::write_load_data(Some(&packed), &mut self.value),
            }
            return Ok(());
        }
        let packed = match self.form {
            Form::Hex => unhex(text).ok_or_else(|| {
                anyhow!("line {line}: '{}' is not hex; was it packed with --as escaped?", shortened(text))
            })?,
            Form::Escaped => {
                let mut bytes = Vec::new();
                rows::unescape_load_data(text, &mut bytes);
                bytes
            }
        };
        let outcome = self.model.unpack(&packed, &mut self.value, STRING_MAX);
        outcome.with_context(|| format!("line {line}: '{}'", shortened(text)))
    }

    /// Writes `self.value` as a field. Hex needs no quotes in any dialect, unless it is empty; a URL may need
    /// them.
    fn write_field(&self, dialect: &Dialect, out: &mut impl Write) -> anyhow::Result<()> {
        let special = |byte: &u8| {
            matches!(byte, b'\n' | b'\r') || *byte == dialect.delimiter || Some(*byte) == dialect.quote
        };
        let mut text = Vec::new();
        match (dialect.escape, dialect.quote) {
            (Some(_), _) => rows::write_load_data(Some(&self.value), &mut text),
            (None, Some(quote)) if self.value.iter().any(special) || self.value.is_empty() => {
                text.push(quote);
                for byte in &self.value {
                    text.extend(std::iter::repeat_n(*byte, if *byte == quote { 2 } else { 1 }));
                }
                text.push(quote);
            }
            _ => text.clone_from(&self.value),
        }
        Ok(out.write_all(&text)?)
    }
}

/// Where a field is in its record, including its quotes.
fn span(record: &[u8], field: &Field<'_>) -> (usize, usize) {
    let from = (field.raw.as_ptr() as usize).saturating_sub(record.as_ptr() as usize);
    let quotes = usize::from(field.quoted);
    (from.saturating_sub(quotes), (from + field.raw.len() + quotes).min(record.len()))
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

fn shortened(text: &[u8]) -> String {
    let start = String::from_utf8_lossy(text.get(..text.len().min(60)).unwrap_or_default());
    if text.len() > 60 { format!("{start}...") } else { start.into_owned() }
}
