//! What a check of written pages says of damage.

use innodb::page::PAGE_BYTES;

use crate::written::{FULL, flip, make, numbers};

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
    ] {
        flip(&mut made.file, page, at, 1);
        let error = made.verify().unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(&format!("page {page}, byte {place}")), "{error}");
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
