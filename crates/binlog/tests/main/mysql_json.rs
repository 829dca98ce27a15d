//! MySQL's JSON: its text is what SELECT says, changed parts are put together, and nothing that is damaged
//! does harm.

use binlog::event::Body;
use binlog::reader::Reader;
use binlog::row::{self, Value};
use binlog::tables::Tables;

use crate::support::{case, framed, walk};

const LARGE: &[u8] = include_bytes!("../cases/mysql-9.7-large.binlog");
const TEXTS: &str = include_str!("../cases/mysql-9.7-json.texts");

/// The values of columns in the images after changes.
fn values(log: &[u8], columns: &[usize]) -> Vec<String> {
    let (mut reader, mut tables) = (Reader::open(log).unwrap().unpacking(), Tables::default());
    let mut found = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        if tables.take(&event, |_| {}).unwrap().is_some() {
            continue;
        }
        let Body::Rows(rows) = event.parse().unwrap() else { continue };
        let table = tables.get(rows.table_id).unwrap();
        for row in row::rows(&rows, &table, "rows").unwrap() {
            let Some(after) = row.unwrap().after else { continue };
            let cells = columns.iter().filter_map(|at| after.cell(*at));
            let text = |value: Value<'_>| value.as_text().unwrap_or_else(|| value.to_string());
            found.push(cells.map(|cell| text(cell.value().unwrap())).collect::<Vec<_>>().join("\t"));
        }
    }
    found
}

#[test]
fn a_document_is_shown_as_select_shows_it() {
    let found = values(case("mysql-9.7-json").log, &[1, 4]);
    assert_eq!(found[..8], TEXTS.lines().collect::<Vec<_>>());
}

#[test]
fn a_large_document_has_wider_offsets() {
    let items = format!("\"{}\", ", "x".repeat(3300)).repeat(20);
    let found = values(LARGE, &[1]);
    assert!(found[0] == format!("[{items}70000, -70000, 3000000000, 5, true, null]"), "{}", found[0]);
    let big = "y".repeat(65_600);
    assert!(found[1] == format!("{{\"n\": -70000, \"u\": [1], \"big\": \"{big}\"}}"), "{}", found[1]);
}

#[test]
fn changed_parts_are_put_together() {
    let found = values(case("mysql-9.7-json").log, &[1]);
    let all = [
        r#"{"a": "b", "list": [1, "TWO", 3.5], "in ner": {"x": 1, "q\"": 1.5}}"#,
        r#"{"a": "b", "list": ["TWO", 3.5], "in ner": {"q\"": 1.5}}"#,
        r#"{"a": "b", "new": [1, 2], "list": ["TWO", 3.5, "last"], "in ner": {"q\"": 1.5}}"#,
        r#"{"a": "b", "new": [1, 2], "list": ["TWO", 3.5, "last"], "in ner": {"q\"": 1.5}}"#,
        r#"{"a": "b", "new": [1, 2], "list": [0, 3.5, "last"], "in ner": {"q\"": 1.5}}"#,
    ];
    assert_eq!(found[9..14], all);
    // Without the document before, only the changes are known.
    let changes = r#"JSON_REPLACE('$.a', "c"), JSON_INSERT('$.z', 26)"#;
    assert_eq!(found.last().unwrap(), changes);
    let rows = walk(case("mysql-9.7-json").log).rows;
    assert!(rows.last().unwrap().contains(&format!("@2={changes} ")), "{rows:?}");
}

/// An INSERT of a row with only this document into a table of a JSON column.
fn inserted(document: &[u8]) -> Vec<u8> {
    let map = [9, 0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 1, b't', 0, 1, 245, 1, 4, 1];
    let len = u32::try_from(document.len()).unwrap().to_le_bytes();
    let rows = [&[9, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 1, 0][..], &len, document].concat();
    framed(&[(19, &map), (30, &rows)])
}

fn text(document: &[u8]) -> Result<String, String> {
    let found = walk(&inserted(document));
    found.error.map_or_else(|| Ok(found.rows[0].clone()), Err)
}

#[test]
fn a_document_is_one_value_or_damaged() {
    assert_eq!(text(&[]).unwrap(), "@1='null' ");
    assert_eq!(text(&[12, 2, b'h', b'i']).unwrap(), "@1='\"hi\"' ");
    for (document, what) in [
        (&[4, 3][..], "literal"),
        (&[99, 0], "unknown type"),
        (&[12, 5, b'h'], "overlap"),
        (&[12, 1, 0xFF], "UTF-8"),
        (&[12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], "leads out of it"),
        (&[11, 0, 0, 0, 0, 0, 0, 0xF0, 0x7F], "no number"),
        (&[2, 1, 0, 200, 0, 4, 0, 0], "leads out of it"),
        (&[3, 0xFF, 0xFF, 0xFF, 0xFF, 8, 0, 0, 0], "too early"),
        (&[0, 1, 0, 10, 0, 99, 0, 1, 0, 4, 0, 0], "leads out of it"),
        (&[15, 246, 3, 99, 0, 0], "too many digits"),
    ] {
        let error = text(document).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
    }
}

/// Items that are the same bytes again and again would be more than any memory holds.
#[test]
fn a_document_whose_parts_overlap_ends_soon() {
    // An array whose two items are the same array, which has two such items, and so on.
    let levels = 60_u16;
    let mut document = vec![2];
    for level in 1..=levels {
        let [low, high] = ((levels - level + 1) * 10).to_le_bytes();
        let item: [u8; 3] = if level == levels { [4, 0, 0] } else { [2, 10, 0] };
        document.extend([&[2, 0, low, high][..], &item, &item].concat());
    }
    assert!(text(&document).unwrap_err().contains("overlap"));
    // One item each, so deep that a reader that follows them needs much of its stack.
    let mut document = vec![2];
    let depth = 5000_u16;
    for at in 0..depth {
        let left = ((depth - at) * 7).to_le_bytes();
        document.extend([1, 0, left[0], left[1], 2, 7, 0]);
    }
    document.extend([0; 4]);
    assert!(text(&document).unwrap_err().contains("too deeply"));
}
