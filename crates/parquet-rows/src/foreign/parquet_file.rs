//! Parquet files: their columns, and batches of their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Fields};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::guard::guarded;
use super::input::{self, Input};
use super::kind::{self, Column, Kind};
use super::pages::Group;
use super::{Error, Int96, Options, thrift};

/// The name of the format in messages.
pub(crate) const FORMAT: &str = "Parquet";
/// How a file begins and ends.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";
/// How a file with an encrypted footer begins and ends.
pub(crate) const ENCRYPTED: &[u8; 4] = b"PARE";
/// Length of the footer and the magic bytes.
const TAIL_BYTES: u64 = 8;

/// The most rows of a batch.
const BATCH_ROWS: usize = 4096;
/// The bytes that the values of a batch take, without those of varying length.
const BATCH_BYTES: usize = 16 << 20;

/// An opened file.
pub(crate) struct File {
    metadata: Arc<ParquetMetaData>,
    /// The schema, without what would make the library change or refuse values.
    schema: SchemaDescriptor,
    /// What the library makes of it: views, which do not copy a value of a dictionary for each row.
    fields: Fields,
    pub(crate) columns: Vec<Column>,
}

fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged { format: FORMAT, what: what.into() }
}

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Error {
        let what = match error {
            ParquetError::General(what) | ParquetError::EOF(what) => what,
            ParquetError::External(source) => source.to_string(),
            other => other.to_string(),
        };
        damaged(what)
    }
}

impl File {
    /// Reads the footer.
    pub(crate) fn open(input: &dyn Input, options: &Options) -> Result<File, Error> {
        let footer = footer(input)?;
        thrift::footer(&footer).map_err(|trouble| match trouble {
            thrift::Trouble::Encrypted => Error::Encrypted,
            other => damaged(other.to_string()),
        })?;
        guarded(FORMAT, || {
            let metadata = Arc::new(ParquetMetaDataReader::decode_metadata(&footer)?);
            let shapes = shapes(&metadata);
            let root = metadata.file_metadata().schema_descr().root_schema();
            let mut columns = Vec::new();
            for field in root.get_fields() {
                columns.push(match column(field, options, &shapes) {
                    // A column that is not read may be anything.
                    Err(Error::Column { column: name, .. }) if options.leaves_out(&name) => {
                        Column { name, kind: Kind::Null, required: false }
                    }
                    column => column?,
                });
            }
            let fields = root.get_fields().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
            let root = Type::group_type_builder("schema").with_fields(fields).build()?;
            let schema = SchemaDescriptor::new(Arc::new(root));
            let fields = levels_fields(&schema)?.iter().map(|field| viewed(field)).collect();
            Ok(File { metadata, schema, fields, columns })
        })
    }

    /// Rows, as the footer says.
    pub(crate) fn rows(&self) -> u64 {
        let rows =
            self.metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
        rows.fold(0, u64::saturating_add)
    }

    /// The bytes of all pages when they are decompressed, as the footer says.
    pub(crate) fn plain_bytes(&self) -> u64 {
        let groups = self.metadata.row_groups().iter();
        groups.map(|group| u64::try_from(group.total_byte_size()).unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Batches of the rows, with these columns.
    pub(crate) fn batches(self: &Arc<File>, input: Arc<dyn Input>, columns: Vec<usize>) -> Batches {
        Batches { file: Arc::clone(self), input, columns, next: 0, open: None }
    }

    /// How the library reads these columns.
    fn levels(&self, columns: &[usize]) -> Result<FieldLevels, Error> {
        let mask = ProjectionMask::roots(&self.schema, columns.iter().copied());
        Ok(parquet_to_arrow_field_levels(&self.schema, mask, Some(&self.fields))?)
    }
}

/// The fields of all columns, as the library would read them.
fn levels_fields(schema: &SchemaDescriptor) -> Result<Fields, Error> {
    Ok(parquet::arrow::parquet_to_arrow_schema(schema, None)?.fields)
}

/// The same field with views instead of bytes.
fn viewed(field: &Field) -> Field {
    let again = |field: &Arc<Field>| Arc::new(viewed(field));
    let kind = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(element) => DataType::List(again(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(again).collect()),
        DataType::Map(entry, sorted) => DataType::Map(again(entry), *sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(kind)
}

fn footer(input: &dyn Input) -> Result<Vec<u8>, Error> {
    let end = input.length();
    let start = end.checked_sub(TAIL_BYTES).filter(|start| *start >= 4);
    let start = start.ok_or_else(|| damaged("it is too short"))?;
    let tail = input::bytes(input, start, 8)?;
    let (length, magic) = tail.split_at(4);
    if magic == ENCRYPTED {
        return Err(Error::Encrypted);
    }
    if magic != MAGIC {
        return Err(damaged("its end is missing; it may not be complete"));
    }
    let length = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let at = start.checked_sub(u64::from(length)).filter(|at| *at >= 4);
    let at = at.ok_or_else(|| damaged("its footer is longer than the file"))?;
    Ok(input::bytes(input, at, usize::try_from(length).unwrap_or(usize::MAX))?)
}

/// A column, by its field in the file's schema.
fn column(field: &TypePtr, options: &Options, shapes: &BTreeSet<String>) -> Result<Column, Error> {
    let info = field.get_basic_info();
    let required = info.has_repetition() && info.repetition() == Repetition::REQUIRED;
    let repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    let name = field.name().to_owned();
    if field.is_group() || repeated {
        return Ok(Column { name, kind: Kind::Nested, required });
    }
    let kind = match (field.get_physical_type(), info.logical_type_ref(), info.converted_type()) {
        (Physical::INT96, _, _) => Kind::Timestamp {
            fraction: 9,
            utc: match options.int96 {
                Some(zone) => zone == Int96::Utc,
                None => {
                    return Err(Error::column(
                        &name,
                        "its times have 96 bits (INT96), which do not say whether they are in UTC; --int96 utc (as Spark \
                         and Hive write them) or --int96 local (as Impala does) says so",
                    ));
                }
            },
        },
        (_, Some(LogicalType::Uuid), _) => Kind::Uuid,
        (_, Some(LogicalType::Json), _) | (_, None, ConvertedType::JSON) => Kind::Json,
        (_, Some(LogicalType::Enum), _) | (_, None, ConvertedType::ENUM) => Kind::Text,
        (_, Some(LogicalType::Geometry { .. } | LogicalType::Geography { .. }), _) => Kind::Geometry,
        (Physical::BYTE_ARRAY, None, ConvertedType::NONE) if shapes.contains(&name) => Kind::Geometry,
        _ => {
            let one = Type::group_type_builder("schema").with_fields(vec![Arc::clone(field)]).build()?;
            let schema = SchemaDescriptor::new(Arc::new(one));
            let found = levels_fields(&schema).map_err(|error| Error::column(&name, error.to_string()))?;
            let first = found.first().ok_or_else(|| damaged("a column has no type"))?;
            kind::of(first.data_type()).map_err(|what| Error::column(&name, what))?
        }
    };
    Ok(Column { name, kind, required })
}

/// The columns that GeoParquet's entry names, whose shapes are in well-known binary.
fn shapes(metadata: &ParquetMetaData) -> BTreeSet<String> {
    let entries = metadata.file_metadata().key_value_metadata();
    let geo = entries.into_iter().flatten().find(|entry| entry.key == "geo");
    let geo = geo.and_then(|entry| serde_json::from_str::<serde_json::Value>(entry.value.as_deref()?).ok());
    let columns = geo.as_ref().and_then(|geo| geo.get("columns")?.as_object());
    let shapes = columns
        .into_iter()
        .flatten()
        .filter(|(_, about)| about.get("encoding").and_then(serde_json::Value::as_str) == Some("WKB"));
    shapes.map(|(name, _)| name.clone()).collect()
}

/// A field as the library should read it. Text is bytes, because it refuses the whole file for one that is
/// not UTF-8. Times of 96 bits stay as they are, because it cuts off what its own type does not hold.
fn plain(field: &TypePtr) -> Result<TypePtr, ParquetError> {
    let info = field.get_basic_info();
    if field.is_group() || !info.has_repetition() || info.repetition() == Repetition::REPEATED {
        return Ok(Arc::clone(field));
    }
    let is_decimal = matches!(info.logical_type_ref(), Some(LogicalType::Decimal(_)))
        || info.converted_type() == ConvertedType::DECIMAL;
    let is_null = matches!(info.logical_type_ref(), Some(LogicalType::Unknown));
    let (kind, length) = match field.get_physical_type() {
        Physical::BYTE_ARRAY if !is_decimal && !is_null => (Physical::BYTE_ARRAY, -1),
        Physical::INT96 => (Physical::FIXED_LEN_BYTE_ARRAY, 12),
        _ => return Ok(Arc::clone(field)),
    };
    let builder = Type::primitive_type_builder(field.name(), kind).with_length(length);
    builder.with_repetition(info.repetition()).build().map(Arc::new)
}

/// The rows of a file, some at a time.
pub(crate) struct Batches {
    file: Arc<File>,
    input: Arc<dyn Input>,
    columns: Vec<usize>,
    next: usize,
    open: Option<Open>,
}

/// The row group that is being read.
struct Open {
    reader: ParquetRecordBatchReader,
    /// How many of its rows were not read yet.
    left: u64,
}

impl Batches {
    /// The values of the next rows, one array for each column in the order in which they were asked for, and
    /// how many rows they are. `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>, Error> {
        guarded(FORMAT, || self.read())
    }

    fn read(&mut self) -> Result<Option<(Vec<ArrayRef>, usize)>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                if self.next == self.file.metadata.num_row_groups() {
                    return Ok(None);
                }
                self.open = Some(self.group(self.next)?);
                self.next += 1;
                continue;
            };
            let Some(batch) = open.reader.next() else {
                if open.left > 0 {
                    return Err(damaged(format!("{} rows of a row group are missing", open.left)));
                }
                self.open = None;
                continue;
            };
            let batch = batch.map_err(|error| damaged(error.to_string()))?;
            let rows = batch.num_rows();
            let left = open.left.checked_sub(rows as u64);
            open.left = left.ok_or_else(|| damaged("a row group has more rows than it says"))?;
            // The library returns the columns in the order of the file.
            let mut sorted = self.columns.clone();
            sorted.sort_unstable();
            let arrays = self.columns.iter().filter_map(|column| {
                let at = sorted.binary_search(column).ok()?;
                batch.columns().get(at).cloned()
            });
            return Ok(Some((arrays.collect(), rows)));
        }
    }

    fn group(&self, index: usize) -> Result<Open, Error> {
        let File { metadata, .. } = &*self.file;
        let rows = metadata.row_group(index).num_rows();
        let left = u64::try_from(rows).map_err(|_| damaged("a row group has no number of rows"))?;
        let group = Group { input: Arc::clone(&self.input), metadata: Arc::clone(metadata), index };
        let levels = self.file.levels(&self.columns)?;
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, self.batch_rows(), None)?;
        Ok(Open { reader, left })
    }

    /// How many rows are read at once: fewer of wide rows.
    fn batch_rows(&self) -> usize {
        let fields = self.file.schema.root_schema().get_fields();
        let width = |column: &usize| match fields.get(*column) {
            Some(field)
                if field.is_primitive() && field.get_physical_type() == Physical::FIXED_LEN_BYTE_ARRAY =>
            {
                match &**field {
                    Type::PrimitiveType { type_length, .. } => {
                        usize::try_from(*type_length).unwrap_or(16).max(16)
                    }
                    Type::GroupType { .. } => 16,
                }
            }
            Some(field) if field.is_group() => 256,
            _ => 16,
        };
        let row: usize = self.columns.iter().map(width).fold(1, usize::saturating_add);
        (BATCH_BYTES / row).clamp(1, BATCH_ROWS)
    }
}
