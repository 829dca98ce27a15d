//! Text that is not strict becomes strict, however it arrives.

use proptest::prelude::*;
use rows::{Dialect, Format, Json, Lenient, LineEnd};

use crate::text::{cut, cuts};

fn translated(format: &Format, dialect: Dialect, parts: &[&[u8]]) -> Result<String, String> {
    let mut translator = format.translator(dialect, 0).unwrap();
    let mut out = Vec::new();
    for part in parts {
        translator.translate(part, false, &mut out).map_err(|error| error.to_string())?;
    }
    translator.translate(b"", true, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

fn tight(lenient: Lenient, text: &str) -> String {
    let dialect = Dialect { line_end: LineEnd::Any, ..Dialect::CSV };
    translated(&Format::Lenient(lenient), dialect, &[text.as_bytes()]).unwrap()
}

#[test]
fn delimiters_of_several_characters() {
    let loose = || Lenient { delimiter: Some("||".to_owned()), ..Lenient::default() };
    assert_eq!(tight(loose(), "a||b|c||\"d||e\"\n||x||\n"), "a\x1fb|c\x1f\"d||e\"\n\x1fx\x1f\n");
    assert_eq!(tight(loose(), "a|||b\n"), "a\x1f|b\n");
    // A doubled quote does not end what is quoted.
    assert_eq!(tight(loose(), "\"a\"\"||b\"||c\n"), "\"a\"\"||b\"\x1fc\n");
    let dialect = Dialect { line_end: LineEnd::Any, ..Dialect::CSV };
    let bad = translated(&Format::Lenient(loose()), dialect, &[b"a||b\nc||d\x1f\n"]);
    assert!(bad.unwrap_err().starts_with("line 2: "));
}

#[test]
fn blanks_around_fields() {
    let trim = || Lenient { trim: true, ..Lenient::default() };
    assert_eq!(tight(trim(), " a , \" b \" ,c d  \r\n\te,, f"), "a,\" b \",c d\r\ne,,f");
    let before = || Lenient { space_before_quote: true, ..Lenient::default() };
    assert_eq!(tight(before(), "1, \"Smith, J\" , x \n"), "1,\"Smith, J\", x \n");
    let blanks = || Lenient { blanks: true, ..Lenient::default() };
    assert_eq!(tight(blanks(), "  1   2\t3  \n \"a  b\" c\n\n"), "1 2 3\n\"a  b\" c\n\n");
}

#[test]
fn comments_and_short_rows() {
    let comment = || Lenient { comment: Some(b'#'), ..Lenient::default() };
    assert_eq!(tight(comment(), "#x \"y\n1,#2\n\"a\n#b\",3\r\n#z\r\n4\n#"), "\n1,#2\n\"a\n#b\",3\r\n\r\n4\n");
    let pad = || Lenient { pad: Some(3), ..Lenient::default() };
    assert_eq!(
        tight(pad(), "1\n1,2\r\n1,2,3\n1,2,3,4\n\n\"a,b\"\n,\n9"),
        "1,,\n1,2,\r\n1,2,3\n1,2,3,4\n\n\"a,b\",,\n,,\n9,,"
    );
}

#[test]
fn objects_on_lines() {
    let json =
        |leave_out| Format::JsonLines(Json { keys: vec!["id".to_owned(), "a\tb".to_owned()], leave_out });
    let read = |leave_out, text: &str| translated(&json(leave_out), Dialect::LOAD_DATA, &[text.as_bytes()]);
    assert_eq!(
        read(
            false,
            "{\"id\": 1.50, \"a\\tb\": \"x\\ny \\u00e9\"}\r\n\n{\"a\\tb\": {\"z\": [1, \"t\"]}}\n{\"id\":null}"
        ),
        Ok("id\ta\\tb\n1.50\tx\\ny \u{e9}\n\n\\N\t{\"z\": [1, \"t\"]}\n\\N\t\\N".to_owned())
    );
    assert_eq!(read(true, "{\"other\": 1, \"id\": true}\n"), Ok("id\ta\\tb\ntrue\t\\N\n".to_owned()));
    // A line that is not a row becomes a record that is not a row either, and says why.
    for (line, what) in [
        ("{\"other\": 1}", "the key other"),
        ("{\"id\": 1, \"id\": 2}", "the key id occurs twice"),
        ("{\"id\": 1", "this is not a JSON object"),
        ("{\"id\": 1} x\t\\", "this is not a JSON object"),
        ("[1]", "this is not a JSON object"),
        ("{\"id\": \"abc\\ud83ddef\"}", "the text of the key id is damaged: "),
    ] {
        let text = read(false, &format!("{{}}\n{line}\r\n{{}}")).unwrap();
        let records: Vec<&str> = text.split('\n').collect();
        let [_, good, bad, again] = records[..] else { panic!("{text:?}") };
        assert_eq!((good, again), ("\\N\t\\N", "\\N\t\\N"));
        let (format, dialect) = (json(false), Dialect::LOAD_DATA);
        let reason = format.reason(&dialect, bad.as_bytes()).unwrap();
        assert!(reason.starts_with(what), "{line:?}: {reason}");
        assert_eq!(format.restore(&dialect, bad.as_bytes()), line.as_bytes());
        assert_eq!(format.reason(&dialect, good.as_bytes()), None);
        assert_eq!(format.restore(&dialect, good.as_bytes()), b"{\"id\": null, \"a\\tb\": null}");
    }
}

#[test]
fn a_value_of_json_is_that_value_or_the_line_is_bad() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    for (raw, value) in [
        ("\"\"", Some("")),
        ("\"\\u00e9\\ud83d\\ude00\"", Some("\u{e9}\u{1f600}")),
        ("\"a\\/b\\f\\u0000\"", Some("a/b\u{c}\0")),
        ("1e999", Some("1e999")),
        ("-0", Some("-0")),
        ("0.10000000000000000000000000001", Some("0.10000000000000000000000000001")),
        ("123456789012345678901234567890", Some("123456789012345678901234567890")),
        ("true", Some("true")),
        ("{\"a\": 1, \"a\": 2}", Some("{\"a\": 1, \"a\": 2}")),
        ("[\"\\ud83d\"]", Some("[\"\\ud83d\"]")),
        (deep.as_str(), Some(deep.as_str())),
        ("\"\\ud83d\"", None),
        ("\"\\ude00x\"", None),
        ("\"\\ud83d\\ud83d\"", None),
        ("\"\\ud83d\\n\"", None),
        ("\"\\x\"", None),
        ("\"\\u12\"", None),
        ("\"a\tb\"", None),
        ("01", None),
        ("1.", None),
        ("NaN", None),
        ("nul", None),
    ] {
        for (format, line) in [
            (
                Format::JsonLines(Json { keys: vec!["v".to_owned()], leave_out: false }),
                format!("{{\"v\": {raw}}}"),
            ),
            (Format::JsonArrays(1), format!("[{raw}]")),
        ] {
            let made = translated(&format, Dialect::LOAD_DATA, &[line.as_bytes()]).unwrap();
            let record = made.rsplit('\n').next().unwrap().as_bytes();
            let mut row = Vec::new();
            rows::fields(&Dialect::LOAD_DATA, record, &mut row);
            let text = String::from_utf8(row[0].text(&Dialect::LOAD_DATA, &mut Vec::new()).to_vec()).unwrap();
            match value {
                Some(value) => assert_eq!((text.as_str(), row.len()), (value, 1), "{line}"),
                None => assert!(format.reason(&Dialect::LOAD_DATA, record).is_some(), "{line}"),
            }
        }
    }
}

#[test]
fn arrays_on_lines() {
    let format = Format::JsonArrays(2);
    let read = |text: &str| translated(&format, Dialect::LOAD_DATA, &[text.as_bytes()]).unwrap();
    assert_eq!(read("[1, \"a\\tb\"]\r\n\n[null, [2]]"), "1\ta\\tb\n\n\\N\t[2]");
    for (line, what) in [
        ("[1]", "1 field where 2 are expected"),
        ("[1,2,3]", "3 fields where 2 are expected"),
        ("{\"a\": 1}", "this is not a JSON array"),
        ("[1,2] x", "this is not a JSON array"),
    ] {
        let bad = read(line);
        assert!(format.reason(&Dialect::LOAD_DATA, bad.as_bytes()).unwrap().starts_with(what), "{line}");
        assert_eq!(format.restore(&Dialect::LOAD_DATA, bad.as_bytes()), line.as_bytes());
    }
    assert_eq!(format.restore(&Dialect::LOAD_DATA, b"1\t\\N"), b"[\"1\", null]");
}

fn loose() -> impl Strategy<Value = Lenient> {
    let delimiter = proptest::option::of(prop_oneof![
        Just("||".to_owned()),
        Just(", ".to_owned()),
        Just("aab".to_owned())
    ]);
    let pad = proptest::option::of(1..5usize);
    (delimiter, any::<(bool, bool, bool, bool)>(), pad).prop_map(
        |(delimiter, (blanks, trim, before, comment), pad)| Lenient {
            blanks: blanks && delimiter.is_none(),
            delimiter,
            trim,
            space_before_quote: before,
            comment: comment.then_some(b'#'),
            pad,
        },
    )
}

proptest! {
    #[test]
    fn text_in_parts_is_translated_like_the_whole(
        lenient in loose(),
        text in "[ab,|#\" \t\r\n\\\\]{0,60}",
        cuts in cuts(),
        escape: bool,
    ) {
        let dialect = Dialect { line_end: LineEnd::Any, escape: escape.then_some(b'\\'), ..Dialect::CSV };
        let format = Format::Lenient(lenient);
        let whole = translated(&format, dialect, &[text.as_bytes()]).unwrap();
        prop_assert_eq!(&translated(&format, dialect, &cut(text.as_bytes(), &cuts)).unwrap(), &whole);
        let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        prop_assert_eq!(lines(&whole), lines(&text));
    }

    #[test]
    fn json_in_parts_is_translated_like_the_whole(text in "[{}\\[\\]\":,a1\\\\\n ]{0,40}", cuts in cuts()) {
        let keys = vec!["a".to_owned()];
        for format in [Format::JsonLines(Json { keys, leave_out: true }), Format::JsonArrays(2)] {
            let whole = translated(&format, Dialect::LOAD_DATA, &[text.as_bytes()]);
            prop_assert_eq!(translated(&format, Dialect::LOAD_DATA, &cut(text.as_bytes(), &cuts)), whole);
        }
    }
}
