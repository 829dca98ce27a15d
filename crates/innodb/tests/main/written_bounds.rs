//! What records, leaves and pages above them take: bounds at which something else happens.

use innodb::Error;
use innodb::page::{PAGE_BYTES, u16_at};
use innodb::write::{LeafBuilder, Record, Row};

use crate::written::{FULL, builders, make, numbers, table};

fn row(values: &[Option<&[u8]>]) -> Row {
    let mut row = Row::default();
    values.iter().for_each(|value| row.push(*value));
    row
}

const KEY: &[u8] = &[0x80, 0, 0, 1];
const BLOBS: &str = "CREATE TABLE t (a INT NOT NULL, b LONGBLOB, PRIMARY KEY (a)) ENGINE=InnoDB";

/// A page has 16,330 bytes of a value.
#[test]
fn values_and_leaves_wait_for_their_pages() {
    let builders = builders(&table(BLOBS));
    let mut leaves = LeafBuilder::new(&builders[0], 90);
    leaves.push(&row(&[Some(KEY), Some(&[b'x'; 40_000])]), 0).unwrap();
    assert_eq!(leaves.ready(), 3);
    assert_eq!(leaves.finish().pages(), 3 + 1);
    let mut record = Record::default();
    // Beside the value are the header, a NULL bit, the key and what belongs to the system; the length takes
    // one byte or two, and where the value is takes 20.
    for (len, bytes) in [
        (10, 24 + 10),
        (127, 24 + 127),
        (128, 25 + 128),
        (40_000, 25 + 20 + 3 * 16_384),
        (16_330, 25 + 20 + 16_384),
    ] {
        let row = row(&[Some(KEY), Some(&vec![b'x'; len])]);
        builders[0].record(&row, 0, &mut record).unwrap();
        assert_eq!(record.stored_bytes(&row), bytes, "{len}");
    }
}

/// The rows of a table whose key has the beginning of a column are made another way.
#[test]
fn lengths_of_one_byte_and_of_two() {
    let statement = "CREATE TABLE t (a INT NOT NULL, b VARBINARY(9) NOT NULL, c VARBINARY(300), PRIMARY KEY (a, b(3))) \
                     ENGINE=InnoDB";
    let builder = &builders(&table(statement))[0];
    let mut record = Record::default();
    for (len, bytes) in [(127, 1 + 127), (128, 2 + 128), (300, 2 + 300)] {
        let row = row(&[Some(KEY), Some(b"ninebytes"), Some(&vec![b'x'; len])]);
        builder.record(&row, 0, &mut record).unwrap();
        // The header, a NULL bit, the key with the length of its second part, and what belongs to the system.
        assert_eq!(record.stored_bytes(&row), 5 + 1 + 4 + 1 + 3 + 13 + 1 + 9 + bytes, "{len}");
    }
    let error = builder.record(&row(&[Some(KEY), Some(b"ten bytes!"), None]), 0, &mut record).unwrap_err();
    assert!(error.to_string().contains("10 bytes in a field"), "{error}");
}

#[test]
fn an_entry_is_named_by_its_values() {
    let statement =
        "CREATE TABLE t (a INT NOT NULL, b VARBINARY(9), PRIMARY KEY (a), KEY k (b)) ENGINE=InnoDB";
    let builders = builders(&table(statement));
    for (value, text) in [(Some(&b"x\n"[..]), "'x\\n'"), (None, "NULL")] {
        let entry = format!("{text}, '1'");
        let named = Error::Duplicate { index: "k".to_owned(), entry };
        assert_eq!(builders[1].duplicate(&row(&[Some(KEY), value])), named);
    }
    assert_eq!(builders.iter().map(|builder| builder.name()).collect::<Vec<_>>(), ["PRIMARY", "k"]);
}

/// `dtuple_convert_big_rec()` leaves values of up to 40 bytes, also where the record does not fit then.
#[test]
fn short_values_stay_in_a_record_that_is_too_long() {
    let columns: Vec<String> = (0..200).map(|at| format!("c{at} BLOB NOT NULL")).collect();
    let statement =
        format!("CREATE TABLE t (a INT NOT NULL, {}, PRIMARY KEY (a)) ENGINE=InnoDB", columns.join(","));
    for (len, fits) in [(40, false), (41, true)] {
        let mut row = row(&[Some(KEY)]);
        (0..200).for_each(|_| row.push(Some(&vec![b'x'; len])));
        let made = make(&statement, FULL, &[row], 1);
        assert_eq!(made.map_err(|error| error.to_string().contains("too long")).is_ok(), fits, "{len}");
    }
}

#[test]
fn a_value_has_the_length_of_its_column() {
    for len in [3, 5] {
        let error =
            make(BLOBS, FULL, &[row(&[Some(&KEY.repeat(2)[..len]), None])], 1).err().unwrap().to_string();
        assert!(error.contains("bytes in a field that can't have as many"), "{error}");
    }
}

/// 60 node pointers of 266 bytes and their slots fit into a page of an index without rows. With one more they
/// take five bytes too many.
#[test]
fn pages_above_the_leaves_are_filled_to_the_last_byte() {
    let statement =
        "CREATE TABLE t (a INT NOT NULL, b BINARY(253) NOT NULL, PRIMARY KEY (a), KEY k (b)) ENGINE=InnoDB";
    let made = make(statement, FULL, &numbers(4000, 253), usize::MAX).unwrap();
    assert_eq!(made.verify(), Ok(()));
    let above = made.file.bytes.chunks_exact(PAGE_BYTES).filter(|page| {
        let is_of_key = page[38 + 28..38 + 36] == made.plan.roots[1].index_id.to_be_bytes();
        is_of_key && u16_at(page, 38 + 26) == 1
    });
    assert_eq!(above.map(|page| u16_at(page, 38 + 16)).max(), Some(60));
}
