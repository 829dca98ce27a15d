//! Off-page values: values, or their ends, that are stored in pages of their own.
//!
//! Facts: `btr0cur.h` and `btr0cur.cc` of MariaDB's source: each page leads to the next one. `lob0first.h`,
//! `lob0pages.h` and `lob0index.h` of MySQL's: the first page has a list of all parts. A part that is changed
//! in place stays in the list behind its new version.

use crate::page::{self, DATA, Kind, NO_PAGE, PAGE_BYTES, Page, Pages, TRAILER, corrupt, u16_at, u32_at};

/// Bytes that say where the rest of a value is.
pub const REFERENCE_BYTES: usize = 20;
/// Offset in a page where the bytes of a value begin: after their length and the next page's number.
pub(crate) const PART: usize = DATA + 8;
/// The most bytes of a value in a page.
pub(crate) const PART_BYTES_MAX: usize = TRAILER - PART;

/// In the first page of a value of MySQL 8: the first entry of the list of its parts, the room for entries,
/// and the part that is in this page.
const PARTS: usize = DATA + 26;
const ENTRIES: usize = DATA + 58;
const ENTRY_BYTES: usize = 60;
/// More entries than a page has room for.
const ENTRIES_MAX: usize = PAGE_BYTES / ENTRY_BYTES;
const FIRST_PART: usize = ENTRIES + 10 * ENTRY_BYTES;
/// In any other: the part.
const LATER_PART: usize = DATA + 11;
/// In an entry: the entry after it, older versions of it, its page, its length, its version.
const NEXT_ENTRY: usize = 6;
const VERSIONS: usize = 12;
const ENTRY_PAGE: usize = 48;
const ENTRY_LEN: usize = 52;
const ENTRY_VERSION: usize = 56;

/// Where the off-page part of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The tablespace.
    pub space_id: u32,
    /// The first page.
    pub page: u32,
    /// The offset in that page; for a value of MySQL 8 its version.
    pub at: u32,
    /// Its length in bytes.
    pub len: u32,
}

impl Reference {
    /// Reads the end of the part of a value that is in the row.
    #[must_use]
    pub fn parse(bytes: &[u8; REFERENCE_BYTES]) -> Reference {
        // The upper half of the length has flags that say who may free the pages.
        Reference {
            space_id: u32_at(bytes, 0),
            page: u32_at(bytes, 4),
            at: u32_at(bytes, 8),
            len: u32_at(bytes, 16),
        }
    }

    /// Appends the bytes to `out`.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`], and errors of the pages. The bytes read so far are then appended.
    pub fn read<P: Pages>(&self, space_id: u32, pages: &mut P, out: &mut Vec<u8>) -> Result<(), P::Error> {
        if self.space_id != space_id {
            return Err(wrong(self.page, DATA, "the rest of a value is said to be where it can't be"));
        }
        if u64::from(self.len) > u64::from(pages.count()) * PART_BYTES_MAX as u64 {
            return Err(wrong(self.page, PART, "a value is longer than all pages together"));
        }
        if self.len > 0 && self.page != NO_PAGE {
            let kind = page::kind(pages.page(self.page)?);
            if kind == Kind::LOB_FIRST {
                return self.read_listed(pages, out);
            }
        }
        self.read_chained(pages, out)
    }

    fn read_chained<P: Pages>(&self, pages: &mut P, out: &mut Vec<u8>) -> Result<(), P::Error> {
        if usize::try_from(self.at) != Ok(DATA) {
            return Err(wrong(self.page, DATA, "the rest of a value is said to be where it can't be"));
        }
        let (mut number, mut left) = (self.page, self.len as usize);
        while left > 0 {
            if number == NO_PAGE {
                return Err(wrong(self.page, PART, "the pages of a value end before it"));
            }
            let page = pages.page(number)?;
            if ![Kind::BLOB, Kind::SDI_BLOB].contains(&page::kind(page)) {
                return Err(wrong(number, 24, "a page of a value is something else"));
            }
            let len = u32_at(page, DATA) as usize;
            // Each page must contain something, so a circle ends.
            if len == 0 || len > left || len > PART_BYTES_MAX {
                return Err(wrong(number, DATA, "a page of a value has more or fewer bytes than it can"));
            }
            out.extend_from_slice(&page[PART..PART + len]);
            left -= len;
            number = u32_at(page, DATA + 4);
        }
        Ok(())
    }

    /// Reads a value of MySQL 8 and later.
    fn read_listed<P: Pages>(&self, pages: &mut P, out: &mut Vec<u8>) -> Result<(), P::Error> {
        let mut left = self.len as usize;
        let mut next = Address::at(pages.page(self.page)?, PARTS + 4);
        // Old versions that are passed: each is an entry of its own, so a circle ends.
        let mut older_max = pages.count() as usize * ENTRIES_MAX;
        while left > 0 {
            let newest = self.entry(next, pages)?;
            let (mut entry, mut older) = (newest, newest.versions);
            while entry.version > self.at {
                let Some(fewer) = older_max.checked_sub(1) else {
                    return Err(wrong(self.page, PARTS, "the versions of a value lead in a circle"));
                };
                older_max = fewer;
                entry = self.entry(older, pages)?;
                older = entry.next;
            }
            // Each part must contain something, so a circle ends.
            if entry.len == 0 || entry.len > left {
                return Err(wrong(self.page, PARTS, "a part of a value has more or fewer bytes than it can"));
            }
            let page = pages.page(entry.page)?;
            let (kind, from) = match entry.page == self.page {
                true => (Kind::LOB_FIRST, FIRST_PART),
                false => (Kind::LOB_DATA, LATER_PART),
            };
            if page::kind(page) != kind {
                return Err(wrong(entry.page, 24, "a page of a value is something else"));
            }
            let part = page.get(from..from + entry.len).filter(|_| from + entry.len <= TRAILER);
            out.extend_from_slice(
                part.ok_or_else(|| wrong(entry.page, from, "a part runs out of its page"))?,
            );
            left -= entry.len;
            next = newest.next;
        }
        Ok(())
    }

    fn entry<P: Pages>(&self, at: Address, pages: &mut P) -> Result<Entry, P::Error> {
        if at.page == NO_PAGE {
            return Err(wrong(self.page, PARTS, "the list of a value's parts ends before it"));
        }
        let page = pages.page(at.page)?;
        let offset = usize::from(at.at);
        let fits = offset >= DATA && offset + ENTRY_BYTES <= TRAILER;
        if !fits || ![Kind::LOB_FIRST, Kind::LOB_INDEX].contains(&page::kind(page)) {
            return Err(wrong(at.page, offset, "an entry of a value's parts is where it can't be"));
        }
        Ok(Entry {
            next: Address::at(page, offset + NEXT_ENTRY),
            versions: Address::at(page, offset + VERSIONS + 4),
            page: u32_at(page, offset + ENTRY_PAGE),
            len: usize::from(u16_at(page, offset + ENTRY_LEN)).min(PAGE_BYTES),
            version: u32_at(page, offset + ENTRY_VERSION),
        })
    }
}

/// A place in a list: a page, and an offset in it.
#[derive(Clone, Copy)]
struct Address {
    page: u32,
    at: u16,
}

impl Address {
    fn at(page: &Page, at: usize) -> Address {
        Address { page: u32_at(page, at), at: u16_at(page, at + 4) }
    }
}

/// A part of a value of MySQL 8.
#[derive(Clone, Copy)]
struct Entry {
    next: Address,
    /// The newest one of what it was before.
    versions: Address,
    page: u32,
    len: usize,
    version: u32,
}

fn wrong<E: From<crate::Error>>(page: u32, at: usize, what: &str) -> E {
    E::from(corrupt(page, at, what))
}
