//! Logs that are cut or damaged: what is whole is shown, and what is not is named.

use std::path::{Path, PathBuf};

use failure::{Completeness, Failure};
use transactions::{Known, LogFile};

use crate::support::{Said, all, recorded, walk, walk_with, write};

/// The beginnings of the events of MariaDB's log that a transaction is open at, and where that began.
const WITHIN: [(usize, usize); 4] = [(367, 325), (1405, 1363), (2768, 1363), (6716, 6237)];

fn bytes() -> Vec<u8> {
    std::fs::read(recorded("mariadb-10.11")).unwrap()
}

/// A walk over files with these bytes, which are called 1, 2 and so on.
fn of(folder: &Path, contents: &[&[u8]]) -> Said {
    let files: Vec<LogFile> = (1..)
        .zip(contents)
        .map(|(number, bytes)| {
            let path: PathBuf = folder.join(number.to_string());
            write(&path, bytes);
            LogFile::new(path)
        })
        .collect();
    walk(&files, &all())
}

#[test]
fn a_cut_file_has_what_is_before_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, path) = (bytes(), folder.path().join("1"));
    let path = path.display();
    for (at, have) in [(474, 1), (474, 41), (516, 800), (10_563, 20)] {
        let said = of(folder.path(), &[&bytes[..at + have]]);
        assert_eq!(said.completeness, Completeness::Damaged);
        let [only] = said.reported.as_slice() else { panic!("{:?}", said.reported) };
        let begins = format!("warning: {path}: it ends within the event at {at}, of which {have} ");
        let ends = "bytes are there: the file was cut; what follows in this file is not read";
        assert!(only.starts_with(&begins) && only.ends_with(ends), "{only}");
        let whole = said.shown.iter().filter(|text| text.starts_with("0-1-") || text.starts_with("3-1-"));
        assert_eq!(whole.count(), if at < 1000 { 1 } else { 19 });
    }
}

#[test]
fn a_transaction_without_its_end_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bytes();
    let path = folder.path().join("1");
    for (at, start) in WITHIN {
        let said = of(folder.path(), &[&bytes[..at]]);
        assert_eq!(said.completeness, Completeness::Damaged, "{at}");
        let [only] = said.reported.as_slice() else { panic!("{:?}", said.reported) };
        let begins = format!("warning: {}: the end of the transaction 0-1-", path.display());
        let ends = format!(", which begins at 1:{start}, is not there; it is not shown");
        assert!(only.starts_with(&begins) && only.ends_with(&ends), "{only}");
    }
    // Between two transactions nothing is missing.
    let said = of(folder.path(), &[&bytes[..474]]);
    assert_eq!((said.completeness, said.shown.len()), (Completeness::Complete, 1));
    assert!(said.reported.is_empty());
}

#[test]
fn a_file_that_the_server_writes_may_end_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = bytes();
    // LOG_EVENT_BINLOG_IN_USE_F of the first event, whose checksum leaves it out.
    bytes[4 + 17] |= 1;
    let said = of(folder.path(), &[&bytes[..1405]]);
    assert_eq!(said.completeness, Completeness::Complete);
    assert_eq!(said.reported, ["note: the end of the transaction 0-1-3 at 1:1363 is not there yet"]);
    let said = of(folder.path(), &[&bytes[..1500]]);
    let torn = "note: 1: it ends within the event at 1405, of which 95 bytes are there: the server is writing it, or was \
                killed";
    let open = "note: the end of the transaction 0-1-3 at 1:1363 is not there yet";
    assert_eq!((said.completeness, said.reported), (Completeness::Complete, vec![torn.into(), open.into()]));
}

#[test]
fn nothing_behind_damage_is_shown_but_the_next_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bytes();
    let mut bytes = whole.clone();
    bytes[4000] ^= 1;
    let said = of(folder.path(), &[&bytes, &whole]);
    assert_eq!(said.completeness, Completeness::Damaged);
    let [only] = said.reported.as_slice() else { panic!("{:?}", said.reported) };
    assert!(
        only.starts_with("warning: ") && only.ends_with("what follows in this file is not read"),
        "{only}"
    );
    assert!(only.contains("/1: "), "{only}");
    assert_eq!(said.shown.len(), 3 + 20, "what is before the damage, and the other file");
    // Each file describes its tables itself.
    assert_eq!(said.tables.iter().filter(|table| *table == "app.zoo").count(), 2);
}

#[test]
fn a_transaction_that_another_interrupts_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bytes();
    // The GTID and the statement of 0-1-3, without its rows and its end.
    let cut = [&bytes[..2444], &bytes[3722..]].concat();
    let said = of(folder.path(), &[&cut]);
    assert_eq!(said.completeness, Completeness::Damaged);
    assert_eq!(said.reported, ["warning: the transaction at 1:1363 has no end, another begins"]);
    assert_eq!(said.shown.len(), 19);
}

#[test]
fn rows_of_a_table_that_is_not_described_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = bytes();
    let cut = [&bytes[..2444], &bytes[2768..]].concat();
    let said = of(folder.path(), &[&cut]);
    let [only] = said.reported.as_slice() else { panic!("{:?}", said.reported) };
    assert!(only.contains("no table 18 was described before it"), "{only}");
    assert_eq!((said.completeness, said.shown.len()), (Completeness::Damaged, 2));
}

#[test]
fn what_is_no_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    write(&path, b"no log at all");
    let error = walk_with(&[LogFile::new(path.clone())], &all(), &Known::default()).err().unwrap();
    assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Usage(_))), "{error:#}");
    assert!(format!("{error:#}").contains(&path.display().to_string()));
}
