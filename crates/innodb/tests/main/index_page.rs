//! A page of a tree: each number of its header, its directory and its chain is checked by itself.

use innodb::Error;
use innodb::index_page::{HEAP, INFIMUM, IndexPage, RecordHeader, SUPREMUM};
use innodb::page::{DATA, Page, Pages, TRAILER, u16_at};
use innodb::write::Row;

use crate::written::{FULL, make};

const SHORT: &str = "CREATE TABLE t (a INT NOT NULL, PRIMARY KEY (a)) ENGINE=InnoDB";

/// A leaf with so many rows, and where they begin.
fn leaf(rows: u32) -> (Page, Vec<usize>) {
    let row = |at: u32| {
        let mut row = Row::default();
        row.push(Some(&(at | 1 << 31).to_be_bytes()));
        row
    };
    let rows: Vec<Row> = (0..rows).map(row).collect();
    let page = *make(SHORT, FULL, &rows, usize::MAX).unwrap().file.page(3).unwrap();
    let origins = chain(&page).unwrap();
    (page, origins)
}

fn chain(page: &Page) -> Result<Vec<usize>, Error> {
    let mut origins = Vec::new();
    IndexPage::parse(page, 3)?.chain(&mut origins)?;
    Ok(origins.into_iter().map(usize::from).collect())
}

fn put(page: &mut Page, at: usize, value: usize) {
    page[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_be_bytes());
}

/// Makes another record the next one.
fn link(page: &mut Page, origin: usize, next: usize) {
    put(page, origin - 2, (next + 0x1_0000 - origin) & 0xFFFF);
}

fn own(page: &mut Page, origin: usize, owned: u8) {
    page[origin - 5] = owned;
}

/// Gives a record a number in the heap, and a status.
fn number(page: &mut Page, origin: usize, number: usize, status: usize) {
    put(page, origin - 4, number << 3 | status);
}

/// The page is refused with this message, and it names this byte.
#[track_caller]
fn refused(page: &Page, what: &str, at: usize) {
    match chain(page) {
        Err(Error::Corrupt { what: said, place }) => {
            assert!(said.contains(what), "{said}");
            assert_eq!(place, format!("page 3, byte {at}"), "{said}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

const SLOTS: usize = DATA;
const HEAP_TOP: usize = DATA + 2;
const HEAP_RECORDS: usize = DATA + 4;
const FREE: usize = DATA + 6;
const GARBAGE: usize = DATA + 8;
const RECORDS: usize = DATA + 16;
const COMPACT: usize = 0x8000;

#[test]
fn the_numbers_of_its_header_are_within_bounds() {
    let (page, _) = leaf(12);
    let with = |at: usize, value: usize| {
        let mut page = page;
        put(&mut page, at, value);
        page
    };
    for slots in [0, 1, (TRAILER - HEAP) / 2 + 1, TRAILER / 2, TRAILER / 2 + 1, 0xFFFF] {
        refused(&with(SLOTS, slots), "a directory of", SLOTS);
    }
    refused(&with(SLOTS, (TRAILER - HEAP) / 2), "run into its directory", HEAP_TOP);
    let directory = TRAILER - 2 * 4;
    refused(&with(HEAP_TOP, directory + 1), "run into its directory", HEAP_TOP);
    refused(&with(HEAP_TOP, HEAP - 1), "run into its directory", HEAP_TOP);
    assert!(chain(&with(HEAP_TOP, directory)).is_ok());
    for (records, is_possible) in
        [(0, false), (1, false), (13, false), (1 << 13, true), ((1 << 13) + 1, false)]
    {
        let page = with(HEAP_RECORDS, records | COMPACT);
        let parsed = IndexPage::parse(&page, 3);
        assert_eq!(parsed.is_ok(), is_possible, "{records}");
        if !is_possible {
            refused(&page, "numbers of records", HEAP_RECORDS);
        }
    }
    let top = usize::from(u16_at(&page, HEAP_TOP));
    assert!(chain(&with(GARBAGE, top - HEAP)).is_ok());
    refused(&with(GARBAGE, top - HEAP + 1), "more bytes are free", GARBAGE);
    refused(&with(24, 10), "has the type 10", 24);
    let redundant = IndexPage::parse(&with(HEAP_RECORDS, 14), 3).err();
    assert!(matches!(redundant, Some(Error::Unsupported(what)) if what.contains("REDUNDANT")));
}

#[test]
fn the_records_at_its_ends_are_those_of_every_page() {
    let (page, _) = leaf(12);
    let refused = |change: &dyn Fn(&mut Page), what, at| {
        let mut page = page;
        change(&mut page);
        refused(&page, what, at);
    };
    let first = "the first record of the page is not";
    refused(&|page| own(page, INFIMUM, 2), first, INFIMUM);
    refused(&|page| number(page, INFIMUM, 1, 2), first, INFIMUM);
    refused(&|page| number(page, INFIMUM, 0, 3), first, INFIMUM);
    refused(&|page| put(page, TRAILER - 2, SUPREMUM), first, INFIMUM);
    let last = "the last record of the page is not";
    refused(&|page| number(page, SUPREMUM, 1, 2), last, SUPREMUM);
    refused(&|page| number(page, SUPREMUM, 2, 3), last, SUPREMUM);
    refused(&|page| put(page, SLOTS, 5), last, SUPREMUM);
    // The last slot is another record's.
    refused(&|page| put(page, TRAILER - 8, INFIMUM), "not where the directory has it", SUPREMUM);
}

#[test]
fn its_chain_stays_in_the_heap() {
    let (page, origins) = leaf(12);
    assert_eq!(origins[0], HEAP + 5, "the first record is where the heap begins");
    let top = usize::from(u16_at(&page, HEAP_TOP));
    for next in [HEAP + 4, top + 1, top + 40, 3] {
        let mut page = page;
        link(&mut page, origins[11], next);
        refused(&page, "leaves the page's heap", next);
    }
    // The last entry of an index may have no byte of its own.
    let statement = "CREATE TABLE t (a VARBINARY(9) NOT NULL, b VARBINARY(9) NOT NULL, PRIMARY KEY (a), KEY b (b)) \
                     ENGINE=InnoDB";
    let mut row = Row::default();
    row.push(Some(b""));
    row.push(Some(b""));
    let made = make(statement, FULL, &[row], 1).unwrap();
    let entries = *(&made.file).page(4).unwrap();
    assert_eq!(chain(&entries).unwrap(), [usize::from(u16_at(&entries, HEAP_TOP))]);
}

#[test]
fn its_records_are_as_many_as_it_counts() {
    let (page, origins) = leaf(12);
    let with = |changes: &[(usize, usize)]| {
        let mut page = page;
        changes.iter().for_each(|&(at, value)| put(&mut page, at, value));
        page
    };
    refused(&with(&[(RECORDS, 11)]), "more records than the page counts", origins[11]);
    let fewer = with(&[(RECORDS, 13), (HEAP_RECORDS, 15 | COMPACT)]);
    refused(&fewer, "fewer records than the page counts", RECORDS);
    refused(&with(&[(HEAP_RECORDS, 15 | COMPACT)]), "list of free records", FREE);
    // A free record behind the others; a list that leads nowhere ends.
    let top = usize::from(u16_at(&page, HEAP_TOP));
    let free = [(HEAP_RECORDS, 15 | COMPACT), (HEAP_TOP, top + 22), (FREE, top + 5)];
    assert_eq!(chain(&with(&free)).unwrap(), origins);
    let mut list = Vec::new();
    IndexPage::parse(&with(&free), 3).unwrap().free_list(&mut list);
    assert_eq!(list.into_iter().map(usize::from).collect::<Vec<_>>(), [top + 5]);
    refused(&with(&[free[0], free[1], (FREE, top + 23)]), "list of free records", FREE);
    refused(&with(&[free[0], free[1], (FREE, HEAP + 4)]), "list of free records", FREE);
    assert!(chain(&with(&[free[0], free[1], (FREE, top + 22)])).is_ok(), "it has no byte");
}

#[test]
fn each_record_has_its_own_number_in_the_heap() {
    let (page, origins) = leaf(12);
    assert_eq!(RecordHeader::at(&page, origins[11]).heap_number, 13);
    for (own, what) in [(1, "out of bounds"), (14, "out of bounds"), (5, "one number in the heap")] {
        let mut page = page;
        number(&mut page, origins[7], own, 0);
        refused(&page, what, origins[7]);
    }
    // A page with more numbers than bits in a word.
    let (mut page, origins) = leaf(200);
    number(&mut page, origins[131], 69, 0);
    refused(&page, "one number in the heap", origins[131]);
}

#[test]
fn a_new_page_has_its_last_record_as_the_last_insert() {
    let (page, origins) = leaf(12);
    assert_eq!(usize::from(u16_at(&page, DATA + 10)), origins[11]);
    assert_eq!(u16_at(&leaf(0).0, DATA + 10), 0);
}

#[test]
fn each_slot_owns_the_records_before_its_own() {
    let (page, origins) = leaf(12);
    let with = |owned: &[(usize, u8)], changes: &[(usize, usize)]| {
        let mut page = page;
        owned.iter().for_each(|&(origin, owned)| own(&mut page, origin, owned));
        changes.iter().for_each(|&(at, value)| put(&mut page, at, value));
        page
    };
    // The directory: the first record, the fourth, the eighth, the last.
    let (fourth, eighth) = (origins[3], origins[7]);
    refused(&with(&[(fourth, 3)], &[]), "owns 4 records and says 3", fourth);
    refused(&with(&[(SUPREMUM, 6)], &[]), "owns 5 records and says 6", SUPREMUM);
    refused(&with(&[], &[(TRAILER - 4, eighth)]), "not where the directory has it", fourth);
    refused(&with(&[], &[(SLOTS, 2)]), "not where the directory has it", eighth);
    refused(&with(&[(origins[1], 2)], &[]), "not where the directory has it", origins[1]);
    // Eight records are as many as a slot may own.
    let eight =
        with(&[(fourth, 0), (eighth, 8)], &[(SLOTS, 3), (TRAILER - 4, eighth), (TRAILER - 6, SUPREMUM)]);
    assert_eq!(chain(&eight).unwrap(), origins);
    refused(&with(&[(fourth, 0), (eighth, 0)], &[]), "more records than it may", origins[8]);
    let (mut page, origins) = leaf(8);
    own(&mut page, origins[3], 0);
    own(&mut page, SUPREMUM, 9);
    put(&mut page, SLOTS, 2);
    put(&mut page, TRAILER - 4, SUPREMUM);
    refused(&page, "owns 9 records and says 9", SUPREMUM);
}
