//! Due time, priority, message group and deduplication key of a row.

use std::sync::Arc;

use condition::{Column, ColumnLayout, Kind, Schema};

use crate::Error;
use crate::format::checkpoint::Definition;
use crate::format::order::Order;

/// Due time, priority, message group and deduplication key of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowAttributes {
    /// The due time in milliseconds since 1970 if it is in the future; else 0.
    pub(crate) due_ms: u64,
    /// The lowest is delivered first; 0 in a queue without priorities.
    pub(crate) priority: i64,
    /// The message group, a hash of its key; 0 for none.
    pub(crate) group: u64,
    /// The hash of the deduplication key; 0 for none.
    pub(crate) key: u128,
}

/// Reads the attributes from the rows of a queue.
#[derive(Debug)]
pub(crate) struct AttributeReader {
    schema: Arc<Schema>,
    order: Order,
    /// The column of the key by which rows are left out.
    dedupe: Option<u32>,
}

impl AttributeReader {
    /// What the rows of a queue say; nothing when its definition names no columns.
    pub(crate) fn of(definition: &Definition) -> Result<Option<AttributeReader>, Error> {
        let (order, dedupe) = (definition.order, definition.dedupe.map(|dedupe| dedupe.column));
        if order == Order::default() && dedupe.is_none() {
            return Ok(None);
        }
        let schema = Schema::decode(&definition.schema).unwrap_or_default();
        let kind = |column: u32| schema.columns.get(column_index(column)).map(|column| column.kind);
        if let Some(column) = order.due
            && !matches!(kind(column), Some(Kind::Integer { .. } | Kind::DateTime(_) | Kind::Timestamp(_)))
        {
            return Err(Error::Column { column });
        }
        if let Some(column) = order.priority
            && !matches!(kind(column), Some(Kind::Integer { .. }))
        {
            return Err(Error::Column { column });
        }
        let keys = order.fifo.into_iter().chain(order.rate_key).chain(dedupe);
        if let Some(column) = keys.into_iter().find(|column| kind(*column).is_none()) {
            return Err(Error::Column { column });
        }
        Ok(Some(AttributeReader { schema: Arc::new(schema), order, dedupe }))
    }

    /// What a row says; `now_ms`: whether it is due later. `inserted_ms`: how its priority ages.
    pub(crate) fn read(
        attribute_reader: Option<&AttributeReader>,
        now_ms: u64,
        inserted_ms: u64,
        row: &[u8],
    ) -> RowAttributes {
        let attributes = |attribute_reader: &AttributeReader| RowAttributes {
            due_ms: attribute_reader.due_after(now_ms, row),
            priority: attribute_reader.priority(inserted_ms, row),
            group: attribute_reader.group(row),
            key: attribute_reader.key(row),
        };
        attribute_reader.map(attributes).unwrap_or_default()
    }

    /// When a row may be given, milliseconds since 1970, if that is after `now_ms`; else 0.
    pub(crate) fn due_after(&self, now_ms: u64, row: &[u8]) -> u64 {
        let due_ms = self.order.due.and_then(|column| self.due_ms(column, row)).unwrap_or(0);
        if due_ms > now_ms { due_ms } else { 0 }
    }

    /// If priorities age, the time at which a row of priority 0 would have had to come to be its neighbour:
    /// so it is fixed when the row comes.
    fn priority(&self, inserted_ms: u64, row: &[u8]) -> i64 {
        let Some(column) = self.order.priority.map(column_index) else { return 0 };
        let value = self.schema.integer(row, column);
        let value = value.map_or(0, |value| i64::try_from(value).unwrap_or(i64::MAX));
        match i64::from(self.order.age_s) {
            0 => value,
            age_s => {
                let inserted_s = i64::try_from(inserted_ms / 1000).unwrap_or(i64::MAX);
                value.saturating_mul(age_s).saturating_add(inserted_s)
            }
        }
    }

    fn group(&self, row: &[u8]) -> u64 {
        let key = self.order.group().and_then(|column| self.schema.bytes(row, column_index(column)));
        key.map_or(0, group_of)
    }

    /// The message group of a key with these bytes; nothing when rows have no keys.
    pub(crate) fn group_of(&self, key: &[u8]) -> Option<u64> {
        self.order.group().map(|_| group_of(key))
    }

    /// Whether the same key has the same bytes in the rows of two queues.
    pub(crate) fn has_same_keys(one: &Definition, other: &Definition) -> bool {
        let columns = |definition: &Definition| Schema::decode(&definition.schema).map(|all| all.columns);
        let (Some(before), Some(after)) = (columns(one), columns(other)) else { return false };
        let column = |columns: &[Column], definition: &Definition| {
            columns.get(column_index(definition.order.group()?)).cloned()
        };
        let (Some(one), Some(other)) = (column(&before, one), column(&after, other)) else { return false };
        // It may have another name; but then no other column has the one that it had.
        if one.name != other.name && after.iter().any(|column| column.name == one.name) {
            return false;
        }
        let same_layout = match (one.layout, other.layout) {
            (ColumnLayout::Fixed(_, one), ColumnLayout::Fixed(_, other)) => one == other,
            (ColumnLayout::Variable(_), ColumnLayout::Variable(_)) => true,
            _ => false,
        };
        same_layout && one.kind == other.kind && one.members == other.members
    }

    /// The hash of the key by which a row is left out; 0: it has none.
    pub(crate) fn key(&self, row: &[u8]) -> u128 {
        // Nobody makes two keys that have it in common.
        self.hash(self.dedupe, row).map_or(0, |hash| u128::from_le_bytes(hash).max(1))
    }

    /// The beginning of the hash of a column; nothing when that is NULL.
    fn hash<const N: usize>(&self, column: Option<u32>, row: &[u8]) -> Option<[u8; N]> {
        blake3::hash(self.schema.bytes(row, column_index(column?))?).as_bytes().first_chunk().copied()
    }

    /// A fraction of a millisecond counts as a whole one, because a row must not come too early.
    fn due_ms(&self, column: u32, row: &[u8]) -> Option<u64> {
        let due_ms = self.schema.unix_ms(row, column_index(column))?;
        Some(u64::try_from(due_ms.max(0)).unwrap_or(u64::MAX))
    }
}

/// Keys that share a group wait for each other, and nothing worse: 64 bits of the hash are enough.
fn group_of(key: &[u8]) -> u64 {
    blake3::hash(key).as_bytes().first_chunk().map_or(0, |hash| u64::from_le_bytes(*hash)).max(1)
}

fn column_index(column: u32) -> usize {
    usize::try_from(column).unwrap_or(usize::MAX)
}
