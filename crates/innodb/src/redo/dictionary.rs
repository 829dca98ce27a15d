//! Changes of the data dictionary in a redo log: undo records of `SYS_TABLES`.
//!
//! Facts: `mtr0types.h` (`UNDO_APPEND`), `trx0rec.cc` (`trx_undo_page_report_modify`), `mach0data.inl` and
//! `dict0boot.h` of MariaDB's source.

/// What an extended record about a page begins with if it adds an undo record.
const UNDO_APPEND: u8 = 3;
/// The bits of an undo record's first byte that say what was done; a row that exists was changed.
const UNDO_KIND: u8 = 0x0F;
const UNDO_UPDATE: u8 = 12;
/// The number of the table of tables.
const SYS_TABLES: u32 = 1;
/// Its fields that IMPORT changes: the flags (`MIX_LEN`), of which one says that the tablespace is
/// discarded, and `SPACE`. A column that is added to a table changes `N_COLS`, and its file stays.
const OF_FILE: [u32; 2] = [7, 9];

/// The table, such as `database/table`, whose file an extended record is about to change in the table of
/// tables, if it is. `record` is what follows the page's number.
pub(super) fn table(record: &[u8]) -> Option<&[u8]> {
    let (&[UNDO_APPEND, kind], rest) = record.split_first_chunk()? else { return None };
    if kind & UNDO_KIND != UNDO_UPDATE {
        return None;
    }
    // The number of the undo record and of its table, both small; then flags.
    let (_, rest) = compressed(rest)?;
    let (table, rest) = compressed(rest)?;
    if table != SYS_TABLES {
        return None;
    }
    // The transaction that wrote the row before, and its undo record: two halves of each number.
    let (_, rest) = compressed(rest.get(1..)?)?;
    let (_, rest) = compressed(rest.get(4..)?)?;
    let (name, rest) = field(rest.get(4..)?)?;
    // What can't be read may be anything.
    changes_file(rest).unwrap_or(true).then_some(name)
}

/// Whether one of the fields that a change lists is of the table's file.
fn changes_file(rest: &[u8]) -> Option<bool> {
    let (count, mut rest) = compressed(rest)?;
    for _ in 0..count {
        let (number, after) = compressed(rest)?;
        if OF_FILE.contains(&number) {
            return Some(true);
        }
        (_, rest) = field(after)?;
    }
    Some(false)
}

/// A value behind its length, and what follows it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = compressed(bytes)?;
    rest.split_at_checked(usize::try_from(len).ok()?)
}

/// The table of a file, such as `database/table` of `./database/table.ibd`.
pub(super) fn table_of(name: &str) -> &str {
    let name = name.strip_suffix(".ibd").unwrap_or(name);
    name.rmatch_indices('/').nth(1).map_or(name, |(at, _)| &name[at + 1..])
}

/// A number of one to five bytes (`mach_write_compressed`), and what follows it.
fn compressed(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (count, first) = match *bytes.first()? {
        first @ 0..=0x7F => (1, first),
        first @ 0x80..=0xBF => (2, first & 0x3F),
        first @ 0xC0..=0xDF => (3, first & 0x1F),
        first @ 0xE0..=0xEF => (4, first & 0x0F),
        0xF0 => (5, 0),
        // Numbers that are nearly as large as can be.
        _ => return None,
    };
    let (number, rest) = bytes.split_at_checked(count)?;
    let value = number.get(1..)?.iter().fold(u32::from(first), |value, byte| value << 8 | u32::from(*byte));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::{compressed, table, table_of};

    /// Of a MariaDB 10.11 that imported a tablespace: from behind the page's number on.
    const RECORD: [u8; 30] = [
        3, 0x3C, 1, 1, 0, 0, 0, 0, 0, 0x23, 0xCC, 0, 0, 1, 0x3C, 1, 0x6D, 6, b'a', b'p', b'p', b'/', b't',
        b'3', 1, 7, 4, 0, 0, 0x70,
    ];

    #[test]
    fn a_table_whose_row_is_changed_is_known() {
        assert_eq!(table(&RECORD), Some(&b"app/t3"[..]));
        // Numbers that take more bytes.
        let long = [&RECORD[..2], &[0x80, 1, 1, 0, 0xC0, 0, 7], &RECORD[6..]].concat();
        assert_eq!(table(&long), Some(&b"app/t3"[..]));
        for (at, other) in [(0, 2), (1, 0x3B), (1, 0x3E), (2, 0xFF), (3, 3), (17, 90)] {
            let mut record = RECORD;
            record[at] = other;
            assert_eq!(table(&record), None, "{at}");
        }
        for len in 0..24 {
            assert_eq!(table(&RECORD[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_file_is_of_the_table_that_its_path_ends_with() {
        for name in ["./app/t.ibd", "app/t.ibd", "/data/app/t.ibd", "app/t"] {
            assert_eq!(table_of(name), "app/t", "{name}");
        }
        assert_eq!(table_of("t.ibd"), "t");
    }

    #[test]
    fn numbers_have_one_to_five_bytes() {
        for (bytes, number) in [
            (&[0x7F][..], 0x7F),
            (&[0x80, 0x80], 0x80),
            (&[0xBF, 0xFF], 0x3FFF),
            (&[0xC0, 0x40, 0], 0x4000),
            (&[0xDF, 0xFF, 0xFE], 0x1F_FFFE),
            (&[0xE0, 0x20, 0, 1], 0x20_0001),
            (&[0xEF, 0xFF, 0xFF, 0xFE], 0x0FFF_FFFE),
            (&[0xF0, 0x12, 0x34, 0x56, 0x78], 0x1234_5678),
        ] {
            let more = [bytes, &[9]].concat();
            assert_eq!(compressed(&more), Some((number, &[9][..])), "{bytes:x?}");
            assert_eq!(compressed(&bytes[..bytes.len() - 1]), None, "{bytes:x?}");
        }
        assert_eq!(compressed(&[0xF1, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_change_that_leaves_the_file_is_none() {
        let changed = |fields: &[u8]| [&RECORD[..24], fields].concat();
        let columns = [4, 4, 0x80, 0, 0, 7];
        for (fields, of_file) in [
            ([&[1][..], &columns].concat(), false),
            ([&[2][..], &columns, &[7, 4, 0, 0, 0, 0x70]].concat(), true),
            ([&[2][..], &columns, &[9, 4, 0, 0, 0, 5]].concat(), true),
            // What is torn or NULL may hide one.
            ([&[2][..], &columns].concat(), true),
            ([&[2][..], &[8, 0xFF], &columns].concat(), true),
        ] {
            let record = changed(&fields);
            assert_eq!(table(&record), of_file.then_some(&b"app/t3"[..]), "{fields:?}");
        }
    }
}
