//! The record of a row in an index, and the node pointer to its page.

use super::inline_record::InlineScratch;
use super::row::{self, Row};
use crate::index_page::{IndexPage, RECORD_HEADER_BYTES};
use crate::off_page::{PART_BYTES_MAX, REFERENCE_BYTES};
use crate::page::PAGE_BYTES;
use crate::record::Extent;

/// A record as it will be in a page, and its place in the order. The memory is reused for the next record.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Its key in the form of [`KeyOrder`](crate::key_order::KeyOrder); empty without one.
    pub key: Vec<u8>,
    /// The length of the key's prefix that must be unique; 0 if none must.
    pub unique: usize,
    /// The whole record, including its header.
    pub bytes: Vec<u8>,
    /// Where its fields begin.
    pub origin: usize,
    /// Whether it was made as an [inline record](super::inline_record), and what its hash needs then.
    pub(super) is_inline: bool,
    pub(super) inline: InlineScratch,
    /// The off-page values, in the order of fields.
    pub(super) off_page: Vec<OffPageValue>,
    /// The length of each field in the record; none for NULL.
    pub(super) lens: Vec<Option<usize>>,
}

/// A node pointer without the page's number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pointer {
    /// Header, and fields of the key.
    pub(crate) bytes: Vec<u8>,
    /// Where the fields begin.
    pub(crate) origin: usize,
}

/// An off-page value.
#[derive(Clone, Copy, Debug)]
pub(super) struct OffPageValue {
    pub(super) field: usize,
    /// Its column.
    pub(super) column: usize,
    /// The offset of its first byte that is not in the row.
    pub(super) from: usize,
    /// Where its reference is in the record.
    pub(super) at: usize,
}

/// A 64-bit hash of a record. What the page puts into the header does not count.
pub(crate) fn hash(bytes: &[u8], origin: usize) -> u64 {
    let parts = [bytes.get(..origin - RECORD_HEADER_BYTES), bytes.get(origin..)];
    let sums = parts.map(|part| row::hash(0, part.unwrap_or_default()));
    row::mix(sums[0].rotate_left(29) ^ sums[1], row::SPREAD)
}

/// Combines the hash of a row with that of the record that was made of it.
pub(crate) fn combined_hash(row: &Row, record: u64) -> u64 {
    row::mix(row.hash().rotate_left(17) ^ record, row::SPREAD)
}

impl Record {
    /// How many bytes it takes, including the pages of off-page values.
    #[must_use]
    pub fn stored_bytes(&self, row: &Row) -> u64 {
        let pages = self.off_page.iter().map(|off_page| {
            let value = row.get(off_page.column).map_or(0, |value| value.len().saturating_sub(off_page.from));
            value.div_ceil(PART_BYTES_MAX)
        });
        (self.bytes.len() + pages.sum::<usize>() * PAGE_BYTES) as u64
    }

    /// The hash of its bytes; see [`hash`].
    pub(crate) fn hash(&self) -> u64 {
        hash(&self.bytes, self.origin)
    }

    /// Whether the record in the page equals this one, apart from what the page puts into the header, and
    /// from references to off-page values.
    pub(crate) fn matches_page(&self, page: &IndexPage<'_>, extent: Extent) -> bool {
        let Some(there) = page.bytes.get(extent.start..extent.end) else { return false };
        let mut from = self.origin;
        let is_head = |until: usize| there.get(..until) == self.bytes.get(..until);
        if there.len() != self.bytes.len() || !is_head(self.origin - RECORD_HEADER_BYTES) {
            return false;
        }
        let ends = self.off_page.iter().map(|off_page| (off_page.at, off_page.at + REFERENCE_BYTES));
        ends.chain([(there.len(), there.len())]).all(|(until, next)| {
            let is_same = there.get(from..until) == self.bytes.get(from..until);
            from = next;
            is_same
        })
    }
}
