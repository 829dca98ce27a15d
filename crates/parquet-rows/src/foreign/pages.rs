//! The pages of a Parquet file, checked before the library decodes their values.
//!
//! Its decoders take memory for as many values as an encoding claims to have, and build every value of a page
//! whose values are made of the ones before. Both numbers are looked at here.

use std::sync::Arc;

use parquet::basic::{Encoding, Type as Physical};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader as _;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::input::{Input, PageBytes};
use parquet::arrow::arrow_reader::RowGroups;

/// Values of a column with lists that a chunk may have in any case.
const LISTED_MAX: u64 = 16 << 20;
/// How many more it may have for each of its bytes.
const LISTED_RATIO_MAX: u64 = 4096;
/// The most bytes of a page's values when those that are made of earlier ones are complete.
const BUILT_BYTES_MAX: u64 = 1 << 30;

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// One row group.
pub(crate) struct Group {
    pub(crate) input: Arc<dyn Input>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) index: usize,
}

impl Group {
    fn row_group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }

    /// The pages of a column.
    fn pages(&self, column: usize) -> Result<CheckedPages> {
        let group = self.row_group();
        let chunk = group.columns().get(column).ok_or_else(|| damaged("a column has no values"))?;
        if chunk.file_path().is_some() {
            return Err(damaged("the values of a column are in another file"));
        }
        let descriptor = chunk.column_descr();
        let value_bytes = match chunk.column_type() {
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
            Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(descriptor.type_length()).unwrap_or(1),
            Physical::BOOLEAN => 1,
            Physical::INT32 | Physical::FLOAT | Physical::BYTE_ARRAY => 4,
        };
        let bytes = PageBytes { input: Arc::clone(&self.input), value_bytes };
        // What it has read first is where the chunk begins, so a place beyond the file shows at once.
        let (start, length) = chunk.byte_range();
        if start.checked_add(length).is_none_or(|end| end > self.input.length()) {
            return Err(damaged("a column is beyond the end of the file"));
        }
        drop(bytes.get_read(start)?);
        let rows =
            usize::try_from(group.num_rows()).map_err(|_| damaged("a row group has no number of rows"))?;
        let listed = LISTED_MAX.saturating_add(length.saturating_mul(LISTED_RATIO_MAX));
        Ok(CheckedPages {
            pages: SerializedPageReader::new(Arc::new(bytes), chunk, rows, None)?,
            levels: Levels::of(descriptor),
            left: (descriptor.max_rep_level() > 0).then_some(listed),
        })
    }
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        usize::try_from(self.row_group().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let pages: Box<dyn PageReader> = Box::new(self.pages(column)?);
        Ok(Box::new(Once(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.row_group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of the only chunk of a column.
struct Once(Option<Box<dyn PageReader>>);

impl Iterator for Once {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Result<Box<dyn PageReader>>> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for Once {}

/// Which levels a column has before its values.
#[derive(Clone, Copy)]
struct Levels {
    definition: i16,
    repetition: i16,
}

impl Levels {
    fn of(descriptor: &ColumnDescriptor) -> Levels {
        Levels { definition: descriptor.max_def_level(), repetition: descriptor.max_rep_level() }
    }

    /// Where the values of a page of the first version begin.
    fn values(self, page: &[u8], encodings: [Encoding; 2], values: u32) -> Option<&[u8]> {
        let mut rest = page;
        for (level, encoding) in [self.repetition, self.definition].into_iter().zip(encodings) {
            if level == 0 {
                continue;
            }
            #[expect(deprecated, reason = "old files have it")]
            let bytes = if encoding == Encoding::BIT_PACKED {
                let bits = u64::from(16 - level.leading_zeros());
                usize::try_from((u64::from(values) * bits).div_ceil(8)).ok()?
            } else {
                let (length, behind) = rest.split_first_chunk()?;
                rest = behind;
                usize::try_from(u32::from_le_bytes(*length)).ok()?
            };
            rest = rest.get(bytes..)?;
        }
        Some(rest)
    }
}

/// Pages of which each was looked at.
struct CheckedPages {
    pages: SerializedPageReader<PageBytes>,
    levels: Levels,
    /// How many more values the column may have, if they are in lists.
    left: Option<u64>,
}

impl CheckedPages {
    fn check(&mut self, page: &Page) -> Result<()> {
        if let (Some(left), true) = (&mut self.left, page.is_data_page()) {
            let rest = left.checked_sub(u64::from(page.num_values()));
            *left =
                rest.ok_or_else(|| damaged("a column claims more values in lists than its bytes can have"))?;
        }
        let (values, encoding, count) = match page {
            Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                (self.levels.values(buf, encodings, *num_values), *encoding, *num_values)
            }
            Page::DataPageV2 {
                buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                let at = usize::try_from(levels).unwrap_or(usize::MAX);
                (buf.get(at..), *encoding, *num_values)
            }
            Page::DictionaryPage { .. } => return Ok(()),
        };
        let values = values.ok_or_else(|| damaged("a page ends within its levels"))?;
        match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                delta(values, count).map(drop).ok_or_else(|| damaged("a page's lengths are damaged"))
            }
            Encoding::DELTA_BYTE_ARRAY => built(values, count),
            _ => Ok(()),
        }
    }
}

/// Checks a page whose values begin like the ones before them: a prefix of the last value, and what follows.
fn built(values: &[u8], count: u32) -> Result<()> {
    let trouble = || damaged("a page's lengths are damaged");
    let (prefixes, used) = delta(values, count).ok_or_else(trouble)?;
    let (suffixes, _) = values.get(used..).and_then(|rest| delta(rest, count)).ok_or_else(trouble)?;
    let (mut last, mut total) = (0_u64, 0_u64);
    for (prefix, suffix) in prefixes.iter().zip(&suffixes) {
        let (prefix, suffix) =
            u64::try_from(*prefix).ok().zip(u64::try_from(*suffix).ok()).ok_or_else(trouble)?;
        if prefix > last {
            return Err(trouble());
        }
        last = prefix + suffix;
        total += last;
        if total > BUILT_BYTES_MAX {
            return Err(damaged("the values of a page are more than 1 GiB together"));
        }
    }
    Ok(())
}

/// The numbers of a DELTA_BINARY_PACKED block that may have `most` of them, and the bytes that it takes.
/// `None` if they are fewer than it says, or more than there may be.
fn delta(bytes: &[u8], most: u32) -> Option<(Vec<i64>, usize)> {
    let mut at = 0;
    let block = varint(bytes, &mut at)?;
    let parts = varint(bytes, &mut at)?;
    let count = varint(bytes, &mut at)?;
    let first = zigzag(varint(bytes, &mut at)?);
    if count > u64::from(most) || parts == 0 || parts > bytes.len() as u64 || block % parts != 0 {
        return None;
    }
    let each = usize::try_from(block / parts).ok()?;
    let (parts, count) = (usize::try_from(parts).ok()?, usize::try_from(count).ok()?);
    let mut numbers = Vec::new();
    if count == 0 {
        return Some((numbers, at));
    }
    if each == 0 || each % 32 != 0 {
        return None;
    }
    numbers.push(first);
    let mut last = first;
    while numbers.len() < count {
        let smallest = zigzag(varint(bytes, &mut at)?);
        let widths = bytes.get(at..at.checked_add(parts)?)?;
        at += parts;
        for width in widths {
            if numbers.len() >= count {
                break;
            }
            let width = usize::from(*width);
            let packed = bytes.get(at..at.checked_add(width.checked_mul(each)? / 8)?)?;
            at += packed.len();
            if width > 64 {
                return None;
            }
            for index in 0..each.min(count - numbers.len()) {
                let step = bits(packed, index * width, width).cast_signed();
                last = last.wrapping_add(smallest).wrapping_add(step);
                numbers.push(last);
            }
        }
    }
    Some((numbers, at))
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// So many bits from a place on, the lowest first.
fn bits(bytes: &[u8], from: usize, width: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let mut window = 0_u128;
    for (place, byte) in bytes.iter().skip(from / 8).take(9).enumerate() {
        window |= u128::from(*byte) << (8 * place);
    }
    let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    u64::try_from((window >> (from % 8)) & u128::from(mask)).unwrap_or(0)
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}
