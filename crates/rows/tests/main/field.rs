//! No part of a record is lost, and what was written is read back.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rows::{
    Dialect, Field, LineEnd, Nulls, fields, records, unescape_load_data, write_csv, write_load_data,
    write_sql_literal,
};

use crate::text::{bytes, dialect, strange_dialect, text};

pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// The values of one record.
pub(crate) fn values(dialect: &Dialect, nulls: &Nulls, record: &[u8]) -> Row {
    let (mut out, mut scratch) = (Vec::<Field<'_>>::new(), b"stale".to_vec());
    fields(dialect, record, &mut out);
    out.iter()
        .map(|field| (!field.is_null(nulls)).then(|| field.text(dialect, &mut scratch).to_vec()))
        .collect()
}

fn table() -> impl Strategy<Value = Vec<Row>> {
    vec(vec(option::weighted(0.8, bytes()), 1..6), 1..5)
}

/// The table as text: `write` writes a value, and `delimiter` and `eol` follow the values.
fn written(table: &[Row], write: impl Fn(Option<&[u8]>, &mut Vec<u8>), delimiter: u8, eol: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in table {
        for (at, value) in row.iter().enumerate() {
            out.extend((at > 0).then_some(delimiter));
            write(value.as_deref(), &mut out);
        }
        out.extend_from_slice(eol);
    }
    out
}

fn read_back(dialect: &Dialect, nulls: &Nulls, text: &[u8]) -> Vec<Row> {
    records(dialect, text).map(|record| values(dialect, nulls, record)).collect()
}

proptest! {
    #[test]
    fn every_byte_of_a_record_is_in_a_field_or_between_two(dialect in dialect(), text in text()) {
        let mut out = Vec::new();
        for record in records(&dialect, &text) {
            fields(&dialect, record, &mut out);
            let mut again = Vec::new();
            for (at, field) in out.iter().enumerate() {
                again.extend((at > 0).then_some(dialect.delimiter));
                let quote = dialect.quote.filter(|_| field.quoted);
                again.extend(quote.iter().chain(field.raw).chain(&quote));
                prop_assert!(!field.raw.contains(&dialect.delimiter) || field.quoted || field.escaped || field.malformed);
            }
            prop_assert_eq!(again, record);
        }
    }

    #[test]
    fn only_fields_marked_as_escaped_differ_from_their_text(dialect in dialect(), text in text()) {
        let (mut out, mut scratch) = (Vec::new(), Vec::new());
        fields(&dialect, &text, &mut out);
        for field in out {
            let text = field.text(&dialect, &mut scratch);
            prop_assert!(field.escaped || text == field.raw);
            prop_assert!(text.len() <= field.raw.len());
        }
    }

    #[test]
    fn csv_that_was_written_is_read_again(table in table()) {
        let nulls = Nulls { empty: true, words: Vec::new() };
        for line_end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Any, LineEnd::Cr] {
            let dialect = Dialect { line_end, ..Dialect::CSV };
            let text = written(&table, write_csv, b',', line_end.bytes());
            prop_assert_eq!(&read_back(&dialect, &nulls, &text), &table);
        }
    }

    #[test]
    fn load_data_that_was_written_is_read_again(table in table()) {
        let text = written(&table, write_load_data, b'\t', b"\n");
        prop_assert_eq!(&read_back(&Dialect::LOAD_DATA, &Nulls::default(), &text), &table);
    }

    #[test]
    fn files_with_quotes_and_backslashes_are_read_as_the_server_writes_them(table in table()) {
        // SELECT ... INTO OUTFILE ... FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"'.
        let write = |value: Option<&[u8]>, out: &mut Vec<u8>| match value {
            None => out.extend(b"\\N"),
            Some(value) => {
                out.push(b'"');
                for &byte in value {
                    out.extend(matches!(byte, b'\\' | b'"' | 0).then_some(b'\\'));
                    out.push(if byte == 0 { b'0' } else { byte });
                }
                out.push(b'"');
            }
        };
        let dialect = Dialect { escape: Some(b'\\'), ..Dialect::CSV };
        let mut table = table;
        // The server reads a quoted \N as NULL, and writes an N without a backslash.
        table.iter_mut().flatten().for_each(|value| { value.take_if(|value| value == b"N"); });
        prop_assert_eq!(&read_back(&dialect, &Nulls::default(), &written(&table, write, b',', b"\n")), &table);
    }

    #[test]
    fn unescaping_undoes_escaping(value in bytes()) {
        let (mut escaped, mut again) = (Vec::new(), Vec::new());
        write_load_data(Some(&value), &mut escaped);
        prop_assert!(!escaped.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0)));
        unescape_load_data(&escaped, &mut again);
        prop_assert_eq!(again, value);
    }

    #[test]
    fn sql_literals_end_where_they_should(value in bytes(), no_backslash_escapes: bool) {
        let mut literal = Vec::new();
        write_sql_literal(Some(&value), no_backslash_escapes, &mut literal);
        // Reads it as the server's lexer does.
        let (mut again, mut at) = (Vec::new(), 1);
        loop {
            match (literal[at], literal.get(at + 1)) {
                (b'\'', Some(b'\'')) => { again.push(b'\''); at += 2; }
                (b'\'', None) => break,
                (b'\'', Some(_)) => prop_assert!(false, "the literal ends too early"),
                (b'\\', Some(&next)) if !no_backslash_escapes => {
                    again.push(if next == b'0' { 0 } else { next });
                    at += 2;
                }
                (byte, _) => { again.push(byte); at += 1; }
            }
        }
        prop_assert_eq!(again, value);
    }

    #[test]
    fn strange_bytes_in_strange_dialects_are_some_fields(dialect in strange_dialect(), text in bytes()) {
        let nulls = Nulls { empty: true, words: vec![Vec::new(), b"a".to_vec()] };
        prop_assert!(!values(&dialect, &nulls, &text).is_empty());
        unescape_load_data(&text, &mut Vec::new());
    }
}

#[test]
fn broken_quoting_keeps_every_byte() {
    let read = |record: &str| {
        let mut out = Vec::new();
        fields(&Dialect::CSV, record.as_bytes(), &mut out);
        let texts = out.iter().map(|field| {
            let text = field.text(&Dialect::CSV, &mut Vec::new()).to_vec();
            (String::from_utf8(text).unwrap(), field.quoted, field.malformed)
        });
        texts.collect::<Vec<_>>()
    };
    let is = |text: &str, quoted, malformed| (text.to_owned(), quoted, malformed);
    assert_eq!(read("5\" pipe,a\"b\""), [is("5\" pipe", false, false), is("a\"b\"", false, false)]);
    assert_eq!(
        read("\"say \"hi\" \"\"x\"\"\",2"),
        [is("say \"hi\" \"x\"", true, true), is("2", false, false)]
    );
    assert_eq!(read("\"abc\" ,2"), [is("\"abc\" ", false, true), is("2", false, false)]);
    assert_eq!(read("1,\"abc"), [is("1", false, false), is("\"abc", false, true)]);
    assert_eq!(read("\"\",\"\"\"\""), [is("", true, false), is("\"", true, false)]);
    assert_eq!(read(","), [is("", false, false), is("", false, false)]);
    assert_eq!(read(""), [is("", false, false)]);
}

#[test]
fn an_escape_that_is_the_quote_doubles_it() {
    let dialect = Dialect { escape: Some(b'"'), ..Dialect::CSV };
    let value = values(&dialect, &Nulls::default(), b"\"a\"\"b\",\"N\"");
    assert_eq!(value, [Some(b"a\"b".to_vec()), Some(b"N".to_vec())]);
    assert_eq!(records(&dialect, b"\"a\"\"\n\"\nb").count(), 2);
}

#[test]
fn nulls_are_unquoted_but_for_the_server_s_own() {
    let nulls = Nulls { empty: true, words: vec![b"NA".to_vec()] };
    let quoted = Dialect { escape: Some(b'\\'), ..Dialect::CSV };
    let text = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(
        values(&quoted, &nulls, b",\"\",NA,\"NA\",\\N,\"\\N\",\\\\N"),
        [None, text(""), None, text("NA"), None, None, text("\\N")]
    );
    assert_eq!(values(&Dialect::CSV, &Nulls::default(), b",NA,\\N"), [text(""), text("NA"), text("\\N")]);
}
