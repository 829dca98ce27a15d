//! Values as servers store them, in columns of their own.

use std::sync::Arc;

use super::{Simple, json, row, schema};
use crate::{Collate, Column, ColumnLayout, Condition, Kind, Schema};

/// The only column, of this kind, in so many bytes.
fn of(kind: Kind, len: usize) -> Arc<Schema> {
    let len = u32::try_from(len).unwrap();
    let layout = ColumnLayout::Fixed(0, len);
    let column = Column { name: "c".to_owned(), kind, layout, null_bit: None, members: Vec::new() };
    Arc::new(Schema { null_bytes: 0, fixed_bytes: len, columns: vec![column] })
}

fn holds(text: &str, kind: Kind, bytes: &[u8]) -> bool {
    let collate: Arc<dyn Collate> = Arc::new(Simple);
    Condition::compile(text, &of(kind, bytes.len()), &collate).unwrap().matches(bytes)
}

#[test]
fn whole_numbers_have_a_sign_or_not() {
    let signed = Kind::Integer { signed: true };
    assert!(holds("c = 5", signed, &[5, 0]) && holds("c = -2", signed, &[0xfe]));
    assert!(holds("c = 32767", signed, &[0xff, 0x7f]) && holds("c = -32768", signed, &[0, 0x80]));
    assert!(holds("c = 254", Kind::Integer { signed: false }, &[0xfe]));
    assert!(holds("c = 0", signed, &[]), "of no bytes");
    assert!(holds("c is null", signed, &[0; 9]), "of too many bytes");
}

#[test]
fn a_year_is_counted_from_1900_on() {
    assert!(holds("c = 2026", Kind::Year, &[126]) && holds("c = 0", Kind::Year, &[0]));
    let years = of(Kind::Year, 1);
    assert_eq!(Schema::decode(&years.encode()), Some((*years).clone()));
    assert!(holds("c is null", Kind::Year, &[]));
}

#[test]
fn a_decimal_has_groups_on_both_sides_of_its_point() {
    let decimal = |precision, scale| Kind::Decimal { precision, scale };
    // Groups of 2 and 9 digits, then those of 9, 9 and 2 digits behind the point.
    let mut bytes = vec![0x80 | 12];
    for group in [345_678_901_u32, 234_567_890, 123_456_789] {
        bytes.extend(group.to_be_bytes());
    }
    bytes.push(1);
    assert!(holds("c = 12345678901.23456789012345678901", decimal(31, 20), &bytes));
    // All digits that a number may have, and one more.
    let all = [&[0x80][..], &[0; 15], &[7]].concat();
    assert!(holds("c = 7", decimal(38, 0), &all));
    assert!(holds("c is null", decimal(39, 0), &[&all[..], &[0]].concat()));
    assert!(holds("c is null", decimal(39, 2), &[&all[..], &[0, 0]].concat()));
    assert!(holds(&format!("c = 0.{}7", "0".repeat(37)), decimal(38, 38), &all));
    assert!(holds("c is null", decimal(2, 3), &[0x80, 0]));
}

#[test]
fn a_time_of_nothing_has_no_sign() {
    assert!(holds("c = 0", Kind::Time(0), &[0x80, 0, 0]));
    let mut out = String::new();
    of(Kind::Time(0), 3).json(&[0x80, 0, 0], false, &Simple, &mut out);
    assert_eq!(out, r#"{"c":"00:00:00"}"#);
}

#[test]
fn numbers_are_text_for_readers_without_exact_ones() {
    let mut out = String::new();
    schema().json(&row([0, 0]), true, &Simple, &mut out);
    assert!(
        out.starts_with(r#"{"id":"-7","small":"65535","price":"-1234567.89","day":"2026-11-21""#),
        "{out}"
    );
    assert!(json(&schema(), &row([0, 0])).starts_with(r#"{"id":-7,"small":65535,"#));
}
