//! Operators, words and numbers at the bounds of what they mean.

use std::sync::Arc;

use super::{Simple, compile, is, row};
use crate::wire::{ByteReader, put_signed, put_varint};
use crate::{Collate, Column, ColumnLayout, Condition, Kind, Schema};

#[test]
fn comparisons_include_their_bound_or_not() {
    for text in ["id <= -7", "id >= -7", "id <= -6", "id >= -8", "true", "not false", "id = -7 and true"] {
        assert!(is(text), "{text}");
    }
    for text in ["id <= -8", "id >= -6", "id < -7", "id > -7", "false", "not true", "id = -7 and false"] {
        assert!(!is(text), "{text}");
    }
}

#[test]
fn a_backslash_writes_characters_that_can_t_be_seen() {
    let named = |text: &str, name: &[u8]| {
        let mut row = row([0, 0]);
        row.truncate(row.len() - 4);
        row.push(u8::try_from(name.len()).unwrap());
        row.extend(name);
        compile(text).unwrap().matches(&row)
    };
    for (text, name) in [
        (r"name = 'a\nb'", &b"a\nb"[..]),
        (r"name = 'a\tb'", b"a\tb"),
        (r"name = 'a\rb'", b"a\rb"),
        (r"name = 'a\0b'", b"a\0b"),
        (r"name = 'a\'b'", b"a'b"),
        (r"name = 'a\xb'", b"axb"),
        ("name = 'a''b'", b"a'b"),
    ] {
        assert!(named(text, name), "{text}");
        assert!(!named(text, b"a?b"), "{text}");
    }
}

#[test]
fn a_time_has_its_fraction() {
    let collate: Arc<dyn Collate> = Arc::new(Simple);
    let column = |digits| Column {
        name: "t".to_owned(),
        kind: Kind::Time(digits),
        layout: ColumnLayout::Fixed(0, 3 + u32::from(digits.div_ceil(2))),
        null_bit: None,
        members: Vec::new(),
    };
    // 01:02:03, with a quarter of a second in half as many bytes as it has digits.
    let clock = 1_u64 << 12 | 2 << 6 | 3;
    for (digits, stored, quarter) in [(2, 25, "25"), (3, 2500, "250"), (6, 250_000, "250000")] {
        let bytes = usize::from(3 + digits / 2 + digits % 2);
        let schema = Arc::new(Schema { null_bytes: 0, fixed_bytes: 6, columns: vec![column(digits)] });
        let size = clock << (8 * (bytes - 3)) | stored;
        let bias = 1_u64 << (8 * bytes - 1);
        for (packed, sign) in [(bias + size, ""), (bias - size, "-")] {
            let mut row = packed.to_be_bytes()[8 - bytes..].to_vec();
            row.resize(6, 0);
            let is = |text: &str| Condition::compile(text, &schema, &collate).unwrap().matches(&row);
            assert!(is(&format!("t = '{sign}1:02:03.{quarter}'")), "{digits} {sign}");
            assert!(is(&format!("t = {sign}10203.25")), "{digits} {sign}");
            assert!(!is(&format!("t = '{sign}1:02:03'")), "{digits} {sign}");
        }
    }
}

#[test]
fn the_longest_condition_is_one() {
    let of = |len: usize| compile(&format!("{}id = -7", " ".repeat(len - 7)));
    let longest = of(1 << 16).unwrap();
    assert_eq!(longest.text().len(), 1 << 16);
    assert!(format!("{longest:?}").starts_with("Condition(\"  "));
    let error = of((1 << 16) + 1).unwrap_err();
    assert_eq!(error.what, "more than 65536 bytes");
}

#[test]
fn numbers_come_back_from_bytes() {
    for value in [0, 1, -1, 2, -2, 63, -64, 64, -65, i64::MAX, i64::MIN] {
        let mut out = Vec::new();
        put_signed(&mut out, value);
        assert_eq!(ByteReader::new(&out).signed(), Some(value));
        assert_eq!(out.len() == 1, (-64..64).contains(&value), "{value}: those near 0 are short");
    }
    let len = |value: u64| {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        out.len()
    };
    assert_eq!([0, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX].map(len), [1, 1, 2, 2, 3, 10]);
    let bytes: Vec<u8> = (1..=18).collect();
    let mut reader = ByteReader::new(&bytes);
    assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(1), Some(0x0302), Some(0x0706_0504)));
    assert_eq!((reader.u64(), reader.at()), (Some(0x0F0E_0D0C_0B0A_0908), 15));
    assert_eq!((reader.u32(), reader.is_empty()), (None, false));
    assert_eq!((reader.rest(), reader.is_empty(), reader.at()), (&[16, 17, 18][..], true, 18));
}
