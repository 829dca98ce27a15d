//! The rest of a file contradicts what its beginning suggested.

use proptest::prelude::*;
use rows::{ContradictionKind, DialectCheck, Encoding, Findings, Hints, records, sniff};

use crate::text::{bytes, strange_dialect};

fn look(head: &str, rest: &str, hints: &Hints) -> (Findings, Vec<ContradictionKind>) {
    let found = sniff(head.as_bytes(), false, Encoding::Utf8, hints);
    let heading = records(&found.dialect, head.as_bytes()).next().filter(|_| found.header);
    let dialect_check = DialectCheck::new(found.dialect, found.nulls.clone(), found.guessed, heading);
    let dialect_check = dialect_check.with_texts((0..found.columns).collect());
    let own = &head[heading.map_or(0, <[u8]>::len)..];
    assert_eq!(dialect_check.look(own.trim_start().as_bytes()), [], "{head:?} against itself");
    let kinds =
        dialect_check.look(rest.as_bytes()).into_iter().map(|contradiction| contradiction.kind).collect();
    (found, kinds)
}

fn contradictions(head: &str, rest: &str) -> Vec<ContradictionKind> {
    look(head, rest, &Hints::default()).1
}

#[test]
fn a_consistent_file_contradicts_no_guess() {
    for (head, rest) in [
        ("id,name\n1,Ann\n2,Bob\n", "3,Cy\n4,\"Smith, J\"\n5,\n"),
        ("1\tC:\\temp\\x\n2\tD:\\data\n", "3\t\\\\server\\share\n4\tE:\\0\n"),
        ("1\t\\N\n2\ta\\\\b\n", "3\tx\\\ty\n4\tNULL\n5\tNA\n6\ta\rb\n"),
        ("id,v\r\n1,a\r\n", "2,b\r\n3,\"c\nd\re\"\r\n"),
        ("id,n\n1,NA\n2,7\n", "3,NA\n4,9.5\n5,2024-01-01\n"),
        ("id,v\n1,NULL\n2,x\n", "3,NULL\n4,y\n"),
        ("a,b\n1,\"x \"y\" z\"\n2,q\n", "3,\"x \"y\" z\"\n"),
        ("id,name\n1,Ann\n", "2,it's\n3,'a'\n3,5' 7\"\n4,'tis\n"),
    ] {
        assert_eq!(contradictions(head, rest), [], "{head:?} {rest:?}");
    }
}

#[test]
fn contradictions_of_a_guess_are_found() {
    for (head, rest, kind) in [
        ("1\tx\n2\ty\n", "3\tz\n4\t\\N\n", ContradictionKind::NullEscape),
        ("1\tx\n2\ty\n", "3\tC:\\\\dir\n", ContradictionKind::Escaped),
        ("1,x\n2,y\n", "3,\"a \\\"b\\\"\"\n", ContradictionKind::TextBehindQuote),
        ("1\t\\\\\n2\ta\\\\b\n", "3\tC:\\Users\n", ContradictionKind::NotEscaped),
        ("1\ta\\\\b\n2\tNULL\n", "3\t\\N\n", ContradictionKind::NullWord),
        ("1,x\n2,y\n", "3,\"a\" b\n", ContradictionKind::TextBehindQuote),
        ("1,x\n2,y\n", "3,\"\"b\n", ContradictionKind::TextBehindQuote),
        ("1,x\n2,y\n", "3,\"\"\"a\" b\"\n", ContradictionKind::TextBehindQuote),
        ("1,x\n2,y\n", "3,\"\n4,\"a\" b\n", ContradictionKind::LinesInQuotes),
        ("a,b\n1,\"x \"y\" z\"\n2,\"q\"\n3,\"r\"\n", "4,\"x\n\"y z\"\n", ContradictionKind::LinesInQuotes),
        ("1,x\n2,y\n", "3,\"x\n4,\"Smith\"\n", ContradictionKind::TextBehindQuote),
        ("1,x\n2,y\n", "3,\"x\n4,y\n", ContradictionKind::TextBehindQuote),
        ("1,x\n2,y\n", "'3','a'\n", ContradictionKind::OtherQuote),
        ("1,x\n2,y\n", "3,a\rb\n", ContradictionKind::LoneReturn),
        ("1,x\n2,y\n", "3,a\r\n", ContradictionKind::OtherLineEnd),
        ("1,x\n2,y\n", "3,a\r", ContradictionKind::OtherLineEnd),
        ("1,x\r\n2,y\r\n", "3,a\n4,b\r\n", ContradictionKind::OtherLineEnd),
        ("1,x\r2,y\r", "3,a\n4,b\r", ContradictionKind::OtherLineEnd),
        ("1,x\n2,y\n", "3,NULL\n", ContradictionKind::NullWord),
        ("id,n\n1,NA\n2,7\n", "3,DE\n", ContradictionKind::NoNullWord),
        ("id,name\n1,Ann\n", "2,Bob\nid,name\n3,Cy\n", ContradictionKind::HeaderAgain),
    ] {
        assert!(
            contradictions(head, rest).contains(&kind),
            "{head:?} {rest:?}: {:?}",
            contradictions(head, rest)
        );
    }
}

#[test]
fn options_of_the_user_are_not_contradicted() {
    let said = Hints {
        quote: Some(Some(b'"')),
        escape: Some(None),
        line_end: Some(rows::LineEnd::Lf),
        header: Some(true),
        ..Hints::default()
    };
    for rest in ["3\t\\N\n", "3\ta\\\\b\n", "3\t\"a\" b\n", "3\t'a'\n", "3\ta\rb\r\n", "id\tv\n"] {
        assert_eq!(look("id\tv\n1\tx\n2\ty\n", rest, &said).1, [], "{rest:?}");
    }
}

#[test]
fn a_sample_with_the_evidence_is_read_another_way() {
    let head: String = (0..5000).map(|id| format!("{id}\tword\t{id}.5\tanother\n")).collect();
    for (rest, escape) in
        [("1\t\\N\t2\tx\n", Some(b'\\')), ("1\tC:\\\\dir\t2\tx\n", Some(b'\\')), ("1\ta\\qb\t2\tx\n", None)]
    {
        let evidence = vec![rest.as_bytes().to_vec()];
        let hints = Hints { evidence, ..Hints::default() };
        let found = sniff(head.as_bytes(), false, Encoding::Utf8, &hints);
        assert_eq!(found.dialect.escape, escape, "{rest:?}");
    }
    let hints = Hints { evidence: vec![b"1\tx\t2\ty\r\n".to_vec()], ..Hints::default() };
    assert_eq!(sniff(head.as_bytes(), false, Encoding::Utf8, &hints).dialect.line_end, rows::LineEnd::Any);
}

/// Whether no row of a file with one quote less is lost silently. Either a check contradicts the dialect,
/// also after a second look, or the file is refused, or each line is a record, or records have a wrong number
/// of fields.
fn is_told(text: &str) -> bool {
    let found = sniff(text.as_bytes(), true, Encoding::Utf8, &Hints::default());
    let mut strict = text.as_bytes().to_vec();
    if let Some(mut translator) = found.format.translator(found.dialect, 0) {
        strict.clear();
        translator.translate(text.as_bytes(), true, &mut strict).unwrap();
    }
    let mut splitter = rows::Splitter::new(&found.dialect);
    splitter.scan(&strict);
    if splitter.finish().is_err() {
        return true;
    }
    let mut guessed = found.guessed;
    guessed.confirm(ContradictionKind::TextBehindQuote);
    let dialect_check = DialectCheck::new(found.dialect, found.nulls, guessed, None);
    let all: Vec<&[u8]> = records(&found.dialect, &strict).collect();
    let is_ragged = |record: &&[u8]| {
        let mut row = Vec::new();
        rows::fields(&found.dialect, record, &mut row);
        row.len() != found.columns
    };
    !dialect_check.look(&strict).is_empty() || all.len() == text.lines().count() || all.iter().any(is_ragged)
}

#[test]
fn a_missing_quote_swallows_no_rows_silently() {
    let mut count = 0;
    for (delimiter, quote, before) in [
        (",", "\"", ""),
        (";", "\"", ""),
        ("\t", "\"", ""),
        ("|", "'", ""),
        // Where spaces before quotes were recognised.
        (",", "\"", " "),
        (";", "\"", " "),
        ("|", "\"", " "),
    ] {
        for (rows, all) in [(8, false), (8, true), (40, false)] {
            let mut text = ["id", "name", "brand"].join(delimiter) + "\n";
            for row in 0..rows {
                let name =
                    if all || row % 2 == 1 { format!("{quote}A{row}{quote}") } else { format!("A{row}") };
                let space = if row == 5 { before } else { "" };
                text += &format!("{row}{delimiter}{space}{name}{delimiter}x\n");
            }
            for (at, _) in text.match_indices(quote) {
                let damaged = format!("{}{}", &text[..at], &text[at + 1..]);
                assert!(is_told(&damaged), "{damaged:?}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count} files");
    let found = "id;name;brand\n1;A1;x\n2;A2;x\n3;\"B;x\n4;A4;x\n5;\"D\";x\n6; \"E\";x\n7;A7;x\n";
    assert!(is_told(found));
}

proptest! {
    #[test]
    fn any_bytes_can_be_watched(head in bytes(), rest in bytes(), dialect in strange_dialect(), said: bool) {
        let hints = if said { Hints { delimiter: Some(dialect.delimiter), ..Hints::default() } } else { Hints::default() };
        let found = sniff(&head, false, Encoding::Utf8, &hints);
        let dialect = if said { dialect } else { found.dialect };
        let dialect_check = DialectCheck::new(dialect, found.nulls, found.guessed, Some(&head));
        for contradiction in dialect_check.with_texts(vec![0, 1, 9]).look(&rest) {
            prop_assert!(contradiction.offset <= rest.len());
            prop_assert!(rest[contradiction.offset..].starts_with(&contradiction.evidence));
            prop_assert!(!contradiction.to_string().contains('\n'));
        }
    }
}
