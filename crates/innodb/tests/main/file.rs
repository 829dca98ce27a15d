//! Files that MariaDB 11.8 wrote: read, and damaged in every way that is cheap to make.

use std::io::Read;

use innodb::index_page::{IndexPage, RecordHeader};
use innodb::off_page::Reference;
use innodb::page::{PAGE_BYTES, Page, Pages, Sums};
use innodb::record::FieldValue;
use innodb::space::{ExtentState, Extents, Space};
use innodb::table::CLUSTERED_ROOT;
use innodb::table::{Table, Version, sql};
use innodb::tree::{Scratch, Tree};
use innodb::{Error, instant, leaf, space, value};
use proptest::prelude::*;

/// Columns added in front and behind, one dropped, rows deleted; the key varies in length.
pub(crate) const MOVED: &[u8] = include_bytes!("../pages/moved.ibd.gz");
pub(crate) const MOVED_TABLE: &str = "CREATE TABLE moved (f INT, k VARCHAR(30) NOT NULL, b INT, c INT NOT NULL, e VARCHAR(300), \
                           PRIMARY KEY (k)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";
/// Values of 9,000 and 40,000 bytes off-page, a short one, and NULL.
const AWAY: &[u8] = include_bytes!("../pages/away.ibd.gz");
const AWAY_TABLE: &str =
    "CREATE TABLE away (id INT NOT NULL, a LONGTEXT, PRIMARY KEY (id)) ENGINE=InnoDB DEFAULT CHARSET=latin1";

#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    /// Whether pages are proven.
    pub(crate) proven: bool,
}

impl Memory {
    pub(crate) fn new(packed: &[u8]) -> Memory {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        Memory { bytes, proven: true }
    }
}

impl Pages for Memory {
    type Error = Error;

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        self.get(number)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.bytes.len() / PAGE_BYTES).unwrap()
    }
}

/// The same without a copy of its own.
impl Pages for &Memory {
    type Error = Error;

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        self.get(number)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.bytes.len() / PAGE_BYTES).unwrap()
    }
}

impl Memory {
    fn get(&self, number: u32) -> Result<&Page, Error> {
        let at = number as usize * PAGE_BYTES;
        let page = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        let page: &Page = page.ok_or_else(|| Error::Unsupported("no such page".to_owned()))?;
        if self.proven {
            let sums = if self.bytes[57] & 0x10 != 0 { Sums::Full } else { Sums::Old };
            sums.check(page, number)?;
        }
        Ok(page)
    }
}

pub(crate) fn table(statement: &str) -> Table {
    sql::parse(statement, Version(110_806)).unwrap()
}

/// All rows, a bar behind each value of a column that is stored.
pub(crate) fn rows(table: &Table, pages: &mut Memory) -> Result<Vec<String>, Error> {
    let id = Space::parse(pages.page(0)?)?.id;
    let root = table.root(id)?;
    let layout = instant::layout(table, root, id, pages)?;
    let tree = Tree::read(root, &layout, pages)?;
    let mut leaves = Vec::new();
    for parent in 0..tree.parents.len() {
        leaves.extend(tree.leaves(parent, &layout, pages)?);
    }
    if tree.parents.is_empty() {
        leaves.push(tree.root);
    }
    let (mut lines, mut scratch) = (Vec::new(), Scratch::default());
    for number in leaves {
        let bytes = *pages.page(number)?;
        let page = IndexPage::parse(&bytes, number)?;
        leaf::rows(&page, &layout, &mut scratch, |row| {
            if row.deleted {
                return Ok(());
            }
            let mut line = Vec::new();
            for (at, column) in table.columns().iter().enumerate() {
                let field = layout.fields().iter().position(|field| field.column == Some(at));
                let Some(field) = field else { continue };
                match row.stored(field) {
                    FieldValue::Null => line.extend_from_slice(b"NULL"),
                    FieldValue::Whole(stored) => value::decode(column, stored, &mut line)?,
                    FieldValue::External(local, reference) => {
                        let mut whole = local.to_vec();
                        Reference::parse(reference).read(id, pages, &mut whole)?;
                        value::decode(column, &whole, &mut line)?;
                    }
                }
                line.push(b'|');
            }
            lines.push(String::from_utf8_lossy(&line).into_owned());
            Ok::<(), Error>(())
        })?;
    }
    Ok(lines)
}

#[test]
fn rows_of_a_table_that_was_altered_at_an_instant() {
    let found = rows(&table(MOVED_TABLE), &mut Memory::new(MOVED)).unwrap();
    // Of 900 keys 111 begin with a 1.
    assert_eq!(found.len(), 900 - 111 + 100);
    for line in ["NULL|key 2|2|2|e|", "7|next 7|7|7|e|", "50|last 50|50|50|NULL|"] {
        assert!(found.iter().any(|row| row == line), "{line}");
    }
    assert!(found.is_sorted_by_key(|row| row.split('|').nth(1).unwrap().to_owned()));
}

#[test]
fn values_that_are_not_in_their_row() {
    let found = rows(&table(AWAY_TABLE), &mut Memory::new(AWAY)).unwrap();
    let expected = ["1|".to_owned() + &"a".repeat(9000), "2|".to_owned() + &"b".repeat(40_000), "3|c".into()];
    assert_eq!(found[..3], expected.map(|row| row + "|"));
    assert_eq!(found[3], "4|NULL|");
}

#[test]
fn extents_and_segments_say_who_has_a_page() {
    let mut pages = Memory::new(MOVED);
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    assert_eq!((space.sums, space.pages, space.free_limit), (Sums::Full, 16, 64));
    let extents = Extents::read(&space, &mut pages).unwrap();
    assert_eq!(extents.all()[0].state, ExtentState::Fragments);
    let segments = space::segments(&space, &mut pages).unwrap();
    let mut owned: Vec<u32> = segments.iter().flat_map(|segment| segment.fragments.clone()).collect();
    owned.sort_unstable();
    // The other used pages are the first page, its bitmap, and the page of segments itself.
    let used: Vec<u32> = (3..64).filter(|&page| !extents.is_free(page)).collect();
    assert_eq!(owned, used);
    assert!(owned.contains(&CLUSTERED_ROOT) && extents.is_free(63) && extents.is_free(64));
}

#[test]
fn a_flipped_bit_is_named_by_its_page() {
    let table = table(MOVED_TABLE);
    for (page, at) in [(0, 100), (3, 38), (4, 8000), (4, PAGE_BYTES - 1)] {
        let mut pages = Memory::new(MOVED);
        pages.bytes[page * PAGE_BYTES + at] ^= 1;
        let error = rows(&table, &mut pages).unwrap_err().to_string();
        assert!(error.contains("wrong checksum") && error.contains(&format!("page {page},")), "{error}");
    }
    let mut pages = Memory::new(MOVED);
    let (first, second) = (4 * PAGE_BYTES, 5 * PAGE_BYTES);
    pages.bytes.copy_within(second..second + PAGE_BYTES, first);
    assert!(rows(&table, &mut pages).unwrap_err().to_string().contains("page 5 is where page 4 should be"));
}

#[test]
fn another_table_s_definition_is_recognised() {
    for (from, to) in
        [("c INT", "c BIGINT"), ("f INT,", "f INT NOT NULL,"), ("b INT,", ""), ("b INT,", "b INT, x INT,")]
    {
        let statement = MOVED_TABLE.replace(from, to);
        let error = rows(&table(&statement), &mut Memory::new(MOVED)).unwrap_err();
        assert!(
            matches!(&error, Error::Corrupt { place, .. } if place.contains("page")),
            "{statement}: {error}"
        );
    }
}

/// An error in a leaf is found even when no checksum shows it.
#[test]
fn every_part_of_a_leaf_is_proven() {
    let mut pages = Memory::new(AWAY);
    pages.proven = false;
    let leaf = CLUSTERED_ROOT as usize * PAGE_BYTES;
    let page = IndexPage::parse(pages.page(CLUSTERED_ROOT).unwrap(), CLUSTERED_ROOT).unwrap();
    let mut origins = Vec::new();
    page.chain(&mut origins).unwrap();
    let first = usize::from(origins[0]);
    assert_eq!(RecordHeader::at(page.bytes, first).heap_number, 2);
    let table = table(AWAY_TABLE);
    // Heap number, kind, next record, its distance, the page's counts, slots, level, neighbours, the ends.
    let places =
        [first - 4, first - 3, first - 2, first - 1, 39, 41, 43, 47, 55, 65, 11, 15, 95, 97, 98, 16_375];
    for at in places {
        let mut damaged = pages.clone();
        damaged.bytes[leaf + at] ^= 0x11;
        let error = rows(&table, &mut damaged).expect_err(&format!("byte {at}"));
        assert!(matches!(error, Error::Corrupt { .. } | Error::Unsupported(_)), "{at}: {error}");
    }
}

/// Only a page above the leaves has pointers and a least record.
#[test]
fn rows_are_records_of_their_own_kind() {
    let mut pages = Memory::new(AWAY);
    pages.proven = false;
    let page = IndexPage::parse(pages.page(CLUSTERED_ROOT).unwrap(), CLUSTERED_ROOT).unwrap();
    let mut origins = Vec::new();
    page.chain(&mut origins).unwrap();
    for origin in origins {
        let header = CLUSTERED_ROOT as usize * PAGE_BYTES + usize::from(origin) - 5;
        for (at, bit) in [(header, 0x10), (header + 2, 1)] {
            let mut other = pages.clone();
            other.bytes[at] |= bit;
            let error = rows(&table(AWAY_TABLE), &mut other).unwrap_err().to_string();
            assert!(error.contains("a record among rows is none"), "{error}");
        }
    }
}

/// A record that was deleted and purged is in the list of free ones, and its fields are zeros.
#[test]
fn freed_records_are_found_while_they_have_bytes() {
    let mut pages = Memory::new(AWAY);
    pages.proven = false;
    let id = Space::parse(pages.page(0).unwrap()).unwrap().id;
    let layout = instant::layout(&table(AWAY_TABLE), CLUSTERED_ROOT, id, &mut pages).unwrap();
    let mut bytes = *pages.page(CLUSTERED_ROOT).unwrap();
    let mut origins = Vec::new();
    IndexPage::parse(&bytes, CLUSTERED_ROOT).unwrap().chain(&mut origins).unwrap();
    let (third, fourth) = (usize::from(origins[2]), usize::from(origins[3]));
    // The last two rows lead to each other, and the page to the first of them: then it has so many more.
    bytes[38 + 6..38 + 8].copy_from_slice(&origins[2].to_be_bytes());
    bytes[third - 2..third].copy_from_slice(&(origins[3].wrapping_sub(origins[2])).to_be_bytes());
    bytes[fourth - 2..fourth].fill(0);
    let found = |bytes: &Page| {
        let page = IndexPage::parse(bytes, CLUSTERED_ROOT).unwrap();
        let (mut found, mut scratch) = (Vec::new(), Scratch::default());
        leaf::freed(&page, &layout, &mut scratch, |row| found.push(row.extent.origin));
        found
    };
    assert_eq!(found(&bytes), [third, fourth]);
    for (at, bit) in [(fourth - 5, 0x10), (fourth - 3, 1)] {
        let mut other = bytes;
        other[at] |= bit;
        assert_eq!(found(&other), [third], "it is no row");
    }
    // The key, DB_TRX_ID and DB_ROLL_PTR; the value of the last row is NULL.
    bytes[fourth..fourth + 4 + 6 + 7].fill(0);
    assert_eq!(found(&bytes), [third]);
    bytes[fourth + 16] = 1;
    assert_eq!(found(&bytes), [third, fourth]);
}

/// No checksum notices it: a page's heap may end anywhere before its directory.
#[test]
fn a_record_that_reaches_beyond_the_heap_is_refused() {
    let mut pages = Memory::new(AWAY);
    let id = Space::parse(pages.page(0).unwrap()).unwrap().id;
    let layout = instant::layout(&table(AWAY_TABLE), CLUSTERED_ROOT, id, &mut pages).unwrap();
    let bytes = *pages.page(CLUSTERED_ROOT).unwrap();
    let page = IndexPage::parse(&bytes, CLUSTERED_ROOT).unwrap();
    let (mut origins, mut places) = (Vec::new(), Vec::new());
    page.chain(&mut origins).unwrap();
    assert_eq!(origins.len(), 4);
    for origin in origins.into_iter().map(usize::from) {
        let header = RecordHeader::at(&bytes, origin);
        let end = layout.parse(&page, header, origin, &mut places).unwrap().end;
        let mut parse = |heap_top: usize| {
            let mut cut = page;
            cut.heap_top = heap_top;
            layout.parse(&cut, header, origin, &mut places)
        };
        assert_eq!(parse(end).unwrap().end, end);
        assert!(matches!(parse(end - 1), Err(Error::Corrupt { .. })), "the record at {origin}");
    }
}

proptest! {
    /// Whatever is changed, the result is rows or an error, and it comes soon.
    #[test]
    fn any_change_gives_rows_or_an_error(
        changes in prop::collection::vec((0_usize..16, prop_oneof![0_usize..130, 0..PAGE_BYTES], any::<u8>()), 1..20),
        away in any::<bool>(),
    ) {
        let (packed, statement) = if away { (AWAY, AWAY_TABLE) } else { (MOVED, MOVED_TABLE) };
        let mut pages = Memory::new(packed);
        pages.proven = false;
        let count = pages.bytes.len() / PAGE_BYTES;
        for (page, at, byte) in changes {
            pages.bytes[page % count * PAGE_BYTES + at] = byte;
        }
        rows(&table(statement), &mut pages).ok();
    }
}
