//! What the first record of a table says of instant changes.

use innodb::index_page::IndexPage;
use innodb::page::{PAGE_BYTES, Pages};
use innodb::record::Layout;
use innodb::space::Space;
use innodb::table::CLUSTERED_ROOT;
use innodb::{Error, instant};

use crate::file::{MOVED, MOVED_TABLE, Memory, table};

fn layout(pages: &mut Memory) -> Result<Layout, Error> {
    let id = Space::parse(pages.page(0).unwrap()).unwrap().id;
    instant::layout(&table(MOVED_TABLE), CLUSTERED_ROOT, id, pages)
}

/// The file, and where its first record is.
fn altered() -> (Memory, usize) {
    let mut pages = Memory::new(MOVED);
    pages.proven = false;
    let mut origins = Vec::new();
    for number in CLUSTERED_ROOT..pages.count() {
        let Ok(page) = IndexPage::parse(pages.page(number).unwrap(), number) else { continue };
        if page.level == 0 && page.previous() == u32::MAX {
            page.chain(&mut origins).unwrap();
            return (pages.clone(), number as usize * PAGE_BYTES + usize::from(origins[0]));
        }
    }
    panic!("no leaf is the first one");
}

/// Then rows have as many fields as before, and the first record as many as those.
#[test]
fn columns_that_were_only_moved_are_no_more_than_before() {
    let (mut pages, origin) = altered();
    let fields = layout(&mut pages).unwrap().fields().to_vec();
    // The number of fields before the change is in the root, that of added ones before the record's header.
    let before = CLUSTERED_ROOT as usize * PAGE_BYTES + 38 + 12;
    for (count, is_sound) in [(fields.len(), true), (fields.len() + 1, false)] {
        let number = u16::try_from(count << 3).unwrap();
        pages.bytes[before..before + 2].copy_from_slice(&number.to_be_bytes());
        pages.bytes[origin - 6] = 0;
        match layout(&mut pages) {
            Ok(layout) => assert!(is_sound && layout.fields() == fields),
            Err(error) => assert!(!is_sound && error.to_string().contains("the definition has"), "{error}"),
        }
    }
}

#[test]
fn a_change_that_was_not_completed_is_none() {
    let (mut pages, origin) = altered();
    let plain = Layout::new(table(MOVED_TABLE).clustered()).fields().to_vec();
    assert_ne!(layout(&mut pages).unwrap().fields(), plain);
    // The mark of the first record, of which there is one on each level.
    pages.bytes[origin - 5] &= !0x10;
    assert_eq!(layout(&mut pages).unwrap().fields(), plain);
}
