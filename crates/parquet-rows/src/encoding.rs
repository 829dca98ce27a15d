//! Chooses the encoding of each field by trying those that all readers know on the first rows of a table. The
//! library's own choice, a dictionary for everything, makes files of ids and coordinates twice as large.

use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use parquet::basic::Encoding;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::Error;
use crate::leaf::{Leaf, Values};

/// Encodings that are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodingSet {
    /// Those that all readers know.
    #[default]
    Known,
    /// Also one that some readers don't know: numbers split into their bytes.
    New,
}

impl FromStr for EncodingSet {
    type Err = String;

    fn from_str(text: &str) -> Result<EncodingSet, String> {
        match text {
            "known" => Ok(EncodingSet::Known),
            "new" => Ok(EncodingSet::New),
            _ => Err("known or new".to_owned()),
        }
    }
}

/// The encodings of a table's files. The first file with rows chooses them, for all that share this.
#[derive(Clone, Debug, Default)]
pub struct Encodings {
    set: EncodingSet,
    chosen: Arc<OnceLock<Vec<Choice>>>,
}

/// How a field is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Whether a dictionary is tried first.
    has_dictionary: bool,
    /// How values are encoded without one.
    encoding: Encoding,
}

impl Encodings {
    /// Those that are chosen among some.
    #[must_use]
    pub fn of(set: EncodingSet) -> Encodings {
        Encodings { set, chosen: Arc::default() }
    }

    /// What was chosen, or is chosen now by these rows: those of all fields, frozen.
    pub(crate) fn get(
        &self,
        schema: &Type,
        leaves: &[&Leaf],
        base: &dyn Fn() -> WriterPropertiesBuilder,
    ) -> Result<&[Choice], Error> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(chosen);
        }
        let fields = fields(schema);
        let chosen: Vec<Choice> = leaves
            .iter()
            .zip(fields)
            .map(|(leaf, (field, path))| choose(leaf, (field, &path), self.set, base))
            .collect::<Result<_, _>>()?;
        Ok(self.chosen.get_or_init(|| chosen))
    }
}

/// Sets the encoding of each field.
pub(crate) fn set(
    mut properties: WriterPropertiesBuilder,
    schema: &Type,
    choices: &[Choice],
) -> WriterPropertiesBuilder {
    for ((_, path), choice) in fields(schema).into_iter().zip(choices) {
        properties = choice.set(properties, path);
    }
    properties
}

/// How often a look-up finds a Bloom filter that says yes although the value is not there.
const BLOOM_WRONG: f64 = 0.01;

/// Gives Bloom filters to fields, by their numbers. A filter is made for as many values as a row group may
/// have, and folded at its end to what its different values need.
pub(crate) fn set_bloom(
    mut properties: WriterPropertiesBuilder,
    schema: &Type,
    columns: impl Iterator<Item = usize>,
    values_max: u64,
) -> WriterPropertiesBuilder {
    let fields = fields(schema);
    for (_, path) in columns.filter_map(|column| fields.get(column)) {
        properties = properties
            .set_column_bloom_filter_max_ndv(path.clone(), values_max)
            .set_column_bloom_filter_fpp(path.clone(), BLOOM_WRONG);
    }
    properties
}

impl Choice {
    fn set(self, properties: WriterPropertiesBuilder, path: ColumnPath) -> WriterPropertiesBuilder {
        properties
            .set_column_dictionary_enabled(path.clone(), self.has_dictionary)
            .set_column_encoding(path, self.encoding)
    }
}

/// The fields with values: what a field of the schema is, and its path.
fn fields(schema: &Type) -> Vec<(&Arc<Type>, ColumnPath)> {
    let path = |field: &Arc<Type>| {
        let mut parts = Vec::new();
        let mut at = Some(field);
        while let Some(field) = at {
            parts.push(field.name().to_owned());
            at = if field.is_primitive() { None } else { field.get_fields().first() };
        }
        ColumnPath::new(parts)
    };
    schema.get_fields().iter().map(|field| (field, path(field))).collect()
}

/// The encodings that are tried for such values. Numbers that are split into their bytes are often smaller if
/// they are measured ones, but Spark 3.5 refuses them, and DuckDB and polars decimals of more than 64 bits.
fn candidates(values: &Values, set: EncodingSet) -> &'static [Encoding] {
    match values {
        Values::Int32(_) | Values::Int64(_) if set == EncodingSet::New => {
            &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT]
        }
        Values::Float(_) | Values::Double(_) if set == EncodingSet::New => {
            &[Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT]
        }
        Values::Bool(_) => &[Encoding::RLE],
        Values::Int32(_) | Values::Int64(_) => &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED],
        Values::Float(_) | Values::Double(_) => &[Encoding::PLAIN],
        Values::Bytes(..) => {
            &[Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY]
        }
        Values::Fixed(..) => &[Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY],
    }
}

/// The encodings are tried on so many rows: all four of them together take as long as a row group then.
const SAMPLE_ROWS: usize = 32_768;
/// Values of more bytes on average have nothing in common that an encoding finds and zstd does not.
const LARGE_BYTES: usize = 16 << 10;

/// Whether the values are large: to try them in each encoding would take the most time and memory of all.
fn are_large(values: &Values) -> bool {
    let Values::Bytes(_, _, values) = values else { return false };
    values.iter().map(|value| value.len()).sum::<usize>() > values.len() * LARGE_BYTES
}

fn choose(
    leaf: &Leaf,
    (field, path): (&Arc<Type>, &ColumnPath),
    set: EncodingSet,
    base: &dyn Fn() -> WriterPropertiesBuilder,
) -> Result<Choice, Error> {
    let schema = Arc::new(Type::group_type_builder("schema").with_fields(vec![field.clone()]).build()?);
    let bytes = |choice: Choice| -> Result<usize, Error> {
        let properties = choice.set(base(), path.clone()).build();
        let mut file = SerializedFileWriter::new(Vec::new(), schema.clone(), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        if let Some(mut column) = group.next_column()? {
            leaf.write_first(SAMPLE_ROWS, &mut column)?;
            column.close()?;
        }
        group.close()?;
        Ok(file.into_inner()?.len())
    };
    let mut best = Choice { has_dictionary: false, encoding: Encoding::PLAIN };
    if are_large(&leaf.values) {
        return Ok(best);
    }
    let mut least = usize::MAX;
    for encoding in candidates(&leaf.values, set) {
        let choice = Choice { has_dictionary: false, encoding: *encoding };
        let bytes = bytes(choice)?;
        if bytes < least {
            (least, best) = (bytes, choice);
        }
    }
    // Where the dictionary becomes too large, the best one of the others takes over.
    let choice = Choice { has_dictionary: true, ..best };
    let is_better = !matches!(leaf.values, Values::Bool(_)) && bytes(choice)? < least;
    Ok(if is_better { choice } else { best })
}
