//! The records of a batch: rows, acknowledgements, moved rows. Bytes in, bytes out; docs/formats/queue.md has
//! the table.

use crate::format::origin::Origin;
use crate::format::wire::{Reader, checksum, put_varint};

/// The number of a row in its queue, counted from 1 in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

const ROW: u8 = 1;
const ACKNOWLEDGE: u8 = 2;
const RELAYED: u8 = 3;
const MOVED: u8 = 4;

/// Bytes of the checksum in front of a row.
pub(crate) const ROW_SUM: usize = 4;

/// The most bytes that a row without an origin takes in a batch besides its own: kind, length, checksum.
pub(crate) const ROW_OVERHEAD_MAX: usize = 1 + 5 + ROW_SUM;

/// A decoded record.
#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    /// A row: its id, the offset of its checksum within the body, the length of checksum and row, and, for a
    /// moved row, the time when it was inserted.
    Row { id: RowId, at: usize, len: usize, time_ms: Option<u64>, origin: Option<Origin> },
    /// This many rows from `first` on are gone.
    Acknowledge { first: RowId, count: u64 },
}

/// A row with its checksum, as it lies in a segment.
fn put_row(out: &mut Vec<u8>, id: RowId, row: &[u8]) {
    out.extend(checksum(&[&id.0.to_le_bytes(), row]).to_le_bytes());
    out.extend(row);
}

/// The row in bytes that begin with its checksum; `None` when the checksum does not match this row.
pub(crate) fn checked_row(id: RowId, bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(bytes);
    let sum = reader.u32()?;
    let row = reader.rest();
    (sum == checksum(&[&id.0.to_le_bytes(), row])).then_some(row)
}

/// Appends a row and returns the offset of its checksum.
pub(crate) fn encode_row(out: &mut Vec<u8>, id: RowId, row: &[u8], origin: Option<&Origin>) -> usize {
    let mut source = Vec::new();
    out.push(if origin.is_some() { RELAYED } else { ROW });
    origin.into_iter().for_each(|origin| origin.encode(&mut source));
    put_varint(out, (source.len() + ROW_SUM + row.len()) as u64);
    out.extend(source);
    let at = out.len();
    put_row(out, id, row);
    at
}

/// Appends an acknowledgement of `count` rows from `first` on.
pub(crate) fn encode_acknowledge(out: &mut Vec<u8>, first: RowId, count: u64) {
    let mut payload = Vec::new();
    put_varint(&mut payload, first.0);
    put_varint(&mut payload, count.saturating_sub(1));
    out.push(ACKNOWLEDGE);
    put_varint(out, payload.len() as u64);
    out.extend(payload);
}

/// Appends a row that compaction moved here; `before` is the row moved before it, or the batch's first.
pub(crate) fn encode_moved(out: &mut Vec<u8>, id: RowId, before: RowId, time_ms: u64, row: &[u8]) -> usize {
    let mut head = Vec::new();
    put_varint(&mut head, id.0 - before.0);
    put_varint(&mut head, time_ms);
    out.push(MOVED);
    put_varint(out, (head.len() + ROW_SUM + row.len()) as u64);
    out.extend(head);
    let at = out.len();
    put_row(out, id, row);
    at
}

/// The records of a body, in order. An error says what is wrong and where.
pub(crate) fn decode(body: &[u8], first: RowId) -> Result<Vec<Record>, (&'static str, usize)> {
    let mut reader = Reader::new(body);
    let mut records = Vec::new();
    let (mut next, mut moved) = (first.0, first.0);
    while !reader.is_empty() {
        let at = reader.at();
        let record = decode_one(&mut reader, &mut next, &mut moved).map_err(|what| (what, at))?;
        records.push(record);
    }
    Ok(records)
}

fn decode_one(reader: &mut Reader<'_>, next: &mut u64, moved: &mut u64) -> Result<Record, &'static str> {
    const SHORT: &str = "a record that is cut short";
    let kind = reader.u8().ok_or(SHORT)?;
    let len = reader.count().ok_or(SHORT)?;
    let payload = reader.take(len).ok_or(SHORT)?;
    let start = reader.at() - len;
    let mut inside = Reader::new(payload);
    let (mut time_ms, mut origin) = (None, None);
    let id = match kind {
        ROW | RELAYED => {
            if kind == RELAYED {
                origin = Some(Origin::decode(&mut inside).ok_or("a relayed row without a source")?);
            }
            *next = next.checked_add(1).ok_or("a row id out of range")?;
            *next - 1
        }
        MOVED => {
            let gap = inside.varint().ok_or(SHORT)?;
            time_ms = Some(inside.varint().ok_or(SHORT)?);
            *moved = moved.checked_add(gap).ok_or("a row id out of range")?;
            *moved
        }
        ACKNOWLEDGE => {
            let (first, more) = inside.varint().zip(inside.varint()).ok_or(SHORT)?;
            let count = more.checked_add(1).filter(|count| first.checked_add(*count).is_some());
            let count = count.ok_or("an acknowledgement of rows out of range")?;
            return Ok(Record::Acknowledge { first: RowId(first), count });
        }
        _ => return Err("a record of an unknown type"),
    };
    let at = inside.at();
    if len - at < ROW_SUM {
        return Err(SHORT);
    }
    Ok(Record::Row { id: RowId(id), at: start + at, len: len - at, time_ms, origin })
}

#[cfg(test)]
mod tests {
    use super::{ROW_OVERHEAD_MAX, RowId, encode_row};

    #[test]
    fn a_row_takes_no_more_than_is_said() {
        for len in [0, 1, 127, 128, 1 << 14, 1 << 21, 1 << 28] {
            let mut out = Vec::new();
            encode_row(&mut out, RowId(u64::MAX), &vec![0; len], None);
            assert!(out.len() <= len + ROW_OVERHEAD_MAX, "{len}: {}", out.len());
        }
    }
}
