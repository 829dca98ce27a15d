//! Builds an index page, record by record in key order.
//!
//! Facts: `PageBulk` in `btr0bulk.cc` of MariaDB's source, which fills the pages of a sorted build.

use crate::index_page::{ENDS, HEAP, INFIMUM, RECORD_HEADER_BYTES, SUPREMUM};
use crate::page::{DATA, Kind, NO_PAGE, PAGE_BYTES, Page, Sums, TRAILER, crc};

/// Bytes that records and their slots can take in an empty page.
pub(super) const EMPTY_BYTES: usize = TRAILER - HEAP - 4;
/// Bytes that stay free in a page of a clustered index, for rows that grow.
pub(super) const RESERVED_BYTES: usize = PAGE_BYTES / 16;
/// Records that a slot owns while a page is filled.
const OWNED: u8 = 4;
/// The direction of the last inserts that the page header states: to the right.
const DIRECTION_RIGHT: u16 = 2;

/// A page that is being filled.
#[derive(Debug)]
pub(super) struct PageBuilder {
    page: Box<Page>,
    /// Bytes that stay free.
    reserved: usize,
    /// Where the next record begins.
    top: usize,
    /// The last record.
    last: usize,
    records: u16,
    /// Records since the last one that has a slot.
    since: u8,
    /// The records that have slots.
    slots: Vec<u16>,
}

impl PageBuilder {
    pub(super) fn new(reserved: usize) -> PageBuilder {
        let page = blank();
        PageBuilder { page, reserved, top: HEAP, last: INFIMUM, records: 0, since: 0, slots: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether a record of this many bytes still fits. The bytes that must stay free do so, unless the page
    /// has fewer than two records.
    #[inline]
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let records = usize::from(self.records);
        let free = EMPTY_BYTES + HEAP - self.top - slot_bytes(records);
        let needed = bytes + slot_bytes(records + 1) - slot_bytes(records);
        needed <= free && (records < 2 || free - needed >= self.reserved)
    }

    /// Adds a record whose fields begin at `origin` in its bytes; returns where they begin in the page.
    #[inline]
    pub(super) fn push(&mut self, record: &[u8], origin: usize, status: u8, least: bool) -> usize {
        let at = self.top + origin;
        self.page[self.top..self.top + record.len()].copy_from_slice(record);
        self.top += record.len();
        self.records += 1;
        self.since += 1;
        let mut owned = 0;
        if self.since == OWNED {
            owned = OWNED;
            self.since = 0;
            self.slots.push(low(at));
        }
        let heap_number = (self.records + 1) << 3 | u16::from(status);
        put(&mut self.page, at - RECORD_HEADER_BYTES, &[u8::from(least) << 4 | owned]);
        put(&mut self.page, at - 4, &heap_number.to_be_bytes());
        self.link(at);
        self.last = at;
        at
    }

    /// Links the last record to this one.
    fn link(&mut self, next: usize) {
        let distance = low(next).wrapping_sub(low(self.last));
        put(&mut self.page, self.last - 2, &distance.to_be_bytes());
    }

    /// Returns the page, without its address and checksum, and begins another one.
    pub(super) fn finish(&mut self, index_id: u64, level: u16) -> Box<Page> {
        self.link(SUPREMUM);
        // The last slot is the supremum's, which also owns the records of the slot before it.
        let mut owned = self.since + 1;
        if let Some(merged) = self.slots.pop() {
            owned += OWNED;
            self.page[usize::from(merged) - RECORD_HEADER_BYTES] &= 0xF0;
        }
        self.page[SUPREMUM - RECORD_HEADER_BYTES] = owned;
        let slots = [low(INFIMUM)].into_iter().chain(self.slots.drain(..)).chain([low(SUPREMUM)]);
        let mut count = 0_u16;
        for slot in slots {
            count += 1;
            put(&mut self.page, TRAILER - 2 * usize::from(count), &slot.to_be_bytes());
        }
        let last = if self.records == 0 { 0 } else { low(self.last) };
        let head =
            [count, low(self.top), (self.records + 2) | 0x8000, 0, 0, last, DIRECTION_RIGHT, 0, self.records];
        for (field, number) in head.into_iter().enumerate() {
            put(&mut self.page, DATA + 2 * field, &number.to_be_bytes());
        }
        put(&mut self.page, 24, &Kind::INDEX.0.to_be_bytes());
        put(&mut self.page, DATA + 26, &level.to_be_bytes());
        put(&mut self.page, DATA + 28, &index_id.to_be_bytes());
        let next = PageBuilder { slots: std::mem::take(&mut self.slots), ..PageBuilder::new(self.reserved) };
        std::mem::replace(self, next).page
    }
}

/// The most bytes that the slots of this many records take.
fn slot_bytes(records: usize) -> usize {
    (2 * records).div_ceil(4)
}

fn blank() -> Box<Page> {
    let mut page = Box::new([0; PAGE_BYTES]);
    put(&mut page, INFIMUM - RECORD_HEADER_BYTES, &ENDS);
    page
}

/// An offset in a page, as stored.
fn low(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// Writes bytes at a place of a page.
#[inline]
pub(super) fn put(page: &mut Page, at: usize, bytes: &[u8]) {
    if let Some(room) = page.get_mut(at..at + bytes.len()) {
        room.copy_from_slice(bytes);
    }
}

/// The id, the number and the neighbours of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageAddress {
    pub(super) space_id: u32,
    pub(super) number: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl PageAddress {
    /// The address of a page without neighbours.
    pub(super) fn alone(space_id: u32, number: u32) -> PageAddress {
        PageAddress { space_id, number, previous: NO_PAGE, next: NO_PAGE }
    }
}

/// Writes a page's address and its checksum.
pub(super) fn seal(page: &mut Page, address: PageAddress, sums: Sums) {
    put(page, 4, &address.number.to_be_bytes());
    put(page, 8, &address.previous.to_be_bytes());
    put(page, 12, &address.next.to_be_bytes());
    put(page, 34, &address.space_id.to_be_bytes());
    match sums {
        Sums::Full => {
            let sum = crc(&page[..PAGE_BYTES - 4]);
            put(page, PAGE_BYTES - 4, &sum.to_be_bytes());
        }
        Sums::Old => {
            let sum = crc(&page[4..26]) ^ crc(&page[DATA..TRAILER]);
            put(page, 0, &sum.to_be_bytes());
            put(page, TRAILER, &sum.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every fourth record has a slot of two bytes, so the slots take at most half a byte for each.
    #[test]
    fn a_page_is_filled_to_the_last_byte() {
        for reserved in [0, RESERVED_BYTES] {
            let mut page = PageBuilder::new(reserved);
            assert!(page.takes(EMPTY_BYTES - 1) && !page.takes(EMPTY_BYTES), "one record");
            page.push(&[0; 100], RECORD_HEADER_BYTES, 0, false);
            let left = EMPTY_BYTES - 100 - slot_bytes(2);
            assert!(page.takes(left) && !page.takes(left + 1), "two records");
            page.push(&[0; 100], RECORD_HEADER_BYTES, 0, false);
            let left = EMPTY_BYTES - 200 - slot_bytes(3) - reserved;
            assert!(page.takes(left) && !page.takes(left + 1), "more records, and {reserved} bytes free");
        }
    }
}
