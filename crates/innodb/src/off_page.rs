//! Off-page values: values, or their ends, that are stored in BLOB pages.
//!
//! Facts: `btr0cur.h` and `btr0cur.cc` of MariaDB's source.

use crate::page::{self, DATA, Kind, NO_PAGE, Pages, TRAILER, corrupt, u32_at};

/// Bytes that say where the rest of a value is.
pub const REFERENCE_BYTES: usize = 20;
/// Offset in a page where the bytes of a value begin: after their length and the next page's number.
pub(crate) const PART: usize = DATA + 8;
/// The most bytes of a value in a page.
pub(crate) const PART_BYTES_MAX: usize = TRAILER - PART;

/// Where the off-page part of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The tablespace.
    pub space_id: u32,
    /// The first page.
    pub page: u32,
    /// The offset in that page.
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
}
