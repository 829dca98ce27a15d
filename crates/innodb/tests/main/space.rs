//! The first page of a tablespace, made by hand, and its lists.

use innodb::Error;
use innodb::page::{PAGE_BYTES, Page, Pages, Sums};
use innodb::space::{self, ExtentState, Extents, Space};

use crate::file::{MOVED, Memory};
use crate::page_check::{full, old, page, put};

/// The first page of tablespace 7, which has these flags, with some more changes.
fn first(flags: u32, change: impl Fn(&mut Vec<u8>)) -> Box<Page> {
    let mut bytes = page(0, flags, PAGE_BYTES);
    bytes[24..26].copy_from_slice(&8_u16.to_be_bytes());
    change(&mut bytes);
    let bytes = if flags & 0x10 != 0 { full(bytes) } else { old(bytes) };
    Box::new(bytes.try_into().unwrap())
}

#[test]
fn flags_say_what_can_be_read() {
    let (size, compressed, encrypted) = ("do not have 16 KiB", "are compressed", "is encrypted");
    for (flags, refused) in [
        (0x15, None),
        (0, None),
        (5 << 6, None),
        (0x21, None),
        // Bits that say nothing of the form.
        (0x115, None),
        (1 << 14, None),
        (0x10, Some(size)),
        (0x14, Some(size)),
        (0x16, Some(size)),
        (6 << 6, Some(size)),
        (4 << 6, Some(size)),
        (0x15 | 1 << 5, Some(compressed)),
        (0x15 | 4 << 5, Some(compressed)),
        (0x21 | 4 << 1, Some(compressed)),
        (1 << 16, Some(compressed)),
        (1 << 13, Some(encrypted)),
    ] {
        match (Space::parse(&first(flags, |_| ())), refused) {
            (Ok(space), None) => {
                assert_eq!((space.id, space.flags), (7, flags));
                assert_eq!(space.sums == Sums::Full, flags & 0x10 != 0);
            }
            (Err(Error::Unsupported(what)), Some(wanted)) => assert!(what.contains(wanted), "{what}"),
            other => panic!("{flags:#x}: {other:?}"),
        }
    }
}

#[test]
fn the_first_page_is_that_of_a_tablespace() {
    let said = |change: &dyn Fn(&mut Vec<u8>)| Space::parse(&first(0x15, change)).unwrap_err().to_string();
    assert!(said(&|page| page[25] = 9).contains("does not begin as a tablespace"));
    assert!(said(&|page| put(page, 38, 8)).contains("two numbers"));
    assert!(said(&|page| put(page, 34, 8)).contains("two numbers"));
    assert!(said(&|page| put(page, 4, 1)).contains("page 1 is where page 0 should be"));
    let empty = Space::parse(&[0; PAGE_BYTES]).unwrap_err().to_string();
    assert!(empty.contains("begins with zeros"), "{empty}");
}

#[test]
fn a_page_that_is_empty_or_not_in_clear_is_named() {
    for sums in [Sums::Full, Sums::Old] {
        let said = sums.check(&[0; PAGE_BYTES], 3).unwrap_err().to_string();
        assert!(said.contains("empty") && said.contains("page 3"), "{said}");
    }
    let whole = |bytes: Vec<u8>| -> Box<Page> { Box::new(bytes.try_into().unwrap()) };
    assert_eq!(Sums::Full.check(&whole(full(page(3, 0, PAGE_BYTES))), 3), Ok(()));
    assert_eq!(Sums::Old.check(&whole(old(page(3, 0, PAGE_BYTES))), 3), Ok(()));
    let mut with_key = page(3, 0, PAGE_BYTES);
    put(&mut with_key, 0, 1);
    let said = Sums::Full.check(&whole(full(with_key)), 3).unwrap_err().to_string();
    assert!(said.contains("page 3 is encrypted"), "{said}");
    for (kind, wanted) in
        [(14, "compressed"), (16, "compressed"), (15, "encrypted"), (17, "encrypted"), (18, "wrong checksum")]
    {
        let mut torn = page(3, 0, PAGE_BYTES);
        torn[24..26].copy_from_slice(&[0, kind]);
        let said = Sums::Old.check(&whole(torn), 3).unwrap_err().to_string();
        assert!(said.contains(wanted), "{kind}: {said}");
    }
}

/// Only MySQL's say so: by a bit in the flags, a version and a root.
#[test]
fn the_tree_of_definitions_has_a_root() {
    // Behind the descriptors of 256 extents and what encrypts it.
    let at = 150 + 40 * 256 + 115;
    let root = |flags: u32, version: u32, root: u32| {
        let page = first(flags, |page| {
            put(page, at, version);
            put(page, at + 4, root);
        });
        space::sdi_root(&page)
    };
    assert_eq!(root(0x4021, 1, 3), Some(3));
    for (flags, version, number) in
        [(0x21, 1, 3), (0x4031, 1, 3), (0x4021, 0, 3), (0x4021, 2, 3), (0x4021, 1, 0), (0x4021, 1, u32::MAX)]
    {
        assert_eq!(root(flags, version, number), None, "{flags:#x} {version} {number}");
    }
}

/// The first page describes 256 extents; the next page of descriptors is read only if there are more.
#[test]
fn extents_are_read_up_to_the_last_one_in_use() {
    let bytes = first(0x15, |page| {
        page[150..10_390].fill(0);
        // The second extent: its segment, its state, and that its first and last pages are free.
        let second = &mut page[150 + 40..];
        (second[7], second[23], second[24], second[39]) = (5, 4, 1, 0x40);
    });
    let mut pages = Memory { bytes: bytes.to_vec(), proven: false };
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    let mut read = |free_limit: u32| Extents::read(&Space { free_limit, ..space }, &mut pages);
    assert_eq!(read(0).unwrap().all().len(), 0);
    assert_eq!(read(65).unwrap().all().len(), 2);
    assert!(read(16_385).is_err(), "there is no such page");
    let extents = read(16_384).unwrap();
    assert_eq!(extents.all().len(), 256);
    assert_eq!(extents.all()[1].state, ExtentState::Segment(5));
    let free: Vec<u32> = (64..128).filter(|&page| extents.is_free(page)).collect();
    assert_eq!(free, [64, 127]);
    assert!(extents.is_free(0) && extents.is_free(16_384), "what is not described was never used");
}

/// A file of which there are the pages that describe the others.
struct Descriptors(Box<Page>);

impl Pages for Descriptors {
    type Error = Error;

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        if number.is_multiple_of(16_384) {
            Ok(&self.0)
        } else {
            Err(Error::Unsupported("not described".to_owned()))
        }
    }

    fn count(&self) -> u32 {
        u32::MAX
    }
}

#[test]
fn each_page_of_descriptors_has_the_next_16384_pages() {
    let mut pages = Descriptors(first(0x15, |page| page[150..10_390].fill(0)));
    let space = Space::parse(&pages.0).unwrap();
    for (free_limit, extents) in [(16_384, 256), (16_385, 257), (16_449, 258), (3 * 16_384, 768)] {
        let read = Extents::read(&Space { free_limit, ..space }, &mut pages).unwrap();
        assert_eq!(read.all().len(), extents, "{free_limit}");
    }
}

#[test]
fn an_extent_has_one_of_six_states() {
    let read = |state: u8| {
        let bytes = first(0x15, |page| {
            page[150..190].fill(0);
            (page[157], page[173]) = (5, state);
        });
        let mut pages = Memory { bytes: bytes.to_vec(), proven: false };
        let space = Space::parse(pages.page(0).unwrap()).unwrap();
        Extents::read(&Space { free_limit: 64, ..space }, &mut pages).map(|extents| extents.all()[0])
    };
    // A descriptor that was never written says nothing of its pages.
    let states = [0, 1, 2, 3, 4, 5].map(|state| read(state).map(|extent| (extent.state, extent.free)));
    let (fragments, segment) = (ExtentState::Fragments, ExtentState::Segment(5));
    assert_eq!(states[0], Ok((ExtentState::Free, u64::MAX)));
    for (found, state) in states[1..].iter().zip([ExtentState::Free, fragments, fragments, segment, segment])
    {
        assert_eq!(*found, Ok((state, 0)));
    }
    let error = read(6).unwrap_err().to_string();
    assert!(error.contains("the state 6") && error.contains("page 0, byte 170"), "{error}");
}

#[test]
fn lists_of_segments_that_are_torn_are_an_error() {
    let mut pages = Memory::new(MOVED);
    pages.proven = false;
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    // The pages of segments that are not full: their number, and the first one with an offset in it.
    let list = 38 + 96;
    let said = |at: usize, bytes: &[u8]| {
        let mut pages = pages.clone();
        pages.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        space::segments(&space, &mut pages).map(|found| found.len()).map_err(|error| error.to_string())
    };
    let whole = said(list, &[]).unwrap();
    assert!(whole >= 2);
    let torn = "the list of pages of segments is torn";
    for (at, bytes, what, place) in [
        (list, &[0, 0, 0, 17][..], "more pages of segments than pages", "page 0, byte 134"),
        (list, &[0, 0, 0, 16], torn, "page 0, byte 134"),
        (list, &[0, 0, 0, 2], torn, "page 0, byte 134"),
        (list + 4, &[0xFF; 4], torn, "page 0, byte 134"),
        (list + 8, &[0, 39], torn, "page 0, byte 134"),
        (list + 4, &[0, 0, 0, 3], "a page of segments is something else", "page 3, byte 24"),
        (2 * PAGE_BYTES + 50 + 60, &[0], "is not marked as one", "page 2, byte 110"),
    ] {
        let error = said(at, bytes).unwrap_err();
        assert!(error.contains(what) && error.contains(place), "{at}: {error}");
    }
}

/// Pages of segments that are full are in a list of their own; each page leads to the next one.
#[test]
fn pages_of_segments_lead_to_each_other() {
    let mut pages = Memory::new(MOVED);
    pages.proven = false;
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    let one = space::segments(&space, &mut pages).unwrap();
    let (full, not_full) = (38 + 80, 38 + 96);
    // A list: how many pages, and the first one with the offset of its links.
    let list = |count: u8, page: u8| [0, 0, 0, count, 0, 0, 0, page, 0, 38];
    let said = |pages: &mut Memory, at: usize, bytes: &[u8]| {
        pages.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        space::segments(&space, pages)
    };
    assert_eq!(said(&mut pages, full, &list(1, 2)), Ok([&one[..], &one].concat()));
    assert_eq!(said(&mut pages, not_full, &list(0, 0)), Ok(one.clone()));
    // The last page has the same segments and one more.
    let (second, last) = (2 * PAGE_BYTES, 15 * PAGE_BYTES);
    pages.bytes.copy_within(second..second + PAGE_BYTES, last);
    let more = last + 50 + 192 * 84;
    pages.bytes.copy_within(second + 50..second + 50 + 192, more);
    said(&mut pages, second + 38 + 6, &[0, 0, 0, 15, 0, 38]).unwrap();
    let both = said(&mut pages, full, &list(2, 2)).unwrap();
    assert_eq!(both, [&one[..], &one, &one[..1]].concat());
}
