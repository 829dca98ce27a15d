//! Logs of archives: files of the server in a folder, and segments of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::archive::segments::{SegmentArchive, SegmentWriter};
use binlog::archive::{Archive, BeginReason, TimelineInfo};
use binlog::reader::Reader;
use disk::{Disk, RealDisk};
use failure::{Completeness, Failure};
use repository::KeyFile;
use repository::location::Location;
use transactions::{EndTime, Filter, Found, Judged, Known, Times, files, of_segments};

use crate::support::{Report, all, recorded, walk, walk_with, write};

const FILES: [&str; 2] = ["binlog.000001", "binlog.000002"];
/// An event in the middle of that log: the second half is a segment of its own.
const HALF: u64 = 6237;
/// The time of each transaction of the log of MariaDB 10.11.
const TIME: i64 = 1_795_470_949;

fn log() -> Vec<u8> {
    std::fs::read(recorded("mariadb-10.11")).unwrap()
}

fn info() -> TimelineInfo {
    TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), FILES[0].to_owned())
}

fn found(path: &Path, times: Times) -> anyhow::Result<Found> {
    files(&[path.to_owned()], &KeyFile::default(), times)
}

fn names(found: &Found) -> Vec<String> {
    found.files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// An archive with two timelines. The second one has two files: all of the first one had come at second 100,
/// and of the second one at 200.
fn in_files(name: &Path) {
    let log = log();
    let folder = name.join("log");
    RealDisk.make_folder(name).unwrap();
    let archive = Archive::open(&RealDisk, &folder).unwrap().unwrap();
    archive.begin(info()).unwrap();
    let mut writer = archive.begin(info()).unwrap().writer().unwrap();
    for (file, time) in FILES.into_iter().zip([100, 200]) {
        writer.begin(file).unwrap();
        writer.append(&log[4..]).unwrap();
        writer.note_arrival(time, true).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn an_archive_has_files_and_when_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("db");
    in_files(&name);
    for path in [name.clone(), name.join("log/000002")] {
        let noted = found(&path, Times::Noted).unwrap();
        assert_eq!(names(&noted), FILES, "of the newest timeline");
        let span = |at: usize| noted.files[at].arrivals().span((4, 300));
        assert_eq!([span(0), span(1)], [(None, Some(100)), (Some(100), Some(200))]);
        let said = found(&path, Times::Said).unwrap();
        assert_eq!((names(&said), said.files[1].arrivals().span((4, 300))), (names(&noted), (None, None)));
    }
    assert!(found(&name.join("log/000001"), Times::Noted).unwrap().files.is_empty());
}

/// What a transaction says of its time may be wrong, and a session can set it.
#[test]
fn a_transaction_ended_when_it_came() {
    let folder = tempfile::tempdir().unwrap();
    in_files(folder.path());
    let first = found(folder.path(), Times::Noted).unwrap().files.remove(0);
    let by = |since| walk(std::slice::from_ref(&first), &Filter { since: Some(since), ..all() });
    assert_eq!(by(99).shown.len(), 20);
    let late = by(TIME);
    assert_eq!((late.shown.len(), late.others.len()), (0, 20));
    assert!(late.reported[0].starts_with("note: 0-1-1 says that it ended at "), "{:?}", late.reported);
    assert_eq!(late.reported[10..], ["note: and 10 more like that"]);
}

#[test]
fn ten_transactions_with_wrong_times_are_named() {
    let mut judged = Judged::default();
    let mut add = || {
        judged.add("0-1-7", 100, EndTime::Between(5, 6));
        let report = Report::default();
        judged.tell(&report);
        report.lines.into_inner().unwrap()
    };
    for count in 1..=10 {
        assert_eq!(add().len(), count);
    }
    let lines = add();
    assert!(lines[9].starts_with("note: 0-1-7 says that it ended at ") && lines.len() == 11, "{lines:?}");
    assert_eq!(lines[10], "note: and 1 more like that");
}

/// A server's folder may have something that is called like an archive.
#[test]
fn a_folder_with_a_log_of_another_kind_has_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("log");
    write(&other, b"some lines");
    let error = format!("{:#}", found(folder.path(), Times::Said).err().unwrap());
    assert!(error.contains(&other.display().to_string()), "{error}");
    write(&folder.path().join("bin.index"), b"bin.000001\n");
    write(&folder.path().join("bin.000001"), b"x");
    assert_eq!(names(&found(folder.path(), Times::Said).unwrap()), ["bin.000001"]);
}

/// The same as [`in_files`] in segments; each timeline has one file.
fn in_segments(name: &Path) {
    let log = log();
    for folder in [name.to_owned(), name.join("log")] {
        RealDisk.make_folder(&folder).unwrap();
    }
    let store = Location::Folder(name.to_owned()).log().store();
    let mut writer = SegmentWriter::open(store).unwrap().unwrap();
    for (file, time) in FILES.into_iter().zip([100, 200]) {
        writer.begin_timeline(info()).unwrap();
        writer.begin(file).unwrap();
        let mut reader = Reader::open(&log[..]).unwrap();
        while let Some(event) = reader.next().unwrap() {
            let place = usize::try_from(event.at).unwrap()..usize::try_from(event.end()).unwrap();
            writer.append(&event, &log[place]).unwrap();
            if event.at == HALF {
                writer.sync().unwrap();
            }
        }
        writer.note_arrival(time, true);
        writer.sync().unwrap();
    }
}

/// The files of segments, in their order.
fn segments(name: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(name.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    paths.sort();
    paths
}

#[test]
fn an_archive_in_segments_has_files_that_are_only_names() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("db");
    in_segments(&name);
    for (path, file, time) in [(name.clone(), FILES[1], 200), (name.join("log/000001"), FILES[0], 100)] {
        let found = found(&path, Times::Noted).unwrap();
        assert_eq!(names(&found), [file]);
        assert_eq!(found.files[0].arrivals().span((4, 300)), (None, Some(time)));
        assert_eq!((found.bytes().unwrap(), found.files[0].on_disk()), (log().len() as u64, None));
        assert!(found.damages.is_empty() && found.missing.is_empty());
        assert_eq!(walk(&found.files, &all()).shown.len(), 20);
    }
    let error = found(&name.join("log/000009"), Times::Noted).err().unwrap();
    assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Usage(_))), "{error:#}");
    assert!(error.to_string().contains("has no timeline 9"), "{error}");
    let store = Location::Folder(name).log().store();
    let archive = Arc::new(SegmentArchive::open(store).unwrap().unwrap());
    let of = |timeline| of_segments(&archive, timeline, &mut Found::default()).unwrap();
    assert_eq!([of(None), of(Some(1)), of(Some(2))], [2, 1, 2]);
}

#[test]
fn a_damaged_segment_is_damage_of_the_log_and_an_absent_one_an_error() {
    let folder = tempfile::tempdir().unwrap();
    in_segments(folder.path());
    let found = found(folder.path(), Times::Noted).unwrap();
    let paths = segments(folder.path());
    let [.., first, second] = paths.as_slice() else { panic!("{paths:?}") };
    let shown = [first, second].map(|path| {
        let whole = std::fs::read(path).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() - 40] ^= 1;
        write(path, &bytes);
        let said = walk(&found.files, &all());
        assert_eq!(said.completeness, Completeness::Damaged, "{:?}", said.reported);
        let [only] = said.reported.as_slice() else { panic!("{:?}", said.reported) };
        assert!(only.contains("does not match its hash"), "{only}");
        assert!(only.ends_with("what follows in this file is not read"), "{only}");
        write(path, &whole);
        said.shown.len()
    });
    assert!(shown[0] == 0 && (2..19).contains(&shown[1]), "{shown:?}");
    // Without the second one its beginning can be read, and without the first one not even that.
    for path in [second, first] {
        std::fs::remove_file(path).unwrap();
        assert!(walk_with(&found.files, &all(), &Known::default()).is_err(), "{}", path.display());
    }
}
