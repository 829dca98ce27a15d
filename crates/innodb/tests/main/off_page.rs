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

/// The version that a row refers to is the newest one that is not newer than that.
#[test]
fn a_row_has_the_version_that_it_refers_to() {
    let [first, second, third] = [1, 2, 3].map(|version| value(&mut parts(), version).unwrap());
    assert!(!first.contains(&b'z') && second.contains(&b'z'));
    assert_eq!(second, third);
}

/// Each change of a part leaves an entry, and their lists may be longer than there are pages.
#[test]
fn a_value_may_have_hundreds_of_older_versions() {
    let mut pages = Memory { bytes: vec![0; 4 * PAGE_BYTES], proven: false };
    let put32 = |pages: &mut Memory, at: usize, number: u32| {
        pages.bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    };
    for (page, kind) in [(1, 24), (2, 22), (3, 22)] {
        put16(&mut pages, page * PAGE_BYTES + 24, kind);
    }
    // The newest entry is in the first page, and 270 of the others are in each of the two behind it.
    let place = |at: usize| match at {
        0 => (1, 38 + 58),
        at => (2 + (at - 1) / 270, 38 + (at - 1) % 270 * 60),
    };
    let count = 500;
    put32(&mut pages, PAGE_BYTES + 38 + 26 + 4, 1);
    put16(&mut pages, PAGE_BYTES + 38 + 26 + 8, 38 + 58);
    for at in 0..=count {
        let entry = |at: usize| place(at).0 * PAGE_BYTES + place(at).1;
        let (page, offset) = place(at + 1);
        // Older versions of the newest entry, and the next entry of any other.
        let link = entry(at) + if at == 0 { 12 + 4 } else { 6 };
        put32(&mut pages, link, u32::try_from(page).unwrap());
        put16(&mut pages, link + 4, offset);
        put32(&mut pages, entry(at) + 48, 1);
        put16(&mut pages, entry(at) + 52, 5);
        put32(&mut pages, entry(at) + 56, u32::try_from(count - at).unwrap());
    }
    let part = PAGE_BYTES + 38 + 58 + 600;
    pages.bytes[part..part + 5].copy_from_slice(b"bytes");
    let reference = Reference { space_id: 0, page: 1, at: 0, len: 5 };
    let mut out = Vec::new();
    assert_eq!(reference.read(0, &mut pages, &mut out), Ok(()));
    assert_eq!(out, b"bytes");
    // A part has at least a byte, and no more than are left.
    let last = place(count).0 * PAGE_BYTES + place(count).1;
    for (len, left) in [(0, 5), (5, 4)] {
        put16(&mut pages, last + 52, len);
        let error = Reference { len: left, ..reference }.read(0, &mut pages, &mut out).unwrap_err();
        assert!(error.to_string().contains("more or fewer bytes than it can"), "{error}");
    }
}

/// Pages of a value, each with its bytes and the next page: their number, and how many are counted.
fn chained(parts: &[(usize, u32)], len: u32) -> Result<Vec<u8>, String> {
    let mut pages = Memory { bytes: vec![0; (1 + parts.len()) * PAGE_BYTES], proven: false };
    for (at, (len, next)) in parts.iter().enumerate() {
        let page = &mut pages.bytes[(1 + at) * PAGE_BYTES..][..PAGE_BYTES];
        page[25] = 10;
        page[38..42].copy_from_slice(&u32::try_from(*len).unwrap().to_be_bytes());
        page[42..46].copy_from_slice(&next.to_be_bytes());
        page[46..].fill(u8::try_from(1 + at).unwrap());
    }
    let reference = Reference { space_id: 7, page: 1, at: 38, len };
    let mut out = Vec::new();
    assert!(reference.read(8, &mut pages, &mut Vec::new()).is_err(), "another tablespace");
    assert!(Reference { at: 39, ..reference }.read(7, &mut pages, &mut Vec::new()).is_err());
    reference.read(7, &mut pages, &mut out).map(|()| out).map_err(|error| error.to_string())
}

#[test]
fn pages_of_a_value_are_full_but_for_the_last_one() {
    let end = u32::MAX;
    let two = chained(&[(16_330, 2), (10, end)], 16_340).unwrap();
    assert_eq!((two.len(), two[16_329], two[16_330]), (16_340, 1, 2));
    for (parts, len, what) in [
        (&[(0, 2), (10, end)][..], 10, "more or fewer bytes"),
        (&[(16_331, 2), (10, end)], 16_341, "more or fewer bytes"),
        (&[(16_330, 2), (11, end)], 16_340, "more or fewer bytes"),
        (&[(16_330, end), (10, end)], 16_340, "end before it"),
        (&[(16_330, 0), (10, end)], 16_340, "something else"),
        (&[(16_330, end)], 2 * 16_330, "end before it"),
        (&[(16_330, end)], 2 * 16_330 + 1, "longer than all pages together"),
    ] {
        let error = chained(parts, len).unwrap_err();
        assert!(error.contains(what), "{parts:?}: {error}");
    }
}

/// Of a value without such bytes no page is read.
#[test]
fn nothing_is_nowhere() {
    let mut pages = Memory { bytes: vec![0; PAGE_BYTES], proven: false };
    let mut read = |page: u32, len: u32| {
        let mut out = Vec::new();
        let read = Reference { space_id: 7, page, at: 38, len }.read(7, &mut pages, &mut out);
        read.map(|()| out).map_err(|error| error.to_string())
    };
    assert_eq!([read(99, 0), read(u32::MAX, 0)], [Ok(vec![]), Ok(vec![])]);
    assert!(read(u32::MAX, 5).unwrap_err().contains("end before it"));
}
