//! A page of a tree: its header, its directory and the chain of its records, all checked.
//!
//! Facts: `page0page.h` of MariaDB's source, and `page_simple_validate_new()`.

use crate::Error;
use crate::page::{self, DATA, Kind, NO_PAGE, Page, TRAILER, corrupt, u16_at, u32_at, u64_at};

/// Offsets of the record before all others and of the one after them.
pub const INFIMUM: usize = 99;
/// See [`INFIMUM`].
pub const SUPREMUM: usize = 112;
/// Offset where user records begin.
pub const HEAP: usize = 120;
/// PAGE_ROOT_AUTO_INC, from the beginning of the page.
const LAST_COUNTER: usize = DATA + 18;
/// The number of the tree of definitions in a tablespace of MySQL.
const SDI_TREE: u64 = u64::MAX;
/// Bytes before every record.
pub const RECORD_HEADER_BYTES: usize = 5;
/// The first and the last record of every page of a tree, from byte 94 on. The offset of the record after the
/// first one is left 0.
pub(crate) const ENDS: [u8; 26] = *b"\x01\x00\x02\x00\x00infimum\x00\x01\x00\x0b\x00\x00supremum";

/// The most records that a slot of the directory may own, except the first.
const OWNED_MAX: u8 = 8;
/// The most records in a page, because each has a number in its heap.
const HEAP_RECORDS_MAX: usize = 1 << 13;

/// The kind of a record: three bits of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// A row, or an entry of a secondary index.
    Ordinary = 0,
    /// It leads to a page below.
    NodePointer = 1,
    /// A row that says how many fields it has, or the record that describes instant changes.
    Instant = 4,
}

/// A page of a tree. The numbers in its header are within bounds.
#[derive(Clone, Copy, Debug)]
pub struct IndexPage<'a> {
    /// All of it.
    pub bytes: &'a Page,
    /// Its number in the file.
    pub number: u32,
    /// Its level: 0 for leaves.
    pub level: u16,
    /// The number of its tree.
    pub index_id: u64,
    /// Where the free space after its records begins.
    pub heap_top: usize,
    /// Records in the heap, including free ones and the two at the ends.
    pub heap_records: u16,
    /// Records in the chain.
    pub records: u16,
    /// Bytes of its heap outside the records of the chain.
    pub garbage: usize,
    /// The first free record.
    pub free: usize,
    slots: usize,
}

/// The largest AUTO_INCREMENT value that a table has given, from the root of its clustered index
/// (PAGE_ROOT_AUTO_INC, which is where other pages have PAGE_MAX_TRX_ID).
#[must_use]
pub fn last_auto_increment_value(root: &Page) -> u64 {
    u64_at(root, LAST_COUNTER)
}

/// The header of a record.
#[derive(Clone, Copy, Debug)]
pub struct RecordHeader {
    /// Records owned by the slot that points to this one; 0 if none does.
    pub owned: u8,
    /// Whether it is deleted.
    pub deleted: bool,
    /// Whether it is marked as the least of its level.
    pub least: bool,
    /// Its number in the heap.
    pub heap_number: u16,
    /// Whether it says the version of the table that it was written for (MySQL 8.0.29 and later).
    pub versioned: bool,
    /// Whether it says how many fields it has (MySQL 8.0.12 to 8.0.28).
    pub counted: bool,
    status: u8,
    next: u16,
}

impl RecordHeader {
    /// Reads the header of the record at `origin`, which is at least 5.
    #[inline]
    #[must_use]
    pub fn at(page: &Page, origin: usize) -> RecordHeader {
        let [info, heap_high, heap_low, next_high, next_low] = page
            .get(origin.wrapping_sub(RECORD_HEADER_BYTES)..)
            .and_then(|bytes| bytes.first_chunk().copied())
            .unwrap_or_default();
        RecordHeader {
            owned: info & 15,
            deleted: info & 0x20 != 0,
            least: info & 0x10 != 0,
            heap_number: u16::from_be_bytes([heap_high, heap_low]) >> 3,
            versioned: info & 0x40 != 0,
            counted: info & 0x80 != 0,
            status: heap_low & 7,
            next: u16::from_be_bytes([next_high, next_low]),
        }
    }

    /// Whether it is not a row but describes instant changes.
    #[must_use]
    pub fn is_metadata(&self) -> bool {
        self.least && self.status == Status::Instant as u8
    }

    /// Its kind; none for the records at the ends of a page.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self.status {
            0 => Some(Status::Ordinary),
            1 => Some(Status::NodePointer),
            4 => Some(Status::Instant),
            _ => None,
        }
    }

    /// Where the next record is. The stored difference is modulo 64 KiB.
    #[inline]
    fn next(&self, origin: usize) -> usize {
        (origin + usize::from(self.next)) & 0xFFFF
    }
}

impl<'a> IndexPage<'a> {
    /// Reads the header of a page. `number` is where it is in the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not a page of a tree or its header is invalid; [`Error::Unsupported`]
    /// for ROW_FORMAT=REDUNDANT.
    pub fn parse(bytes: &'a Page, number: u32) -> Result<IndexPage<'a>, Error> {
        let kind = page::kind(bytes);
        let kinds: &[Kind] = match u64_at(bytes, DATA + 28) {
            SDI_TREE => &[Kind::SDI],
            _ => &[Kind::INDEX, Kind::INSTANT],
        };
        if !kinds.contains(&kind) {
            return Err(corrupt(number, 24, format!("a page of a tree has the type {}", kind.0)));
        }
        let field = |at: usize| u16_at(bytes, DATA + at);
        if field(4) & 0x8000 == 0 {
            return Err(Error::Unsupported("it has ROW_FORMAT=REDUNDANT".to_owned()));
        }
        let page = IndexPage {
            bytes,
            number,
            level: field(26),
            index_id: u64_at(bytes, DATA + 28),
            heap_top: usize::from(field(2)),
            heap_records: field(4) & 0x7FFF,
            records: field(16),
            garbage: usize::from(field(8)),
            free: usize::from(field(6)),
            slots: usize::from(field(0)),
        };
        let directory = (2..=TRAILER / 2).contains(&page.slots).then(|| TRAILER - 2 * page.slots);
        let Some(directory) = directory.filter(|&directory| directory >= HEAP) else {
            return Err(corrupt(number, DATA, format!("a directory of {} slots", page.slots)));
        };
        if !(HEAP..=directory).contains(&page.heap_top) {
            return Err(corrupt(number, DATA + 2, "its records run into its directory"));
        }
        let heap_fits = usize::from(page.heap_records) <= HEAP_RECORDS_MAX;
        if !heap_fits || page.heap_records < 2 || page.records > page.heap_records - 2 {
            return Err(corrupt(number, DATA + 4, "its numbers of records contradict each other"));
        }
        if page.garbage > page.heap_top - HEAP {
            return Err(corrupt(number, DATA + 8, "more bytes are free than there are"));
        }
        Ok(page)
    }

    /// The page before it on its level.
    #[must_use]
    pub fn previous(&self) -> u32 {
        page::previous(self.bytes)
    }

    /// The page after it on its level.
    #[must_use]
    pub fn next(&self) -> u32 {
        page::next(self.bytes)
    }

    /// Whether it has no neighbours, like a root.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.previous() == NO_PAGE && self.next() == NO_PAGE
    }

    /// The segment headers in a tree's root: of the leaves, and of the other pages. Each is a tablespace, a
    /// page and an offset in it.
    #[must_use]
    pub fn segments(&self) -> [(u32, u32, u16); 2] {
        [DATA + 36, DATA + 46]
            .map(|at| (u32_at(self.bytes, at), u32_at(self.bytes, at + 4), u16_at(self.bytes, at + 8)))
    }

    /// How many fields rows had before columns were added instantly; none if no columns were.
    #[must_use]
    pub fn instant_fields(&self) -> Option<u16> {
        (page::kind(self.bytes) == Kind::INSTANT).then(|| u16_at(self.bytes, DATA + 12) >> 3)
    }

    /// Follows the chain and collects the offsets of all records in order, without the two at the ends.
    /// Checks that the chain, the directory, the records owned by each slot and the numbers in the heap are
    /// consistent.
    ///
    /// # Errors
    /// [`Error::Corrupt`]
    pub fn chain(&self, origins: &mut Vec<u16>) -> Result<(), Error> {
        origins.clear();
        let bad = |at: usize, what: &str| Err(corrupt(self.number, at, what));
        let infimum = RecordHeader::at(self.bytes, INFIMUM);
        if (infimum.owned, infimum.heap_number, infimum.status) != (1, 0, 2) || self.slot(0) != INFIMUM {
            return bad(INFIMUM, "the first record of the page is not what it is in all pages");
        }
        let mut seen = [0_u64; HEAP_RECORDS_MAX / 64];
        let (mut slot, mut owned) = (1, 0);
        let mut origin = infimum.next(INFIMUM);
        while origin != SUPREMUM {
            // The last record's fields may have no byte.
            if origin < HEAP + RECORD_HEADER_BYTES || origin > self.heap_top {
                return bad(origin, "the chain of records leaves the page's heap");
            }
            if origins.len() == usize::from(self.records) {
                return bad(origin, "there are more records than the page counts");
            }
            let header = RecordHeader::at(self.bytes, origin);
            let heap_number = usize::from(header.heap_number);
            if heap_number < 2 || header.heap_number >= self.heap_records {
                return bad(origin, "a record's number in the heap is out of bounds");
            }
            let bit = 1 << (heap_number % 64);
            if seen[heap_number / 64] & bit != 0 {
                return bad(origin, "two records have one number in the heap");
            }
            seen[heap_number / 64] |= bit;
            owned += 1;
            if owned > OWNED_MAX {
                return bad(origin, "a slot of the directory owns more records than it may");
            }
            if header.owned != 0 {
                self.owns(slot, origin, header.owned, owned)?;
                (slot, owned) = (slot + 1, 0);
            }
            origins.push(u16::try_from(origin).unwrap_or(0));
            origin = header.next(origin);
        }
        let supremum = RecordHeader::at(self.bytes, SUPREMUM);
        if supremum.status != 3 || supremum.heap_number != 1 || slot + 1 != self.slots {
            return bad(SUPREMUM, "the last record of the page is not the last of its directory");
        }
        self.owns(slot, SUPREMUM, supremum.owned, owned + 1)?;
        if origins.len() != usize::from(self.records) {
            return bad(DATA + 16, "there are fewer records than the page counts");
        }
        if self.free_places().count() != usize::from(self.heap_records - 2 - self.records) {
            return bad(DATA + 6, "its list of free records is not as long as the page counts");
        }
        Ok(())
    }

    /// Checks that the slot points to the record, and that the record owns as many as came since the last
    /// slot.
    #[inline]
    fn owns(&self, slot: usize, origin: usize, owned: u8, counted: u8) -> Result<(), Error> {
        if slot >= self.slots || self.slot(slot) != origin {
            return Err(corrupt(self.number, origin, "a record is not where the directory has it"));
        }
        if owned != counted || owned > OWNED_MAX {
            let what = format!("a slot of the directory owns {counted} records and says {owned}");
            return Err(corrupt(self.number, origin, what));
        }
        Ok(())
    }

    /// Where a slot of the directory points to.
    fn slot(&self, slot: usize) -> usize {
        usize::from(u16_at(self.bytes, TRAILER - 2 * (slot + 1)))
    }

    /// Collects the offsets in the list of free records, as far as the list is valid.
    pub fn free_list(&self, origins: &mut Vec<u16>) {
        origins.clear();
        origins.extend(self.free_places().map(|origin| u16::try_from(origin).unwrap_or(0)));
    }

    fn free_places(&self) -> impl Iterator<Item = usize> {
        let is_record = |origin: &usize| (HEAP + RECORD_HEADER_BYTES..=self.heap_top).contains(origin);
        let follow = move |&origin: &usize| {
            let header = RecordHeader::at(self.bytes, origin);
            (header.next != 0).then(|| header.next(origin)).filter(is_record)
        };
        // A circle ends too.
        let first = Some(self.free).filter(is_record);
        std::iter::successors(first, follow).take(usize::from(self.heap_records))
    }
}
