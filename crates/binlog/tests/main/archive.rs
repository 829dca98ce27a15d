//! An archive after a crash: what was made durable is there, and the rest is fetched again.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use binlog::Error;
use binlog::archive::{
    Archive, BeginReason, EventComparer, Timeline, TimelineInfo, caught_up, is_timeline, timelines, unlisted,
    verify,
};
use binlog::reader::Reader;
use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, RealDisk};

use crate::support::framed;

const LOG: &[u8] = include_bytes!("../cases/mariadb-10.11.binlog");
/// Where the last transaction begins. Behind it the log says which file follows.
const LAST: u64 = 10521;
const FOLDER: &str = "/repo/db/log";
const FILES: [&str; 3] = ["binlog.000001", "binlog.000002", "binlog.000003"];

/// Where each event begins, and where the last one ends.
fn places() -> Vec<usize> {
    let mut reader = Reader::open(LOG).unwrap();
    let mut places = vec![4];
    while let Some(event) = reader.next().unwrap() {
        places.push(usize::try_from(event.end()).unwrap());
    }
    places
}

fn info() -> TimelineInfo {
    TimelineInfo::new(BeginReason::First, 1_700_000_000, 7, "10.11".to_owned(), FILES[0].to_owned())
}

/// Archives three files as somebody does who was killed at any time and begins again. Returns how many bytes
/// of each file were durable when it failed.
fn archive(disk: &FaultDisk, places: &[usize]) -> ([usize; 3], Result<(), Error>) {
    let mut durable = [0; 3];
    let done = write(disk, places, &mut durable);
    (durable, done)
}

fn write(disk: &FaultDisk, places: &[usize], durable: &mut [usize; 3]) -> Result<(), Error> {
    let archive = Archive::open(disk, Path::new(FOLDER))?.unwrap();
    let timeline = match archive.newest()? {
        Some(timeline) => timeline,
        None => archive.begin(info())?,
    };
    let tail = timeline.tail()?;
    let mut writer = match &tail {
        Some(tail) => timeline.resume(tail)?,
        None => timeline.writer()?,
    };
    let known = tail.as_ref().map(|tail| FILES.iter().position(|file| *file == tail.file).unwrap());
    for (number, file) in FILES.iter().enumerate().skip(known.unwrap_or(0)) {
        let from = match &tail {
            Some(tail) if known == Some(number) => usize::try_from(tail.end).unwrap(),
            _ => {
                writer.begin(file)?;
                4
            }
        };
        for (at, (start, end)) in
            places.iter().zip(&places[1..]).enumerate().filter(|(_, (start, _))| **start >= from)
        {
            assert_eq!(writer.at(), *start as u64);
            writer.append(&LOG[*start..*end])?;
            if at % 3 == 0 {
                writer.sync()?;
                durable[number] = *end;
            }
        }
        writer.sync()?;
        durable[number] = LOG.len();
        // Readers see that more may come. A run that continues with a whole file leaves it so.
        assert!(tail.is_some() || bytes(disk, timeline.folder(), file).unwrap()[21] & 1 == 1);
    }
    writer.close()?;
    Ok(())
}

fn bytes(disk: &FaultDisk, timeline: &Path, file: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    disk.open(&timeline.join(file)).ok()?.read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

/// All files have the log, and the last two say whether they are in use.
fn is_whole(disk: &FaultDisk) {
    let timeline = timelines(disk, Path::new(FOLDER)).unwrap();
    assert_eq!(timeline.len(), 1);
    for file in FILES {
        let mut bytes = bytes(disk, &timeline[0], file).unwrap();
        assert_eq!(bytes[21] & 1, 0, "{file}");
        bytes[21] = LOG[21];
        assert!(bytes == LOG, "{file}");
    }
}

#[test]
fn kill9_each_sync_loses_nothing_durable() {
    let places = places();
    assert!(places.len() > 10);
    let whole = FaultDisk::default();
    archive(&whole, &places).1.unwrap();
    is_whole(&whole);
    for sync in 1..=whole.syncs() {
        for unsynced in Unsynced::ALL {
            let disk = FaultDisk::stopping_at(sync);
            let (durable, done) = archive(&disk, &places);
            assert!(done.is_err() || sync == whole.syncs(), "{sync}");
            let disk = disk.after_crash(unsynced);
            let folders = timelines(&disk, Path::new(FOLDER)).unwrap_or_default();
            for (file, durable) in FILES.iter().zip(durable).filter(|(_, durable)| *durable > 0) {
                let found = bytes(&disk, &folders[0], file).unwrap();
                assert!(
                    found.len() >= durable && found[22..durable] == LOG[22..durable],
                    "{sync} {unsynced:?} {file}"
                );
            }
            archive(&disk, &places).1.unwrap();
            is_whole(&disk);
        }
    }
}

fn timeline(disk: &FaultDisk) -> Timeline<'_> {
    Archive::open(disk, Path::new(FOLDER)).unwrap().unwrap().newest().unwrap().unwrap()
}

/// Whoever wrote it was killed before it was synced: who continues with it acknowledges it.
#[test]
fn what_a_killed_run_has_written_is_durable_once_another_one_goes_on() {
    let mut lost = 0;
    for (opens, unsynced) in [true, false].into_iter().flat_map(|opens| Unsynced::ALL.map(|it| (opens, it))) {
        let disk = FaultDisk::default();
        let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
        let timeline = archive.begin(info()).unwrap();
        let mut writer = timeline.writer().unwrap();
        writer.begin(FILES[0]).unwrap();
        // It is given to the system, as it is much.
        while disk.open(&timeline.folder().join(FILES[0])).unwrap().stat().unwrap().len <= 4 {
            writer.append(&LOG[4..]).unwrap();
        }
        drop(writer);
        let there = bytes(&disk, timeline.folder(), FILES[0]).unwrap();
        if opens {
            drop(timeline.writer().unwrap());
        }
        let disk = disk.after_crash(unsynced);
        let folder = timelines(&disk, Path::new(FOLDER)).unwrap().remove(0);
        let kept = bytes(&disk, &folder, FILES[0]) == Some(there);
        assert!(kept || !opens, "{unsynced:?}");
        lost += u32::from(!kept);
    }
    assert!(lost > 0, "nothing is lost without it");
}

/// The same for the names that it gave: of the archive, the timeline and its files.
#[test]
fn what_a_killed_run_has_named_is_durable_once_another_one_goes_on() {
    let places = places();
    let whole = FaultDisk::default();
    archive(&whole, &places).1.unwrap();
    for fails in 0..whole.syncs() {
        let disk = FaultDisk::failing_at(fails);
        archive(&disk, &places).1.unwrap_err();
        let reopened = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
        let timeline = reopened.newest().unwrap().unwrap_or_else(|| reopened.begin(info()).unwrap());
        drop(timeline.writer().unwrap());
        let named = |disk: &FaultDisk| {
            disk.names().into_iter().filter(|path| path.starts_with(FOLDER)).collect::<Vec<_>>()
        };
        assert_eq!(named(&disk.after_crash(Unsynced::Drop)), named(&disk), "{fails}");
    }
}

/// A number is never begun again, and the first one least of all.
#[test]
fn there_is_no_timeline_after_the_highest_number() {
    let disk = FaultDisk::default();
    let last = Path::new(FOLDER).join(u32::MAX.to_string());
    disk.create_folder(&last).unwrap();
    disk.put(&last.join("timeline.json"), b"{}");
    let error = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap().begin(info()).err().unwrap();
    assert!(error.to_string().contains("4294967295") && error.to_string().contains("remove it"), "{error}");
}

/// However much of a file is there, its tail is the end of a transaction.
#[test]
fn a_tail_is_behind_a_whole_transaction_at_every_length() {
    let places = places();
    let disk = FaultDisk::default();
    let (_, done) = archive(&disk, &places);
    done.unwrap();
    let whole = timeline(&disk).tail().unwrap().unwrap();
    assert_eq!((whole.end, whole.file.as_str()), (LOG.len() as u64, FILES[2]));
    assert_eq!((whole.last, whole.next.as_deref()), (LAST, Some(FILES[1])));
    assert!(!whole.state.unwrap().is_empty());
    let path = timeline(&disk).folder().join(FILES[2]);
    // The timeline begins with it: else, without any event, it would be that of the file before.
    disk.put(&timeline(&disk).folder().join("first"), FILES[2].as_bytes());
    let mut ends = Vec::new();
    for len in 0..=LOG.len() {
        disk.put(&path, &LOG[..len]);
        let tail = timeline(&disk).tail().unwrap().unwrap();
        assert!(tail.end <= (len as u64).max(4) && tail.last <= tail.end, "{len}: {tail:?}");
        assert!(places.contains(&usize::try_from(tail.end).unwrap()), "{len}: {tail:?}");
        ends.push(tail.end);
        assert!(tail.damage.is_none() || len < LOG.len(), "{len}: {tail:?}");
    }
    assert!(ends.is_sorted() && ends.last() == Some(&(LOG.len() as u64)));
    // Bytes that differ end it before them.
    for (start, end) in places.iter().zip(&places[1..]) {
        let mut bytes = LOG.to_vec();
        bytes[(start + end) / 2] ^= 0x10;
        disk.put(&path, &bytes);
        let tail = timeline(&disk).tail().unwrap().unwrap();
        assert!(tail.end <= *start as u64 && tail.damage.is_some(), "{start}: {tail:?}");
    }
}

#[test]
fn only_one_writes() {
    let disk = FaultDisk::default();
    let first = Archive::open(&disk, Path::new(FOLDER)).unwrap();
    assert!(first.is_some() && Archive::open(&disk, Path::new(FOLDER)).unwrap().is_none());
    drop(first);
    assert!(Archive::open(&disk, Path::new(FOLDER)).unwrap().is_some());
}

/// That a file is in use is no difference, in either of the two. Everything else is.
#[test]
fn an_event_is_archived_with_all_its_bytes() {
    let disk = FaultDisk::default();
    let path = Path::new("/repo/binlog.000001");
    disk.create_folder(Path::new("/repo")).unwrap();
    let places = places();
    for in_use in [0, 1] {
        let mut bytes = LOG.to_vec();
        bytes[21] = bytes[21] & !1 | in_use;
        disk.put(path, &bytes);
        let mut file = EventComparer::new(disk.open(path).unwrap());
        for (start, end) in places.iter().zip(&places[1..]).take(4) {
            for at in *start..*end {
                for bit in [1, 2, 0x80] {
                    let mut event = LOG[*start..*end].to_vec();
                    event[at - start] ^= bit;
                    let is_same = file.matches(&event, *start as u64).unwrap();
                    assert_eq!(is_same, (at, bit) == (21, 1), "{in_use} {at} {bit}");
                }
            }
            assert!(file.matches(&LOG[*start..*end], *start as u64).unwrap());
        }
        let last = places[places.len() - 2];
        assert!(!file.matches(&[&LOG[last..], &[0]].concat(), last as u64).unwrap());
    }
}

/// A file that counts how often it is read.
struct Counted<'c>(Cursor<Vec<u8>>, &'c Cell<u32>);

impl Read for Counted<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.1.set(self.1.get() + 1);
        self.0.read(room)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn many_events_are_compared_with_few_reads() {
    const EVENT: [u8; 30] = [7; 30];
    let reads = Cell::new(0);
    let mut file = EventComparer::new(Counted(Cursor::new(EVENT.repeat(100_000)), &reads));
    for number in 0..100_000 {
        assert!(file.matches(&EVENT, number * 30).unwrap());
    }
    // Also going back, and at the end.
    assert!(file.matches(&EVENT, 30).unwrap() && !file.matches(&EVENT, 2_999_971).unwrap());
    assert!(reads.get() < 20, "{}", reads.get());
}

#[test]
fn a_description_that_is_none_is_told() {
    let disk = FaultDisk::default();
    let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
    let timeline = archive.begin(info()).unwrap();
    let path = timeline.folder().join("timeline.json");
    assert_eq!(archive.newest().unwrap().unwrap().info, info());
    assert!(is_timeline(&disk, timeline.folder()) && !is_timeline(&disk, Path::new(FOLDER)));
    for text in ["", "{", "{\"version\": 2}"] {
        disk.put(&path, text.as_bytes());
        assert!(matches!(archive.newest(), Err(Error::Corrupt(_))), "{text}");
    }
    let mut later = info();
    later.version = 3;
    disk.put(&path, &serde_json::to_vec(&later).unwrap());
    let error = archive.newest().err().unwrap().to_string();
    assert!(error.contains("version 3"), "{error}");
}

/// An archive of before the first release must not pass for one that was never begun.
#[test]
fn an_archive_with_the_former_description_is_refused() {
    let disk = FaultDisk::default();
    let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
    let folder = Path::new(FOLDER).join("000001");
    disk.make_folder(&folder).unwrap();
    disk.put(&folder.join("line.json"), b"{\"version\": 1}");
    let error = archive.newest().err().unwrap().to_string();
    assert!(error.contains("before the first release"), "{error}");
    assert!(archive.begin(info()).is_err() && timelines(&disk, Path::new(FOLDER)).is_err());
}

#[test]
fn what_is_encrypted_is_in_no_archive() {
    let disk = FaultDisk::default();
    let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
    let timeline = archive.begin(info()).unwrap();
    timeline.writer().unwrap().begin(FILES[0]).unwrap();
    let path = timeline.folder().join(FILES[0]);
    // MariaDB encrypts what follows an event that is in clear, MySQL all of the file.
    let begun = framed(&[(164, &[&[1, 7, 0, 0, 0][..], &[9; 12]].concat())]);
    disk.put(&path, &[begun, vec![7; 50]].concat());
    let error = timeline.tail().unwrap_err().to_string();
    assert!(error.contains("as servers send them"), "{error}");
    disk.put(&path, &[&[0xfd, 0x62, 0x69, 0x6e][..], &[7; 600]].concat());
    let error = timeline.tail().unwrap_err().to_string();
    assert!(error.contains("as servers send them"), "{error}");
}

#[test]
fn a_file_is_begun_once_and_from_its_first_byte() {
    let disk = FaultDisk::default();
    let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
    let timeline = archive.begin(info()).unwrap();
    let mut writer = timeline.writer().unwrap();
    assert_eq!(writer.file(), None);
    writer.begin(FILES[0]).unwrap();
    assert_eq!(writer.file(), Some(FILES[0]));
    let first = &LOG[4..places()[1]];
    writer.append(first).unwrap();
    writer.sync().unwrap();
    let written = bytes(&disk, timeline.folder(), FILES[0]).unwrap();
    // A server that counts from 1 again must not empty what is there.
    assert!(writer.begin(FILES[0]).is_err());
    assert_eq!(bytes(&disk, timeline.folder(), FILES[0]).unwrap().len(), written.len());
    // Only some of the first four bytes reached the disk.
    for len in 0..=4 {
        disk.put(&timeline.folder().join(FILES[0]), &LOG[..len]);
        let tail = timeline.tail().unwrap().unwrap();
        let mut writer = timeline.resume(&tail).unwrap();
        writer.append(first).unwrap();
        writer.sync().unwrap();
        assert_eq!(bytes(&disk, timeline.folder(), FILES[0]).unwrap(), written, "{len}");
    }
}

/// Nothing of a history is in a file without events: what is before it is compared.
#[test]
fn a_last_file_without_events_is_not_begun() {
    let disk = FaultDisk::default();
    let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
    let timeline = archive.begin(info()).unwrap();
    let mut writer = timeline.writer().unwrap();
    for file in &FILES[..2] {
        writer.begin(file).unwrap();
        writer.append(&LOG[4..]).unwrap();
    }
    writer.close().unwrap();
    let whole = bytes(&disk, timeline.folder(), FILES[1]).unwrap();
    // Also only a part of the first event.
    for len in [0, 1, 2, 3, 4, 5, 100] {
        disk.put(&timeline.folder().join(FILES[1]), &LOG[..len]);
        let tail = timeline.tail().unwrap().unwrap();
        assert_eq!((&*tail.file, tail.end, tail.last), (FILES[0], LOG.len() as u64, LAST), "{len}");
        // The server may have the first one no more.
        for mut writer in [timeline.writer().unwrap(), timeline.resume(&tail).unwrap()] {
            writer.begin(FILES[1]).unwrap();
            writer.append(&LOG[4..]).unwrap();
            writer.close().unwrap();
            assert_eq!(timeline.files().unwrap(), FILES[..2], "{len}");
            assert!(bytes(&disk, timeline.folder(), FILES[1]).unwrap() == whole, "{len}");
            assert!(bytes(&disk, timeline.folder(), FILES[0]).unwrap() == whole, "{len}");
            disk.put(&timeline.folder().join(FILES[1]), &LOG[..len]);
        }
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_missing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(caught_up(&RealDisk, folder).unwrap(), None);
    // No folder, but a file.
    assert!(caught_up(&RealDisk, &folder.join("Cargo.toml")).is_err());
}

/// Every byte is covered but the bit that says that a file is in use, whatever timeline and file it is in.
#[test]
fn every_flipped_byte_and_every_missing_file_is_told() {
    let disk = FaultDisk::default();
    archive(&disk, &places()).1.unwrap();
    let path = |file: &str| Path::new(FOLDER).join("000001").join(file);
    // The same log, but for the file that follows.
    let (mut second, name) = (LOG.to_vec(), FILES[1].as_bytes());
    let at = second.windows(name.len()).rposition(|window| window == name).unwrap();
    second[at..at + name.len()].copy_from_slice(FILES[2].as_bytes());
    let end = at + name.len();
    // An event has 19 bytes of header, and this one a position.
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &second[at - 27..end]);
    second[end..end + 4].copy_from_slice(&u32::try_from(sum).unwrap().to_le_bytes());
    disk.put(&path(FILES[1]), &second);
    let mut read = 0;
    let mut count = |bytes| {
        read += bytes;
        true
    };
    let sound = verify(&disk, Path::new(FOLDER), None, &mut count).unwrap();
    assert_eq!(
        (sound.damages, sound.files, sound.bytes, read),
        (Vec::new(), 3, 3 * LOG.len() as u64, sound.bytes)
    );
    let bytes = (0..LOG.len()).filter(|at| sandbox::is_turn(*at, 6));
    for (at, file) in bytes.flat_map(|at| [FILES[0], FILES[2]].map(|file| (at, file))) {
        let mask = if at == 21 { 2 } else { 1 };
        disk.corrupt(&path(file), at, mask);
        let found = verify(&disk, Path::new(FOLDER), None, &mut |_| true).unwrap().damages;
        let told = found.len() == 1 && found[0].place == path(file).display().to_string();
        // In the last file a length that leads behind its end may be that of an event that is written.
        let is_len = places().iter().any(|start| (start + 9..start + 13).contains(&at));
        assert!(told || (file == FILES[2] && is_len), "{file} at {at}: {found:?}");
        disk.corrupt(&path(file), at, mask);
    }
    disk.append(&path(FILES[0]), LOG.len() as u64 - 3).unwrap();
    disk.append(&path(FILES[2]), LOG.len() as u64 - 3).unwrap();
    disk.remove(&path(FILES[1])).unwrap();
    let found = verify(&disk, Path::new(FOLDER), None, &mut |_| true).unwrap().damages;
    let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(
        matches!(&texts[..], [cut, gone] if cut.contains("ends within the event") && gone.contains("missing")),
        "{texts:?}"
    );
    assert!(verify(&disk, Path::new(FOLDER), None, &mut |_| false).is_err());
}

fn damages(disk: &FaultDisk) -> Vec<String> {
    let found = verify(disk, Path::new(FOLDER), None, &mut |_| true).unwrap().damages;
    found.iter().map(ToString::to_string).collect()
}

/// Files that an index does not list are not read: what is in them would be lost silently.
#[test]
fn an_index_without_its_end_is_told() {
    let disk = FaultDisk::default();
    archive(&disk, &places()).1.unwrap();
    let folder = Path::new(FOLDER).join("000001");
    assert_eq!(unlisted(&disk, &folder).unwrap(), [""; 0]);
    for (index, lost) in [("./binlog.000001\n./binlog.000002\n", &FILES[2..]), ("", &FILES)] {
        disk.put(&folder.join("log.index"), index.as_bytes());
        assert_eq!(unlisted(&disk, &folder).unwrap(), lost);
        let told = damages(&disk);
        let is_told =
            |file: &str| told.iter().any(|text| text.contains(file) && text.contains("does not list it"));
        assert!(lost.iter().all(|file| is_told(file)), "{told:?}");
    }
    // A run that was killed has begun the next file, and has not listed it.
    disk.put(&folder.join("log.index"), b"./binlog.000001\n./binlog.000002\n");
    disk.put(&folder.join(FILES[2]), &LOG[..4]);
    assert_eq!(unlisted(&disk, &folder).unwrap(), [""; 0]);
}

#[test]
fn a_last_file_that_is_shorter_than_what_had_arrived_is_told() {
    let disk = FaultDisk::default();
    archive(&disk, &places()).1.unwrap();
    let folder = Path::new(FOLDER).join("000001");
    disk.put(&folder.join("binlog.000003.arrived"), format!("{} 100 all\n", LOG.len()).as_bytes());
    let before = damages(&disk).len();
    disk.put(&folder.join(FILES[2]), &LOG[..usize::try_from(LAST).unwrap()]);
    let told = damages(&disk);
    let is_told = told.iter().any(|text| text.contains("bytes were archived: the rest is missing"));
    assert!(is_told && told.len() == before + 1, "{told:?}");
}

#[test]
fn a_timeline_whose_description_is_gone_or_cut_is_told() {
    let disk = FaultDisk::default();
    archive(&disk, &places()).1.unwrap();
    let description = Path::new(FOLDER).join("000001/timeline.json");
    disk.put(&description, b"");
    assert!(damages(&disk).iter().any(|text| text.contains("timeline.json")), "{:?}", damages(&disk));
    disk.remove(&description).unwrap();
    let error = timelines(&disk, Path::new(FOLDER)).unwrap_err().to_string();
    assert!(error.contains("timeline.json is missing, and binlog.000001 is there"), "{error}");
    // Where it has no file either, nothing was begun.
    for file in FILES {
        disk.remove(&Path::new(FOLDER).join("000001").join(file)).unwrap();
    }
    disk.remove(&Path::new(FOLDER).join("000001/log.index")).unwrap();
    assert!(timelines(&disk, Path::new(FOLDER)).unwrap().is_empty());
}
