//! Values, or their ends, that are not in their row but in pages of their own.
//!
//! Facts: `btr0cur.h` and `btr0cur.cc` of MariaDB's source.

use crate::page::{self, DATA, Kind, NO_PAGE, Pages, TRAILER, corrupt, u32_at};

/// Bytes that say where the rest of a value is.
pub const REFERENCE_BYTES: usize = 20;
/// Where the bytes of a value begin in a page: behind how many there are, and the next page's number.
pub(crate) const PART: usize = DATA + 8;
/// Bytes of a value that a page can have.
pub(crate) const PART_BYTES_MAX: usize = TRAILER - PART;

/// Where the rest of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The tablespace.
    pub space_id: u32,
    /// The first page.
    pub page: u32,
    /// Where in that page it begins.
    pub at: u32,
    /// How many bytes it has.
    pub len: u32,
}

impl Reference {
    /// Reads the end of what a row has of a value.
    #[must_use]
    pub fn parse(bytes: &[u8; REFERENCE_BYTES]) -> Reference {
        // The upper half of the length has flags: who may free the pages.
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
    /// [`crate::Error::Corrupt`], and those of the pages. What was read so far is appended then.
    pub fn read<P: Pages>(&self, space_id: u32, pages: &mut P, out: &mut Vec<u8>) -> Result<(), P::Error> {
        let wrong = |page, at, what: &str| P::Error::from(corrupt(page, at, what));
        if self.space_id != space_id || usize::try_from(self.at) != Ok(DATA) {
            return Err(wrong(self.page, DATA, "the rest of a value is said to be where it can't be"));
        }
        if u64::from(self.len) > u64::from(pages.count()) * PART_BYTES_MAX as u64 {
            return Err(wrong(self.page, PART, "a value is longer than all pages together"));
        }
        let (mut number, mut left) = (self.page, self.len as usize);
        while left > 0 {
            if number == NO_PAGE {
                return Err(wrong(self.page, PART, "the pages of a value end before it"));
            }
            let page = pages.page(number)?;
            if page::kind(page) != Kind::BLOB {
                return Err(wrong(number, 24, "a page of a value is something else"));
            }
            let len = u32_at(page, DATA) as usize;
            // Each page has something, so a circle comes to an end.
            if len == 0 || len > left || len > PART_BYTES_MAX {
                return Err(wrong(number, DATA, "a page of a value has more or fewer bytes than it can"));
            }
            out.extend_from_slice(&page[PART..PART + len]);
            left -= len;
            number = u32_at(page, DATA + 4);
        }
        Ok(())
    }
}
