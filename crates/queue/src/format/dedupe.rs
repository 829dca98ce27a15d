//! Deduplication: which rows are discarded because a row with the same key came before.
//! docs/formats/queue.md has the tables.

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of queues with deduplication.
pub(crate) const DEDUPE: u64 = 0x40;

/// Which duplicate rows are discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dedupe {
    /// The number of the key column in the row layout. A row with NULL has no key and is never discarded.
    pub column: u32,
    /// The deduplication window in milliseconds; 0: as long as the row waits.
    pub for_ms: u64,
}

impl Dedupe {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.column));
        put_varint(out, self.for_ms);
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Dedupe> {
        Some(Dedupe { column: u32::try_from(reader.varint()?).ok()?, for_ms: reader.varint()? })
    }
}

/// A key and the end of its window, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DedupeEntry {
    pub(crate) key: u128,
    pub(crate) until_ms: u64,
}

impl DedupeEntry {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_le_bytes());
        put_varint(out, self.until_ms);
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<DedupeEntry> {
        Some(DedupeEntry { key: u128::from_le_bytes(reader.array()?), until_ms: reader.varint()? })
    }
}

pub(crate) fn encode_dedupe_entries(entries: &[DedupeEntry], out: &mut Vec<u8>) {
    put_varint(out, entries.len() as u64);
    entries.iter().for_each(|entry| entry.encode(out));
}

pub(crate) fn decode_dedupe_entries(reader: &mut ByteReader<'_>) -> Option<Vec<DedupeEntry>> {
    (0..reader.varint()?).map(|_| DedupeEntry::decode(reader)).collect()
}
