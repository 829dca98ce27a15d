//! Any bytes as a binary log are events, rows and values, or an error that names the place; also as the
//! bodies of events behind a true beginning of MariaDB or MySQL, without checksums; and those of MySQL in a
//! payload.
#![no_main]

use binlog::event::Body;
use binlog::group::Grouping;
use binlog::reader::Reader;
use binlog::row;
use binlog::tables::Tables;
use libfuzzer_sys::fuzz_target;

const MARIADB: &[u8] = include_bytes!("../../crates/binlog/tests/cases/mariadb-10.11-no-sums.binlog");
/// The magic bytes and the first event.
const MARIADB_BYTES: usize = 256;
const MYSQL: &[u8] = include_bytes!("../../crates/binlog/tests/cases/mysql-9.7-no-sums.binlog");
const MYSQL_BYTES: usize = 127;
/// The kind of a TRANSACTION_PAYLOAD.
const PAYLOAD: u8 = 40;

/// Events of these kinds and bodies behind a beginning, with true lengths.
fn framed(head: &[u8], events: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut log = head.to_vec();
    for (kind, body) in events {
        let len = u32::try_from(body.len() + 19).expect("short");
        log.extend_from_slice(&[0, 0, 0, 0, *kind, 1, 0, 0, 0]);
        log.extend_from_slice(&len.to_le_bytes());
        log.extend_from_slice(&[0; 6]);
        log.extend_from_slice(body);
    }
    log
}

fn walk(log: &[u8]) {
    let Ok(reader) = Reader::open(log) else { return };
    let mut reader = reader.unpacking();
    let (mut grouping, mut tables) = (Grouping::default(), Tables::default());
    while let Ok(Some(event)) = reader.next() {
        assert!(event.end() <= log.len() as u64);
        let Ok(table) = tables.take(&event, |_| {}) else { continue };
        let Ok(body) = table.map_or_else(|| event.parse(), |table| Ok(Body::Table(table))) else { continue };
        grouping.take(&event, &body);
        let Body::Rows(rows) = &body else { continue };
        let Some(table) = tables.get(rows.table_id) else { continue };
        let Ok(all) = row::rows(rows, &table, "rows") else { continue };
        for row in all.map_while(Result::ok) {
            for cell in [row.before, row.after].into_iter().flatten().flat_map(|image| image.cells()) {
                if let Ok(value) = cell.value() {
                    assert!(!value.to_string().is_empty());
                    std::hint::black_box(value.matches("0x41", cell.column));
                }
            }
        }
    }
}

/// A TRANSACTION_PAYLOAD of these events, not compressed.
fn together(events: &[(u8, Vec<u8>)]) -> (u8, Vec<u8>) {
    let stored = framed(&[], events);
    let len = u32::try_from(stored.len()).expect("short").to_le_bytes();
    let head = [&[2, 3, 0xFC, 255, 0, 1, 9, 0xFE][..], &len, &[0; 5]].concat();
    (PAYLOAD, [head, stored].concat())
}

fuzz_target!(|input: (u8, Vec<u8>, Vec<(u8, Vec<u8>)>)| {
    let (how, bytes, events) = input;
    walk(&match how % 4 {
        0 => bytes,
        1 => framed(&MARIADB[..MARIADB_BYTES], &events),
        2 => framed(&MYSQL[..MYSQL_BYTES], &events),
        _ => framed(&MYSQL[..MYSQL_BYTES], &[together(&events)]),
    });
});
