//! What can't be continued, and what is damaged.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use changes::{Format, Start};
use disk::Disk;
use disk::faults::FaultDisk;
use failure::Completeness;

use crate::support::{TO, Told, Wish, found, lines};

/// A copy of a log, in which a file may be changed.
fn copied(server: &str, folder: &Path) -> Vec<PathBuf> {
    let copy = |path: PathBuf| {
        let to = folder.join(path.file_name().unwrap());
        std::fs::copy(&path, &to).unwrap();
        to
    };
    crate::support::log(server).into_iter().map(copy).collect()
}

#[test]
fn nothing_behind_damage_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let files = copied("mariadb-10.11", folder.path());
    let disk = FaultDisk::default();
    Wish::all("mariadb-10.11", Format::Jsonl).write(&disk).unwrap();
    let whole = lines(&found(&disk), "d.t");
    // A byte of the row that was inserted behind the ALTER.
    let pos = usize::try_from(whole[3]["source"]["pos"].as_u64().unwrap()).unwrap();
    let mut bytes = std::fs::read(&files[0]).unwrap();
    bytes[pos + 200] ^= 1;
    std::fs::write(&files[0], &bytes).unwrap();
    let disk = FaultDisk::default();
    let wish = Wish { files: files.clone(), ..Wish::all("mariadb-10.11", Format::Jsonl) };
    for _ in 0..2 {
        let told = Told::default();
        let summary = wish.write_and_tell(&disk, &told).unwrap();
        assert_eq!(
            (summary.completeness, summary.next.file.as_str()),
            (Completeness::Damaged, "binlog.000001")
        );
        assert!(told.0.lock().unwrap().iter().any(|line| line.contains("checksum")), "{:?}", told.0);
        assert_eq!(lines(&found(&disk), "d.t"), whole[..3]);
    }
    // Once it is whole again, nothing is missing.
    copied("mariadb-10.11", folder.path());
    wish.write(&disk).unwrap();
    assert_eq!(lines(&found(&disk), "d.t"), whole);
}

/// An archiver has made the next file, and written nothing of it but the mark of a log.
#[test]
fn a_file_that_has_no_event_yet_is_not_begun_again_later() {
    let server = "mysql-9.7";
    let folder = tempfile::tempdir().unwrap();
    let files = copied(server, folder.path());
    let whole = std::fs::read(&files[1]).unwrap();
    let wish = Wish { files: files.clone(), ..Wish::all(server, Format::Jsonl) };
    std::fs::write(&files[1], &whole[..4]).unwrap();
    let (disk, round, stop) = (FaultDisk::default(), Cell::new(0), AtomicBool::new(false));
    let happens = || {
        round.set(round.get() + 1);
        match round.get() {
            // Where to begin, and the first round.
            1 | 2 => {}
            3 => std::fs::write(&files[1], &whole).unwrap(),
            _ => stop.store(true, Ordering::Relaxed),
        }
    };
    let every = Some(Duration::from_millis(1));
    wish.rounds(&disk, &Told::default(), (&happens, every), &stop).unwrap();
    let all = FaultDisk::default();
    wish.write(&all).unwrap();
    assert_eq!(lines(&found(&disk), "d.t"), lines(&found(&all), "d.t"));
}

#[test]
fn a_log_that_does_not_continue_is_refused() {
    let server = "mysql-9.7";
    let folder = tempfile::tempdir().unwrap();
    let files = copied(server, folder.path());
    let with = |files: &[&Path]| {
        let files = files.iter().map(|path| path.to_path_buf()).collect();
        Wish { files, ..Wish::all(server, Format::Jsonl) }
    };
    let begun = || {
        let disk = FaultDisk::default();
        with(&[&files[0]]).write(&disk).unwrap();
        disk
    };
    // The file is not there any more.
    let error = with(&[&files[1]]).write(&begun()).unwrap_err();
    assert!(error.contains("the log has no binlog.000001 any more"), "{error}");
    // A file between is missing.
    let third = folder.path().join("binlog.000003");
    std::fs::copy(&files[1], &third).unwrap();
    let error = with(&[&files[0], &third]).write(&begun()).unwrap_err();
    assert!(error.contains("no file between"), "{error}");
    // The server has begun its log again.
    let disk = begun();
    let other = tempfile::tempdir().unwrap();
    let first = other.path().join("binlog.000001");
    std::fs::copy(&files[1], &first).unwrap();
    let error = with(&[&first]).write(&disk).unwrap_err();
    assert!(error.contains("begun again"), "{error}");
    // In the middle of a transaction, and in that of an event.
    let at = |position: &str| Start::At(position.parse().unwrap());
    let disk = FaultDisk::default();
    Wish::all(server, Format::Jsonl).write(&disk).unwrap();
    let pos = lines(&found(&disk), "d.t")[0]["source"]["pos"].as_u64().unwrap();
    // Behind the event with which a transaction begins is BEGIN, behind that a description of its table.
    let bytes = std::fs::read(&files[0]).unwrap();
    let length = |at: u64| {
        let at = usize::try_from(at).unwrap();
        u64::from(u32::from_le_bytes(bytes[at + 9..at + 13].try_into().unwrap()))
    };
    let begin = pos + length(pos);
    let table = begin + length(begin);
    let start = at(&format!("binlog.000001:{table}"));
    let error = Wish { start, ..with(&[&files[0]]) }.write(&FaultDisk::default()).unwrap_err();
    assert!(error.contains("in the middle of a transaction"), "{error}");
    let error = Wish { start: at("binlog.000009:4"), ..with(&[&files[0]]) };
    let error = error.write(&FaultDisk::default()).unwrap_err();
    assert!(error.contains("the log has no binlog.000009"), "{error}");
}

#[test]
fn a_wrong_name_of_a_log_leaves_nothing_behind() {
    let disk = FaultDisk::default();
    let wish = Wish { files: vec!["nowhere/binlog.000001".into()], ..Wish::all("mysql-9.7", Format::Jsonl) };
    let error = wish.write(&disk).unwrap_err();
    assert!(error.contains("nowhere/binlog.000001"), "{error}");
    let start = Start::At("binlog.000009:4".parse().unwrap());
    let error = Wish { start, ..Wish::all("mysql-9.7", Format::Jsonl) }.write(&disk).unwrap_err();
    assert!(error.contains("no binlog.000009: it begins with binlog.000001"), "{error}");
    assert!(disk.names().is_empty(), "{:?}", disk.names());
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let disk = FaultDisk::default();
    disk.make_folder(Path::new(TO)).unwrap();
    disk.put(&Path::new(TO).join("manifest.json"), b"{}");
    let error = Wish::all("mysql-9.7", Format::Jsonl).write(&disk).unwrap_err();
    assert!(error.contains("is no folder of changes"), "{error}");
    let disk = FaultDisk::default();
    Wish::all("mysql-9.7", Format::Jsonl).write(&disk).unwrap();
    let before = found(&disk);
    let error = Wish::all("mysql-9.7", Format::Parquet).write(&disk).unwrap_err();
    assert!(error.contains("in another format"), "{error}");
    assert_eq!(found(&disk), before);
    // Nothing new: nothing is written.
    Wish::all("mysql-9.7", Format::Jsonl).write(&disk).unwrap();
    assert_eq!(found(&disk), before);
}
