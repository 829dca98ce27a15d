//! Lines to a file.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;

use crate::column::{Column, Columns};
use crate::encoding::{self, Encodings};
use crate::kind::Kind;
use crate::leaf::Leaf;
use crate::line::{NULL, OddValue, split, unescape};
use crate::{Error, value::Value};

/// A row group has at most this many rows, or about so many bytes of lines.
const GROUP_ROWS: usize = 131_072;
const GROUP_BYTES: usize = 32 << 20;
/// A longer line's memory is not kept for the next one.
const LINE_BYTES: usize = 1 << 20;
/// The program that a file names as its maker.
const CREATED_BY: &str = concat!("remora version ", env!("CARGO_PKG_VERSION"));

/// How files are written.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The level of zstd; 0 to compress nothing.
    pub level: u32,
    /// Columns in whose order the rows come, from 0; none if they have no order.
    pub sorted_by: Vec<usize>,
    /// Columns with a Bloom filter in each row group.
    pub bloom: Vec<usize>,
    /// The text of the column whose value is in the file's path: as in a line, with escapes.
    pub path_text: Vec<u8>,
    /// What the file says of itself: keys and values.
    pub metadata: Vec<(String, String)>,
    /// The encodings, which other files of the same table share.
    pub encodings: Encodings,
}

/// Writes a file.
pub struct Writer<W: Write + Send> {
    columns: Columns,
    leaves: Vec<Vec<Leaf>>,
    options: Options,
    to: To<W>,
    /// The beginning of a row whose end has not come yet.
    begun: Vec<u8>,
    /// Rows and bytes of the row group.
    rows: usize,
    bytes: usize,
    /// Rows of the groups before it.
    rows_before: u64,
    /// Where the values of the line end.
    ends: Vec<usize>,
    scratch: Scratch,
    odd: u64,
    groups: u32,
}

/// Where a file goes, before and after the encodings are chosen.
enum To<W: Write + Send> {
    Waiting(Option<W>),
    Begun(Box<SerializedFileWriter<W>>),
}

#[derive(Default)]
struct Scratch {
    unescaped: Vec<u8>,
    parsed: Vec<u8>,
    printed: Vec<u8>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Values that are not in the file, for each of which the caller got an [`OddValue`].
    pub odd: u64,
    /// Row groups.
    pub groups: u32,
}

/// Takes odd values.
pub type OnOdd<'a> = &'a mut dyn FnMut(&OddValue) -> std::io::Result<()>;

impl<W: Write + Send> Writer<W> {
    /// A file of rows with these columns, in the order of the lines; a line without columns is one `\N`.
    ///
    /// # Errors
    /// [`Error::Parquet`] for columns that the format can't have, such as two of one name.
    pub fn new(to: W, columns: &[Column], options: Options) -> Result<Writer<W>, Error> {
        let columns = Columns::new(columns)?;
        Ok(Writer {
            leaves: columns.kinds.iter().map(|kind| kind.leaves()).collect(),
            columns,
            options,
            to: To::Waiting(Some(to)),
            begun: Vec::new(),
            rows: 0,
            bytes: 0,
            rows_before: 0,
            ends: Vec::new(),
            scratch: Scratch::default(),
            odd: 0,
            groups: 0,
        })
    }

    /// Takes a piece of the lines, cut anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a line with another number of values; errors of writing and of `odd`.
    pub fn lines(&mut self, mut piece: &[u8], odd: OnOdd<'_>) -> Result<(), Error> {
        if !self.begun.is_empty() {
            let Some(end) = memchr::memchr(b'\n', piece) else {
                self.begun.extend_from_slice(piece);
                return Ok(());
            };
            let mut line = std::mem::take(&mut self.begun);
            line.extend_from_slice(&piece[..end]);
            self.line(&line, odd)?;
            line.clear();
            // What a long line took is free before a row group is made.
            if line.capacity() > LINE_BYTES {
                line = Vec::new();
            }
            self.begun = line;
            self.full_group()?;
            piece = &piece[end + 1..];
        }
        while let Some(end) = memchr::memchr(b'\n', piece) {
            self.line(&piece[..end], odd)?;
            self.full_group()?;
            piece = &piece[end + 1..];
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }

    fn line(&mut self, line: &[u8], odd: OnOdd<'_>) -> Result<(), Error> {
        let mut from = 0;
        let mut ends = std::mem::take(&mut self.ends);
        let has_escapes = split(line, &mut ends);
        if ends.len() != self.columns.kinds.len() {
            return Err(wrong_line(self.columns.kinds.len()));
        }
        for (column, end) in ends.iter().enumerate() {
            let text = &line[from..*end];
            from = end + 1;
            if !self.value(column, text, has_escapes) {
                self.odd += 1;
                let row = self.rows_before + self.rows as u64;
                odd(&OddValue { row, column, text: text.to_owned() })?;
            }
        }
        self.ends = ends;
        self.rows += 1;
        self.bytes += line.len() + 1;
        Ok(())
    }

    /// Writes a row group if there are enough rows for one.
    fn full_group(&mut self) -> Result<(), Error> {
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.group() } else { Ok(()) }
    }

    /// Whether the type of a column has a value, so that it is not odd. `text` has no escapes.
    pub fn takes(&mut self, column: usize, text: &[u8]) -> bool {
        let Some(kind) = self.columns.kinds.get(column) else { return false };
        let Scratch { parsed, printed, .. } = &mut self.scratch;
        parse(kind, text, parsed, printed).is_some()
    }

    /// Adds a value of the current row, whose line may have escapes. Returns whether it is in the file: it is
    /// only if it is printed as it came.
    fn value(&mut self, column: usize, text: &[u8], has_escapes: bool) -> bool {
        let (Some(kind), Some(leaves)) = (self.columns.kinds.get(column), self.leaves.get_mut(column)) else {
            return false;
        };
        if matches!(kind, Kind::InPath) {
            return text == self.options.path_text;
        }
        let Scratch { unescaped, parsed, printed } = &mut self.scratch;
        if has_escapes && text == NULL {
            leaves.iter_mut().for_each(Leaf::push_null);
            return true;
        }
        // Most values, so they are not copied from place to place. A text with an escape is no number.
        if let (true, [leaf]) = (kind.is_integer(), &mut leaves[..]) {
            let is_taken = kind.parse_integer(text).is_some_and(|number| leaf.push_integer(number));
            if !is_taken {
                leaf.push_null();
            }
            return is_taken;
        }
        let text = if has_escapes { unescape(text, unescaped) } else { text };
        let value = parse(kind, text, parsed, printed);
        let is_taken = match (value, &mut leaves[..]) {
            (Some(Value::Geometry(srid, shape)), [shapes, srids]) => {
                shapes.push(Value::Bytes(shape)) && srids.push(Value::Int64(srid.into()))
            }
            (Some(value), [leaf]) => leaf.push(value),
            _ => false,
        };
        if !is_taken {
            leaves.iter_mut().for_each(Leaf::push_null);
        }
        is_taken
    }

    /// Writes a row group.
    fn group(&mut self) -> Result<(), Error> {
        if self.rows == 0 && matches!(self.to, To::Begun(_)) {
            return Ok(());
        }
        self.leaves.iter_mut().flatten().for_each(Leaf::freeze);
        let leaves: Vec<&Leaf> = self.leaves.iter().flatten().collect();
        if let To::Waiting(to) = &mut self.to {
            let Some(to) = to.take() else { return Err(wrong_line(0)) };
            self.to = To::Begun(Box::new(begin(to, &self.columns, &leaves, &self.options)?));
        }
        let To::Begun(file) = &mut self.to else { return Ok(()) };
        if self.rows > 0 {
            let mut group = file.next_row_group()?;
            for leaf in leaves {
                let Some(mut column) = group.next_column()? else { return Err(wrong_line(0)) };
                leaf.write(&mut column)?;
                column.close()?;
            }
            group.close()?;
            self.groups += 1;
        }
        self.rows_before += self.rows as u64;
        (self.rows, self.bytes) = (0, 0);
        self.leaves.iter_mut().flatten().for_each(Leaf::clear);
        Ok(())
    }

    /// Completes the file, and returns where it went.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the last line has no end; errors of writing.
    pub fn finish(mut self) -> Result<(Written, W), Error> {
        if !self.begun.is_empty() {
            return Err(Error::Corrupt("the last line has no end".to_owned()));
        }
        self.group()?;
        let To::Begun(file) = self.to else { return Err(wrong_line(0)) };
        let written = Written { rows: self.rows_before, odd: self.odd, groups: self.groups };
        Ok((written, file.into_inner()?))
    }
}

/// The value of a text, if it is printed as it came.
fn parse<'a>(
    kind: &Kind,
    text: &'a [u8],
    parsed: &'a mut Vec<u8>,
    printed: &mut Vec<u8>,
) -> Option<Value<'a>> {
    kind.parse(text, parsed).filter(|value| {
        // The text itself needs no copy, which may have some 100 MB.
        if kind.has_one_text() || matches!(value, Value::Bytes(bytes) if std::ptr::eq(*bytes, text)) {
            return true;
        }
        printed.clear();
        kind.print(*value, printed) && printed == text
    })
}

fn wrong_line(columns: usize) -> Error {
    Error::Corrupt(format!("a line has not {columns} values"))
}

/// Begins a file with the encodings that its first rows, or the table's, want.
fn begin<W: Write + Send>(
    to: W,
    columns: &Columns,
    leaves: &[&Leaf],
    options: &Options,
) -> Result<SerializedFileWriter<W>, Error> {
    let level = i32::try_from(options.level).unwrap_or(i32::MAX);
    let compression = match level {
        0 => Compression::UNCOMPRESSED,
        level => Compression::ZSTD(ZstdLevel::try_new(level)?),
    };
    let base = || -> WriterPropertiesBuilder {
        WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_created_by(CREATED_BY.to_owned())
            .set_compression(compression)
            .set_max_row_group_row_count(None)
    };
    let choices = options.encodings.get(&columns.schema, leaves, &base)?;
    let mut properties = encoding::set(base(), &columns.schema, choices);
    let first: Vec<usize> = columns
        .kinds
        .iter()
        .scan(0, |next, kind| {
            let own = *next;
            *next += kind.leaves().len();
            Some(own)
        })
        .collect();
    let place = |column: &usize| first.get(*column).copied();
    let bloom = options.bloom.iter().filter_map(place);
    properties = encoding::set_bloom(properties, &columns.schema, bloom, GROUP_ROWS as u64);
    let sorted = options.sorted_by.iter().filter_map(place).filter_map(|place| i32::try_from(place).ok());
    let sorted: Vec<SortingColumn> =
        sorted.map(|column_idx| SortingColumn { column_idx, descending: false, nulls_first: true }).collect();
    properties = properties.set_sorting_columns((!sorted.is_empty()).then_some(sorted));
    let mut metadata: Vec<KeyValue> =
        options.metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), Some(value.clone()))).collect();
    if let Some(geo) = geo(&columns.geometries) {
        metadata.push(KeyValue::new("geo".to_owned(), Some(geo)));
    }
    properties = properties.set_key_value_metadata((!metadata.is_empty()).then_some(metadata));
    Ok(SerializedFileWriter::new(to, Arc::clone(&columns.schema), Arc::new(properties.build()))?)
}

/// What GeoParquet 1.1 says of columns with geometries: <https://geoparquet.org/releases/v1.1.0/>.
fn geo(names: &[String]) -> Option<String> {
    let primary = names.first()?;
    // Which system it is stands beside each value.
    let column = serde_json::json!({ "encoding": "WKB", "geometry_types": [], "crs": null });
    let columns: serde_json::Map<String, serde_json::Value> =
        names.iter().map(|name| (name.clone(), column.clone())).collect();
    let about = serde_json::json!({ "version": "1.1.0", "primary_column": primary, "columns": columns });
    Some(about.to_string())
}
