//! Documents of MySQL in their binary form, made by hand.

use innodb::value::json::{Json, document};

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    document(bytes).map(|document| document.to_string())
}

/// A document that is one value of this kind.
fn scalar(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}

/// A value of a type that JSON does not have.
fn opaque(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[15, kind, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// An array or object with counts and offsets of two or of four bytes: what is at its beginning, and then the
/// rest.
fn container(kind: u8, count: u32, entries: &[u8], rest: &[u8]) -> Vec<u8> {
    let is_large = kind % 2 == 1;
    let number = |number: u32| match is_large {
        true => number.to_le_bytes().to_vec(),
        false => u16::try_from(number).unwrap().to_le_bytes().to_vec(),
    };
    let len = 2 * number(0).len() + entries.len() + rest.len();
    let len = u32::try_from(len).unwrap();
    [&[kind][..], &number(count), &number(len), entries, rest].concat()
}

#[test]
fn single_values_are_read() {
    for (bytes, wanted) in [
        (vec![], "null"),
        (scalar(4, &[0]), "null"),
        (scalar(4, &[1]), "true"),
        (scalar(4, &[2]), "false"),
        (scalar(5, &[0xFE, 0xFF]), "-2"),
        (scalar(6, &[0xFE, 0xFF]), "65534"),
        (scalar(7, &[0, 0, 0, 0x80]), "-2147483648"),
        (scalar(8, &[0, 0, 0, 0x80]), "2147483648"),
        (scalar(9, &(i64::MIN + 1).to_le_bytes()), "-9223372036854775807"),
        (scalar(10, &u64::MAX.to_le_bytes()), "18446744073709551615"),
        (scalar(11, &1.5_f64.to_le_bytes()), "1.5"),
        (scalar(12, b"\x02ab"), "\"ab\""),
        (scalar(12, b"\0"), "\"\""),
        (opaque(246, &[5, 2, 0x7C, 0x18, 0x9C]), "-999.99"),
        (opaque(246, &[3, 3, 0x7E, 0x0B]), "-0.500"),
        (opaque(253, b"text"), "\"text\""),
        (opaque(252, &[1, 2, 3]), "\"base64:type252:AQID\""),
    ] {
        assert_eq!(text(&bytes).as_deref(), Ok(wanted), "{bytes:x?}");
    }
    // A length has 7 bits in each byte.
    let long = "x".repeat(300);
    assert_eq!(text(&[&[12, 0xAC, 2], long.as_bytes()].concat()), Ok(format!("\"{long}\"")));
}

/// The number of a DATETIME: the date and the hours are above the minutes, and a fraction below.
fn packed([year, month, day, hour, minute, second, micros]: [i64; 7]) -> [u8; 8] {
    let date = (year * 13 + month) << 5 | day;
    ((date << 17 | hour << 12 | minute << 6 | second) << 24 | micros).to_le_bytes()
}

#[test]
fn times_are_read() {
    let moment = packed([2024, 12, 31, 23, 59, 58, 123_456]);
    let time = packed([0, 0, 0, 12, 34, 56, 7]);
    let long = (838_i64 << 36 | 59 << 30 | 1 << 24).to_le_bytes();
    let negative = (-i64::from_le_bytes(time)).to_le_bytes();
    for (kind, bytes, wanted) in [
        (7, moment, "2024-12-31 23:59:58.123456"),
        (12, moment, "2024-12-31 23:59:58.123456"),
        (10, moment, "2024-12-31"),
        (12, packed([1, 1, 1, 0, 0, 0, 0]), "0001-01-01 00:00:00.000000"),
        (11, time, "12:34:56.000007"),
        (11, [0; 8], "00:00:00.000000"),
        (11, negative, "-12:34:56.000007"),
        (11, long, "838:59:01.000000"),
    ] {
        let bytes = opaque(kind, &bytes);
        assert_eq!(text(&bytes), Ok(format!("\"{wanted}\"")));
        assert!(!document(&bytes).unwrap().is_plain());
    }
}

#[test]
fn numbers_with_a_fraction_keep_a_point_or_an_exponent() {
    for (number, wanted) in [
        (0.0, "0.0"),
        (-0.5, "-0.5"),
        (100.0, "100.0"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (123_456_789_012_345_680.0, "1.2345678901234568e17"),
        (1_234_567_890_123_456.8, "1234567890123456.8"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
    ] {
        assert_eq!(text(&scalar(11, &f64::to_le_bytes(number))).as_deref(), Ok(wanted));
    }
}

#[test]
fn texts_and_bytes_are_written_as_mysql_does() {
    let special = "\"\\\u{8}\t\n\u{c}\r\u{1}\u{1f} \u{e4}";
    let bytes = [&[12, u8::try_from(special.len()).unwrap()], special.as_bytes()].concat();
    assert_eq!(text(&bytes).as_deref(), Ok("\"\\\"\\\\\\b\\t\\n\\f\\r\\u0001\\u001f \u{e4}\""));
    // Lines of base64 have 76 characters.
    for (len, wanted) in [(57, "A".repeat(76)), (58, format!("{}\\nAA==", "A".repeat(76)))] {
        assert_eq!(text(&opaque(16, &vec![0; len])), Ok(format!("\"base64:type16:{wanted}\"")));
    }
}

#[test]
fn values_of_arrays_are_in_their_entries_or_elsewhere() {
    // Two bytes for counts and offsets: what is longer is behind the entries, here from byte 16 on.
    let entries = [4, 1, 0, 5, 0xFF, 0xFF, 7, 16, 0, 12, 20, 0];
    let small = container(2, 4, &entries, b"\x05\0\0\0\x01x");
    assert_eq!(text(&small).as_deref(), Ok("[true, -1, 5, \"x\"]"));
    // Four bytes: 32 bits are in the entry, too.
    let entries = [7, 0xFE, 0xFF, 0xFF, 0xFF, 8, 0xFE, 0xFF, 0xFF, 0xFF, 6, 9, 0, 0, 0, 9, 28, 0, 0, 0];
    let large = container(3, 4, &entries, &8_i64.to_le_bytes());
    assert_eq!(text(&large).as_deref(), Ok("[-2, 4294967294, 9, 8]"));
    assert_eq!(text(&container(2, 0, &[], &[])).as_deref(), Ok("[]"));
}

#[test]
fn objects_have_keys_before_values() {
    // Two keys at 18 and 19, and a text at 21.
    let entries = [18, 0, 1, 0, 19, 0, 2, 0, 4, 2, 0, 12, 21, 0];
    let small = container(0, 2, &entries, b"abc\x01x");
    assert_eq!(text(&small).as_deref(), Ok("{\"a\": false, \"bc\": \"x\"}"));
    let entries = [19, 0, 0, 0, 1, 0, 8, 7, 0, 0, 0];
    assert_eq!(text(&container(1, 1, &entries, b"k")).as_deref(), Ok("{\"k\": 7}"));
    let long = "k".repeat(99);
    let entries = [11, 0, 99, 0, 4, 0, 0];
    assert_eq!(text(&container(0, 1, &entries, long.as_bytes())), Ok(format!("{{\"{long}\": null}}")));
}

#[test]
fn only_what_has_a_type_of_json_is_plain() {
    let decimal = || Json::Decimal("1".to_owned());
    for (value, is_plain) in [
        (Json::Int(1), true),
        (decimal(), false),
        (Json::Time("12:00:00".to_owned()), false),
        (Json::Bytes(252, vec![1]), false),
        (Json::Array(vec![Json::Null, Json::Bool(true)]), true),
        (Json::Array(vec![Json::Null, decimal()]), false),
        (Json::Object(vec![("a".to_owned(), Json::Double(1.5))]), true),
        (Json::Object(vec![("a".to_owned(), Json::Null), ("b".to_owned(), decimal())]), false),
    ] {
        assert_eq!(value.is_plain(), is_plain, "{value:?}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| {
        // Each array has the next one behind its only entry.
        let wrap = |inner: Vec<u8>| container(2, 1, &[inner[0], 7, 0], &inner[1..]);
        (1..depth).fold(container(2, 0, &[], &[]), |inner, _| wrap(inner))
    };
    assert_eq!(text(&nested(100)), Ok(format!("{}{}", "[".repeat(100), "]".repeat(100))));
    assert_eq!(text(&nested(101)), Err("a JSON document is nested too deeply"));
}

#[test]
fn damaged_documents_are_errors() {
    let array = |entries: &[u8], rest: &[u8]| container(2, 1, entries, rest);
    let mut longer = array(&[4, 1, 0], &[]);
    longer[3] += 1;
    for (bytes, what) in [
        (scalar(4, &[3]), "literal"),
        (scalar(4, &[]), "ends too early"),
        (scalar(7, &[0; 3]), "ends too early"),
        (scalar(12, &[3, b'a', b'b']), "ends too early"),
        // A length of more than five bytes.
        (scalar(12, &[0x80; 6]), "leads out of it"),
        (scalar(12, &[1, 0xFF]), "not UTF-8"),
        (scalar(11, &f64::NAN.to_le_bytes()), "no number"),
        (scalar(13, &[0; 9]), "unknown type"),
        (longer, "leads out of it"),
        (array(&[12, 200, 0], &[]), "leads out of it"),
        (opaque(246, &[0, 0, 0x80]), "too many digits"),
        (opaque(246, &[66, 0, 0x80]), "too many digits"),
        (opaque(246, &[50, 39, 0x80]), "too many digits"),
        (opaque(246, &[5, 6, 0x80]), "too many digits"),
        (opaque(246, &[5, 2, 0x80]), "ends too early"),
        (opaque(12, &[0; 7]), "ends too early"),
    ] {
        let error = text(&bytes).unwrap_err();
        assert!(error.contains(what), "{bytes:x?}: {error}");
    }
    // Five entries lead to the same text, which is longer than what they may share.
    let mut same = Vec::new();
    (0..5).for_each(|_| same.extend_from_slice(&[12, 19, 0]));
    let overlapping = container(2, 5, &same, &[&[40][..], &[b'x'; 40]].concat());
    assert!(text(&overlapping).unwrap_err().contains("overlap"));
}
