//! Inline records: all fields are whole columns, none of them off-page. Nearly all records are inline. They
//! are
//! made with few copies, and their hash can be computed from the row and from the page alike.

use std::ops::Range;

use super::row::{self, Row};
use crate::index_page::RECORD_HEADER_BYTES;
use crate::page::Page;
use crate::record::{Extent, FieldPosition};
use crate::table::{Field, Length};

/// DB_TRX_ID and DB_ROLL_PTR of an inserted row without an earlier version.
const SYSTEM: [u8; 13] = [0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0];

/// A part of a record's data.
#[derive(Clone, Debug)]
enum Span {
    /// The values of consecutive columns.
    Columns(Range<usize>),
    /// DB_ROW_ID.
    RowId,
    /// [`SYSTEM`].
    System,
}

impl Span {
    fn fields(&self) -> usize {
        match self {
            Span::Columns(columns) => columns.len(),
            Span::RowId => 1,
            Span::System => 2,
        }
    }
}

/// A field with a column.
#[derive(Clone, Copy, Debug)]
struct Value {
    column: usize,
    nullable: bool,
    length: Length,
    /// The weight of its length in the hash; 0 if the table's definition tells the length.
    weight: u64,
}

/// How rows become such records of a clustered index, and their hash.
#[derive(Clone, Debug)]
pub(crate) struct InlineFormat {
    spans: Vec<Span>,
    values: Vec<Value>,
    /// The weight of each field.
    weights: Vec<u64>,
    null_bytes: usize,
}

/// Reused memory for a record, and what its hash needs.
#[derive(Clone, Debug, Default)]
pub(super) struct InlineScratch {
    /// What stands before the header, backwards.
    head: Vec<u8>,
    /// The weighted sum of the lengths.
    lengths: u64,
}

/// What the length of a field adds to the hash; none is for NULL.
#[inline]
fn weighted(weight: u64, len: Option<usize>) -> u64 {
    weight.wrapping_mul(len.map_or(0, |len| len as u64 + 1))
}

impl InlineFormat {
    /// For the fields of a clustered index; `None` if some are parts of columns.
    pub(super) fn new(fields: &[Field], key_fields: usize, null_bytes: usize) -> Option<InlineFormat> {
        let (mut spans, mut values, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (number, field) in fields.iter().enumerate() {
            if field.prefix.is_some() {
                return None;
            }
            let is_open = field.nullable || matches!(field.length, Length::Variable { .. });
            // Odd, and without a pattern: no other lengths have the same sum.
            let weight =
                if is_open { row::mix(number as u64, row::SPREAD).wrapping_mul(row::SPREAD) | 1 } else { 0 };
            weights.push(weight);
            match (field.column, spans.last_mut()) {
                (Some(column), Some(Span::Columns(last))) if last.end == column => last.end += 1,
                (Some(column), _) => spans.push(Span::Columns(column..column + 1)),
                (None, _) if number < key_fields => spans.push(Span::RowId),
                (None, Some(Span::System)) => {}
                (None, _) => spans.push(Span::System),
            }
            let Field { nullable, length, .. } = *field;
            values.extend(field.column.map(|column| Value { column, nullable, length, weight }));
        }
        Some(InlineFormat { spans, values, weights, null_bytes })
    }

    /// Makes the record of a row; returns where its fields begin. `None` if it is not such a record.
    pub(super) fn record(
        &self,
        row: &Row,
        row_id: &[u8; 8],
        scratch: &mut InlineScratch,
        bytes: &mut Vec<u8>,
    ) -> Option<usize> {
        let InlineScratch { head, lengths } = scratch;
        *lengths = 0;
        head.clear();
        head.resize(self.null_bytes, 0);
        let mut nullable = 0;
        for value in &self.values {
            let len = row.len_of(value.column);
            *lengths = lengths.wrapping_add(weighted(value.weight, len));
            if value.nullable {
                head[nullable / 8] |= u8::from(len.is_none()) << (nullable % 8);
                nullable += 1;
                if len.is_none() {
                    continue;
                }
            }
            let len = u16::try_from(len?).ok()?;
            match value.length {
                Length::Fixed(wanted) if len == wanted => {}
                Length::Variable { max, external } if u32::from(len) <= max => {
                    let [high, low] = len.to_be_bytes();
                    if external && len > 127 {
                        head.push(0x80 | high);
                    }
                    head.push(low);
                }
                _ => return None,
            }
        }
        bytes.clear();
        bytes.extend(head.iter().rev());
        bytes.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        let origin = bytes.len();
        for span in &self.spans {
            match span {
                Span::Columns(columns) => bytes.extend_from_slice(row.span(columns.clone())),
                Span::RowId => bytes.extend_from_slice(&row_id[2..]),
                Span::System => bytes.extend_from_slice(&SYSTEM),
            }
        }
        Some(origin)
    }

    /// A number that two rows hardly ever share, with the bytes before the record's header, so of all that
    /// a reader finds in the record but for [`SYSTEM`]. It is computed from the row, not from the record.
    pub(super) fn hash(&self, row: &Row, row_id: &[u8; 8], scratch: &InlineScratch, before: &[u8]) -> u64 {
        let mut hash = row::hash(scratch.lengths, before);
        for span in &self.spans {
            hash = match span {
                Span::Columns(columns) => row::hash(hash, row.span(columns.clone())),
                Span::RowId => row::hash(hash, &row_id[2..]),
                Span::System => hash,
            };
        }
        hash
    }

    /// The same of the record in a page, if all of it is there. An error if it has another DB_TRX_ID than new
    /// rows have.
    pub(crate) fn hash_in(
        &self,
        page: &Page,
        extent: Extent,
        positions: &[FieldPosition],
    ) -> Option<Result<u64, ()>> {
        let mut lengths = 0_u64;
        for (position, &weight) in positions.iter().zip(&self.weights) {
            let len = match *position {
                FieldPosition::Null => None,
                FieldPosition::Inline { len, .. } => Some(usize::from(len)),
                FieldPosition::Default | FieldPosition::External { .. } => return None,
            };
            lengths = lengths.wrapping_add(weighted(weight, len));
        }
        let mut hash = row::hash(lengths, page.get(extent.start..extent.origin - RECORD_HEADER_BYTES)?);
        let (mut at, mut rest) = (extent.origin, positions);
        for span in &self.spans {
            let (own, behind) = rest.split_at_checked(span.fields())?;
            rest = behind;
            let len = |position: &FieldPosition| match *position {
                FieldPosition::Inline { len, .. } => usize::from(len),
                _ => 0,
            };
            let bytes = page.get(at..at + own.iter().map(len).sum::<usize>())?;
            at += bytes.len();
            match span {
                Span::Columns(_) | Span::RowId => hash = row::hash(hash, bytes),
                Span::System if bytes == SYSTEM => {}
                Span::System => return Some(Err(())),
            }
        }
        Some(Ok(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tells_how_the_bytes_are_shared_out() {
        let length = Length::Variable { max: 100, external: false };
        let field = |column, nullable| Field { column, nullable, length, prefix: None, descending: false };
        let fields = [field(Some(0), false), field(Some(1), true), field(Some(2), true)];
        let inline = InlineFormat::new(&fields, 1, 1).unwrap();
        let texts: [Option<&[u8]>; 5] = [None, Some(b""), Some(b"a"), Some(b"aa"), Some(b"aaa")];
        let mut hashes = std::collections::BTreeSet::new();
        for first in &texts[1..] {
            for second in texts {
                for third in texts {
                    let (mut row, mut scratch, mut bytes) =
                        (Row::default(), InlineScratch::default(), Vec::new());
                    for value in [*first, second, third] {
                        row.push(value);
                    }
                    inline.record(&row, &[0; 8], &mut scratch, &mut bytes).unwrap();
                    // What is before the header tells it too, unless a reader mistakes it.
                    hashes.insert(inline.hash(&row, &[0; 8], &scratch, &[]));
                }
            }
        }
        assert_eq!(hashes.len(), 4 * 5 * 5);
    }
}
