//! A tablespace: its header, which pages are free, and which segment owns which page.
//!
//! Facts: `fsp0types.h` and `fsp0fsp.h` of MariaDB's source. An extent is 64 pages, 1 MiB.

use crate::Error;
use crate::page::{
    self, DATA, FLAGS, Kind, NO_PAGE, PAGE_BYTES, Page, Pages, Sums, corrupt, u16_at, u32_at, u64_at,
};

/// Pages of an extent.
pub const EXTENT_PAGES: u32 = 64;
/// Pages that one descriptor page describes.
pub(crate) const DESCRIBED_PAGES: u32 = 16_384;
/// Where descriptors begin in such a page, and the bytes of one.
pub(crate) const DESCRIPTORS: usize = 150;
pub(crate) const DESCRIPTOR_BYTES: usize = 40;
/// Where segments begin in an inode page, the bytes of one, and how many a page has.
pub(crate) const SEGMENTS: usize = 50;
pub(crate) const SEGMENT_BYTES: usize = 192;
pub(crate) const SEGMENTS_PER_PAGE: usize = 85;
/// A magic number in every segment that is in use.
pub(crate) const SEGMENT_MAGIC: u32 = 0x05D6_69D2;
/// Single pages that a segment may own before it gets whole extents.
pub(crate) const FRAGMENTS: usize = 32;

/// The facts on the first page of a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its number.
    pub id: u32,
    /// Pages in it.
    pub pages: u32,
    /// Pages from here on were never used, and are empty.
    pub free_limit: u32,
    /// Its properties, as bits.
    pub flags: u32,
    /// The kind of its checksums.
    pub sums: Sums,
}

impl Space {
    /// Reads and checks page 0.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for page sizes other than 16 KiB, and for page-compressed
    /// or encrypted tables.
    pub fn parse(first: &Page) -> Result<Space, Error> {
        let flags = u32_at(first, FLAGS);
        let sums = if flags & 0x10 != 0 { Sums::Full } else { Sums::Old };
        let space = Space {
            id: u32_at(first, DATA),
            pages: u32_at(first, DATA + 8),
            free_limit: u32_at(first, DATA + 12),
            flags,
            sums,
        };
        if first.iter().all(|&byte| byte == 0) {
            return Err(corrupt(0, 0, "the file begins with zeros: it is no tablespace"));
        }
        // Before the checksum, because a page of another size has its trailer elsewhere.
        space.supported()?;
        sums.check(first, 0)?;
        if page::kind(first) != Kind::FSP_HDR {
            return Err(corrupt(0, 24, "the file does not begin as a tablespace does"));
        }
        if page::space_id(first) != space.id {
            return Err(corrupt(0, DATA, "two numbers of the tablespace differ"));
        }
        Ok(space)
    }

    /// Whether this crate can read it.
    fn supported(&self) -> Result<(), Error> {
        let size = match self.sums {
            Sums::Full => self.flags & 15,
            Sums::Old => self.flags >> 6 & 15,
        };
        if !(size == 5 || size == 0 && self.sums == Sums::Old) {
            return Err(Error::Unsupported("its pages do not have 16 KiB".to_owned()));
        }
        let compressed = match self.sums {
            Sums::Full => self.flags >> 5 & 7 != 0,
            // ROW_FORMAT=COMPRESSED, and PAGE_COMPRESSED.
            Sums::Old => self.flags >> 1 & 15 != 0 || self.flags >> 16 & 1 != 0,
        };
        if compressed {
            return Err(Error::Unsupported("its pages are compressed".to_owned()));
        }
        // MySQL's; MariaDB leaves these bits free.
        if self.sums == Sums::Old && self.flags >> 13 & 1 != 0 {
            return Err(Error::unsupported("it is encrypted; only the server can read it"));
        }
        Ok(())
    }
}

/// Where page 0 of a tablespace of MySQL 8 and later says where its definitions are: behind the descriptors
/// of its extents and what a key encrypts.
const SDI: usize = DESCRIPTORS + DESCRIPTOR_BYTES * (DESCRIBED_PAGES / EXTENT_PAGES) as usize + 115;
/// The version of the definitions; the root of their tree follows it.
const SDI_VERSION: u32 = 1;

/// The root of the tree of definitions (SDI), which every tablespace of MySQL 8 and later has. MariaDB's have
/// none. `first` is page 0.
#[must_use]
pub fn sdi_root(first: &Page) -> Option<u32> {
    let (flags, root) = (u32_at(first, FLAGS), u32_at(first, SDI + 4));
    let has = flags & 0x10 == 0 && flags >> 14 & 1 != 0 && u32_at(first, SDI) == SDI_VERSION;
    (has && root != 0 && root != NO_PAGE).then_some(root)
}

/// The use of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Free, or its descriptor was never written.
    Free,
    /// Single pages of several segments; some pages may be free.
    Fragments,
    /// It belongs to one segment.
    Segment(u64),
}

/// An extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its use.
    pub state: ExtentState,
    /// Which of its pages are free: a bit for each, the lowest for the first page.
    pub free: u64,
}

/// The extents of a tablespace in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents(Vec<Extent>);

impl Extents {
    /// Reads all descriptors.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and errors of the pages.
    pub fn read<P: Pages>(space: &Space, pages: &mut P) -> Result<Extents, P::Error> {
        let mut extents = Vec::new();
        let mut first = 0_u32;
        while first < space.free_limit {
            let page = pages.page(first)?;
            if ![Kind::FSP_HDR, Kind::XDES].contains(&page::kind(page)) {
                return Err(corrupt(first, 24, "a page of descriptors of extents is something else").into());
            }
            let described = (space.free_limit - first).min(DESCRIBED_PAGES).div_ceil(EXTENT_PAGES);
            for extent in 0..described as usize {
                extents.push(descriptor(page, first, DESCRIPTORS + extent * DESCRIPTOR_BYTES)?);
            }
            let Some(more) = first.checked_add(DESCRIBED_PAGES) else { break };
            first = more;
        }
        Ok(Extents(extents))
    }

    /// The extents in order.
    #[must_use]
    pub fn all(&self) -> &[Extent] {
        &self.0
    }

    /// Whether a page is free, or was never used.
    #[must_use]
    pub fn is_free(&self, number: u32) -> bool {
        let extent = self.0.get((number / EXTENT_PAGES) as usize);
        extent.is_none_or(|extent| extent.free >> (number % EXTENT_PAGES) & 1 != 0)
    }
}

fn descriptor(page: &Page, number: u32, at: usize) -> Result<Extent, Error> {
    // Two bits for each page; the lower one says that it is free.
    let mut free = 0;
    for (place, byte) in page[at + 24..at + 40].iter().enumerate() {
        for pair in 0..4 {
            free |= u64::from(byte >> (2 * pair) & 1) << (place * 4 + pair);
        }
    }
    let state = match u32_at(page, at + 20) {
        // The descriptor was never written.
        0 => return Ok(Extent { state: ExtentState::Free, free: u64::MAX }),
        1 => ExtentState::Free,
        2 | 3 => ExtentState::Fragments,
        // A segment that is being freed.
        4 | 5 => ExtentState::Segment(u64_at(page, at)),
        state => return Err(corrupt(number, at + 20, format!("an extent has the state {state}"))),
    };
    Ok(Extent { state, free })
}

/// A segment: the pages of a tree's leaves, or of the rest of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number in the tablespace.
    pub id: u64,
    /// Single pages that it owns.
    pub fragments: Vec<u32>,
    /// Pages used in extents that are not full.
    pub not_full_used: u32,
}

/// Reads all segments.
///
/// # Errors
/// [`Error::Corrupt`], and errors of the pages.
pub fn segments<P: Pages>(space: &Space, pages: &mut P) -> Result<Vec<Segment>, P::Error> {
    let mut found = Vec::new();
    // Inode pages that are full, and those that are not.
    for list in [DATA + 80, DATA + 96] {
        let most = pages.count();
        let first = pages.page(0)?;
        let (count, mut number, mut at) =
            (u32_at(first, list), u32_at(first, list + 4), u16_at(first, list + 8));
        if count > most.min(space.pages) {
            return Err(corrupt(0, list, "more pages of segments than pages").into());
        }
        for _ in 0..count {
            if number == NO_PAGE || usize::from(at) != DATA {
                return Err(corrupt(0, list, "the list of pages of segments is torn").into());
            }
            let page = pages.page(number)?;
            if page::kind(page) != Kind::INODE {
                return Err(corrupt(number, 24, "a page of segments is something else").into());
            }
            for place in (0..SEGMENTS_PER_PAGE).map(|slot| SEGMENTS + slot * SEGMENT_BYTES) {
                found.extend(segment(page, number, place)?);
            }
            (number, at) = (u32_at(page, DATA + 6), u16_at(page, DATA + 10));
        }
    }
    Ok(found)
}

fn segment(page: &Page, number: u32, at: usize) -> Result<Option<Segment>, Error> {
    let id = u64_at(page, at);
    if id == 0 {
        return Ok(None);
    }
    debug_assert!(at + SEGMENT_BYTES <= PAGE_BYTES, "a page has only so many");
    if u32_at(page, at + 60) != SEGMENT_MAGIC {
        return Err(corrupt(number, at + 60, format!("segment {id} is not marked as one")));
    }
    let slots = (0..FRAGMENTS).map(|slot| u32_at(page, at + 64 + 4 * slot));
    Ok(Some(Segment {
        id,
        fragments: slots.filter(|&page| page != NO_PAGE).collect(),
        not_full_used: u32_at(page, at + 8),
    }))
}
