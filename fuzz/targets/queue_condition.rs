//! Any text is a condition or an error within the text, and a condition has an answer for any row.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use queue::{Collate, Column, Condition, Filter, Kind, Place, Schema};

struct Bytes;

impl Collate for Bytes {
    fn equal(&self, _: u32, one: &[u8], other: &[u8]) -> bool {
        one == other
    }

    fn encode(&self, _: u32, literal: &str) -> Option<Vec<u8>> {
        Some(literal.as_bytes().to_vec())
    }
}

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let kinds = [
        ("i", Kind::Integer { signed: true }, 8),
        ("u", Kind::Integer { signed: false }, 3),
        ("d", Kind::Decimal { precision: 20, scale: 5 }, 10),
        ("y", Kind::Year, 1),
        ("a", Kind::Date, 3),
        ("t", Kind::Time(3), 5),
        ("w", Kind::DateTime(6), 8),
        ("s", Kind::Timestamp(0), 4),
    ];
    let mut columns = Vec::new();
    let mut offset = 0;
    for (bit, (name, kind, len)) in (0..).zip(kinds) {
        let place = Place::Fixed(offset, len);
        columns.push(Column { name: name.into(), kind, place, null_bit: Some(bit) });
        offset += len;
    }
    columns.push(Column { name: "v".into(), kind: Kind::Text(1), place: Place::Variable(0), null_bit: None });
    Arc::new(Schema { null_bytes: 1, fixed_bytes: offset, columns })
});

fuzz_target!(|input: (&str, &[u8])| {
    let (text, row) = input;
    let collate: Arc<dyn Collate> = Arc::new(Bytes);
    match Condition::compile(text, &SCHEMA, &collate) {
        Err(error) => assert!(error.position <= text.chars().count() + 1),
        Ok(condition) => assert_eq!(condition.matches(row), condition.matches(row)),
    }
});
