//! What a page holds does not depend on the numbers that a server gives, and on each byte of the rest.

use innodb::page::{DATA, Kind, PAGE_BYTES, Page, TRAILER, kind};
use innodb::verify::digest;
use innodb::write::Row;

use crate::written::{BuiltFile, FULL, OLD, make_as};

/// The numbers of the rows.
const ROWS: std::ops::Range<u32> = 0x8000_0000..0x8000_0000 + 900;

/// A file with pages of all kinds: of two levels, of two indexes, of long values, and free ones.
fn made(numbers: (u32, u64), flags: u32) -> BuiltFile {
    let statement = "CREATE TABLE t (a int(11) NOT NULL, b char(90) CHARACTER SET latin1 COLLATE latin1_bin, c longblob, \
                     PRIMARY KEY (a), KEY b (b)) ENGINE=InnoDB DEFAULT CHARSET=latin1";
    let mut rows = vec![Row::default(); ROWS.len()];
    for (row, a) in rows.iter_mut().zip(ROWS) {
        row.push(Some(&a.to_be_bytes()));
        row.push(Some(format!("{a:90}").as_bytes()));
        row.push((a % 300 == 0).then(|| vec![b'c'; 40_000]).as_deref());
    }
    make_as(numbers, statement, flags, &rows, 100).unwrap()
}

fn pages(made: &BuiltFile) -> impl Iterator<Item = &Page> {
    made.file.bytes.chunks_exact(PAGE_BYTES).map(|page| page.first_chunk().unwrap())
}

/// Whether a page has rows with long values: it refers to them by the tablespace's number.
fn refers(page: &Page, made: &BuiltFile) -> bool {
    let is_clustered = page.get(DATA + 28..DATA + 36) == Some(&made.plan.roots[0].index_id.to_be_bytes());
    let mut texts = ROWS.filter(|a| a % 300 == 0).map(|a| format!("{a:90}"));
    kind(page) == Kind::INDEX
        && is_clustered
        && texts.any(|text| page.windows(90).any(|bytes| bytes == text.as_bytes()))
}

#[test]
fn numbers_of_tablespaces_and_indexes_do_not_count() {
    for flags in [FULL, OLD] {
        let (one, other) = (made((77, 90), flags), made((5000, 1 << 40), flags));
        let mut compared = 0;
        for (page, same) in pages(&one).zip(pages(&other)) {
            if page.iter().all(|&byte| byte == 0) {
                continue;
            }
            let held = digest(page, &one.plan);
            assert!(held.is_some_and(|held| held != 0));
            assert_eq!(digest(page, &other.plan), None);
            assert_eq!(held == digest(same, &other.plan), !refers(page, &one));
            compared += 1;
        }
        assert!(compared > 20, "{compared}");
    }
}

#[test]
fn each_other_byte_counts() {
    for flags in [FULL, OLD] {
        let made = made((77, 90), flags);
        let mut kinds = Vec::new();
        for page in pages(&made) {
            let id = page.get(DATA + 28..DATA + 36);
            if kinds.contains(&(kind(page), id)) || page.iter().all(|&byte| byte == 0) {
                continue;
            }
            let held = digest(page, &made.plan);
            // A checksum, LSNs, and the transaction that has changed an entry last.
            let mut left_out = vec![0..4, 16..24, 26..34, TRAILER..PAGE_BYTES];
            if kind(page) == Kind::INDEX && id == Some(&91_u64.to_be_bytes()) {
                left_out.push(DATA + 18..DATA + 26);
            }
            let mut changed = *page;
            for at in 0..PAGE_BYTES {
                changed[at] ^= 0x10;
                let is_left_out = left_out.iter().any(|range| range.contains(&at));
                assert_eq!(digest(&changed, &made.plan) == held, is_left_out, "{:?}, {at}", kind(page));
                changed[at] ^= 0x10;
            }
            kinds.push((kind(page), id));
        }
        // The first page, the bitmap, the list of segments, the roots of two indexes, and a long value.
        assert_eq!(kinds.len(), 6, "{kinds:?}");
    }
}
