//! Which values go off-page, and where their parts may be.

use innodb::Error;
use innodb::index_page::{IndexPage, RecordHeader};
use innodb::off_page::{REFERENCE_BYTES, Reference};
use innodb::page::{PAGE_BYTES, Pages};
use innodb::record::FieldPosition;
use innodb::write::Row;

use crate::file::Memory;
use crate::mysql::PARTS;
use crate::written::{FULL, builders, make};

/// The bytes in the row of each column after the key, and whether the value is off-page.
fn places(columns: &str, lens: &[usize]) -> Vec<(u16, bool)> {
    let mut row = Row::default();
    row.push(Some(&[0x80, 0, 0, 1]));
    lens.iter().for_each(|len| row.push(Some(&vec![b'x'; *len])));
    let statement = format!("CREATE TABLE t (a INT NOT NULL, {columns}, PRIMARY KEY (a)) ENGINE=InnoDB");
    let mut made = make(&statement, FULL, &[row], 1).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let bytes = *made.file.page(3).unwrap();
    let page = IndexPage::parse(&bytes, 3).unwrap();
    let (mut origins, mut places) = (Vec::new(), Vec::new());
    page.chain(&mut origins).unwrap();
    let origin = usize::from(origins[0]);
    let layout = builders(&made.table)[0].layout().clone();
    layout.parse(&page, RecordHeader::at(&bytes, origin), origin, &mut places).unwrap();
    // Behind the key are DB_TRX_ID and DB_ROLL_PTR.
    let place = |place: &FieldPosition| match *place {
        FieldPosition::Inline { len, .. } => (len, false),
        FieldPosition::External { len, .. } => (len, true),
        other => panic!("{other:?}"),
    };
    places[3..].iter().map(place).collect()
}

/// `dtuple_convert_big_rec()`: the longest ones, until the record has less than half a page.
#[test]
fn the_longest_values_go_off_page_until_the_record_fits() {
    let three = "b LONGBLOB NOT NULL, c LONGBLOB NOT NULL, d LONGBLOB NOT NULL";
    let away = (20, true);
    for (lens, wanted) in [
        ([4000, 3999, 4001], [(4000, false), (3999, false), away]),
        // What is a little shorter than the first one stays.
        ([4500, 4490, 100], [away, (4490, false), (100, false)]),
        ([4490, 4500, 100], [(4490, false), away, (100, false)]),
        ([4500, 4500, 100], [away, (4500, false), (100, false)]),
        ([9000, 8200, 9100], [away, away, away]),
        ([9000, 40, 9100], [away, (40, false), away]),
    ] {
        assert_eq!(places(three, &lens), wanted, "{lens:?}");
    }
    // Bits for NULL, one for each column, take bytes too. A record with so many has 25 bytes more.
    let nullable: String = (0..8).map(|at| format!(", c{at} TINYBLOB")).collect();
    for (nulls, bytes) in [("", 1), (nullable.as_str(), 2)] {
        let columns = format!("b LONGBLOB{nulls}");
        let short = vec![0; nulls.matches(',').count()];
        let extra = 5 + bytes + 2 + 4 + 6 + 7 + short.len();
        for (len, is_away) in [(8125 - extra, false), (8126 - extra, true)] {
            let lens: Vec<usize> = std::iter::once(len).chain(short.iter().copied()).collect();
            assert_eq!(places(&columns, &lens)[0].1, is_away, "{len}{nulls}");
        }
    }
}

/// The first page of a value of MySQL 8, the place of its first entry, and the read value.
const FIRST: usize = 5 * PAGE_BYTES;
const LIST: usize = FIRST + 38 + 26 + 4;

fn value(pages: &mut Memory, version: u32) -> Result<Vec<u8>, Error> {
    let row = IndexPage::parse(pages.page(4)?, 4).map(|page| {
        let mut origins = Vec::new();
        page.chain(&mut origins).map(|()| usize::from(origins[0]))
    })??;
    // Behind the key, DB_TRX_ID and DB_ROLL_PTR.
    let at = 4 * PAGE_BYTES + row + 4 + 6 + 7;
    let bytes: [u8; REFERENCE_BYTES] = pages.bytes[at..at + REFERENCE_BYTES].try_into().unwrap();
    let mut reference = Reference::parse(&bytes);
    reference.at = version;
    let (space_id, mut out) = (reference.space_id, Vec::new());
    reference.read(space_id, pages, &mut out).map(|()| out)
}

fn parts() -> Memory {
    let mut pages = Memory::new(PARTS);
    pages.proven = false;
    pages
}

fn put16(pages: &mut Memory, at: usize, number: usize) {
    pages.bytes[at..at + 2].copy_from_slice(&u16::try_from(number).unwrap().to_be_bytes());
}

#[test]
fn an_entry_lies_between_header_and_trailer() {
    assert!(value(&mut parts(), 2).is_ok());
    let last = PAGE_BYTES - 8 - 60;
    for (offset, is_there) in [(37, false), (38, true), (last, true), (last + 1, false), (PAGE_BYTES, false)]
    {
        let mut pages = parts();
        put16(&mut pages, LIST + 4, offset);
        // What is read there is no entry.
        let error = value(&mut pages, 2).unwrap_err().to_string();
        assert_eq!(!error.contains("is where it can't be"), is_there, "{offset}: {error}");
    }
}

#[test]
fn versions_that_lead_in_a_circle_are_an_error() {
    let mut pages = parts();
    let u16_at =
        |pages: &Memory, at: usize| usize::from(u16::from_be_bytes([pages.bytes[at], pages.bytes[at + 1]]));
    let newest = FIRST + u16_at(&pages, LIST + 4);
    let older = u16_at(&pages, newest + 12 + 4 + 4);
    // The entry after the older version is itself.
    let next = FIRST + older + 6;
    pages.bytes.copy_within(newest + 12 + 4..newest + 12 + 8, next);
    put16(&mut pages, next + 4, older);
    let error = value(&mut pages, 0).unwrap_err().to_string();
    assert!(error.contains("circle"), "{error}");
}
