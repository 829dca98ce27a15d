//! Files that are written are read back as what they were made of, and any damage is noticed.

use std::collections::BTreeSet;

use innodb::index_page::{IndexPage, RecordHeader};
use innodb::off_page::Reference;
use innodb::page::{PAGE_BYTES, Page, Pages, u16_at, u32_at};
use innodb::record::{FieldPosition, FieldValue};
use innodb::table::{RowFormat, Table, Version, sql};
use innodb::tree::{Scratch, Tree};
use innodb::verify::{self, Expected};
use innodb::write::{LeafBuilder, LeafRun, Plan, Record, RecordBuilder, Root, Row, Writer, Written};
use innodb::{Error, leaf};

use crate::any_rows::Chance;
use crate::file::Memory;

pub(crate) const FULL: u32 = 0x15;
pub(crate) const OLD: u32 = 0x21;

pub(crate) fn table(statement: &str) -> Table {
    sql::parse(statement, Version(110_806)).unwrap()
}

/// A file with what it was made of.
pub(crate) struct BuiltFile {
    pub(crate) table: Table,
    pub(crate) builders: Vec<RecordBuilder>,
    pub(crate) plan: Plan,
    written: Written,
    pub(crate) file: Memory,
}

impl BuiltFile {
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let BuiltFile { table, builders, plan, written, file } = self;
        verify::file(Expected { table, builders, plan, written }, &mut &*file, 3)
    }
}

pub(crate) fn builders(table: &Table) -> Vec<RecordBuilder> {
    table
        .indexes()
        .iter()
        .map(|index| RecordBuilder::new(table, index, RowFormat::Dynamic).unwrap())
        .collect()
}

/// The file of a table with rows in order, whose runs have `piece` rows each. Entries that another has in a
/// unique key are an error.
pub(crate) fn make(statement: &str, flags: u32, rows: &[Row], piece: usize) -> Result<BuiltFile, Error> {
    make_as((77, 90), statement, flags, rows, piece)
}

/// The same, with the number of the tablespace and of its first index.
pub(crate) fn make_as(
    (space_id, index_id): (u32, u64),
    statement: &str,
    flags: u32,
    rows: &[Row],
    piece: usize,
) -> Result<BuiltFile, Error> {
    let table = table(statement);
    let builders = builders(&table);
    let roots = (3..).zip(index_id..).take(builders.len()).map(|(page, index_id)| Root { index_id, page });
    let plan = Plan { space_id, flags, roots: roots.collect() };
    let mut writer = Writer::new(plan.clone(), &builders)?;
    let mut bytes: Vec<u8> = Vec::new();
    let mut given = BTreeSet::new();
    let mut put = |number: u32, page: &Page| -> Result<(), Error> {
        assert!(given.insert(number), "page {number} is given twice");
        let at = number as usize * PAGE_BYTES;
        bytes.resize(bytes.len().max(at + PAGE_BYTES), 0);
        bytes[at..at + PAGE_BYTES].copy_from_slice(page);
        Ok(())
    };
    let mut row_id = 0;
    for piece in rows.chunks(piece.max(1)) {
        let mut leaves = LeafBuilder::new(&builders[0], plan.roots[0].index_id);
        for row in piece {
            row_id += 1;
            leaves.push(row, row_id)?;
            if leaves.ready() > 7 {
                writer.join(0, leaves.take(), &mut put)?;
            }
        }
        writer.join(0, leaves.finish(), &mut put)?;
    }
    for (at, builder) in builders.iter().enumerate().skip(1) {
        writer.join(at, entries(builder, plan.roots[at].index_id, rows)?, &mut put)?;
    }
    let written = writer.finish(5, &mut put)?;
    bytes.resize(written.pages as usize * PAGE_BYTES, 0);
    Ok(BuiltFile { table, builders, plan, written, file: Memory { bytes, proven: true } })
}

fn entries(builder: &RecordBuilder, index_id: u64, rows: &[Row]) -> Result<LeafRun, Error> {
    let mut entries = Vec::new();
    for (row, id) in rows.iter().zip(1..) {
        let mut record = Record::default();
        builder.record(row, id, &mut record)?;
        entries.push(record);
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut leaves = LeafBuilder::new(builder, index_id);
    for record in &entries {
        leaves.push_record(record)?;
    }
    Ok(leaves.finish())
}

/// The rows of the file, read by nothing that writes.
pub(crate) fn read(made: &BuiltFile) -> Vec<Row> {
    let mut pages = made.file.clone();
    let layout = innodb::instant::layout(&made.table, 3, 77, &mut pages).unwrap();
    let tree = Tree::read(3, &layout, &mut pages).unwrap();
    let mut numbers: Vec<u32> = Vec::new();
    for parent in 0..tree.parents.len() {
        numbers.extend(tree.leaves(parent, &layout, &mut pages).unwrap());
    }
    if tree.parents.is_empty() {
        numbers.push(3);
    }
    let (mut rows, mut scratch) = (Vec::new(), Scratch::default());
    for number in numbers {
        let bytes = *pages.page(number).unwrap();
        let page = IndexPage::parse(&bytes, number).unwrap();
        leaf::rows(&page, &layout, &mut scratch, |found| -> Result<(), Error> {
            let mut row = Row::default();
            for at in 0..made.table.columns().len() {
                let is_it = |field: &innodb::table::Field| field.column == Some(at) && field.prefix.is_none();
                let Some(field) = layout.fields().iter().position(is_it) else {
                    row.push(None);
                    continue;
                };
                match found.stored(field) {
                    FieldValue::Null => row.push(None),
                    FieldValue::Whole(value) => row.push(Some(value)),
                    FieldValue::External(local, reference) => {
                        let mut value = local.to_vec();
                        Reference::parse(reference).read(77, &mut pages, &mut value)?;
                        row.push(Some(&value));
                    }
                }
            }
            rows.push(row);
            Ok(())
        })
        .unwrap();
    }
    rows
}

/// Walks through the lists of extents: each has those of its state, both ways, and counts them.
pub(crate) fn check_lists(file: &Memory) {
    let page = |number: u32| &file.bytes[number as usize * PAGE_BYTES..][..PAGE_BYTES];
    let first = page(0);
    let mut seen = BTreeSet::new();
    let mut walk =
        |page_of_list: &[u8], at: usize, states: &[u32], segment: Option<u64>, full: Option<bool>| -> u32 {
            let (count, mut number, mut place) =
                (u32_at(page_of_list, at), u32_at(page_of_list, at + 4), u16_at(page_of_list, at + 8));
            let (mut before, mut used) = ((u32::MAX, 0), 0);
            for _ in 0..count {
                let start = usize::from(place) - 8;
                let descriptor = &page(number)[start..start + 40];
                assert_eq!((u32_at(descriptor, 8), u16_at(descriptor, 12)), before);
                assert!(states.contains(&u32_at(descriptor, 20)), "{states:?}");
                let id = u64::from_be_bytes(descriptor[..8].try_into().unwrap());
                assert_eq!(id, segment.unwrap_or(0));
                let free: u32 = descriptor[24..].iter().map(|byte| (byte & 0x55).count_ones()).sum();
                assert!(full.is_none_or(|full| full == (free == 0)));
                used += 64 - free;
                assert!(seen.insert((number, start)), "an extent is in two lists");
                before = (number, place);
                (number, place) = (u32_at(descriptor, 14), u16_at(descriptor, 18));
            }
            assert_eq!((number, place), (u32::MAX, 0));
            assert_eq!((u32_at(page_of_list, at + 10), u16_at(page_of_list, at + 14)), before);
            used
        };
    assert_eq!(walk(first, 38 + 24, &[1], None, None), 0);
    assert_eq!(walk(first, 38 + 40, &[2], None, Some(false)), u32_at(first, 38 + 20));
    walk(first, 38 + 56, &[3], None, Some(true));
    let mut last_segment = 0;
    for at in (50..PAGE_BYTES - 192).step_by(192) {
        let id = u64::from_be_bytes(page(2)[at..at + 8].try_into().unwrap());
        if id != 0 {
            last_segment = id;
            walk(page(2), at + 12, &[4], Some(id), Some(false));
            assert_eq!(walk(page(2), at + 28, &[4], Some(id), Some(false)), u32_at(page(2), at + 8));
            walk(page(2), at + 44, &[4], Some(id), Some(true));
        }
    }
    let extents = u32_at(first, 38 + 12) / 64;
    assert_eq!(seen.len(), extents as usize, "an extent is in no list");
    let next_segment = u64::from_be_bytes(first[38 + 72..38 + 80].try_into().unwrap());
    assert_eq!(next_segment, last_segment + 1, "the number that the server gives to the next segment");
}

pub(crate) fn numbers(count: u32, text: usize) -> Vec<Row> {
    let row = |at: u32| {
        let mut row = Row::default();
        row.push(Some(&(at ^ 1 << 31).to_be_bytes()));
        row.push(Some(&vec![b'x'; text]));
        row
    };
    (0..count).map(row).collect()
}

const SMALL: &str = "CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a)) ENGINE=InnoDB";

fn levels(made: &BuiltFile) -> u16 {
    u16_at(&made.file.bytes, 3 * PAGE_BYTES + 64)
}

#[test]
fn no_row_and_one_row_and_several_levels() {
    for (count, text, want) in
        [(0, 0, 0), (1, 0, 0), (1, 8000, 0), (400, 10, 0), (700, 10, 1), (2600, 8000, 2)]
    {
        let rows = numbers(count, text);
        for flags in [FULL, OLD] {
            let made = make(SMALL, flags, &rows, usize::MAX).unwrap();
            assert_eq!(made.verify(), Ok(()), "{count}");
            assert!(read(&made) == rows);
            assert_eq!(levels(&made), want, "{count} rows");
            assert_eq!(u32_at(&made.file.bytes, 3 * PAGE_BYTES + 60), 5, "the last AUTO_INCREMENT");
            check_lists(&made.file);
        }
    }
}

/// A leaf of another index has the last transaction that changed it where the rows' root counts: no page may
/// have none.
#[test]
fn an_index_without_entries_has_a_transaction() {
    let keyed = "CREATE TABLE t (a INT NOT NULL, b VARBINARY(9), PRIMARY KEY (a), KEY k (b)) ENGINE=InnoDB";
    let made = make(keyed, FULL, &[], usize::MAX).unwrap();
    let last = |page: usize| u32_at(&made.file.bytes, page * PAGE_BYTES + 60);
    assert_eq!([last(3), last(4)], [5, 1]);
}

/// Two rows fill a page; 16,384 pages have one page of descriptors, and whose extent has no leaves.
#[test]
fn a_file_with_a_second_page_of_descriptors_is_whole() {
    let made = make(SMALL, FULL, &numbers(33_200, 8000), usize::MAX).unwrap();
    assert!(made.written.pages > 16_384 + 128, "{}", made.written.pages);
    assert_eq!(u16_at(&made.file.bytes, 16_384 * PAGE_BYTES + 24), 9);
    assert_eq!(made.verify(), Ok(()));
    check_lists(&made.file);
}

/// A record has 25 bytes more than its text, and two must fit into 16,252 with the bytes of their slots.
#[test]
fn the_longest_record_stays_and_one_byte_more_goes_off_page() {
    let statement = "CREATE TABLE t (a INT NOT NULL, b LONGBLOB NOT NULL, PRIMARY KEY (a)) ENGINE=InnoDB";
    let extra = 5 + 2 + 4 + 6 + 7;
    for (text, pages) in [(8125 - extra, 4 + 2), (8126 - extra, 4 + 4)] {
        let rows = numbers(4, text);
        let made = make(statement, FULL, &rows, usize::MAX).unwrap();
        assert_eq!(made.verify(), Ok(()));
        assert!(read(&made) == rows);
        assert_eq!(made.written.pages, pages, "{text}");
        let values = made.file.bytes.chunks(PAGE_BYTES).filter(|page| u16_at(page, 24) == 10).count();
        assert_eq!(values, if text + extra == 8125 { 0 } else { 4 }, "pages of values");
    }
    // 16,330 bytes are a page.
    for (text, pages) in [(16_330, 1), (16_331, 2), (3 * 16_330, 3)] {
        let made = make(statement, FULL, &numbers(1, text), usize::MAX).unwrap();
        assert_eq!(made.written.pages, 4 + pages);
        assert_eq!(made.verify(), Ok(()));
    }
}

#[test]
fn rows_that_are_too_long_or_too_late_or_twice_are_named() {
    let wide = "CREATE TABLE t (a INT NOT NULL, b VARCHAR(200) CHARACTER SET ascii NOT NULL, PRIMARY KEY (a)) ENGINE=InnoDB";
    let mut long = numbers(1, 300);
    assert!(make(wide, FULL, &long, 1).is_err(), "300 bytes in 200");
    let columns: Vec<String> =
        (0..60).map(|at| format!("c{at} CHAR(200) CHARACTER SET ascii NOT NULL")).collect();
    let many =
        format!("CREATE TABLE t (a INT NOT NULL, {}, PRIMARY KEY (a)) ENGINE=InnoDB", columns.join(","));
    long[0].clear();
    long[0].push(Some(&[0; 4]));
    (0..60).for_each(|_| long[0].push(Some(&[b' '; 200])));
    let error = make(&many, FULL, &long, 1).err().unwrap().to_string();
    assert!(error.contains("too long"), "{error}");
    for piece in [1, 2, 9] {
        let mut rows = numbers(4, 3);
        rows.swap(1, 2);
        let error = make(SMALL, FULL, &rows, piece).err();
        let late = Error::Unsorted { index: "PRIMARY".to_owned(), entry: "'1'".to_owned() };
        assert_eq!(error, Some(late), "{piece}");
        rows[2] = rows[1].clone();
        let error = make(SMALL, FULL, &rows, piece).err();
        let twice = Error::Duplicate { index: "PRIMARY".to_owned(), entry: "'2'".to_owned() };
        assert_eq!(error, Some(twice), "{piece}");
    }
    let unique =
        "CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a), UNIQUE KEY u (b)) ENGINE=InnoDB";
    let twice = Error::Duplicate { index: "u".to_owned(), entry: "'xxx'".to_owned() };
    assert_eq!(make(unique, FULL, &numbers(2, 3), 1).err(), Some(twice));
    let mut nulls = numbers(2, 3);
    for (row, key) in nulls.iter_mut().zip([[0; 4], [1; 4]]) {
        row.clear();
        row.push(Some(&key));
        row.push(None);
    }
    assert_eq!(make(unique, FULL, &nulls, 1).unwrap().verify(), Ok(()), "two NULLs are no duplicate");
}

/// Whether a page may have anything here: it says nothing of the table. LSN; of a page of a tree the last
/// insert, its direction and its transaction, the segments where it is no root, and room behind records.
fn is_mute(page: &[u8], at: usize, last_root: u32) -> bool {
    let is_tree = u16_at(page, 24) == 17_855;
    let top = usize::from(u16_at(page, 40));
    let directory = (PAGE_BYTES - 8).saturating_sub(2 * usize::from(u16_at(page, 38)));
    (16..24).contains(&at)
        || (26..34).contains(&at)
        || at >= PAGE_BYTES - 8
        || is_tree
            && ((48..54).contains(&at)
                || (56..64).contains(&at) && u32_at(page, 4) != 3
                || (top..directory).contains(&at))
        || is_tree && (74..94).contains(&at) && u32_at(page, 4) > last_root
}

#[test]
fn no_changed_byte_passes() {
    changes_are_noticed(", UNIQUE KEY u (b, a)");
}

#[test]
fn no_changed_byte_passes_without_another_key() {
    changes_are_noticed("");
}

/// Two trees have more pages one by one than the first extent has.
#[test]
fn a_shared_extent_that_is_full_says_so() {
    let statement =
        "CREATE TABLE t (a INT NOT NULL, b VARBINARY(1000), PRIMARY KEY (a), KEY k (b)) ENGINE=InnoDB";
    let made = make(statement, FULL, &numbers(900, 1000), usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let first = &made.file.bytes[..PAGE_BYTES];
    assert_eq!(u32_at(first, 38 + 56), 1, "full extents");
    assert_eq!(u32_at(first, 150 + 20), 3, "the state of the first one");
    check_lists(&made.file);
}

/// The bits of NULLs take more than a byte, in a row with an off-page value and in a key.
#[test]
fn more_columns_than_a_byte_has_bits_may_be_null() {
    let columns: String = (0..12).map(|at| format!("c{at} INT, ")).collect();
    let key = (0..12).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
    let statement = format!(
        "CREATE TABLE t (a INT NOT NULL, {columns}v LONGBLOB, PRIMARY KEY (a), KEY k ({key})) ENGINE=InnoDB"
    );
    let rows: Vec<Row> = (0..1500_u32)
        .map(|at| {
            let mut row = Row::default();
            let number = (at | 1 << 31).to_be_bytes();
            row.push(Some(&number));
            (0..12).for_each(|column| row.push((at % 12 != column).then_some(&number)));
            row.push(Some(&vec![b'v'; if at < 24 { 20_000 } else { 5 }]));
            row
        })
        .collect();
    let made = make(&statement, FULL, &rows, usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    assert!(read(&made) == rows);
}

/// The server would look for other entries than those, and not find them.
#[test]
fn a_key_on_a_prefix_has_so_many_characters() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    let utf16le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let latin1 = |text: &str| text.chars().map(|char| char as u8).collect::<Vec<u8>>();
    let (text, part) = ("a\u{1f600}\u{e4}xyz", "a\u{1f600}\u{e4}");
    for (charset, value, prefix) in [
        ("utf8mb4", text.as_bytes().to_vec(), part.as_bytes().to_vec()),
        ("utf16", utf16(text), utf16(part)),
        ("utf16le", utf16le(text), utf16le(part)),
        ("latin1", latin1("a\u{e4}\u{f6}xyz"), latin1("a\u{e4}\u{f6}")),
    ] {
        for (value, prefix) in [(&value, &prefix), (&prefix, &prefix)] {
            let statement = format!(
                "CREATE TABLE t (a INT NOT NULL, v VARCHAR(30) CHARACTER SET {charset} NOT NULL, PRIMARY KEY (a), \
                 KEY k (v(3))) ENGINE=InnoDB"
            );
            let mut row = Row::default();
            row.push(Some(&[0x80, 0, 0, 7]));
            row.push(Some(value));
            let made = make(&statement, FULL, &[row], 1).unwrap();
            let entries = &made.file.bytes[4 * PAGE_BYTES..][..PAGE_BYTES];
            // The length, the header of five bytes, the text and the primary key.
            let expected = [&prefix[..], &[0x80, 0, 0, 7, 0]].concat();
            assert_eq!(usize::from(entries[120]), prefix.len(), "{charset}");
            assert_eq!(&entries[126..][..expected.len()], expected, "{charset}");
        }
    }
}

/// Changes bits of a byte, and the checksum of its page with it.
pub(crate) fn flip(file: &mut Memory, number: usize, at: usize, bits: u8) {
    let page = &mut file.bytes[number * PAGE_BYTES..][..PAGE_BYTES];
    page[at] ^= bits;
    let (summed, sum) = page.split_at_mut(PAGE_BYTES - 4);
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, summed);
    sum.copy_from_slice(&u32::try_from(crc).unwrap().to_be_bytes());
}

/// Every byte that counts is changed, one at a time, with a right checksum.
fn changes_are_noticed(key: &str) {
    let statement =
        format!("CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a){key}) ENGINE=InnoDB");
    let last_root = if key.is_empty() { 3 } else { 4 };
    let mut made = make(&statement, FULL, &numbers(12, 3000), usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let whole = made.file.bytes.clone();
    let pages = whole.len() / PAGE_BYTES;
    let mut chance = Chance(1);
    let (mut tried, mut missed) = (0, Vec::new());
    for number in 0..pages {
        let start = number * PAGE_BYTES;
        let page = &whole[start..start + PAGE_BYTES];
        let candidates = (4..200).chain((0..200).map(|_| chance.below(PAGE_BYTES - 8)));
        let candidates = candidates.chain(PAGE_BYTES - 30..PAGE_BYTES - 8);
        for at in candidates.collect::<Vec<_>>() {
            if is_mute(page, at, last_root) {
                continue;
            }
            flip(&mut made.file, number, at, 1 << chance.below(8));
            tried += 1;
            if made.verify().is_ok() {
                missed.push((number, at));
            }
            made.file.bytes[start..start + PAGE_BYTES].copy_from_slice(page);
        }
    }
    assert_eq!(missed, [], "of {tried}");
}

/// Such a record is not known by its hash: it is made again and compared with the page.
#[test]
fn no_changed_byte_of_a_record_with_off_page_values_passes() {
    let statement = "CREATE TABLE t (a INT NOT NULL, b LONGBLOB, c VARBINARY(20), d LONGBLOB, PRIMARY KEY (a)) ENGINE=InnoDB";
    let rows = [1, 2].map(|at: u8| {
        let mut row = Row::default();
        row.push(Some(&[0x80, 0, 0, at]));
        [20_000, 5, 9_000].iter().for_each(|len| row.push(Some(&vec![at; *len])));
        row
    });
    let mut made = make(statement, FULL, &rows, usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let whole = *made.file.page(3).unwrap();
    let page = IndexPage::parse(&whole, 3).unwrap();
    let (mut origins, mut places, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    page.chain(&mut origins).unwrap();
    for origin in origins.into_iter().map(usize::from) {
        let header = RecordHeader::at(&whole, origin);
        let extent = made.builders[0].layout().parse(&page, header, origin, &mut places).unwrap();
        // Four bytes of a reference say who frees the pages of the value, and no reader looks at them.
        let flags = |place: &FieldPosition| match *place {
            FieldPosition::External { at, len } => Some(usize::from(at + len) - 8),
            _ => None,
        };
        let flags: Vec<usize> = places.iter().filter_map(flags).collect();
        assert_eq!(flags.len(), 2);
        for at in extent.start..extent.end {
            if flags.iter().any(|first| (*first..first + 4).contains(&at)) {
                continue;
            }
            flip(&mut made.file, 3, at, 1);
            if made.verify().is_ok() {
                missed.push((origin, at));
            }
            flip(&mut made.file, 3, at, 1);
        }
    }
    assert_eq!(missed, []);
    assert_eq!(made.verify(), Ok(()));
}
