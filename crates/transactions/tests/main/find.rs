//! Which files are the log, by the arguments of a command.

use std::path::{Path, PathBuf};

use failure::Failure;
use repository::KeyFile;
use transactions::{Found, Times, files};

use crate::support::write;

fn found(paths: &[&Path]) -> anyhow::Result<Found> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
    files(&paths, &KeyFile::default(), Times::Said)
}

fn names(found: &Found) -> Vec<String> {
    found.files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    write(&path, text.as_bytes());
    path
}

#[test]
fn an_index_names_the_files_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let index = put(folder, "binlog.index", "./binlog.000002\n/elsewhere/binlog.000003\n\nbinlog.000009\n");
    for (number, bytes) in [(1, 10), (2, 100), (3, 1000)] {
        put(folder, &format!("binlog.00000{number}"), &"x".repeat(bytes));
    }
    // A copy of a log is read where it is, wherever its index says it was.
    for path in [folder, &index] {
        let found = found(&[path]).unwrap();
        assert_eq!(names(&found), ["binlog.000002", "binlog.000003"]);
        assert!(found.files.iter().all(|file| file.parent() == Some(folder)));
        assert_eq!(found.missing.len(), 1);
        assert!(found.missing[0].ends_with("binlog.index names binlog.000009, which is not there"));
        assert_eq!(found.bytes().unwrap(), 1100);
    }
    // Files are taken in the order in which they are named.
    let [first, second] = ["binlog.000003", "binlog.000001"].map(|name| folder.join(name));
    let both = found(&[&first, &second]).unwrap();
    assert_eq!(names(&both), ["binlog.000003", "binlog.000001"]);
    assert!(both.missing.is_empty() && both.files[0].on_disk() == Some(&first));
    assert_eq!(both.bytes().unwrap(), 1010);
}

#[test]
fn the_binary_log_of_a_folder_comes_before_its_relay_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder, "host-Relay-bin.index", "r.000001\n");
    for name in ["r.000001", "b.000001"] {
        put(folder, name, "x");
    }
    assert_eq!(names(&found(&[folder]).unwrap()), ["r.000001"]);
    put(folder, "binlog.index", "b.000001\n");
    assert_eq!(names(&found(&[folder]).unwrap()), ["b.000001"]);
    put(folder, "second.index", "b.000001\n");
    let error = found(&[folder]).err().unwrap();
    assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Usage(_))), "{error:#}");
    let said = error.to_string();
    assert!(
        said.contains("several logs") && said.contains("binlog.index") && said.contains("second.index"),
        "{said}"
    );
}

#[test]
fn a_folder_without_a_log_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = format!("{:#}", found(&[folder.path()]).err().unwrap());
    assert!(error.contains("there is no binary log here"), "{error}");
    let absent = folder.path().join("binlog.000001");
    let found = found(&[&absent]).unwrap();
    assert_eq!(names(&found), ["binlog.000001"], "it is looked for when it is read");
    assert!(found.bytes().is_err());
}
