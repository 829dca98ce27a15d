//! The index that seals a segment: its rows, when they were inserted, when they are due, which come first,
//! which are given one after the other, and which keys leave others out.

use crate::format::dedupe::DEDUPE;
use crate::format::order::{DUE, GROUPS, PRIORITY};
use crate::format::record::RowId;
use crate::format::wire::{ByteReader, put_signed, put_varint};

/// A row of an index: its id, the offset of its checksum in the segment, and the length of checksum and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexedRow {
    pub(crate) id: RowId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Rows from this one on were inserted at this time or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InsertTime {
    pub(crate) id: RowId,
    pub(crate) time_ms: u64,
}

/// A row that is given from this time on, milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueTime {
    pub(crate) id: RowId,
    pub(crate) due_ms: u64,
}

/// What an index says, each list in the order of the rows.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SegmentIndex {
    pub(crate) rows: Vec<IndexedRow>,
    pub(crate) times: Vec<InsertTime>,
    /// The rows that were not due when it was written.
    pub(crate) dues: Vec<DueTime>,
    /// The priority of each row, if the queue has them.
    pub(crate) priorities: Vec<i64>,
    /// The line in which each row stands, if the queue has keys; 0 for none.
    pub(crate) groups: Vec<u64>,
    /// The key of each row, if the queue leaves doubles out; 0 for none.
    pub(crate) keys: Vec<u128>,
}

impl SegmentIndex {
    /// Appends it for a segment with these feature flags; ids count from `first`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, first: RowId, features: u64) {
        put_varint(out, self.rows.len() as u64);
        let (mut id, mut end) = (first.0, 0);
        for row in &self.rows {
            put_varint(out, row.id.0 - id);
            put_varint(out, row.offset - end);
            put_varint(out, row.len);
            (id, end) = (row.id.0, row.offset + row.len);
        }
        put_varint(out, self.times.len() as u64);
        let (mut id, mut time) = (first.0, 0);
        for since in &self.times {
            put_varint(out, since.id.0 - id);
            put_varint(out, since.time_ms.saturating_sub(time));
            (id, time) = (since.id.0, since.time_ms.max(time));
        }
        if features & DUE != 0 {
            put_varint(out, self.dues.len() as u64);
            let mut id = first.0;
            for due in &self.dues {
                put_varint(out, due.id.0 - id);
                put_varint(out, due.due_ms);
                id = due.id.0;
            }
        }
        if features & PRIORITY != 0 {
            self.priorities.iter().for_each(|priority| put_signed(out, *priority));
        }
        if features & GROUPS != 0 {
            self.groups.iter().for_each(|group| out.extend(group.to_le_bytes()));
        }
        if features & DEDUPE != 0 {
            self.keys.iter().for_each(|key| out.extend(key.to_le_bytes()));
        }
    }

    /// Reads it from the body of a batch; `None` when that is no index of a segment with these feature flags.
    pub(crate) fn decode(body: &[u8], first: RowId, features: u64) -> Option<SegmentIndex> {
        let mut reader = ByteReader::new(body);
        // No list is as long as all bytes together, and a damaged number must not take all memory.
        let count = reader.count()?;
        let mut rows = Vec::with_capacity(count.min(body.len()));
        let (mut id, mut end) = (first.0, 0u64);
        for _ in 0..count {
            id = id.checked_add(reader.varint()?)?;
            let offset = end.checked_add(reader.varint()?)?;
            let len = reader.varint()?;
            end = offset.checked_add(len)?;
            rows.push(IndexedRow { id: RowId(id), offset, len });
        }
        let count = reader.count()?;
        let mut times = Vec::with_capacity(count.min(body.len()));
        let (mut id, mut time_ms) = (first.0, 0u64);
        for _ in 0..count {
            id = id.checked_add(reader.varint()?)?;
            time_ms = time_ms.checked_add(reader.varint()?)?;
            times.push(InsertTime { id: RowId(id), time_ms });
        }
        let mut dues = Vec::new();
        if features & DUE != 0 {
            let mut id = first.0;
            for _ in 0..reader.count()? {
                id = id.checked_add(reader.varint()?)?;
                dues.push(DueTime { id: RowId(id), due_ms: reader.varint()? });
            }
        }
        let attributes = if features & PRIORITY == 0 { 0 } else { rows.len() };
        let priorities = (0..attributes).map(|_| reader.signed()).collect::<Option<_>>()?;
        let keys = if features & GROUPS == 0 { 0 } else { rows.len() };
        let groups = (0..keys).map(|_| reader.u64()).collect::<Option<_>>()?;
        let keyed = if features & DEDUPE == 0 { 0 } else { rows.len() };
        let keys = (0..keyed).map(|_| reader.array().map(u128::from_le_bytes)).collect::<Option<_>>()?;
        reader.is_empty().then_some(SegmentIndex { rows, times, dues, priorities, groups, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::{DEDUPE, DUE, DueTime, IndexedRow, InsertTime, PRIORITY, SegmentIndex};
    use crate::format::order::{FIFO, RATE_KEY};
    use crate::format::record::RowId;

    #[test]
    fn an_index_comes_back_and_is_told_when_it_is_cut() {
        let row = |id, offset| IndexedRow { id: RowId(id), offset, len: 30 };
        let dues =
            vec![DueTime { id: RowId(9), due_ms: 1_700_000_000_123 }, DueTime { id: RowId(12), due_ms: 5 }];
        let times =
            vec![InsertTime { id: RowId(7), time_ms: 1000 }, InsertTime { id: RowId(9), time_ms: 5000 }];
        let (rows, priorities) = (vec![row(7, 70), row(9, 100), row(12, 400)], vec![i64::MIN, -1, i64::MAX]);
        let whole = SegmentIndex {
            rows,
            times,
            dues,
            priorities,
            groups: vec![7, 0, u64::MAX],
            keys: vec![0, 9, u128::MAX],
        };
        let (all, mut bytes) = (DUE | PRIORITY | FIFO | DEDUPE, Vec::new());
        whole.encode(&mut bytes, RowId(7), all);
        for at in 0..bytes.len() {
            assert_eq!(SegmentIndex::decode(&bytes[..at], RowId(7), all), None);
        }
        for other in [0, DUE, PRIORITY, FIFO, DEDUPE, all ^ DUE, all ^ PRIORITY, all ^ FIFO, all ^ DEDUPE] {
            assert_eq!(SegmentIndex::decode(&bytes, RowId(7), other), None, "another queue's");
        }
        // The keys of a rate are stored as those of message groups.
        let (mut rated, features) = (Vec::new(), all ^ FIFO | RATE_KEY);
        whole.encode(&mut rated, RowId(7), features);
        assert_eq!(rated, bytes);
        assert_eq!(SegmentIndex::decode(&bytes, RowId(7), features).as_ref(), Some(&whole));
        assert_eq!(SegmentIndex::decode(&bytes, RowId(7), all).as_ref(), Some(&whole));
        // A number that is damaged takes no memory: of rows, and of times behind no row.
        let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        for bytes in [&huge[..], &[&[0], &huge[..]].concat(), &[&[0, 0], &huge[..]].concat()] {
            assert_eq!(SegmentIndex::decode(bytes, RowId(7), DUE), None);
        }
        // Each list is there with its own flag alone.
        for features in [0, DUE, PRIORITY, FIFO, DEDUPE] {
            let mut bytes = Vec::new();
            whole.encode(&mut bytes, RowId(7), features);
            let found = SegmentIndex::decode(&bytes, RowId(7), features).unwrap();
            let lens = [found.dues.len(), found.priorities.len(), found.groups.len(), found.keys.len()];
            let wanted = [(DUE, 2), (PRIORITY, 3), (FIFO, 3), (DEDUPE, 3)];
            assert_eq!(lens, wanted.map(|(flag, len)| if features == flag { len } else { 0 }));
            assert_eq!((&found.rows, &found.times), (&whole.rows, &whole.times));
        }
    }
}
