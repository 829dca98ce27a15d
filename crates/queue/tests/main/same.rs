//! What is written when no option is set stays the same, byte for byte.

use std::path::Path;
use std::sync::Arc;

use disk::faults::FaultDisk;
use queue::{Engine, Options, Origin, RowId, Source, Sync};

use crate::support::{FOLDER, all, definition, poll, session};

/// Every byte that a script leaves, as one number (FNV-1a over names and contents).
fn sum_of_files(sync: Sync) -> u64 {
    let disk = FaultDisk::default();
    let options =
        Options { segment_bytes: 600, threads: 0, ..Options::new(|| 1_700_000_000_000, || [7; 16]) };
    let engine = Engine::start(Arc::new(disk.clone()), options).unwrap();
    engine.create(Path::new(FOLDER), &definition(sync)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let mut taker = session(1);
    for round in 0..40 {
        let text = format!("row {round} {}", "z".repeat(round % 7 * 20));
        let row = round as u64 + 1;
        let origin = Origin { source: Source::Incarnation([8; 16]), row, floor: row / 2, overwrite: false };
        queue.publish(&[text.as_bytes(), b"second"], (round % 4 == 1).then_some(&origin)).unwrap();
        match round % 8 {
            2 | 3 | 6 => drop(taker.wait(&[all(&queue)], &mut poll(3)).unwrap()),
            4 => drop(taker.delete(&queue, &[RowId(row), RowId(row + 3)]).unwrap()),
            5 => queue.maintain().unwrap(),
            7 => queue.compact().unwrap(),
            _ => {}
        }
    }
    queue.sync().unwrap();
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut files = 0;
    for name in disk.names() {
        let bytes = disk.bytes(&name).unwrap();
        files += 1;
        for byte in name.to_string_lossy().bytes().chain(bytes) {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    assert!(files > 4, "{files}");
    sum
}

/// The numbers are from a version without transactions.
#[test]
fn a_queue_without_options_is_written_as_before() {
    let sums = [Sync::Always, Sync::Interval, Sync::Never].map(sum_of_files);
    assert_eq!(sums, [0x42e9_bd4c_c13c_c243, 0xb3de_813c_cbce_df71, 0x90f2_d987_9e47_8366], "{sums:x?}");
}
