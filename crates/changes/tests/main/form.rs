//! What is in the files.

use std::path::Path;

use bytes::Bytes;
use changes::{Format, Start};
use disk::faults::FaultDisk;
use failure::Completeness;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use crate::support::{SERVERS, Told, Wish, found, lines};

#[test]
fn changes_are_lines_in_the_order_of_the_log() {
    for server in SERVERS {
        let disk = FaultDisk::default();
        let summary = Wish::all(server, Format::Jsonl).write(&disk).unwrap();
        assert_eq!(summary.completeness, Completeness::Partial, "a statement was logged instead of rows");
        let mut text = String::new();
        for (name, bytes) in found(&disk) {
            text.push_str(&format!("== {name}\n{}", String::from_utf8(bytes).unwrap()));
        }
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(server).join("expected.txt");
        if !path.exists() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{server}");
    }
}

/// What the changes make of the tables is what they have.
#[test]
fn the_rows_that_are_left_are_those_of_the_tables() {
    for server in SERVERS {
        let disk = FaultDisk::default();
        Wish::all(server, Format::Jsonl).write(&disk).unwrap();
        let left = |table: &str| {
            let mut rows = std::collections::BTreeMap::new();
            for line in lines(&found(&disk), table) {
                let id = |image: &str| line[image]["id"].as_u64();
                if let Some(id) = id("before") {
                    assert_eq!(rows.remove(&id), Some(line["before"].clone()), "{server} {line}");
                }
                if let Some(id) = id("after") {
                    assert_eq!(rows.insert(id, line["after"].clone()), None, "{server} {line}");
                }
            }
            rows.into_keys().collect::<Vec<u64>>()
        };
        // The altered table has its new column from a file of its own on.
        let altered = found(&disk).keys().filter(|name| name.starts_with("d.t/")).count();
        assert_eq!(altered, 3, "{server}");
        // 4 and 6 were prepared and committed, 6 in another file; 5 was rolled back.
        let mut rows = std::collections::BTreeSet::new();
        for line in lines(&found(&disk), "d.t") {
            for (image, is_there) in [("before", false), ("after", true)] {
                if let Some(id) = line[image]["id"].as_u64() {
                    let _ = if is_there { rows.insert(id) } else { rows.remove(&id) };
                }
            }
        }
        assert_eq!(rows.into_iter().collect::<Vec<_>>(), [3, 4, 6], "{server}");
        // TRUNCATE, and what was logged as a statement, are among the statements.
        // MariaDB logs the savepoint, so what remains of that transaction is not certain; MySQL does not.
        let others: &[u64] = if server.starts_with("mariadb") { &[2, 7] } else { &[2, 7, 21] };
        assert_eq!(left("d.other"), others, "{server}");
        let statements = lines(&found(&disk), "_statements");
        let ddl: Vec<&str> = statements.iter().filter_map(|line| line["ddl"].as_str()).collect();
        for part in ["CREATE TABLE t", "ALTER TABLE t", "TRUNCATE", "VALUES (8, 8)"] {
            assert!(ddl.iter().any(|ddl| ddl.contains(part)), "{server}: {part} in {ddl:?}");
        }
    }
}

/// A row as an object: texts, numbers and NULL as such, other values as the library shows them.
fn object(row: &Row) -> Value {
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Str(text) => text.as_str().into(),
        Field::Bool(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        field => field.to_string().into(),
    };
    row.get_column_iter()
        .map(|(name, field)| (name.clone(), value(field)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn parquet_has_the_same_changes() {
    for server in SERVERS {
        let (json, parquet) = (FaultDisk::default(), FaultDisk::default());
        Wish::all(server, Format::Jsonl).write(&json).unwrap();
        Wish::all(server, Format::Parquet).write(&parquet).unwrap();
        let (json, parquet) = (found(&json), found(&parquet));
        let mut expected = Vec::new();
        for line in lines(&json, "d.t").iter().chain(&lines(&json, "d.other")) {
            let kinds = match line["op"].as_str().unwrap() {
                "c" => [None, Some("insert")],
                "u" => [Some("update_preimage"), Some("update_postimage")],
                _ => [Some("delete"), None],
            };
            for (kind, image) in kinds.into_iter().zip(["before", "after"]) {
                let Some(kind) = kind else { continue };
                let of = |key: &str| line["source"][key].clone();
                expected.push(serde_json::json!([
                    kind,
                    line[image]["id"],
                    of("gtid"),
                    of("file"),
                    of("pos")
                ]));
            }
        }
        let mut rows = Vec::new();
        let mut odd = Vec::new();
        let is_compared = |(name, _): &(&String, &Vec<u8>)| !name.starts_with("d.old/");
        for (name, bytes) in parquet.iter().filter(is_compared) {
            if !name.ends_with(".parquet") {
                assert_eq!(json.get(name), Some(bytes), "{server}: {name}");
                continue;
            }
            let reader = SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                let row = object(&row.unwrap());
                let of = |key: &str| row[key].clone();
                odd.extend(row["_odd"].as_str().map(str::to_owned));
                let place = (
                    name.starts_with("d.other/"),
                    row["_log_file"].to_string(),
                    row["_log_position"].as_i64(),
                    row["_row"].as_i64(),
                );
                rows.push((
                    place,
                    serde_json::json!([
                        of("_change_type"),
                        of("id"),
                        of("_gtid"),
                        of("_log_file"),
                        of("_log_position")
                    ]),
                ));
                if row["_change_type"] == "insert" && row["id"] == 1 && name.starts_with("d.t/") {
                    assert_eq!(row["name"], "caf\u{c3}\u{a9}\t\\", "{server}");
                    assert_eq!(row["one"], true, "{server}");
                }
            }
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
        assert_eq!(rows, expected, "{server}");
        // Times that are none are in no column of their own.
        let zero = r#"{"day":"0000-00-00","ts":"0000-00-00 00:00:00"}"#;
        assert_eq!(odd, vec![zero; 4], "{server}");
    }
}

#[test]
fn only_selected_tables_are_written() {
    let disk = FaultDisk::default();
    let told = Told::default();
    let wish = Wish { tables: vec!["d.t"], ..Wish::all("mysql-9.7", Format::Jsonl) };
    let summary = wish.write_and_tell(&disk, &told).unwrap();
    assert!(found(&disk).keys().all(|name| name.starts_with("d.t/") || name.starts_with("_statements/")));
    let statements = lines(&found(&disk), "_statements");
    assert!(statements.iter().all(|line| !line["ddl"].as_str().unwrap().contains("other")), "{statements:?}");
    // Nothing of what is left out is of this table.
    assert_eq!(summary.completeness, Completeness::Complete, "{:?}", told.0);
}

#[test]
fn changes_begin_where_somebody_says() {
    let disk = FaultDisk::default();
    let start = Start::At("binlog.000002:4".parse().unwrap());
    let told = Told::default();
    Wish { start, ..Wish::all("mysql-9.7", Format::Jsonl) }.write_and_tell(&disk, &told).unwrap();
    let names: Vec<String> = found(&disk).into_keys().collect();
    assert!(names.iter().all(|name| name.contains("binlog.000002")), "{names:?}");
    // What was prepared before is not known.
    assert!(told.0.lock().unwrap().iter().any(|line| line.contains("prepared before")), "{:?}", told.0);
}
