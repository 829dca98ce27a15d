//! Which columns decide when and in which order rows are given. docs/formats/queue.md has the tables.

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of files of queues whose rows say when they are due.
pub(crate) const DUE: u64 = 0x8;

/// The feature flag of files of queues whose rows are not given in the order of insertion alone.
pub(crate) const PRIORITY: u64 = 0x10;

/// The feature flag of files of queues in which rows of the same key are given one after the other.
pub(crate) const FIFO: u64 = 0x20;

/// Which columns of a row decide when it is given and before which others, by their numbers in the layout of
/// the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Says from when on it may be given: whole seconds since 1970, a TIMESTAMP, or a DATETIME of UTC. NULL
    /// or the past: at once.
    pub due: Option<u32>,
    /// A whole number, NULL as 0: rows with the lowest one are given first.
    pub priority: Option<u32>,
    /// Its bytes are a key: rows with the same one are given in the order of insertion, each after the one
    /// before is gone. A row with NULL has no key.
    pub fifo: Option<u32>,
}

impl Order {
    /// The feature flags that it needs.
    pub(crate) fn features(&self) -> u64 {
        let due = if self.due.is_some() { DUE } else { 0 };
        let priority = if self.priority.is_some() { PRIORITY } else { 0 };
        due | priority | if self.fifo.is_some() { FIFO } else { 0 }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let columns = [self.due, self.priority, self.fifo];
        columns.into_iter().flatten().for_each(|column| put_varint(out, u64::from(column)));
    }

    /// Reads it from a file with these feature flags.
    pub(crate) fn decode(reader: &mut ByteReader<'_>, features: u64) -> Option<Order> {
        let mut column = |flag: u64| match features & flag {
            0 => Some(None),
            _ => u32::try_from(reader.varint()?).ok().map(Some),
        };
        Some(Order { due: column(DUE)?, priority: column(PRIORITY)?, fifo: column(FIFO)? })
    }
}
