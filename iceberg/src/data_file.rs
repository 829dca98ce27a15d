//! A file of a dump as Iceberg lists it: rows, bytes, and for each column sizes, NULLs and limits, which let
//! readers skip files. All of it is in the file's footer.
//!
//! <https://parquet.apache.org/docs/file-format/metadata/>, <https://iceberg.apache.org/spec/#manifests>.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use disk::Disk;
use failure::damage;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, PrimitiveType, Schema, Type,
};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;

/// What a file of Parquet ends with: the length of its footer, and this.
const MAGIC: &[u8] = b"PAR1";
const TAIL: u64 = 8;

/// Reads the footer of a file that must have this length.
pub(crate) fn footer(disk: &dyn Disk, path: &Path, len: u64) -> Result<ParquetMetaData> {
    let shown = || path.display().to_string();
    let file = disk.open(path).with_context(shown)?;
    let found = file.stat().with_context(shown)?.len;
    if found != len {
        return Err(damage(format!("{}: it has {found} bytes, and the manifest says {len}", path.display())));
    }
    let read = |at: u64, len: u64| -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len)?];
        let filled = file.read_full_at(at, &mut bytes).with_context(shown)?;
        bytes.truncate(filled);
        Ok(bytes)
    };
    let wrong = |what: &str| damage(format!("{}: {what}", path.display()));
    let begin = len.checked_sub(TAIL).ok_or_else(|| wrong("it is no file of Parquet"))?;
    let tail = read(begin, TAIL)?;
    let (footer, magic) = tail.split_first_chunk::<4>().ok_or_else(|| wrong("it is shorter than it was"))?;
    let footer = u64::from(u32::from_le_bytes(*footer));
    if magic != MAGIC || footer > begin {
        return Err(wrong("its end is not that of a file of Parquet"));
    }
    let footer = read(begin - footer, footer)?;
    ParquetMetaDataReader::decode_metadata(&footer).map_err(|error| wrong(&error.to_string()))
}

/// A value of a column's statistics, comparable with those of its other row groups.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Limit {
    Bool(bool),
    /// Integers, dates, times, and decimals without their point.
    Whole(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

/// What is known of a column in one file.
#[derive(Default)]
struct Metrics {
    bytes: u64,
    values: u64,
    /// `None` once a row group does not say it.
    nulls: Option<u64>,
    /// Lowest and highest; `None` if there are no values, or once a row group with values does not say it.
    limits: Option<(Limit, Limit)>,
    has_all_limits: bool,
}

/// The entry for a file.
pub(crate) fn entry(
    location: String,
    len: u64,
    footer: &ParquetMetaData,
    schema: &Schema,
) -> Result<DataFile> {
    let mut columns: BTreeMap<i32, Metrics> = BTreeMap::new();
    for column in footer.row_groups().iter().flat_map(|group| group.columns()) {
        // Elements of lists have no limits worth keeping.
        let [name] = column.column_path().parts() else { continue };
        let Some(field) = schema.field_by_name(name) else { continue };
        let new = || Metrics { nulls: Some(0), has_all_limits: true, ..Metrics::default() };
        columns.entry(field.id).or_insert_with(new).add(column);
    }
    let known = |id: &i32| schema.field_by_id(*id).map(|field| &*field.field_type);
    let limit = |pick: fn(&(Limit, Limit)) -> &Limit| {
        columns
            .iter()
            .filter(|(_, metrics)| metrics.has_all_limits)
            .filter_map(|(id, metrics)| {
                let Type::Primitive(kind) = known(id)? else { return None };
                Some((*id, datum(pick(metrics.limits.as_ref()?), kind)?))
            })
            .collect()
    };
    let offsets = footer.row_groups().iter().filter_map(|group| group.file_offset()).collect();
    Ok(DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(location)
        .file_format(DataFileFormat::Parquet)
        .record_count(u64::try_from(footer.file_metadata().num_rows())?)
        .file_size_in_bytes(len)
        .column_sizes(columns.iter().map(|(id, metrics)| (*id, metrics.bytes)).collect())
        .value_counts(columns.iter().map(|(id, metrics)| (*id, metrics.values)).collect())
        .null_value_counts(columns.iter().filter_map(|(id, metrics)| Some((*id, metrics.nulls?))).collect())
        .lower_bounds(limit(|(low, _)| low))
        .upper_bounds(limit(|(_, high)| high))
        .split_offsets(Some(offsets))
        .partition_spec_id(0)
        .build()?)
}

impl Metrics {
    fn add(&mut self, column: &ColumnChunkMetaData) {
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        let values = count(column.num_values());
        self.bytes += count(column.compressed_size());
        self.values += values;
        let statistics = column.statistics();
        let nulls = statistics.and_then(Statistics::null_count_opt);
        self.nulls = self.nulls.zip(nulls).map(|(so_far, more)| so_far + more);
        match statistics.and_then(limits) {
            Some((low, high)) => {
                let group = (low, high);
                self.limits = Some(match self.limits.take() {
                    None => group,
                    Some(so_far) => covering(so_far, group),
                });
            }
            // Nothing but NULLs has no limits.
            None => self.has_all_limits &= nulls == Some(values),
        }
    }
}

/// The limits of the values that have either limits.
fn covering(one: (Limit, Limit), other: (Limit, Limit)) -> (Limit, Limit) {
    let low = if other.0 < one.0 { other.0 } else { one.0 };
    let high = if other.1 > one.1 { other.1 } else { one.1 };
    (low, high)
}

/// The limits of a row group. Those of long texts are shortened, so that all values are still between them.
fn limits(statistics: &Statistics) -> Option<(Limit, Limit)> {
    fn both<T>(low: Option<&T>, high: Option<&T>, limit: impl Fn(&T) -> Limit) -> Option<(Limit, Limit)> {
        Some((limit(low?), limit(high?)))
    }
    match statistics {
        Statistics::Boolean(it) => both(it.min_opt(), it.max_opt(), |value| Limit::Bool(*value)),
        Statistics::Int32(it) => both(it.min_opt(), it.max_opt(), |value| Limit::Whole((*value).into())),
        Statistics::Int64(it) => both(it.min_opt(), it.max_opt(), |value| Limit::Whole((*value).into())),
        Statistics::Float(it) => both(it.min_opt(), it.max_opt(), |value| Limit::Float((*value).into())),
        Statistics::Double(it) => both(it.min_opt(), it.max_opt(), |value| Limit::Float(*value)),
        Statistics::ByteArray(it) => {
            both(it.min_opt(), it.max_opt(), |value: &ByteArray| Limit::Bytes(value.data().to_vec()))
        }
        // A decimal, the highest byte first.
        Statistics::FixedLenByteArray(it) => {
            let (low, high) = (whole(it.min_opt()?)?, whole(it.max_opt()?)?);
            Some((Limit::Whole(low), Limit::Whole(high)))
        }
        Statistics::Int96(_) => None,
    }
}

fn whole(bytes: &FixedLenByteArray) -> Option<i128> {
    let bytes = bytes.data();
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut all = [sign; 16];
    all.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(all))
}

/// A limit as Iceberg has it.
fn datum(limit: &Limit, kind: &PrimitiveType) -> Option<Datum> {
    let number = match limit {
        Limit::Bool(value) => return (*kind == PrimitiveType::Boolean).then(|| Datum::bool(*value)),
        Limit::Float(value) => {
            return match kind {
                // It came from 32 bits.
                #[expect(clippy::cast_possible_truncation, reason = "every value is one of 32 bits")]
                PrimitiveType::Float => Some(Datum::float(*value as f32)),
                PrimitiveType::Double => Some(Datum::double(*value)),
                _ => None,
            };
        }
        Limit::Bytes(bytes) => {
            return match kind {
                PrimitiveType::String => Some(Datum::string(str::from_utf8(bytes).ok()?)),
                PrimitiveType::Binary => Some(Datum::binary(bytes.iter().copied())),
                _ => None,
            };
        }
        Limit::Whole(number) => *number,
    };
    match kind {
        PrimitiveType::Int => Some(Datum::int(i32::try_from(number).ok()?)),
        PrimitiveType::Date => Some(Datum::date(i32::try_from(number).ok()?)),
        PrimitiveType::Long => Some(Datum::long(i64::try_from(number).ok()?)),
        PrimitiveType::Timestamp => Some(Datum::timestamp_micros(i64::try_from(number).ok()?)),
        PrimitiveType::Timestamptz => Some(Datum::timestamptz_micros(i64::try_from(number).ok()?)),
        PrimitiveType::Decimal { .. } => Datum::try_from_bytes(&number.to_be_bytes(), kind.clone()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_file_cover_those_of_its_row_groups() {
        let limits = |low, high| (Limit::Whole(low), Limit::Whole(high));
        assert_eq!(covering(limits(3, 5), limits(1, 4)), limits(1, 5));
        assert_eq!(covering(limits(1, 4), limits(3, 5)), limits(1, 5));
        assert_eq!(covering(limits(1, 9), limits(3, 5)), limits(1, 9));
    }

    #[test]
    fn decimals_have_signs() {
        let bytes = |bytes: &[u8]| FixedLenByteArray::from(bytes.to_vec());
        assert_eq!(whole(&bytes(&[0xff, 0xfe])), Some(-2));
        assert_eq!(whole(&bytes(&[0x01, 0x00])), Some(256));
        assert_eq!(whole(&bytes(&[0; 17])), None);
    }
}
