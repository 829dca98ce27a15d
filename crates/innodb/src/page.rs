//! Pages: their common header and trailer, and their checksums.
//!
//! Facts: `fil0fil.h` and `buf0checksum.cc` of MariaDB's source.

use crc_fast::CrcAlgorithm::Crc32Iscsi;

use crate::Error;

/// Bytes of a page; other page sizes are refused.
pub const PAGE_BYTES: usize = 16_384;

/// Stands for no page: the end of a chain.
pub const NO_PAGE: u32 = u32::MAX;

/// End of the header that all pages have.
pub const DATA: usize = 38;

/// Start of the trailer that all pages have.
pub const TRAILER: usize = PAGE_BYTES - 8;

/// Where page 0 has the properties of its tablespace, as bits.
pub(crate) const FLAGS: usize = DATA + 16;

/// Replaces the checksum when checksums are switched off.
pub(crate) const NO_CHECKSUM: u32 = 0xDEAD_BEEF;

/// The bytes of a page.
pub type Page = [u8; PAGE_BYTES];

/// Where pages come from: a file, a backup, memory.
pub trait Pages {
    /// What can go wrong, including invalid bytes.
    type Error: From<Error>;

    /// A page of the tablespace whose checksum and number were checked, see [`Sums::check`].
    ///
    /// # Errors
    /// Errors of the check; when the page does not exist or can't be read.
    fn page(&mut self, number: u32) -> Result<&Page, Self::Error>;

    /// How many pages there are; forged numbers are limited by this.
    fn count(&self) -> u32;
}

/// The purpose of a page, as a number in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u16);

impl Kind {
    /// Allocated, but still empty.
    pub const ALLOCATED: Kind = Kind(0);
    /// How full pages are, and which have changes waiting in the change buffer.
    pub const BITMAP: Kind = Kind(5);
    /// Segments.
    pub const INODE: Kind = Kind(3);
    /// The transaction system of a server.
    pub const TRX_SYS: Kind = Kind(7);
    /// The first page of a tablespace.
    pub const FSP_HDR: Kind = Kind(8);
    /// Extent descriptors.
    pub const XDES: Kind = Kind(9);
    /// A part of a value that is stored outside of its row.
    pub const BLOB: Kind = Kind(10);
    /// The root of a clustered index after an instant ALTER TABLE.
    pub const INSTANT: Kind = Kind(18);
    /// The same number in MySQL: a part of a definition that does not fit into its record.
    pub const SDI_BLOB: Kind = Kind(18);
    /// MySQL's list of rollback segments in an undo tablespace.
    pub const ROLLBACK_SEGMENTS: Kind = Kind(21);
    /// MySQL's part of a value that is stored outside of its row, behind the first such page.
    pub const LOB_DATA: Kind = Kind(23);
    /// The first such page, with the list of all parts.
    pub const LOB_FIRST: Kind = Kind(24);
    /// The list's pages behind the first one.
    pub const LOB_INDEX: Kind = Kind(22);
    /// A page of MySQL's tree of definitions.
    pub const SDI: Kind = Kind(17_853);
    /// A page of a spatial index.
    pub const RTREE: Kind = Kind(17_854);
    /// A page of a tree.
    pub const INDEX: Kind = Kind(17_855);
}

/// An error at an offset in a page.
pub(crate) fn corrupt(page: u32, at: usize, what: impl Into<String>) -> Error {
    Error::Corrupt { what: what.into(), place: format!("page {page}, byte {at}") }
}

/// Two bytes, big-endian. Offsets beyond the end read as zeros; callers check theirs.
#[inline]
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

/// Four bytes, big-endian; see [`u16_at`].
#[inline]
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

/// Eight bytes, big-endian; see [`u16_at`].
#[inline]
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}

#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// The number in the page's header.
#[must_use]
pub fn number(page: &Page) -> u32 {
    u32_at(page, 4)
}

/// The page before it in its chain.
#[must_use]
pub fn previous(page: &Page) -> u32 {
    u32_at(page, 8)
}

/// The page after it in its chain.
#[must_use]
pub fn next(page: &Page) -> u32 {
    u32_at(page, 12)
}

/// Its purpose.
#[must_use]
pub fn kind(page: &[u8]) -> Kind {
    Kind(u16_at(page, 24))
}

/// The tablespace in the page's header.
#[must_use]
pub fn space_id(page: &Page) -> u32 {
    u32_at(page, 34)
}

/// The kind of checksums in a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// One CRC-32C of everything before it: `innodb_checksum_algorithm=full_crc32`, MariaDB 10.5 and later.
    Full,
    /// CRC-32C of two ranges, or the checksum of MySQL 5.6; in the header and in the trailer.
    Old,
}

impl Sums {
    /// Checks that a page is undamaged, and that it is the wanted one.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for an encrypted page.
    pub fn check(self, page: &Page, wanted: u32) -> Result<(), Error> {
        match self {
            Sums::Full if u32_at(page, 0) != 0 && self.is_whole(page) => {
                return Err(Error::Unsupported(format!(
                    "page {wanted} is encrypted; only the server can read it"
                )));
            }
            Sums::Full | Sums::Old if self.is_whole(page) => {}
            // Their checksum is that of the page which they are made of.
            Sums::Old if [14, 16].contains(&kind(page).0) => {
                return Err(Error::unsupported("its pages are compressed (COMPRESSION)"));
            }
            Sums::Old if [15, 17].contains(&kind(page).0) => {
                return Err(Error::unsupported("it is encrypted; only the server can read it"));
            }
            _ if page.iter().all(|&byte| byte == 0) => {
                return Err(corrupt(wanted, 0, "the page is empty, though it is in use"));
            }
            _ => return Err(corrupt(wanted, 0, "wrong checksum: its bytes are not those that were written")),
        }
        if number(page) != wanted {
            let there = number(page);
            return Err(corrupt(wanted, 4, format!("page {there} is where page {wanted} should be")));
        }
        Ok(())
    }

    /// Whether the checksum matches. A page may have any length.
    pub(crate) fn is_whole(self, page: &[u8]) -> bool {
        match self {
            Sums::Full => {
                page.split_last_chunk().is_some_and(|(rest, sum)| u32::from_be_bytes(*sum) == crc(rest))
            }
            Sums::Old => {
                let Some((covered, [b0, b1, b2, b3, end @ ..])) = page.split_last_chunk::<8>() else {
                    return false;
                };
                let (front, back) = (u32_at(page, 0), u32::from_be_bytes([*b0, *b1, *b2, *b3]));
                // The low half of the LSN is stored twice.
                if page.get(20..24) != Some(end) {
                    return false;
                }
                if front == NO_CHECKSUM && back == NO_CHECKSUM {
                    return true;
                }
                let part = |range| covered.get(range).unwrap_or_default();
                // MySQL 5.6 may have its checksum only in the header, and the LSN's high half in the trailer.
                let (head, rest) = (part(4..26), part(DATA..covered.len()));
                let crc = crc(head) ^ crc(rest);
                front == crc && back == crc || {
                    let old = fold(part(0..26));
                    let new = fold(head).wrapping_add(fold(rest));
                    front == new && (back == old || back == u32_at(page, 16))
                }
            }
        }
    }
}

/// CRC-32C.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(Crc32Iscsi, bytes)).unwrap_or(0)
}

/// InnoDB's own checksum, `ut_fold_binary()`.
fn fold(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0_u32, |sum, &byte| {
        let byte = u32::from(byte);
        let mixed = ((sum ^ byte ^ 1_653_893_711) << 8).wrapping_add(sum);
        (mixed ^ 1_463_735_687).wrapping_add(byte)
    })
}
