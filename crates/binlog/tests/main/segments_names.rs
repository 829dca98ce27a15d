//! Files that somebody has put beside the segments: a name proves nothing, and nothing is removed because of
//! one.

use std::path::{Path, PathBuf};

use binlog::Error;
use binlog::archive::segments::{SegmentArchive, SegmentWriter, prune, remove_superseded};
use binlog::archive::{Pruned, segment};
use disk::Disk;
use disk::faults::FaultDisk;
use seal::Key;

use crate::segments::{FILES, LOG, archive, keys, proven, read, segments, store, stored};

fn at(name: &str) -> PathBuf {
    Path::new("/repo/db/log").join(name)
}

fn keeper(disk: &FaultDisk, key: Option<&Key>) -> SegmentWriter {
    SegmentWriter::open(store(disk, key).unwrap()).unwrap().unwrap()
}

/// An archive whose compacted segments are still there, and which of them are.
fn crowded(key: Option<&Key>) -> (FaultDisk, Vec<PathBuf>) {
    let disk = FaultDisk::default();
    archive(&disk, key, 40).1.unwrap();
    let reading = segments(&disk, key);
    let mut keeper = keeper(&disk, key);
    keeper.begin_timeline(crate::segments::info()).unwrap();
    crate::segments::Sender::new().send(&mut keeper, 1, &mut [0; 3]).unwrap();
    drop((keeper, reading));
    let all: Vec<_> = stored(&disk).into_iter().map(|(path, _)| path).collect();
    let numbers = |path: &Path| segment::numbers(path.file_name().unwrap().to_str().unwrap()).unwrap();
    let is_in = |path: &PathBuf, of: &PathBuf| {
        let (own, other) = (numbers(path), numbers(of));
        path != of && other.0 <= own.0 && own.1 <= other.1
    };
    let compacted: Vec<_> = all.iter().filter(|path| all.iter().any(|of| is_in(path, of))).cloned().collect();
    assert!(compacted.len() > 100, "{}", compacted.len());
    (disk, compacted)
}

fn are_there(disk: &FaultDisk, paths: &[PathBuf]) -> usize {
    paths.iter().filter(|path| disk.bytes(path).is_some()).count()
}

#[test]
fn a_forged_segment_stands_for_no_other_and_removes_none() {
    let (full, put) = keys();
    for (key, reads) in [(None, None), (Some(&put), Some(&full))] {
        let disk = FaultDisk::default();
        archive(&disk, key, 40).1.unwrap();
        let own: Vec<_> = stored(&disk).into_iter().map(|(path, _)| path).collect();
        let forged = at("0000000001-0000000900.log");
        disk.put(&forged, b"nothing");
        let mut keeper = keeper(&disk, key);
        assert_eq!(keeper.damages().len(), 1);
        keeper.remove_superseded().unwrap();
        assert_eq!(are_there(&disk, &own), own.len());
        drop(keeper);
        remove_superseded(&*store(&disk, key).unwrap()).unwrap();
        assert_eq!(are_there(&disk, &own), own.len());
        let found = proven(&disk, reads);
        assert!(found.damages.len() == 1 && found.damages[0].place.contains("-0000000900"), "{found:?}");
        for file in FILES {
            assert!(read(&segments(&disk, reads), file).unwrap()[22..] == LOG[22..], "{file}");
        }
    }
}

/// The name of a segment that is to be compacted is taken.
#[test]
fn a_name_that_is_taken_does_not_end_the_archiver() {
    let disk = FaultDisk::default();
    disk.make_folder(Path::new("/repo/db/log")).unwrap();
    disk.put(&at("0000000002-0000000065.log"), b"nothing");
    archive(&disk, None, 1).1.unwrap();
    assert_eq!(proven(&disk, None).damages.len(), 1);
    assert!(read(&segments(&disk, None), FILES[2]).unwrap()[22..] == LOG[22..]);
}

/// In an encrypted archive a segment in clear is none, however sound it is: it is named, nothing is built on
/// it or read from it, and nothing else is doubted because of it.
#[test]
fn a_segment_in_clear_does_not_stop_an_encrypted_archive() {
    let (full, put) = keys();
    let (disk, clear) = (FaultDisk::default(), FaultDisk::default());
    archive(&disk, Some(&put), 40).1.unwrap();
    archive(&clear, None, 40).1.unwrap();
    let (newest, bytes) = stored(&clear).pop().unwrap();
    let own = disk.bytes(&newest).unwrap();
    let number = segment::numbers(newest.file_name().unwrap().to_str().unwrap()).unwrap().1;
    let planted = [(number + 1, number + 1), (number + 7, number + 900), (9_000_000, 9_000_000)];
    for numbers in planted {
        disk.put(&at(&segment::name(numbers)), &bytes);
    }
    let are_named = |damages: &[binlog::Corrupt]| {
        let is_named = |damage: &binlog::Corrupt| damage.what.contains("not a sealed file");
        damages.len() == planted.len() && damages.iter().all(is_named)
    };
    let is_sound = || {
        let found = proven(&disk, Some(&full));
        assert!(are_named(&found.damages), "{found:?}");
        let all = segments(&disk, Some(&full));
        for file in FILES {
            assert!(read(&all, file).unwrap()[22..] == LOG[22..], "{file}");
        }
        let files = all.timelines().iter().flat_map(|timeline| &timeline.files);
        assert!(files.into_iter().all(|file| file.missing.is_none()));
    };
    is_sound();
    // Nor does it hide that the newest segment is gone.
    disk.remove(&newest).unwrap();
    let found = proven(&disk, Some(&full));
    assert!(
        found.damages.iter().any(|damage| damage.what.contains("newest segments are missing")),
        "{found:?}"
    );
    disk.put(&newest, &own);
    let mut keeper = keeper(&disk, Some(&put));
    assert!(are_named(&keeper.damages()));
    keeper.begin_timeline(crate::segments::info()).unwrap();
    crate::segments::Sender::new().send(&mut keeper, 40, &mut [0; 3]).unwrap();
    drop(keeper);
    assert!(disk.bytes(&at(&segment::name((number + 2, number + 2)))).is_some());
    is_sound();
    // In the place of one of the archive it is that one's loss.
    disk.put(&newest, &bytes);
    let found = proven(&disk, Some(&full));
    assert!(found.damages.len() > planted.len() + 1, "{found:?}");
    disk.put(&newest, &own);
    is_sound();
}

#[test]
fn what_is_compacted_goes_once_the_larger_segment_was_read() {
    let (_, put) = keys();
    for key in [None, Some(&put)] {
        let (disk, compacted) = crowded(key);
        let larger: Vec<_> =
            stored(&disk).into_iter().filter(|(path, _)| !compacted.contains(path)).collect();
        // The last byte of each is that of a chunk.
        for (path, bytes) in &larger {
            disk.corrupt(path, bytes.len() - 1, 1);
        }
        keeper(&disk, key).remove_superseded().unwrap();
        assert_eq!(remove_superseded(&*store(&disk, key).unwrap()).unwrap(), Pruned::default());
        assert_eq!(are_there(&disk, &compacted), compacted.len());
        larger.iter().for_each(|(path, bytes)| disk.put(path, bytes));
        // Nor while somebody archives or reads.
        let busy = keeper(&disk, key);
        assert_eq!(remove_superseded(&*store(&disk, key).unwrap()).unwrap(), Pruned::default());
        drop(busy);
        let reading = segments(&disk, key);
        assert_eq!(remove_superseded(&*store(&disk, key).unwrap()).unwrap(), Pruned::default());
        drop(reading);
        assert_eq!(are_there(&disk, &compacted), compacted.len());
        assert!(remove_superseded(&*store(&disk, key).unwrap()).unwrap().bytes > 0);
        assert_eq!(are_there(&disk, &compacted), 0);
        assert!(proven(&disk, key).damages.is_empty());
        // The archiver does the same when it continues.
        let (disk, compacted) = crowded(key);
        keeper(&disk, key).remove_superseded().unwrap();
        assert_eq!(are_there(&disk, &compacted), 0);
    }
}

/// In a store that is not encrypted anybody who may write can make a segment that is sound.
#[test]
fn a_sound_segment_with_other_bytes_removes_none() {
    let disk = FaultDisk::default();
    archive(&disk, None, 40).1.unwrap();
    let own: Vec<_> = stored(&disk).into_iter().map(|(path, _)| path).collect();
    let name = own[1].file_name().unwrap().to_str().unwrap();
    let numbers = segment::numbers(name).unwrap();
    let bytes = disk.bytes(&own[1]).unwrap();
    let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let header = 20 + length(12) + 40 * length(16) + 32;
    let len = bytes.len() as u64;
    let (mut header, root) = segment::SegmentHeader::decode(&bytes[..header], numbers, len).unwrap();
    let stored = vec![7; header.chunks.iter().map(|chunk| chunk.stored as usize).sum()];
    let mut rest = &stored[..];
    for chunk in &mut header.chunks {
        let own = rest.split_off(..chunk.stored as usize).unwrap();
        chunk.hash = *blake3::hash(own).as_bytes();
    }
    header.segment.first -= 1;
    header.segment.root = Some(root);
    let forged = [header.encode().unwrap().0, stored].concat();
    disk.put(&at(&segment::name((header.segment.first, header.segment.last))), &forged);
    keeper(&disk, None).remove_superseded().unwrap();
    assert_eq!(remove_superseded(&*store(&disk, None).unwrap()).unwrap(), Pruned::default());
    assert_eq!(are_there(&disk, &own), own.len());
}

#[test]
fn numbers_that_no_archive_reaches_are_none() {
    let disk = FaultDisk::default();
    archive(&disk, None, 40).1.unwrap();
    let newest = stored(&disk).pop().unwrap().0;
    let next = segment::numbers(newest.file_name().unwrap().to_str().unwrap()).unwrap().1 + 1;
    let own: Vec<_> = stored(&disk).into_iter().map(|(path, _)| path).collect();
    let strange = ["18446744073709551615.log", "0000000001-18446744073709551615.log", "9007199254740993.log"];
    // The highest of all is one, and nobody continues behind it.
    for name in strange.iter().chain(&["9007199254740992.log"]) {
        disk.put(&at(name), b"nothing");
    }
    let found = proven(&disk, None);
    let is_told = |name: &&str| found.damages.iter().any(|it| it.place.ends_with(*name));
    assert!(strange.iter().all(is_told) && is_told(&"9007199254740992.log"), "{found:?}");
    let mut keeper = keeper(&disk, None);
    assert_eq!(keeper.damages().len(), 4);
    keeper.begin_timeline(crate::segments::info()).unwrap();
    assert!(disk.bytes(&at(&segment::name((next, next)))).is_some());
    keeper.remove_superseded().unwrap();
    drop(keeper);
    for number in ["18446744073709551615", "9007199254740993"] {
        disk.put(&at("first.note"), number.as_bytes());
        let note = |damages: &[binlog::Corrupt]| damages.iter().any(|it| it.place.ends_with("first.note"));
        assert!(note(segments(&disk, None).damages()), "{number}");
        let mut keeper = self::keeper(&disk, None);
        assert!(note(&keeper.damages()), "{number}");
        keeper.remove_superseded().unwrap();
    }
    assert_eq!(are_there(&disk, &own), own.len());
}

/// A note that leaves out more than the backups do.
#[test]
fn a_note_of_the_first_segment_removes_nothing_that_a_backup_needs() {
    let disk = FaultDisk::default();
    archive(&disk, None, 40).1.unwrap();
    let own: Vec<_> = stored(&disk).into_iter().map(|(path, _)| path).collect();
    let name = own.last().unwrap().file_name().unwrap().to_str().unwrap();
    disk.put(&at("first.note"), segment::numbers(name).unwrap().0.to_string().as_bytes());
    keeper(&disk, None).remove_superseded().unwrap();
    remove_superseded(&*store(&disk, None).unwrap()).unwrap();
    let open = || SegmentArchive::open(store(&disk, None).unwrap()).unwrap().unwrap();
    let error = prune(open(), &[FILES[0].to_owned(), FILES[2].to_owned()], false).unwrap_err();
    assert!(matches!(&error, Error::Corrupt(it) if it.what.contains("a kept backup needs")), "{error}");
    assert_eq!(are_there(&disk, &own), own.len());
    // What a prune has left that was killed goes with the next one.
    disk.put(&at("first.note"), b"1");
    let before = stored(&disk);
    let needed = [FILES[2].to_owned()];
    prune(open(), &needed, false).unwrap().unwrap();
    let kept = stored(&disk);
    let (rest, bytes) = &before[before.len() - kept.len() - 1];
    disk.put(rest, bytes);
    let done = prune(open(), &needed, false).unwrap().unwrap();
    assert_eq!((done.files, done.bytes), (0, bytes.len() as u64));
    assert_eq!(stored(&disk), kept);
}
