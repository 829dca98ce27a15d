//! Rows as lines of text.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, TimeUnit};
use rows::write_load_data;

use super::guard::guarded;
use super::input::Input;
use super::json::Node;
use super::kind::{Column, Kind};
use super::text::{Bad, Texts};
use super::{Error, File, Table, arrow_file, parquet_file, time};

/// Text that is made at once.
const PART_BYTES: usize = 256 << 10;
/// Text that any file may have.
const TEXT_BYTES_USUAL: u64 = 1 << 30;
/// How many times its length a file may have as more text. Dictionaries and runs make a lot of text of few
/// bytes, but no sound file comes near to this.
const TEXT_RATIO_MAX: u64 = 256 << 10;

/// The most text that a file of some length may have.
pub(crate) fn most_text(length: u64) -> u64 {
    TEXT_BYTES_USUAL.saturating_add(length.saturating_mul(TEXT_RATIO_MAX))
}

enum Batches {
    Parquet(parquet_file::Batches),
    Arrow(arrow_file::Batches),
}

/// Some rows, and how many of them were written.
struct Batch {
    arrays: Vec<ArrayRef>,
    rows: usize,
    next: usize,
}

/// The rows of a [`Table`] as a stream of text: a line with the names of the columns, then one for each row,
/// as LOAD DATA reads them by default.
///
/// The line of a bad row has a field more than there are columns: why it is one, `for column` and its name in
/// backquotes.
pub struct Lines {
    table: Arc<Table>,
    batches: Batches,
    batch: Option<Batch>,
    text: Vec<u8>,
    read: usize,
    total: u64,
    /// The most bytes of text.
    pub(crate) most: u64,
    ended: bool,
}

impl Lines {
    pub(crate) fn new(table: Arc<Table>, input: Arc<dyn Input>) -> Lines {
        let batches = match &table.file {
            File::Parquet(file) => Batches::Parquet(file.batches(input, table.places_in_file())),
            File::Arrow(file) => Batches::Arrow(file.batches(input, table.places_in_file())),
        };
        let mut text = Vec::with_capacity(PART_BYTES + PART_BYTES / 2);
        for (at, column) in table.columns.iter().enumerate() {
            text.extend((at > 0).then_some(b'\t'));
            write_load_data(Some(column.name.as_bytes()), &mut text);
        }
        text.push(b'\n');
        let most = most_text(table.length);
        Lines { table, batches, batch: None, text, read: 0, total: 0, most, ended: false }
    }

    /// Makes more text, if there are more rows.
    fn fill(&mut self) -> Result<(), Error> {
        self.text.clear();
        self.read = 0;
        while self.text.is_empty() && !self.ended {
            if self.batch.is_none() {
                let next = match &mut self.batches {
                    Batches::Parquet(batches) => batches.next()?,
                    Batches::Arrow(batches) => batches.next()?,
                };
                self.ended = next.is_none();
                self.batch = next.map(|(arrays, rows)| {
                    let arrays = self.table.with_path(arrays, rows);
                    Batch { arrays, rows, next: 0 }
                });
                if let Some(batch) = &self.batch {
                    self.look_at_times(batch);
                }
            }
            let Some(batch) = &mut self.batch else { continue };
            let format = self.table.format.name();
            let text = &mut self.text;
            let columns = &self.table.columns;
            guarded(format, || write(batch, columns, format, text))?;
            if batch.next == batch.rows {
                self.batch = None;
            }
        }
        self.total = self.total.saturating_add(self.text.len() as u64);
        if self.total > self.most {
            return Err(Error::TooLarge(format!(
                "the {} file of {} bytes has more than {} bytes of text, which no sound file has",
                self.table.format.name(),
                self.table.length,
                self.most
            )));
        }
        Ok(())
    }

    /// Remembers which columns have times that TIMESTAMP does not hold.
    fn look_at_times(&self, batch: &Batch) {
        for ((column, array), beyond) in self.table.columns.iter().zip(&batch.arrays).zip(&self.table.beyond)
        {
            if matches!(column.kind, Kind::Timestamp { utc: true, .. })
                && !beyond.load(Ordering::Relaxed)
                && !all_in_range(array)
            {
                beyond.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Whether TIMESTAMP holds all times of an array.
fn all_in_range(array: &ArrayRef) -> bool {
    fn of<T: arrow_array::ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, units: i64) -> bool {
        let Some(array) = array.as_primitive_opt::<T>() else { return false };
        array.iter().flatten().all(|value| time::is_in_timestamp_range(value, units))
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(array, 1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array, 1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array, 1_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array, 1_000_000_000),
        DataType::FixedSizeBinary(_) => {
            let Some(array) = array.as_fixed_size_binary_opt() else { return false };
            array.iter().flatten().all(time::is_96_bits_in_timestamp_range)
        }
        _ => false,
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.text.len() {
            self.fill()?;
        }
        let rest = self.text.get(self.read..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(into), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(from);
        }
        self.read += count;
        Ok(count)
    }
}

/// The values of a column.
enum Values<'a> {
    Flat(Texts<'a>),
    Nested(Node<'a>),
}

impl Values<'_> {
    /// Appends the value of a row and returns true; false for NULL.
    #[inline]
    fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<bool, Bad> {
        match self {
            Values::Flat(texts) => texts.append(row, out),
            Values::Nested(node) if node.is_null(row) => Ok(false),
            Values::Nested(node) => node.append(row, out).map(|()| true),
        }
    }
}

/// Writes rows of a batch until there is enough text.
fn write(
    batch: &mut Batch,
    columns: &[Column],
    format: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let Batch { arrays, rows, next } = batch;
    if arrays.len() != columns.len() {
        return Err(Error::Damaged { format, what: "a column is missing".to_owned() });
    }
    let mut values = Vec::new();
    for (column, array) in columns.iter().zip(arrays.iter()) {
        let array: &dyn Array = array.as_ref();
        let made = match column.kind {
            Kind::Nested => Node::new(array, &Field::new(&column.name, array.data_type().clone(), true))
                .map(Values::Nested),
            kind => Texts::new(array, kind).map(Values::Flat),
        };
        values.push(made.map_err(|what| Error::column(&column.name, what))?);
    }
    let escaped: Vec<bool> = columns.iter().map(|column| may_need_escapes(column.kind)).collect();
    let mut scratch = Vec::new();
    while *next < *rows && out.len() < PART_BYTES {
        let start = out.len();
        let mut is_bad = false;
        for (at, (values, escaped)) in values.iter().zip(&escaped).enumerate() {
            out.extend((at > 0).then_some(b'\t'));
            let written = if *escaped {
                scratch.clear();
                let written = values.append(*next, &mut scratch);
                if let Ok(true) = written {
                    write_load_data(Some(&scratch), out);
                }
                written
            } else {
                values.append(*next, out)
            };
            match written {
                Ok(true) => {}
                Ok(false) => out.extend_from_slice(b"\\N"),
                Err(_) => {
                    is_bad = true;
                    break;
                }
            }
        }
        if is_bad {
            out.truncate(start);
            write_bad(&values, columns, *next, out);
        }
        out.push(b'\n');
        *next += 1;
    }
    Ok(())
}

/// Whether the text of such values may have bytes with a meaning in lines.
fn may_need_escapes(kind: Kind) -> bool {
    matches!(kind, Kind::Text | Kind::Json | Kind::Nested | Kind::InPath)
}

/// Writes a row that has values which no column holds, as far as they can be shown.
fn write_bad(values: &[Values<'_>], columns: &[Column], row: usize, out: &mut Vec<u8>) {
    let mut reason = None;
    for (at, (values, column)) in values.iter().zip(columns).enumerate() {
        out.extend((at > 0).then_some(b'\t'));
        let mut text = Vec::new();
        match values.append(row, &mut text) {
            Ok(has_value) => write_load_data(has_value.then_some(&text), out),
            Err(bad) => {
                write_load_data(Some(&bad.shown), out);
                let name = column.name.replace('`', "``");
                reason.get_or_insert_with(|| format!("{} for column `{name}`", bad.reason));
            }
        }
    }
    out.push(b'\t');
    write_load_data(Some(reason.unwrap_or_default().as_bytes()), out);
}
