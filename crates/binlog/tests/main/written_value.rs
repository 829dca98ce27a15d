//! Values of rows, of all types, byte by byte.

use std::borrow::Cow;

use binlog::column::Type;
use binlog::event::table::Column;
use binlog::json::Json;
use binlog::row::{Value, number};

use crate::support::{framed, walk};

/// A type and its properties, what is said of it besides, its bytes, and the value that they are.
type Shown<'a> = (u8, &'a [u8], &'a [u8], &'a [u8], &'a str);

/// The value of a column: a type and its properties, what is said of it besides, and its bytes.
pub(crate) fn value(kind: u8, details: &[u8], metadata: &[u8], bytes: &[u8]) -> Result<String, String> {
    let len = u8::try_from(details.len()).unwrap();
    let map = [&[9, 0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 1, b't', 0, 1, kind, len][..], details, &[1], metadata]
        .concat();
    let rows = [&[9, 0, 0, 0, 0, 0, 1, 0, 1, 0xFF, 0][..], bytes].concat();
    let found = walk(&framed(&[(19, &map), (23, &rows)]));
    match found.error {
        Some(error) => Err(error),
        None => Ok(found.rows.concat().trim_start_matches("@1=").trim_end().to_owned()),
    }
}

fn are_shown(values: &[Shown<'_>]) {
    for (kind, details, metadata, bytes, wanted) in values {
        assert_eq!(value(*kind, details, metadata, bytes).as_deref(), Ok(*wanted), "{kind} {details:?}");
        // A byte less is told.
        if let [front @ .., _] = bytes {
            assert!(value(*kind, details, metadata, front).is_err(), "{kind} {details:?}: cut");
        }
    }
}

#[test]
fn numbers_and_times_have_their_bytes() {
    const UNSIGNED: &[u8] = &[1, 1, 0x80];
    const SIGNED: &[u8] = &[1, 1, 0x7F];
    are_shown(&[
        (1, &[][..], &[][..], &[0xFF][..], "-1 (255)"),
        (1, &[], &[], &[0x7F], "127"),
        (1, &[], UNSIGNED, &[0xFF], "255"),
        (1, &[], SIGNED, &[0x80], "-128"),
        (2, &[], SIGNED, &[0, 0x80], "-32768"),
        (9, &[], SIGNED, &[0xFE, 0xFF, 0xFF], "-2"),
        (9, &[], SIGNED, &[0, 0, 0x40], "4194304"),
        (9, &[], UNSIGNED, &[0xFE, 0xFF, 0xFF], "16777214"),
        (3, &[], &[], &[0, 0, 0, 0x80], "-2147483648 (2147483648)"),
        (8, &[], SIGNED, &[0xFF; 8], "-1"),
        (8, &[], UNSIGNED, &[0xFF; 8], "18446744073709551615"),
        (4, &[4], &[], &[0, 0, 0x20, 0x41], "10"),
        (4, &[8], &[], &[0, 0, 0, 0, 0, 0, 0xF8, 0x3F], "1.5"),
        (5, &[8], &[], &[0, 0, 0, 0, 0, 0, 0xF8, 0xBF], "-1.5"),
        (6, &[], &[], &[], "NULL"),
        (7, &[], &[], &[1, 1, 0, 0], "'1970-01-01 00:04:17'"),
        (10, &[], &[], &[0x77, 0xD5, 0x0F], "'2026-11-23'"),
        (14, &[], &[], &[0xFF, 0xFF, 0xFF], "'32767-15-31'"),
        (11, &[], &[], &[0x40, 0xE2, 0x01], "'12:34:56'"),
        (11, &[], &[], &[0xFF, 0xFF, 0xFF], "'-00:00:01'"),
        (11, &[], &[], &[0, 0, 0x80], "'-838:86:08'"),
        (12, &[], &[], &20_261_123_235_958_u64.to_le_bytes(), "'2026-11-23 23:59:58'"),
        (13, &[], &[], &[0], "0000"),
        (13, &[], &[], &[126], "2026"),
        (16, &[3, 1], &[], &[0x05, 0x01], "b'10100000001'"),
        (16, &[0, 8], &[], &[0; 8], &format!("b'{}'", "0".repeat(64))),
        (16, &[7, 0], &[], &[3], "b'0000011'"),
        (17, &[0], &[], &[0, 0, 1, 1], "'1970-01-01 00:04:17'"),
        (246, &[4, 2], &[], &[0x80 + 12, 34], "12.34"),
        (246, &[65, 38], &[], &[&[0x80][..], &[0; 28]].concat(), &format!("0.{}", "0".repeat(38))),
        (17, &[6], &[], &[0, 0, 0, 1, 0, 0, 2], "'1970-01-01 00:00:01.000002'"),
        (18, &[6], &[], &[0x80, 0, 0, 0, 0, 0, 0, 0], "'0000-00-00 00:00:00.000000'"),
        (19, &[6], &[], &[0x80, 0, 0, 0, 0, 2], "'00:00:00.000002'"),
    ]);
}

#[test]
fn texts_and_members_have_their_bytes() {
    let members = |kind: u8, names: &[u8]| {
        let names: Vec<u8> = names.iter().flat_map(|name| [1, *name]).collect();
        let count = u8::try_from(names.len() / 2).unwrap();
        [&[kind, count * 2 + 1, count][..], &names].concat()
    };
    let long = [&[44, 1][..], &[b'x'; 300]].concat();
    let shown = format!("'{}'", "x".repeat(300));
    are_shown(&[
        (254, &[247, 1], &[], &[2], "2"),
        (254, &[247, 2], &[], &[2, 1], "258"),
        (254, &[247, 1], &members(6, b"xy"), &[2], "'y'"),
        (254, &[247, 1], &members(6, b"xy"), &[3], "3"),
        (254, &[247, 1], &members(6, b"xy"), &[0], "''"),
        (247, &[247, 1], &members(6, b"xy"), &[1], "'x'"),
        (254, &[248, 1], &[], &[5], "5"),
        (254, &[248, 1], &members(5, b"xyz"), &[5], "'x,z'"),
        (254, &[248, 1], &members(5, b"xy"), &[5], "5"),
        (254, &[248, 8], &members(5, b"x"), &[1, 0, 0, 0, 0, 0, 0, 0], "'x'"),
        (254, &[254, 3], &[], b"\x02ab", "'ab'"),
        (254, &[0xEE, 44], &[], &long, &shown),
        (254, &[254, 4], &[2, 1, 63], &[2, 1, 2], "0x01020000"),
        (254, &[254, 4], &[3, 1, 63], &[4, 1, 2, 3, 4], "0x01020304"),
        (254, &[254, 4], &[2, 1, 8], &[2, 0xE4, b'b'], "'\u{e4}b'"),
        (254, &[254, 4], &[2, 1, 33], &[2, 0xE4, b'b'], "0xE462"),
        (15, &[255, 0], &[], b"\x02ab", "'ab'"),
        (253, &[0, 1], &[], b"\x02\0ab", "'ab'"),
        (252, &[1], &[], b"\x02ab", "'ab'"),
        (252, &[4], &[], b"\x02\0\0\0ab", "'ab'"),
        (249, &[3], &[], b"\x02\0\0ab", "'ab'"),
        (255, &[4], &[2, 1, 63], &[2, 0, 0, 0, 1, 2], "0x0102"),
        (242, &[4], &[], &[4, 0, 0, 0, 0, 0, 0x80, 0x3F], "0x0000803F"),
        (245, &[4], &[], &[3, 0, 0, 0, 5, 1, 0], "'1'"),
    ]);
}

fn bytes(text: &[u8], collation: u64) -> Value<'_> {
    Value::Bytes(Cow::Borrowed(text), Some(collation))
}

#[test]
fn a_value_is_what_somebody_types() {
    let column = Column {
        kind: Type::Varchar(9),
        nullable: true,
        name: None,
        is_unsigned: None,
        collation: None,
        members: None,
    };
    for (value, yes, no) in [
        (Value::Null, &["NULL", "null"][..], &["", "0"][..]),
        (Value::Int(-5), &["-5"], &["5", "-5.0", ""]),
        (Value::Unsigned(5), &["5"], &["-5"]),
        (Value::Either(-1, 255), &["-1", "255"], &["1", "-1 (255)"]),
        (Value::Float(0.1), &["0.1", "0.10", "1e-1"], &["0.11", "", "x"]),
        (Value::Double(1.5), &["1.5", "15e-1"], &["1.25", "x"]),
        (
            Value::Decimal("-1.50".into()),
            &["-1.50", "-1.5", "-01.500"],
            &["1.5", "-1.05", "-15", "-10.5", ""],
        ),
        (Value::Decimal("0.00".into()), &["0", ".0", "0.000"], &["", ".", "-", "0.01"]),
        (Value::Decimal("10".into()), &["10", "10.0", "010"], &["1", "100", ".10"]),
        (Value::Bit(5, 3), &["5", "b'101'"], &["101", "4"]),
        (Value::Time("2026-11-23".into()), &["2026-11-23"], &["'2026-11-23'", "2026"]),
        (Value::Year(0), &["0000", "0"], &["1900"]),
        (Value::Year(2026), &["2026"], &["126"]),
        (Value::Enum(2, Some(b"two")), &["two", "2"], &["one", "'two'"]),
        (Value::Enum(2, None), &["2"], &["two"]),
        (Value::Set(5, Some(vec![b"a", b"c"])), &["a,c", "5"], &["a", "4"]),
        (Value::Set(5, None), &["5"], &["a,c"]),
        (bytes(b"abc", 33), &["abc", "0x616263", "0x616263"], &["ABC", "0x6162", "616263"]),
        (bytes(b"\xAB\0", 63), &["0xAB00", "0xab00"], &["0xAB", "AB00"]),
        (bytes(b"\xE4", 8), &["\u{e4}", "0xe4"], &["a"]),
        (Value::Json(Json::Array(vec![Json::Int(1)])), &["[1]"], &["[1.0]", "1", "'[1]'"]),
        (Value::JsonChanges("JSON_REMOVE('$.a')".into()), &[], &["JSON_REMOVE('$.a')", "NULL"]),
    ] {
        yes.iter().for_each(|text| assert!(value.matches(text, &column), "{value:?}: {text}"));
        no.iter().for_each(|text| assert!(!value.matches(text, &column), "{value:?}: {text}"));
    }
}

#[test]
fn a_value_is_shown_as_it_is_typed() {
    for (value, shown) in [
        (bytes(b"it's \\ \n\r\t\0\x01", 33), "'it\\'s \\\\ \\n\\r\\t\\0\\u{1}'"),
        (bytes(b"a\nb", 63), "0x610A62"),
        (bytes(b"ab", 63), "'ab'"),
        (bytes(b"\x80", 8), "'\u{20ac}'"),
        (bytes(b"\x9F", 8), "'\u{178}'"),
        (bytes(b"\xA0", 8), "'\u{a0}'"),
        (bytes(b"\xE4", 9), "'\u{e4}'"),
        (Value::Set(0, Some(vec![])), "''"),
        (Value::Enum(3, Some(b"\xFF")), "3"),
        (Value::Set(3, Some(vec![b"\xFF"])), "3"),
        (Value::Year(7), "0007"),
        (Value::Double(1e300), "1e300"),
    ] {
        assert_eq!(value.to_string(), shown, "{value:?}");
    }
    for (value, text) in [
        (Value::Int(1), None),
        (bytes(b"ab", 33), Some("ab")),
        (Value::Time("1".into()), Some("1")),
        (Value::Enum(1, Some(b"x")), Some("x")),
        (Value::Enum(1, None), None),
    ] {
        assert_eq!(value.as_text().as_deref(), text, "{value:?}");
    }
    assert_eq!(
        (number(2.0), number(-0.5), number(1e21)),
        ("2".to_owned(), "-0.5".to_owned(), "1e21".to_owned())
    );
}
