//! Which columns decide when and in which order rows are delivered. docs/formats/queue.md has the tables.

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of queues with due times.
pub(crate) const DUE: u64 = 0x8;

/// The feature flag of queues with priorities.
pub(crate) const PRIORITY: u64 = 0x10;

/// The feature flag of queues with message groups.
pub(crate) const FIFO: u64 = 0x20;

/// The feature flag of queues that give several rows of a message group at once.
pub(crate) const CONCURRENCY: u64 = 0x200;

/// The feature flag of queues with priorities that age.
pub(crate) const AGE: u64 = 0x400;

/// The feature flag of queues that give only so many rows of a key within a time.
pub(crate) const RATE_KEY: u64 = 0x1000;

/// Queues whose rows have a key by which only some of them may be given.
pub(crate) const GROUPS: u64 = FIFO | RATE_KEY;

/// The columns that decide when a row is delivered and in which order, by their numbers in the row
/// layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The due time: seconds since 1970, a TIMESTAMP, or a DATETIME in UTC. NULL or the past: at once.
    pub due: Option<u32>,
    /// The priority, an integer with NULL as 0: the lowest is delivered first.
    pub priority: Option<u32>,
    /// The message group: rows of a group are delivered in order of insertion, each after the one before
    /// was acknowledged. A row with NULL is in no group.
    pub fifo: Option<u32>,
    /// How many rows of a message group may be owned at the same time; 0 counts as 1.
    pub concurrency: u32,
    /// A row that was inserted so many seconds earlier comes before one whose priority is better by 1, so
    /// that no row waits forever; 0: priorities do not age.
    pub age_s: u32,
    /// The key to whose rows the rate applies, each key by itself; none: to all rows together. A row with
    /// NULL has none. In a queue with message groups it is their column.
    pub rate_key: Option<u32>,
}

impl Order {
    /// The column of the key by which only some rows may be given.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        self.fifo.or(self.rate_key)
    }

    /// The feature flags that it needs.
    pub(crate) fn features(&self) -> u64 {
        let due = if self.due.is_some() { DUE } else { 0 };
        let priority = if self.priority.is_some() { PRIORITY } else { 0 };
        let fifo = if self.fifo.is_some() { FIFO } else { 0 };
        let concurrency = if self.fifo.is_some() && self.concurrency > 1 { CONCURRENCY } else { 0 };
        let age = if self.priority.is_some() && self.age_s > 0 { AGE } else { 0 };
        let rate_key = if self.rate_key.is_some() { RATE_KEY } else { 0 };
        due | priority | fifo | concurrency | age | rate_key
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let columns = [self.due, self.priority, self.fifo];
        columns.into_iter().flatten().for_each(|column| put_varint(out, u64::from(column)));
        for (flag, number) in [(CONCURRENCY, self.concurrency), (AGE, self.age_s)] {
            if self.features() & flag != 0 {
                put_varint(out, u64::from(number));
            }
        }
        self.rate_key.into_iter().for_each(|column| put_varint(out, u64::from(column)));
    }

    /// Reads it from a file with these feature flags.
    pub(crate) fn decode(reader: &mut ByteReader<'_>, features: u64) -> Option<Order> {
        let mut number = |flag: u64| match features & flag {
            0 => Some(None),
            _ => u32::try_from(reader.varint()?).ok().map(Some),
        };
        let (due, priority, fifo) = (number(DUE)?, number(PRIORITY)?, number(FIFO)?);
        let concurrency = number(CONCURRENCY)?.unwrap_or(0);
        let age_s = number(AGE)?.unwrap_or(0);
        let rate_key = number(RATE_KEY)?;
        Some(Order { due, priority, fifo, concurrency, age_s, rate_key })
    }
}
