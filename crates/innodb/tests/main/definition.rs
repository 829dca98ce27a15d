//! `.frm` files and the text of SHOW CREATE TABLE, both made by real servers (cases/make), are equal tables.

use std::path::{Path, PathBuf};

use innodb::Error;
use innodb::table::{Table, Version, frm, sql};

const SERIES: [(&str, u32); 3] = [("10.11", 101_119), ("11.4", 110_405), ("11.8", 110_806)];

fn folder(series: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(series)
}

/// A table's name as its file has it, and as it is.
fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().replace("@0020", " ").replace("@0060", "`")
}

fn both(series: &str, version: u32) -> Vec<(String, Result<Table, Error>, Result<Table, Error>)> {
    let script = std::fs::read_to_string(folder(series).join("create.sql")).unwrap();
    let mut tables = Vec::new();
    for entry in std::fs::read_dir(folder(series)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "frm") {
            let name = name(&path);
            let text = sql::find(&script, None, &name).unwrap();
            let from_frm = frm::parse(&std::fs::read(&path).unwrap());
            tables.push((name, from_frm, sql::parse(text, Version(version))));
        }
    }
    tables
}

#[test]
fn a_frm_file_and_its_sql_are_the_same_table() {
    for (series, version) in SERIES {
        let mut read = 0;
        for (name, from_frm, from_sql) in both(series, version) {
            match (from_frm, from_sql) {
                (Ok(from_frm), Ok(from_sql)) => assert_eq!(from_frm, from_sql, "{name} of {series}"),
                (Err(one), Err(other)) => assert_eq!(one, other, "{name} of {series}"),
                other => panic!("{name} of {series}: {other:#?}"),
            }
            read += 1;
        }
        assert!(read >= 38, "{read} tables of {series}");
    }
}
