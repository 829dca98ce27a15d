//! What the first record of a table says of instant changes.

use innodb::index_page::IndexPage;
use innodb::page::{PAGE_BYTES, Pages};
use innodb::record::Layout;
use innodb::space::Space;
use innodb::table::CLUSTERED_ROOT;
use innodb::write::Row;
use innodb::{Error, instant};

use crate::file::{MOVED, MOVED_TABLE, Memory, table};
use crate::written::{FULL, make};

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
    let key = 1 + 2;
    for (count, fault) in [
        (fields.len(), None),
        (key, None),
        (fields.len() + 1, Some("the definition has")),
        (key - 1, Some("fewer than their key has")),
    ] {
        let number = u16::try_from(count << 3).unwrap();
        pages.bytes[before..before + 2].copy_from_slice(&number.to_be_bytes());
        pages.bytes[origin - 6] = 0;
        match layout(&mut pages) {
            Ok(layout) => assert!(fault.is_none() && layout.fields() == fields),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("page 3, byte 50") && said.contains(fault.unwrap()), "{said}");
            }
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

#[test]
fn a_page_above_the_leaves_begins_with_a_pointer() {
    let (mut pages, _) = altered();
    let root = CLUSTERED_ROOT as usize * PAGE_BYTES;
    let mut origins = Vec::new();
    let page = IndexPage::parse(pages.page(CLUSTERED_ROOT).unwrap(), CLUSTERED_ROOT).unwrap();
    assert!(page.level > 0);
    page.chain(&mut origins).unwrap();
    // Its kind becomes that of a row.
    pages.bytes[root + usize::from(origins[0]) - 3] &= !7;
    let error = layout(&mut pages).unwrap_err().to_string();
    assert!(error.contains("leads nowhere"), "{error}");
}

/// It is off-page: a number, and two bytes for each field.
#[test]
fn the_list_of_fields_is_as_long_as_it_says() {
    let (pages, _) = altered();
    let part = (0..pages.bytes.len()).step_by(PAGE_BYTES).find(|at| pages.bytes[at + 25] == 10).unwrap() + 38;
    let bytes = |at: usize| u32::from_be_bytes(pages.bytes[at..at + 4].try_into().unwrap());
    let (len, count) = (bytes(part), bytes(part + 8));
    assert_eq!(len, 4 + 2 * count);
    // The reference to it in the first record: where it is in its page, its length.
    let reference = [&[0, 0, 0, 38, 0, 0, 0, 0][..], &len.to_be_bytes()].concat();
    let reference = pages.bytes.windows(12).position(|bytes| bytes == reference).unwrap() + 8;
    let said = |len: u32, count: u32| {
        let mut pages = pages.clone();
        for (at, number) in [(part, len), (part + 8, count), (reference, len)] {
            pages.bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        layout(&mut pages).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(said(len, count), Ok(()));
    let most = 4 + 2 * 1023;
    for (len, count) in
        [(len, count - 1), (len, count + 1), (len - 1, count - 1), (len + 1, count), (3, 0), (most, count)]
    {
        let error = said(len, count).unwrap_err();
        assert!(error.contains("not as long as it says"), "{len} {count}: {error}");
    }
    assert!(said(4, 0).unwrap_err().contains("a column that the file has not"), "an empty list");
    let error = said(most + 1, count).unwrap_err();
    assert!(error.contains("is too long"), "{error}");
}

/// It is the only page of the level below, in the same tree, that no other one precedes.
#[test]
fn the_first_pointer_leads_to_the_first_page_below() {
    let (pages, origin) = altered();
    let leaf = origin / PAGE_BYTES;
    let (root, header) = (CLUSTERED_ROOT as usize * PAGE_BYTES, leaf * PAGE_BYTES);
    let mut origins = Vec::new();
    let page = &pages.bytes[root..root + PAGE_BYTES].first_chunk().unwrap();
    IndexPage::parse(page, CLUSTERED_ROOT).unwrap().chain(&mut origins).unwrap();
    let first = root + usize::from(origins[0]);
    let number = u32::try_from(leaf).unwrap().to_be_bytes();
    let child = first + pages.bytes[first..].windows(4).position(|bytes| bytes == number).unwrap();
    let next = pages.bytes[header + 12..header + 16].to_vec();
    for (at, bytes) in [
        (child, next.as_slice()),
        (child, &[0, 0, 0, 0]),
        (child, &pages.count().to_be_bytes()),
        // Of the page: the one before it, its level, the number of its index.
        (header + 8, &[0, 0, 0, 9]),
        (header + 38 + 26, &[0, 1]),
        (header + 38 + 28 + 7, &[0xEE]),
    ] {
        let mut pages = pages.clone();
        assert_ne!(&pages.bytes[at..at + bytes.len()], bytes);
        pages.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let error = layout(&mut pages).unwrap_err().to_string();
        assert!(error.contains("does not lead to the first page below"), "{at}: {error}");
    }
}

/// The reference to the list is behind the key, DB_TRX_ID and DB_ROLL_PTR.
#[test]
fn the_list_of_fields_is_found_behind_a_key_of_fixed_length() {
    let statement =
        "CREATE TABLE t (a INT NOT NULL, b VARBINARY(50), c VARBINARY(50), PRIMARY KEY (a)) ENGINE=InnoDB";
    let mut row = Row::default();
    row.push(Some(&[0x80, 0, 0, 1]));
    // The tablespace, the page, the offset in it and eight bytes for the length, and some more.
    let reference = [&[0, 0, 0, 77, 0, 0, 0, 4, 0, 0, 0, 38, 0, 0, 0, 0, 0, 0, 0, 8][..], &[0; 9]].concat();
    row.push(Some(&reference));
    row.push(Some(b""));
    let made = make(statement, FULL, &[row], 1).unwrap();
    let mut pages = Memory { proven: false, ..made.file };
    let mut origins = Vec::new();
    IndexPage::parse(pages.page(3).unwrap(), 3).unwrap().chain(&mut origins).unwrap();
    let (root, origin) = (3 * PAGE_BYTES, 3 * PAGE_BYTES + usize::from(origins[0]));
    // The row becomes a record of instant changes: its marks, its kind, no more fields, and two NULLs.
    pages.bytes[origin - 5] |= 0x30;
    pages.bytes[origin - 3] |= 4;
    pages.bytes[origin - 7..origin - 5].copy_from_slice(&[3, 0]);
    // The root says that there are such changes, and that rows had five fields before.
    pages.bytes[root + 24..root + 26].copy_from_slice(&[0, 18]);
    pages.bytes[root + 50..root + 52].copy_from_slice(&[0, 5 << 3]);
    // The list: two fields, the third column before the second.
    pages.bytes.resize(5 * PAGE_BYTES, 0);
    let list = 4 * PAGE_BYTES;
    pages.bytes[list + 25] = 10;
    pages.bytes[list + 38..list + 46].copy_from_slice(&[0, 0, 0, 8, 0xFF, 0xFF, 0xFF, 0xFF]);
    pages.bytes[list + 46..list + 54].copy_from_slice(&[0, 0, 0, 2, 0, 2, 0, 1]);
    let layout = instant::layout(&made.table, 3, 77, &mut pages).unwrap();
    let columns: Vec<_> = layout.fields().iter().map(|field| field.column).collect();
    assert_eq!(columns, [Some(0), None, None, Some(2), Some(1)]);
}
