//! Files with typed columns that any program wrote, as lines of text: Parquet and Arrow IPC.
//!
//! A file is turned into the dialect of LOAD DATA, a line for each row, with the names of the columns as the
//! first line. Values are written so that a server reads the same values; one that can't be makes its row a
//! bad row, which has a field too many that says why.
//!
//! Nothing in a file is believed. Where the libraries that decode it do so nevertheless, this module looks
//! first: `thrift` at headers and schemas, `pages` at lengths within pages; `guard` is for the rest.

mod arrow_file;
mod error;
mod guard;
mod input;
mod json;
mod kind;
mod lines;
mod pages;
mod parquet_file;
mod shape;
mod text;
mod thrift;
mod time;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, StringArray};

pub use error::Error;
pub use input::Input;
pub use kind::{Column, Kind};
pub use lines::Lines;

/// Bytes at the start of a file by which it is recognised.
pub const MAGIC_BYTES: usize = 8;

/// In which zone times of 96 bits are, which Parquet files of old programs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int96 {
    /// In UTC.
    Utc,
    /// In that of a place which is not told.
    Local,
}

/// What the user says about files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether lists, structures and maps become JSON text; otherwise they are refused.
    pub nested_json: bool,
    /// In which zone times of 96 bits are; without it they are refused.
    pub int96: Option<Int96>,
    /// The columns to read, in this order; `None` for all.
    pub fields: Option<Vec<String>>,
    /// Columns that the file's path has, and their value in all rows; `None` for NULL.
    pub in_path: Vec<(String, Option<String>)>,
}

impl Options {
    /// Whether a column is not read.
    fn leaves_out(&self, name: &str) -> bool {
        self.fields.as_ref().is_some_and(|fields| fields.iter().all(|field| field != name))
    }
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// An Arrow IPC file, or Feather version 2.
    Arrow,
    /// An Arrow IPC stream.
    ArrowStream,
}

impl Format {
    /// The format of a file, by its first bytes.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Format> {
        if head.starts_with(parquet_file::MAGIC) || head.starts_with(parquet_file::ENCRYPTED) {
            Some(Format::Parquet)
        } else if head.starts_with(arrow_file::MAGIC) && head.get(6..8) == Some(&[0, 0]) {
            Some(Format::Arrow)
        } else if head.starts_with(arrow_file::CONTINUATION) {
            Some(Format::ArrowStream)
        } else {
            None
        }
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "Parquet",
            Format::Arrow => "Arrow",
            Format::ArrowStream => "Arrow stream",
        }
    }
}

enum File {
    Parquet(Arc<parquet_file::File>),
    Arrow(Arc<arrow_file::File>),
}

/// A file whose columns are known.
pub struct Table {
    format: Format,
    file: File,
    /// The columns that are read, in the order of the text, and where they are in the file.
    columns: Vec<Column>,
    places: Vec<usize>,
    /// How many columns the file has. A place from there on is one of those in the path, with these values.
    in_file: usize,
    in_path: Vec<Option<String>>,
    length: u64,
    /// The columns whose times do not fit into TIMESTAMP, as far as rows were read.
    beyond: Vec<AtomicBool>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("format", &self.format).field("columns", &self.columns).finish()
    }
}

impl Table {
    /// Reads what a file in this format says of its columns.
    ///
    /// # Errors
    /// When it is damaged or encrypted, or has a column that is not read without an option, or can't be.
    pub fn open(input: &dyn Input, format: Format, options: &Options) -> Result<Table, Error> {
        let file = match format {
            Format::Parquet => File::Parquet(Arc::new(parquet_file::File::open(input, options)?)),
            Format::Arrow | Format::ArrowStream => {
                let is_stream = format == Format::ArrowStream;
                File::Arrow(Arc::new(arrow_file::File::open(input, options, is_stream)?))
            }
        };
        let own = match &file {
            File::Parquet(file) => &file.columns,
            File::Arrow(file) => &file.columns,
        };
        let in_file = own.len();
        // Another file may have NULL.
        let of_path = |(name, _): &(String, Option<String>)| Column {
            name: name.clone(),
            kind: Kind::InPath,
            required: false,
        };
        let all: Vec<Column> = own.iter().cloned().chain(options.in_path.iter().map(of_path)).collect();
        let places: Vec<usize> = match &options.fields {
            None => (0..all.len()).collect(),
            Some(fields) => {
                let place = |name: &String| {
                    let found = all.iter().position(|column| column.name == *name);
                    found.ok_or_else(|| Error::column(name, "the file has no such column"))
                };
                fields.iter().map(place).collect::<Result<_, _>>()?
            }
        };
        let columns: Vec<Column> = places.iter().filter_map(|place| all.get(*place).cloned()).collect();
        if places.iter().all(|place| *place >= in_file) {
            let what = "it has no columns".to_owned();
            return Err(Error::Damaged { format: format.name(), what });
        }
        for (at, column) in columns.iter().enumerate() {
            kind::check_nested(column, options.nested_json)?;
            if columns.iter().take(at).any(|other| other.name == column.name) {
                return Err(Error::column(
                    &column.name,
                    match column.kind {
                        Kind::InPath => {
                            "it is in the file and in its path; without --hive that of the file is read"
                        }
                        _ => "the file has two columns of this name",
                    },
                ));
            }
        }
        let beyond = columns.iter().map(|_| AtomicBool::new(false)).collect();
        let in_path = options.in_path.iter().map(|(_, value)| value.clone()).collect();
        Ok(Table { format, file, columns, places, in_file, in_path, length: input.length(), beyond })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The columns that are read, in the order of the text.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows the file says it has; `None` if it does not say so before its rows.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        match &self.file {
            File::Parquet(file) => Some(file.rows()),
            File::Arrow(_) => None,
        }
    }

    /// Roughly how many bytes the text has.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        match &self.file {
            File::Parquet(file) => {
                let fields = (self.columns.len() as u64).saturating_mul(file.rows());
                fields.saturating_mul(6).max(file.plain_bytes()).max(self.length)
            }
            File::Arrow(_) => self.length.saturating_mul(2),
        }
    }

    /// Reads the columns in the order of another file's, so that the text of both is alike.
    ///
    /// # Errors
    /// When the columns are others; the error names the first that differs.
    pub fn like(&mut self, first: &Table) -> Result<(), Error> {
        let mut places = Vec::new();
        for wanted in &first.columns {
            let found = self.columns.iter().position(|column| column.name == wanted.name);
            let own = found.and_then(|at| Some((self.columns.get(at)?, self.places.get(at)?)));
            let Some((own, place)) = own else {
                return Err(Error::column(
                    &wanted.name,
                    "this file has no such column, the first one has it",
                ));
            };
            if own.kind != wanted.kind {
                let what = format!("it is {} here, and {} in the first file", own.kind, wanted.kind);
                return Err(Error::column(&wanted.name, what));
            }
            places.push(*place);
        }
        let is_known = |column: &&Column| first.columns.iter().any(|known| known.name == column.name);
        if let Some(other) = self.columns.iter().find(|column| !is_known(column)) {
            return Err(Error::column(&other.name, "the first file has no such column"));
        }
        self.columns.clone_from(&first.columns);
        self.places = places;
        Ok(())
    }

    /// Where the columns are that the file itself has.
    fn places_in_file(&self) -> Vec<usize> {
        self.places.iter().copied().filter(|place| *place < self.in_file).collect()
    }

    /// Adds the values of columns in the path to those of the file's columns.
    fn with_path(&self, arrays: Vec<ArrayRef>, rows: usize) -> Vec<ArrayRef> {
        let mut own = arrays.into_iter();
        let array = |place: &usize| match place.checked_sub(self.in_file) {
            None => own.next(),
            Some(at) => {
                let value = self.in_path.get(at).and_then(Option::as_deref);
                Some(Arc::new(StringArray::from(vec![value; rows])) as ArrayRef)
            }
        };
        self.places.iter().filter_map(array).collect()
    }

    /// Whether all times of a column fit into TIMESTAMP, of the rows that were read until now.
    #[must_use]
    pub fn is_in_timestamp_range(&self, column: usize) -> bool {
        self.beyond.get(column).is_none_or(|beyond| !beyond.load(Ordering::Relaxed))
    }

    /// The rows as text.
    #[must_use]
    pub fn lines(self: &Arc<Table>, input: Arc<dyn Input>) -> Lines {
        Lines::new(Arc::clone(self), input)
    }
}

#[cfg(test)]
mod tests;
