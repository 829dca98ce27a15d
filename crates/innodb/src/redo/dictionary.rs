//! Rows of the dictionary that a redo log changes: what undo records say of `SYS_TABLES`.
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

/// The table, such as `database/table`, whose row in the table of tables an extended record is about to
/// change, if it is. `record` is what follows the page's number.
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
    let (len, rest) = compressed(rest.get(4..)?)?;
    rest.get(..usize::try_from(len).ok()?)
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
    use super::table;

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
}
