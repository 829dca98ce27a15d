//! A rewritten record means the same.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rows::{DateOrder, Dialect, FieldRule, Nulls, Ragged, RecordValues, Rewriter, records};

use crate::field::values;
use crate::text::{dialect, strange_dialect, text};

fn nulls() -> impl Strategy<Value = Nulls> {
    let words = select(vec![
        vec![],
        vec![b"a".to_vec(), b"N".to_vec()],
        vec![vec![]],
        vec![vec![b'x'; 2], vec![b'c'; 70]],
    ]);
    (any::<bool>(), words).prop_map(|(empty, words)| Nulls { empty, words })
}

fn rules() -> impl Strategy<Value = Vec<FieldRule>> {
    vec(
        select(vec![
            FieldRule::Copy,
            FieldRule::Copy,
            FieldRule::KeepEmpty,
            FieldRule::EmptyIsNull,
            FieldRule::Skip,
        ]),
        0..4,
    )
}

/// The wanted row, as values.
fn wanted(dialect: &Dialect, nulls: &Nulls, rules: &[FieldRule], record: &[u8]) -> Vec<Option<Vec<u8>>> {
    let bare =
        Nulls { empty: false, words: nulls.words.iter().filter(|word| !word.is_empty()).cloned().collect() };
    let (plain, kept) = (values(dialect, nulls, record), values(dialect, &bare, record));
    let by_rule = plain.into_iter().zip(kept).enumerate().filter_map(|(at, (plain, kept))| {
        match rules.get(at).copied().unwrap_or(FieldRule::Copy) {
            FieldRule::Skip => None,
            FieldRule::KeepEmpty => Some(kept),
            FieldRule::EmptyIsNull => Some(plain.filter(|value| !value.is_empty())),
            _ => Some(plain),
        }
    });
    by_rule.collect()
}

proptest! {
    #[test]
    fn a_line_has_the_values_of_its_record(
        dialect in dialect(), nulls in nulls(), rules in rules(), text in text(), earlier in text(),
    ) {
        for record in records(&dialect, &text) {
            let columns = values(&dialect, &nulls, record).len();
            let mut out = earlier.clone();
            let mut rewriter = Rewriter::new(dialect, nulls.clone(), rules.clone(), columns);
            rewriter.rewrite(record, &mut out).unwrap();
            rewriter.rewrite(record, &mut out).unwrap();
            let lines = out.strip_prefix(&earlier[..]).unwrap();
            let lines: Vec<&[u8]> = records(&Dialect::LOAD_DATA, lines).collect();
            prop_assert_eq!(lines.len(), 2);
            prop_assert_eq!(lines[0], lines[1]);
            let wanted = wanted(&dialect, &nulls, &rules, record);
            if wanted.is_empty() {
                prop_assert_eq!(lines[0], b"");
            } else {
                prop_assert_eq!(values(&Dialect::LOAD_DATA, &Nulls::default(), lines[0]), wanted);
            }
        }
    }

    #[test]
    fn a_chunk_is_read_as_its_records_one_by_one(
        dialect in dialect(), nulls in nulls(), rules in rules(), text in text(), columns in 1..4usize,
    ) {
        let mut rewriter = Rewriter::new(dialect, nulls.clone(), rules.clone(), columns);
        let (mut found, mut texts) = (rewriter.values(&text), RecordValues::new(columns));
        let mut one_by_one = records(&dialect, &text);
        loop {
            let lines = (found.lines(), one_by_one.lines());
            texts.clear();
            let mut given = Vec::new();
            let read = found.next(|field, value| {
                given.push(field);
                texts.set(field, value);
            });
            let (Some(record), Some((same, read))) = (one_by_one.next(), read) else {
                let after = (found.next(|_, _| ()).is_some(), one_by_one.next().is_some());
                prop_assert_eq!(after, (false, false));
                break;
            };
            prop_assert_eq!((same, lines.0), (record, lines.1));
            let count = values(&dialect, &nulls, record).len();
            let ragged = Ragged { expected: columns, found: count };
            prop_assert_eq!(read, if count == columns { Ok(()) } else { Err(ragged.into()) });
            if count == columns {
                let texts: Vec<_> = given.iter().map(|field| texts.get(*field).map(<[u8]>::to_vec)).collect();
                prop_assert_eq!(texts, wanted(&dialect, &nulls, &rules, record));
            }
        }
    }

    #[test]
    fn a_ragged_record_leaves_no_trace(dialect in strange_dialect(), text in text(), columns in 0..4usize) {
        let mut rewriter = Rewriter::new(dialect, Nulls::default(), Vec::new(), columns);
        let mut out = b"before".to_vec();
        let found = values(&dialect, &Nulls::default(), &text).len();
        if found == columns {
            prop_assert_eq!(rewriter.rewrite(&text, &mut out), Ok(()));
        } else {
            prop_assert_eq!(rewriter.rewrite(&text, &mut out), Err(Ragged { expected: columns, found }.into()));
            prop_assert_eq!(out, b"before");
        }
    }
}

#[test]
fn rules_change_what_the_server_would_not_take() {
    let rules = vec![FieldRule::Boolean, FieldRule::UtcDateTime, FieldRule::Skip, FieldRule::EmptyIsNull];
    let nulls = Nulls { empty: false, words: vec![b"-".to_vec()] };
    let mut rewriter = Rewriter::new(Dialect::CSV, nulls, rules, 5);
    let mut out = Vec::new();
    rewriter.rewrite(b"True,2024-01-01T10:00:00Z,x,,\"a\tb\"", &mut out).unwrap();
    rewriter.rewrite(b"f,-,x,\"\",-", &mut out).unwrap();
    rewriter.rewrite(b"2,2024-01-01T10:00:00+02:00,x,7,\"-\"", &mut out).unwrap();
    // Among times with a zone, a time without one does not say when it was.
    let unfit = rewriter.rewrite(b"2,2024-01-01T10:00:00,x,7,-", &mut out).unwrap_err();
    assert!(
        unfit.to_string().starts_with("field 2, value '2024-01-01T10:00:00': not a time with Z"),
        "{unfit}"
    );
    let expected = "1\t2024-01-01T10:00:00\t\\N\ta\\tb\n0\t\\N\t\\N\t\\N\n2\t2024-01-01 08:00:00\t7\t-\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn dates_and_numbers_are_rewritten_for_the_server() {
    let rules = vec![FieldRule::DecimalComma, FieldRule::LocalDate(DateOrder::Dmy)];
    let mut rewriter = Rewriter::new(Dialect::TSV, Nulls { empty: true, words: Vec::new() }, rules, 2);
    let mut out = Vec::new();
    rewriter.rewrite(b"1.234,5\t31.12.1999", &mut out).unwrap();
    rewriter.rewrite(b"\t\"\"", &mut out).unwrap();
    assert_eq!(String::from_utf8_lossy(&out), "1234.5\t1999-12-31\n\\N\t\\N\n");
    for (record, what) in [("1.5\t1.2.1999", "field 1, value '1.5'"), ("1\t31.02.1999", "day, month, year")] {
        let unfit = rewriter.rewrite(record.as_bytes(), &mut out).unwrap_err().to_string();
        assert!(unfit.contains(what), "{unfit}");
    }
}

#[test]
fn tabs_in_fields_are_escaped_though_they_are_the_delimiter() {
    let mut out = Vec::new();
    let mut rewriter = Rewriter::new(Dialect::TSV, Nulls::default(), Vec::new(), 2);
    rewriter.rewrite(b"a\t\"b\tc\"", &mut out).unwrap();
    rewriter.rewrite(b"a\t\"b\tc", &mut out).unwrap();
    assert_eq!(out, b"a\tb\\tc\na\t\"b\\tc\n");
}

#[test]
fn words_for_null_may_be_long() {
    let long = vec![b'x'; 70];
    let nulls = Nulls { empty: false, words: vec![b"not available".to_vec(), long.clone()] };
    let mut rewriter = Rewriter::new(Dialect::CSV, nulls, Vec::new(), 3);
    let mut out = Vec::new();
    rewriter.rewrite(&[b"not available,", &long[..], b",not_available"].concat(), &mut out).unwrap();
    assert_eq!(out, b"\\N\t\\N\tnot_available\n");
}

#[test]
fn a_backslash_at_the_end_of_the_file_does_not_take_the_newline() {
    let mut out = Vec::new();
    Rewriter::new(Dialect::LOAD_DATA, Nulls::default(), Vec::new(), 2).rewrite(b"a\tb\\", &mut out).unwrap();
    assert_eq!(out, b"a\tb\\\\\n");
}

#[test]
fn a_word_for_null_is_null_also_where_empty_fields_are_kept() {
    let nulls = Nulls { empty: true, words: vec![b"NULL".to_vec()] };
    let mut rewriter = Rewriter::new(Dialect::CSV, nulls, vec![FieldRule::KeepEmpty; 3], 3);
    let mut out = Vec::new();
    rewriter.rewrite(b"NULL,,NULLS", &mut out).unwrap();
    assert_eq!(out, b"\\N\t\tNULLS\n");
}

#[test]
fn a_value_that_the_column_would_change_is_refused() {
    let exact = || vec![rows::Exact::of("int"), rows::Exact::of("datetime"), rows::Exact::Server];
    let rules = || vec![FieldRule::EmptyIsNull, FieldRule::Copy, FieldRule::Copy];
    let nulls = || Nulls { empty: true, words: Vec::new() };
    for (record, good) in [
        ("5,2024-01-01 10:00:00,5.4", true),
        ("5.0,2024-01-01 10:00:00.0,x", true),
        (",,", true),
        ("5.4,2024-01-01,x", false),
        ("\"5.4\",2024-01-01,x", false),
        ("5,2024-01-01 10:00:00.5,x", false),
        ("5,\"2024-01-01 10:00:00.5\",x", false),
    ] {
        let mut rewriter = Rewriter::new(Dialect::CSV, nulls(), rules(), 3).exact(exact());
        let line = rewriter.rewrite(record.as_bytes(), &mut Vec::new());
        assert_eq!(line.is_ok(), good, "{record}: {line:?}");
        assert_eq!(rewriter.is_exact(record.as_bytes()), good, "{record}");
        let mut lenient = Rewriter::new(Dialect::CSV, nulls(), rules(), 3);
        assert!(
            lenient.is_exact(record.as_bytes())
                && lenient.rewrite(record.as_bytes(), &mut Vec::new()).is_ok()
        );
    }
    let mut comma = Rewriter::new(Dialect::CSV, nulls(), vec![FieldRule::DecimalComma], 1).exact(exact());
    assert!(
        comma.rewrite(b"\"5,0\"", &mut Vec::new()).is_ok()
            && comma.rewrite(b"\"5,4\"", &mut Vec::new()).is_err()
    );
}
