//! How much memory a file takes while it is written. This program has one test, so that nothing else counts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use parquet_rows::{Column, Options, Writer};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most that was taken while so many values of so many bytes were written, in MiB.
fn peak_mib(values: usize, bytes: usize) -> f32 {
    let column = Column {
        name: "c".to_owned(),
        data_type: "longblob".to_owned(),
        column_type: "longblob".to_owned(),
        character_set: None,
        is_numbered: false,
        is_in_path: false,
    };
    let piece: Vec<u8> =
        (0..8_192_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let piece: Vec<u8> = piece.into_iter().filter(|byte| !matches!(byte, b'\n' | b'\t' | b'\\')).collect();
    let piece = [&piece[..], b"\\0"].concat();
    let before = MEMORY.current_usage_as_mb();
    MEMORY.reset_peak_usage();
    let mut writer =
        Writer::new(std::io::sink(), &[column], Options { level: 1, ..Options::default() }).unwrap();
    for _ in 0..values {
        for _ in 0..bytes.div_ceil(piece.len()) {
            writer.lines(&piece, &mut |_| panic!("every value fits")).unwrap();
        }
        writer.lines(b"\n", &mut |_| panic!("every value fits")).unwrap();
    }
    let written = writer.finish().unwrap().0;
    assert_eq!((written.rows, written.odd), (values as u64, 0));
    MEMORY.peak_usage_as_mb() - before
}

#[test]
fn memory_is_bounded_by_a_row_group_or_some_copies_of_a_value() {
    let small = peak_mib(1_200, 64 << 10);
    assert!(small < 80.0, "75 MiB of values of 64 KiB took {small} MiB");
    let large = peak_mib(2, 40 << 20);
    assert!(large < 4.3 * 40.0, "values of 40 MiB took {large} MiB");
}
