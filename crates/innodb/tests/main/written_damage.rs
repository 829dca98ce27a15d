//! What a check of written pages says of damage.

use innodb::index_page::IndexPage;
use innodb::page::{PAGE_BYTES, Pages, u16_at, u32_at};
use innodb::write::Row;

use crate::file::Memory;
use crate::written::{FULL, builders, flip, make, numbers, table};

/// Whoever looks for the damage is told where it is.
#[test]
fn damage_is_named_by_its_byte() {
    let statement =
        "CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a), KEY k (b)) ENGINE=InnoDB";
    let mut made = make(statement, FULL, &numbers(12, 3000), usize::MAX).unwrap();
    // Places from the end of the header that all pages have: the number that is counted up, segments, records
    // that are gone.
    let (counter, segments, free) = (38 + 18 + 7, 38 + 36 + 9, 38 + 6);
    for (page, at, what, place) in [
        (1, 25, "no bitmap behind the descriptors", 24),
        (3, counter, "another AUTO_INCREMENT value", 38 + 18),
        (4, counter, "another AUTO_INCREMENT value", 38 + 18),
        (3, segments, "a tree has no segment", 38 + 36),
        (3, free + 1, "room of records that are gone", free),
        (3, free + 3, "room of records that are gone", free),
        // The last page of the first segment.
        (2, 50 + 64 + 4 * 31 + 3, "a segment has pages that its tree has not", 38 + 36),
    ] {
        flip(&mut made.file, page, at, 1);
        let error = made.verify().unwrap_err().to_string();
        // The root of the first tree is page 3.
        let named = if page == 2 { 3 } else { page };
        assert!(error.contains(what) && error.contains(&format!("page {named}, byte {place}")), "{error}");
        flip(&mut made.file, page, at, 1);
    }
    assert_eq!(made.verify(), Ok(()));
    // The end of the records of a page above the leaves, one byte or more behind the last one.
    let top = made.file.bytes[3 * PAGE_BYTES + 41];
    flip(&mut made.file, 3, 41, !top & top.wrapping_add(1));
    let error = made.verify().unwrap_err().to_string();
    assert!(error.contains("more or fewer bytes") && error.contains("page 3, byte 40"), "{error}");
    // A leaf that is the root of an index without rows has the transaction that has changed it last there.
    let mut made = make(statement, FULL, &numbers(1, 3), usize::MAX).unwrap();
    flip(&mut made.file, 4, counter, 2);
    assert_eq!(made.verify(), Ok(()));
    flip(&mut made.file, 3, counter, 2);
    assert!(made.verify().is_err());
}

/// Where the records of a page of a tree begin.
fn origins(file: &mut Memory, page: u32) -> Vec<usize> {
    let mut origins = Vec::new();
    IndexPage::parse(file.page(page).unwrap(), page).unwrap().chain(&mut origins).unwrap();
    origins.into_iter().map(usize::from).collect()
}

/// Each of the leaves is read by another thread, and each has two rows.
#[test]
fn leaves_follow_each_other() {
    let statement = "CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a)) ENGINE=InnoDB";
    let mut made = make(statement, FULL, &numbers(6, 8000), usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let pointer = origins(&mut made.file, 3)[1];
    let leaf = u32_at(&made.file.bytes, 3 * PAGE_BYTES + pointer + 4);
    let first = origins(&mut made.file, leaf)[0];
    // The key of the second leaf's first row, and that of the pointer to it, become negative.
    flip(&mut made.file, leaf as usize, first, 0x80);
    flip(&mut made.file, 3, pointer, 0x80);
    let error = made.verify().unwrap_err().to_string();
    assert!(error.contains("two of its leaves are not in order"), "{error}");
}

/// A file that was made for an index that is not unique, and is read as one whose index is.
#[test]
fn entries_of_a_unique_index_differ() {
    let made = |letters: &[u8]| {
        let rows = letters.iter().zip(1..).map(|(letter, at)| {
            let mut row = Row::default();
            row.push(Some(&[0x80, 0, 0, at]));
            row.push(Some(&[*letter; 8000]));
            row
        });
        let statement = |kind: &str| {
            format!(
                "CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a), {kind} k (b)) ENGINE=InnoDB"
            )
        };
        let mut made = make(&statement("KEY"), FULL, &rows.collect::<Vec<_>>(), usize::MAX).unwrap();
        assert_eq!(made.verify(), Ok(()));
        made.table = table(&statement("UNIQUE KEY"));
        made.builders = builders(&made.table);
        made.verify().map_err(|error| error.to_string())
    };
    assert_eq!(made(b"abcd"), Ok(()));
    // A leaf has two entries.
    assert!(made(b"bbcd").unwrap_err().contains("an entry does not follow the one before it"));
    assert!(made(b"abbd").unwrap_err().contains("two of its leaves are not in order"));
}

/// A page of a value leads to the next one.
#[test]
fn the_last_page_of_a_value_leads_nowhere() {
    let statement = "CREATE TABLE t (a INT NOT NULL, b LONGBLOB, PRIMARY KEY (a)) ENGINE=InnoDB";
    let mut made = make(statement, FULL, &numbers(1, 10_000), usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let is_value = |page: &[u8]| u16_at(page, 24) == 10;
    let value = made.file.bytes.chunks_exact(PAGE_BYTES).position(is_value).unwrap();
    flip(&mut made.file, value, 38 + 4, 0x80);
    let error = made.verify().unwrap_err().to_string();
    assert!(
        error.contains("go on behind it") && error.contains(&format!("page {value}, byte 42")),
        "{error}"
    );
}

/// Two bits in a descriptor for each of an extent's 64 pages; the lower one says that it is free.
#[test]
fn a_page_with_a_wrong_mark_is_named_by_its_number() {
    let statement = "CREATE TABLE t (a INT NOT NULL, b VARBINARY(8000), PRIMARY KEY (a)) ENGINE=InnoDB";
    let mut made = make(statement, FULL, &numbers(300, 8000), usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    for page in [5, 63, 64, 70, 127, 128] {
        let at = 150 + 40 * (page / 64) + 24 + page % 64 / 4;
        flip(&mut made.file, 0, at, 1 << (2 * (page % 4)));
        let error = made.verify().unwrap_err().to_string();
        assert!(error.contains("in use") && error.contains(&format!("page {page}, byte 4")), "{error}");
        flip(&mut made.file, 0, at, 1 << (2 * (page % 4)));
    }
}
