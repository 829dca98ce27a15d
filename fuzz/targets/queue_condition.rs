//! Any text is a condition or an error within the text, a condition has an answer for any row, and any row is
//! JSON in ASCII.
#![no_main]

use std::sync::{Arc, LazyLock};

use condition::{Collate, Column, ColumnLayout, Condition, Kind, Pattern, Schema};
use libfuzzer_sys::fuzz_target;

struct Bytes;

impl Collate for Bytes {
    fn equal(&self, _: u32, one: &[u8], other: &[u8]) -> bool {
        one == other
    }

    fn encode(&self, _: u32, literal: &str) -> Option<Vec<u8>> {
        Some(literal.as_bytes().to_vec())
    }

    fn decode(&self, _: u32, text: &[u8]) -> Option<String> {
        String::from_utf8(text.to_vec()).ok()
    }

    fn like(&self, _: u32, text: &[u8], pattern: &Pattern) -> bool {
        text.starts_with(&pattern.bytes)
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
        ("e", Kind::Enum(1), 1),
    ];
    let mut columns = Vec::new();
    let mut offset = 0;
    for (bit, (name, kind, len)) in (0..).zip(kinds) {
        let layout = ColumnLayout::Fixed(offset, len);
        let members = if name == "e" { vec![b"one".to_vec(), b"two".to_vec()] } else { Vec::new() };
        columns.push(Column { name: name.into(), kind, layout, null_bit: Some(bit), members });
        offset += len;
    }
    let (kind, layout) = (Kind::Text(1), ColumnLayout::Variable(0));
    columns.push(Column { name: "v".into(), kind, layout, null_bit: None, members: Vec::new() });
    Arc::new(Schema { null_bytes: 2, fixed_bytes: offset, columns })
});

fuzz_target!(|input: (&str, &[u8])| {
    let (text, row) = input;
    let collate: Arc<dyn Collate> = Arc::new(Bytes);
    let mut json = String::new();
    for strings in [false, true] {
        SCHEMA.json(row, strings, &Bytes, &mut json);
    }
    assert!(json.starts_with('{') && json.ends_with('}') && json.is_ascii());
    match Condition::compile(text, &SCHEMA, &collate) {
        Err(error) => assert!(error.position <= text.chars().count() + 1),
        Ok(condition) => assert_eq!(condition.matches(row), condition.matches(row)),
    }
});
