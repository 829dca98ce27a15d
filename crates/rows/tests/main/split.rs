//! Records end at the same places, however the file is read.

use proptest::prelude::*;
use rows::{Dialect, LineEnd, Splitter, records};

use crate::text::{bytes, cut, cuts, dialect, strange_dialect, text};

/// The result of a byte-by-byte reading.
#[derive(Default)]
struct Reading {
    /// Where the text of each record ends, and where the next one starts.
    ends: Vec<(usize, usize)>,
    in_quotes: bool,
    /// The text ends in the middle of a line end.
    half: bool,
}

fn read(dialect: &Dialect, text: &[u8]) -> Reading {
    let mut reading = Reading::default();
    let (mut field_start, mut carriage_return) = (true, false);
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        let (was_start, was_return) = (field_start, carriage_return);
        (field_start, carriage_return) = (false, false);
        if Some(byte) == dialect.escape {
            at += 1;
        } else if reading.in_quotes {
            if Some(byte) == dialect.quote && text.get(at + 1) == Some(&byte) {
                at += 1;
            } else if Some(byte) == dialect.quote {
                reading.in_quotes = false;
            }
        } else if Some(byte) == dialect.quote && was_start {
            reading.in_quotes = true;
        } else {
            let long = usize::from(was_return);
            match (dialect.line_end, byte) {
                (LineEnd::Lf, b'\n') | (LineEnd::Cr, b'\r') => reading.ends.push((at, at + 1)),
                (LineEnd::Any, b'\n') => reading.ends.push((at - long, at + 1)),
                (LineEnd::CrLf, b'\n') if was_return => reading.ends.push((at - 1, at + 1)),
                _ => {}
            }
            field_start = byte == dialect.delimiter || reading.ends.last().is_some_and(|end| end.1 == at + 1);
            carriage_return = byte == b'\r';
        }
        at += 1;
    }
    reading.half = carriage_return && matches!(dialect.line_end, LineEnd::CrLf | LineEnd::Any);
    reading
}

/// Where records end according to a splitter that gets these blocks and is stopped every `stride` bytes.
fn scanned(dialect: &Dialect, blocks: &[&[u8]], stride: usize) -> (Splitter, Vec<usize>, u64) {
    let (mut splitter, mut ends, mut count, mut offset) = (Splitter::new(dialect), Vec::new(), 0, 0);
    for block in blocks {
        let mut rest = *block;
        while !rest.is_empty() {
            let scan = splitter.scan_to(rest, stride);
            count += scan.records;
            ends.extend(scan.last_end.map(|end| offset + end));
            let stopped = scan.last_end.is_some_and(|end| end >= stride);
            assert_eq!(scan.consumed, if stopped { scan.last_end.unwrap() } else { rest.len() });
            assert_eq!(scan.records == 0, scan.last_end.is_none());
            offset += scan.consumed;
            rest = &rest[scan.consumed..];
        }
    }
    (splitter, ends, count)
}

proptest! {
    #[test]
    fn records_end_where_a_plain_reading_says(dialect in dialect(), text in text()) {
        let reading = read(&dialect, &text);
        let mut expected = Vec::new();
        let mut from = 0;
        for &(end, next) in &reading.ends {
            expected.push(&text[from..end]);
            from = next;
        }
        let end = text.len() - usize::from(reading.half && from < text.len());
        expected.extend((from < text.len()).then(|| &text[from..end]));
        prop_assert_eq!(records(&dialect, &text).collect::<Vec<_>>(), expected);

        let (splitter, ends, count) = scanned(&dialect, &[&text], 0);
        prop_assert_eq!(ends, reading.ends.iter().map(|end| end.1).collect::<Vec<_>>());
        prop_assert_eq!(count, reading.ends.len() as u64);
        prop_assert_eq!(splitter.records(), count);
    }

    #[test]
    fn blocks_of_any_size_are_the_same_as_the_whole(
        dialect in dialect(), text in text(), cuts in cuts(), stride in 1..200usize,
    ) {
        let reading = read(&dialect, &text);
        let (mut splitter, ends, count) = scanned(&dialect, &cut(&text, &cuts), stride);
        prop_assert_eq!(count, reading.ends.len() as u64);
        prop_assert!(ends.iter().all(|end| reading.ends.iter().any(|(_, next)| next == end)));

        let eol = if dialect.line_end == LineEnd::Cr { b'\r' } else { b'\n' };
        prop_assert_eq!(splitter.lines(), text.iter().filter(|&&byte| byte == eol).count() as u64);
        let blocks: Vec<&[u8]> = text.chunks(stride % 5 + 1).collect();
        prop_assert_eq!(scanned(&dialect, &blocks, 0).1, reading.ends.iter().map(|end| end.1).collect::<Vec<_>>());

        let open = reading.ends.last().map_or(0, |end| end.1) < text.len();
        match splitter.finish() {
            Ok(found) => {
                prop_assert!(!reading.in_quotes);
                prop_assert_eq!(found, open);
                prop_assert_eq!(splitter.records(), count + u64::from(open));
            }
            Err(error) => {
                prop_assert!(reading.in_quotes);
                prop_assert_eq!(error.record, count + 1);
                prop_assert!(error.line >= 1 && error.line <= splitter.lines() + 1);
            }
        }
    }

    #[test]
    fn a_scan_stops_at_the_first_end_that_is_far_enough(dialect in dialect(), text in text(), at in 0..500usize) {
        let reading = read(&dialect, &text);
        let scan = Splitter::new(&dialect).scan_to(&text, at);
        match reading.ends.iter().position(|end| end.1 >= at) {
            Some(stop) => {
                prop_assert_eq!(scan.consumed, reading.ends[stop].1);
                prop_assert_eq!(scan.records, stop as u64 + 1);
            }
            None => {
                prop_assert_eq!(scan.consumed, text.len());
                prop_assert_eq!(scan.records, reading.ends.len() as u64);
                prop_assert_eq!(scan.last_end, reading.ends.last().map(|end| end.1));
            }
        }
    }

    #[test]
    fn no_dialect_and_no_bytes_are_too_strange(dialect in strange_dialect(), text in bytes(), cuts in cuts()) {
        let whole = scanned(&dialect, &[&text], usize::MAX).2;
        let records: Vec<&[u8]> = records(&dialect, &text).collect();
        prop_assert!(records.len() as u64 == whole || records.len() as u64 == whole + 1);
        scanned(&dialect, &cut(&text, &cuts), 7).0.finish().unwrap_or_default();
    }
}

#[test]
fn an_unclosed_quote_is_named_by_record_and_line() {
    let mut splitter = Splitter::new(&Dialect::CSV);
    splitter.scan(b"a,\"b\nc\"\nd,\"e\n");
    splitter.scan(b"f,g\n");
    let error = splitter.finish().unwrap_err();
    assert_eq!((error.record, error.line), (2, 3));
    assert!(error.to_string().contains("record 2 on line 3"), "{error}");
}

#[test]
fn half_a_line_end_is_none_where_it_is_escaped_or_quoted() {
    let of = |line_end, escape, text| {
        records(&Dialect { line_end, escape, ..Dialect::CSV }, text).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    for line_end in [LineEnd::CrLf, LineEnd::Any] {
        assert_eq!(of(line_end, None, b"a\\\r"), [b"a\\"]);
        assert_eq!(of(line_end, Some(b'\\'), b"a\\\r"), [b"a\\\r"]);
        assert_eq!(of(line_end, None, b"\"a\r"), [b"\"a\r"]);
    }
    assert_eq!(of(LineEnd::Lf, None, b"a\r"), [b"a\r"]);
}
