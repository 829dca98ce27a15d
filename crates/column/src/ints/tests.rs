//! How numbers are stored, and which bytes are no numbers.

use super::*;

fn read(bytes: &[u8], count: usize) -> Option<Vec<i64>> {
    let mut cursor = Cursor::new(bytes);
    decode(&mut cursor, count).ok().filter(|_| cursor.is_empty())
}

#[test]
fn numbers_are_read_as_the_format_says() {
    let many = 1 << 40;
    for (bytes, values) in [
        (&[][..], &[][..]),
        (&[0, 0], &[0, 0]),
        (&[0, 1], &[-1]),
        (&[0, 2], &[1]),
        (&[0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40], &[many]),
        // 5 twice, 6 once.
        (&[2, 2, 3, 2, 0, 5, 6, 3, 2, 0, 1, 0], &[5, 5, 6]),
        (&[3, 3, 0, 255, 0, 7], &[255, 0, 7]),
        // Runs of runs, but not of those.
        (&[2, 1, 2, 1, 0, 2, 0, 0, 0, 2], &[1, 1]),
    ] {
        assert_eq!(read(bytes, values.len()).as_deref(), Some(values), "{bytes:?}");
    }
}

#[test]
fn bytes_that_are_no_numbers_are_refused() {
    let three = [2, 2, 3, 2, 0, 5, 6, 3, 2, 0, 1, 0];
    for (bytes, count) in [
        (&three[..], 2),
        (&three, 4),
        // The first run ends one behind the column, or just behind it.
        (&[2, 1, 0, 2, 0, 4], 2),
        (&[2, 1, 0, 2, 0, 6], 2),
        (&[2, 2, 3, 2, 0, 5, 6, 3, 2, 0, 2, 0], 2),
        (&[2, 3, 3, 3, 0, 5, 6, 7, 3, 3, 0, 1, 0, 0], 2),
        // A length below zero.
        (&[2, 1, 0, 2, 0, 1], 1),
        (&[2, 1, 2, 1, 2, 1, 0, 2, 0, 0, 0, 0, 0, 0], 1),
        (&[2, 1, 0, 2, 2, 1, 2, 1, 0, 0, 0, 0, 0, 0], 1),
        (&[3, 2, 0, 1, 2], 3),
        (&[3, 2, 0, 1, 2], 1),
        (&[4], 1),
        (&[0], 1),
        (&[0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], 1),
    ] {
        assert_eq!(read(bytes, count), None, "{bytes:?} {count}");
    }
    // pco has its own count of numbers.
    let mut out = Vec::new();
    pco(&[1, 5, 9], Effort::of_level(3), &mut out).unwrap();
    assert_eq!((read(&out, 2), read(&out, 3), read(&out, 4)), (None, Some(vec![1, 5, 9]), None));
}

#[test]
fn numbers_are_stored_in_the_shortest_way() {
    let noise: Vec<i64> = (0..2000).map(|n| n * n * 7919 % 251).collect();
    let far: Vec<i64> = (0..2000).map(|n| n * n * 7919 % 100_003).collect();
    let times = |values: &[i64], times| -> Vec<i64> { values.iter().flat_map(|n| vec![*n; times]).collect() };
    for (what, values, quick, thorough) in [
        ("same", vec![7; 9], SAME, SAME),
        ("a line", (0..1000).collect(), PCO, PCO),
        ("five of each", times(&far, 5), RUNS, RUNS),
        ("two of each", times(&far, 2), RUNS, RUNS),
        ("one of each", far.clone(), PCO, PCO),
        ("a period of bytes", noise.clone(), PCO, BYTES),
        ("also a negative one", noise.iter().map(|n| n - 1).collect(), PCO, PCO),
        ("also one of two bytes", noise.iter().map(|n| n + 6).collect(), PCO, PCO),
    ] {
        for (level, wanted) in [(3, quick), (12, thorough)] {
            let mut out = Vec::new();
            encode(&values, Effort::of_level(level), &mut out).unwrap();
            assert_eq!(out[0], wanted, "{what}, level {level}");
            assert!(read(&out, values.len()).as_ref() == Some(&values), "{what}, level {level}");
        }
    }
}
