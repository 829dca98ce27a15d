//! Allocates pages: extents, segments, and the pages that describe them.
//!
//! Facts: `fsp0fsp.h` and `fsp0fsp.cc` of MariaDB's source. As there, a segment gets its first 32 pages one
//! by one from extents that segments share, and whole extents after that.

use super::Output;
use super::page_builder::put;
use crate::Error;
use crate::page::{self, DATA, NO_PAGE, PAGE_BYTES, Page};
use crate::space::{
    self, DESCRIBED_PAGES, DESCRIPTOR_BYTES, DESCRIPTORS, EXTENT_PAGES, Extents, FRAGMENTS, SEGMENT_BYTES,
    SEGMENT_MAGIC, SEGMENTS, SEGMENTS_PER_PAGE, Space,
};

/// Where the header of the tablespace begins in page 0.
pub(super) const HEADER: usize = DATA;
/// The page with the segments.
const SEGMENTS_PAGE: u32 = 2;
/// States of extents.
const SHARED: u32 = 2;
const SHARED_FULL: u32 = 3;
const OWN: u32 = 4;
/// Extents that one page of descriptors describes.
const DESCRIBED_EXTENTS: u32 = DESCRIBED_PAGES / EXTENT_PAGES;

/// One of a tree's two segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The root, and pages between it and the leaves.
    Inner,
    /// Leaves and off-page values.
    Leaf,
}

/// An extent: the segment that owns it, none if it is shared; a bit for each page in use.
#[derive(Debug)]
struct Extent {
    segment: Option<usize>,
    used: u64,
}

/// Pages one by one, and extents.
#[derive(Debug, Default)]
struct Segment {
    fragments: Vec<u32>,
    extents: Vec<u32>,
}

/// The page allocator: all pages of the file, and who owns them.
#[derive(Debug)]
pub(super) struct PageAllocator {
    extents: Vec<Extent>,
    /// Two for each tree: its inner pages and its leaves, in the order in which the server makes them.
    segments: Vec<Segment>,
    /// Shared extents, and how many of them, from the first, are full.
    shared: Vec<u32>,
    full: usize,
}

impl PageAllocator {
    /// A file with these roots.
    pub(super) fn new(roots: &[u32]) -> Result<PageAllocator, Error> {
        if roots.len() > SEGMENTS_PER_PAGE / 2 {
            return Err(Error::unsupported(format!("a table with {} indexes is not written", roots.len())));
        }
        let mut allocator =
            PageAllocator { extents: Vec::new(), segments: Vec::new(), shared: Vec::new(), full: 0 };
        allocator.extent(None)?;
        for &root in roots {
            // The first page, those of the change buffer and of segments are the first three.
            let first = allocator.extents.first_mut().filter(|_| (3..EXTENT_PAGES).contains(&root));
            let Some(first) = first.filter(|first| first.used >> root & 1 == 0) else {
                return Err(Error::unsupported(format!("a root on page {root} is not written")));
            };
            first.used |= 1 << root;
            allocator.segments.push(Segment { fragments: vec![root], extents: Vec::new() });
            allocator.segments.push(Segment::default());
        }
        Ok(allocator)
    }

    /// The allocation that a reader found: the extents, and the segments by id, beginning with 1.
    fn from_descriptors(extents: &Extents, segments: &[space::Segment]) -> PageAllocator {
        let mut allocator =
            PageAllocator { extents: Vec::new(), segments: Vec::new(), shared: Vec::new(), full: 0 };
        for segment in segments {
            allocator.segments.push(Segment { fragments: segment.fragments.clone(), extents: Vec::new() });
        }
        for (number, extent) in (0..).zip(extents.all()) {
            let segment = match extent.state {
                space::ExtentState::Segment(id) => usize::try_from(id).ok().and_then(|id| id.checked_sub(1)),
                _ => None,
            };
            allocator.extents.push(Extent { segment, used: !extent.free });
            match segment.and_then(|segment| allocator.segments.get_mut(segment)) {
                Some(segment) => segment.extents.push(number),
                None => allocator.shared.push(number),
            }
        }
        allocator
    }

    /// Allocates a page for a segment of a tree.
    pub(super) fn allocate(&mut self, tree: usize, kind: Kind) -> Result<u32, Error> {
        let number = 2 * tree + usize::from(kind == Kind::Leaf);
        let Some(segment) = self.segments.get(number) else {
            return Err(Error::unsupported("a page for a tree that there is not"));
        };
        if segment.fragments.len() < FRAGMENTS {
            let page = self.fragment()?;
            self.segments[number].fragments.push(page);
            return Ok(page);
        }
        let last = segment.extents.last().copied();
        if let Some(page) = last.and_then(|extent| self.free_page(extent)) {
            return Ok(page);
        }
        let extent = self.extent(Some(number))?;
        self.segments[number].extents.push(extent);
        self.free_page(extent).ok_or_else(too_large)
    }

    /// Allocates a page of the shared extents.
    fn fragment(&mut self) -> Result<u32, Error> {
        while let Some(&extent) = self.shared.get(self.full) {
            if let Some(page) = self.free_page(extent) {
                return Ok(page);
            }
            self.full += 1;
        }
        let extent = self.extent(None)?;
        self.free_page(extent).ok_or_else(too_large)
    }

    /// Takes the first free page of an extent.
    fn free_page(&mut self, number: u32) -> Option<u32> {
        let extent = self.extents.get_mut(number as usize)?;
        let place = extent.used.trailing_ones();
        if place == EXTENT_PAGES {
            return None;
        }
        extent.used |= 1 << place;
        Some(number * EXTENT_PAGES + place)
    }

    /// Allocates the next extent, for a segment or to be shared. An extent that begins with a descriptor page
    /// is always shared.
    fn extent(&mut self, segment: Option<usize>) -> Result<u32, Error> {
        loop {
            let number = extent_number(self.extents.len())?;
            let used = match number {
                0 => 0b111,
                _ if number.is_multiple_of(DESCRIBED_EXTENTS) => 0b11,
                _ => 0,
            };
            let segment = segment.filter(|_| used == 0);
            self.extents.push(Extent { segment, used });
            if segment.is_none() {
                self.shared.push(number);
            }
            if used == 0 || number == 0 {
                return Ok(number);
            }
        }
    }

    /// Where a tree's segment is described: page and byte.
    pub(super) fn segment_place(&self, tree: usize, kind: Kind) -> [u8; 6] {
        let at = SEGMENTS + SEGMENT_BYTES * (2 * tree + usize::from(kind == Kind::Leaf));
        let mut place = [0; 6];
        place[..4].copy_from_slice(&SEGMENTS_PAGE.to_be_bytes());
        place[4..].copy_from_slice(&u16::try_from(at).unwrap_or(0).to_be_bytes());
        place
    }

    /// Gives the pages that describe the others, and returns the number of pages of the file.
    pub(super) fn finish<E: From<Error>>(&self, flags: u32, output: &mut Output<'_, E>) -> Result<u32, E> {
        let count = u32::try_from(self.extents.len()).unwrap_or(0);
        // A small file grows page by page in a server, too.
        let (pages, limit) = match self.extents.as_slice() {
            [only] => (EXTENT_PAGES - only.used.leading_zeros(), EXTENT_PAGES),
            _ => (count * EXTENT_PAGES, count * EXTENT_PAGES),
        };
        let mut links = vec![[NO_PAGE; 2]; self.extents.len()];
        let is_full = |extent: &u32| self.extents.get(*extent as usize).is_some_and(|it| it.used == u64::MAX);
        let lists = |extents: &[u32]| extents.iter().copied().partition::<Vec<u32>, _>(is_full);
        let (full, open) = lists(&self.shared);
        let used_in = |open: &[u32]| -> u32 {
            open.iter()
                .filter_map(|&extent| self.extents.get(extent as usize))
                .map(|it| it.used.count_ones())
                .sum()
        };
        let mut segments = [0; PAGE_BYTES];
        put(&mut segments, 24, &page::Kind::INODE.0.to_be_bytes());
        put(&mut segments, DATA, &list_node([NO_PAGE; 2]));
        for (number, segment) in self.segments.iter().enumerate() {
            let at = SEGMENTS + SEGMENT_BYTES * number;
            let (full, open) = lists(&segment.extents);
            put(&mut segments, at, &(number as u64 + 1).to_be_bytes());
            put(&mut segments, at + 8, &used_in(&open).to_be_bytes());
            put(&mut segments, at + 12, &list(&[], &mut links));
            put(&mut segments, at + 28, &list(&open, &mut links));
            put(&mut segments, at + 44, &list(&full, &mut links));
            put(&mut segments, at + 60, &SEGMENT_MAGIC.to_be_bytes());
            for slot in 0..FRAGMENTS {
                let page = segment.fragments.get(slot).copied().unwrap_or(NO_PAGE);
                put(&mut segments, at + 64 + 4 * slot, &page.to_be_bytes());
            }
        }
        let mut head = [0; 112];
        for (at, number) in [(0, output.space_id), (8, pages), (12, limit), (16, flags), (20, used_in(&open))]
        {
            head[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        for (at, extents) in [(24, &[] as &[u32]), (40, &open), (56, &full)] {
            head[at..at + 16].copy_from_slice(&list(extents, &mut links));
        }
        head[72..80].copy_from_slice(&(self.segments.len() as u64 + 1).to_be_bytes());
        head[80..96].copy_from_slice(&list(&[], &mut links));
        let mut pages_of_segments = list(&[], &mut links);
        pages_of_segments[..4].copy_from_slice(&1_u32.to_be_bytes());
        for at in [4, 10] {
            pages_of_segments[at..at + 4].copy_from_slice(&SEGMENTS_PAGE.to_be_bytes());
            pages_of_segments[at + 4..at + 6].copy_from_slice(&place(DATA));
        }
        head[96..].copy_from_slice(&pages_of_segments);
        for first in (0..count).step_by(DESCRIBED_EXTENTS as usize) {
            self.describe(first, &links, &head, output)?;
        }
        output.give(&mut segments, SEGMENTS_PAGE, NO_PAGE, NO_PAGE)?;
        Ok(pages)
    }

    /// Gives a descriptor page and the page after it, which a change buffer would use.
    fn describe<E: From<Error>>(
        &self,
        first: u32,
        links: &[[u32; 2]],
        head: &[u8],
        output: &mut Output<'_, E>,
    ) -> Result<(), E> {
        let mut page: Page = [0; PAGE_BYTES];
        let kind = if first == 0 { page::Kind::FSP_HDR } else { page::Kind::XDES };
        put(&mut page, 24, &kind.0.to_be_bytes());
        if first == 0 {
            put(&mut page, HEADER, head);
        }
        let extents = self.extents.iter().zip(links).skip(first as usize).take(DESCRIBED_EXTENTS as usize);
        for (place, (extent, link)) in extents.enumerate() {
            let at = DESCRIPTORS + DESCRIPTOR_BYTES * place;
            let (id, state) = match extent.segment {
                Some(segment) => (segment as u64 + 1, OWN),
                None if extent.used == u64::MAX => (0, SHARED_FULL),
                None => (0, SHARED),
            };
            put(&mut page, at, &id.to_be_bytes());
            put(&mut page, at + 8, &list_node(*link));
            put(&mut page, at + 20, &state.to_be_bytes());
            for byte in 0..16 {
                let used =
                    (0..4).map(|pair| u8::from(extent.used >> (4 * byte + pair) & 1 == 1) << (2 * pair));
                put(&mut page, at + 24 + byte, &[!used.sum::<u8>()]);
            }
        }
        let number = first * EXTENT_PAGES;
        output.give(&mut page, number, NO_PAGE, NO_PAGE)?;
        let mut bitmap: Page = [0; PAGE_BYTES];
        put(&mut bitmap, 24, &page::Kind::BITMAP.0.to_be_bytes());
        output.give(&mut bitmap, number + 1, NO_PAGE, NO_PAGE)
    }
}

/// The pages that describe a file with these extents and segments, each with its number. A proof compares the
/// pages that it read with them.
pub(crate) fn description(
    space: &Space,
    extents: &Extents,
    segments: &[space::Segment],
) -> Result<Vec<(u32, Box<Page>)>, Error> {
    let mut pages = Vec::new();
    let mut put = |number: u32, page: &Page| -> Result<(), Error> {
        pages.push((number, Box::new(*page)));
        Ok(())
    };
    let mut output = Output { space_id: space.id, sums: space.sums, put: &mut put };
    PageAllocator::from_descriptors(extents, segments).finish(space.flags, &mut output)?;
    Ok(pages)
}

/// The number of an extent behind so many. The last number of a page stands for none.
fn extent_number(before: usize) -> Result<u32, Error> {
    let number = u32::try_from(before).ok().filter(|number| *number < NO_PAGE / EXTENT_PAGES);
    number.ok_or_else(too_large)
}

fn too_large() -> Error {
    Error::unsupported("the file would have more pages than there are numbers")
}

fn place(at: usize) -> [u8; 2] {
    u16::try_from(at).unwrap_or(0).to_be_bytes()
}

/// Where the list node of an extent is: page and byte. [`NO_PAGE`] stands for none.
fn address(extent: u32) -> [u8; 6] {
    let mut address = [0; 6];
    let (page, at) = match extent {
        NO_PAGE => (NO_PAGE, 0),
        _ => {
            let within = (extent % DESCRIBED_EXTENTS) as usize;
            (extent / DESCRIBED_EXTENTS * DESCRIBED_PAGES, DESCRIPTORS + DESCRIPTOR_BYTES * within + 8)
        }
    };
    address[..4].copy_from_slice(&page.to_be_bytes());
    address[4..].copy_from_slice(&place(at));
    address
}

fn list_node([before, behind]: [u32; 2]) -> [u8; 12] {
    let mut node = [0; 12];
    node[..6].copy_from_slice(&address(before));
    node[6..].copy_from_slice(&address(behind));
    node
}

/// The head of a list of extents; each of them gets its neighbours.
fn list(extents: &[u32], links: &mut [[u32; 2]]) -> [u8; 16] {
    for (at, &extent) in extents.iter().enumerate() {
        let neighbour = |at: Option<usize>| at.and_then(|at| extents.get(at)).copied().unwrap_or(NO_PAGE);
        if let Some(link) = links.get_mut(extent as usize) {
            *link = [neighbour(at.checked_sub(1)), neighbour(Some(at + 1))];
        }
    }
    let mut head = [0; 16];
    head[..4].copy_from_slice(&u32::try_from(extents.len()).unwrap_or(0).to_be_bytes());
    head[4..10].copy_from_slice(&address(extents.first().copied().unwrap_or(NO_PAGE)));
    head[10..].copy_from_slice(&address(extents.last().copied().unwrap_or(NO_PAGE)));
    head
}

#[cfg(test)]
mod tests {
    use super::{PageAllocator, extent_number};

    #[test]
    fn each_page_of_a_file_has_a_number() {
        let last = (u32::MAX - 1) / 64 - 1;
        assert_eq!(extent_number(last as usize), Ok(last));
        for beyond in [last as usize + 1, 1 << 32] {
            assert!(extent_number(beyond).unwrap_err().to_string().contains("more pages than"));
        }
    }

    /// Each has two segments, and their page has 85.
    #[test]
    fn a_file_has_up_to_42_indexes() {
        let of = |count: u32| PageAllocator::new(&(3..3 + count).collect::<Vec<_>>());
        assert!(of(42).is_ok());
        assert!(of(43).unwrap_err().to_string().contains("a table with 43 indexes"));
    }
}
