//! A segmented archive: killed at every sync, compacted, damaged everywhere, and read with every kind of key.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use binlog::archive::segments::{
    HashComparer, SegmentArchive, SegmentWriter, Verified, is_there, prune, verify,
};
use binlog::archive::{BeginReason, TimelineInfo, segment};
use binlog::event::format::Format;
use binlog::event::{Body, Event, Kind};
use binlog::{Error, reader::Reader};
use block::{EncryptedStore, Folder, Store, Upload};
use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, Guard, Share, Source};
use seal::{FullKey, Key};

pub(crate) const LOG: &[u8] = include_bytes!("../cases/mariadb-10.11.binlog");
const NAME: &str = "/repo/db";
pub(crate) const FILES: [&str; 3] = ["binlog.000001", "binlog.000002", "binlog.000003"];
/// Text that is in the log, in rows and in statements.
const PLANTED: [&[u8]; 3] = [b"CREATE TABLE", b"binlog.0", b"INSERT INTO"];

/// A full key that is the same in every run, and its put key.
pub(crate) fn keys() -> (Key, Key) {
    let key = Key::parse(&format!("remora-key 1 full\nsecret {}\n", "07".repeat(32))).unwrap();
    let Key::Full(full) = &key else { panic!("a full key") };
    let put = Key::Put(full.put());
    (key, put)
}

fn folder(disk: &FaultDisk, path: &str) -> Box<Folder> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Box::new(Folder::new(disk, PathBuf::from(path)))
}

/// The place of the segments; without a key they are in clear.
pub(crate) fn store(disk: &FaultDisk, key: Option<&Key>) -> Result<Box<dyn Store>, block::Error> {
    let log = folder(disk, "/repo/db/log");
    let Some(key) = key else { return Ok(log) };
    Ok(Box::new(EncryptedStore::open(folder(disk, NAME), key)?.beside(log)?))
}

/// The events of the log, where each is.
pub(crate) fn events() -> Vec<(usize, usize)> {
    let mut reader = Reader::open(LOG).unwrap();
    let mut all = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        all.push((usize::try_from(event.at).unwrap(), usize::try_from(event.end()).unwrap()));
    }
    all
}

/// A server that sends the log, three times, to somebody who may have a part of it.
pub(crate) struct Sender {
    pub(crate) format: Format,
    pub(crate) events: Vec<(usize, usize)>,
}

impl Sender {
    pub(crate) fn new() -> Sender {
        Sender { format: Format::without_sums(), events: events() }
    }

    pub(crate) fn event(&mut self, (start, end): (usize, usize)) -> (Event<'_>, &'static [u8]) {
        let bytes = &LOG[start..end];
        let first = &LOG[self.events[0].0..self.events[0].1];
        let none = Format::without_sums();
        if let Body::Format(format) = Event::unchecked(first, 4, &none).unwrap().parse().unwrap() {
            self.format = *format;
        }
        (Event::checked(bytes, start as u64, &self.format).unwrap(), bytes)
    }

    /// Sends what is missing. Every so many events it is synced. `durable` counts what was.
    pub(crate) fn send(
        &mut self,
        keeper: &mut SegmentWriter,
        every: usize,
        durable: &mut [usize; 3],
    ) -> Result<(), Error> {
        let newest = match keeper.newest() {
            Some(newest) => newest,
            None => {
                keeper.begin_timeline(info())?;
                keeper.newest().unwrap()
            }
        };
        let known =
            newest.tail.as_ref().map(|tail| FILES.iter().position(|file| *file == tail.file).unwrap());
        keeper.resume();
        for (number, file) in FILES.iter().enumerate().skip(known.unwrap_or(0)) {
            let tail = newest.tail.as_ref().filter(|_| known == Some(number));
            if tail.is_none() {
                keeper.begin(file)?;
            }
            let mut compared = tail
                .map(|tail| HashComparer::new(newest.resume_point.clone().unwrap(), tail.end))
                .unwrap_or(none());
            let last = tail.map_or(4, |tail| tail.last);
            for (count, place) in self.events.clone().into_iter().enumerate() {
                if (place.0 as u64) < last {
                    continue;
                }
                let (event, bytes) = self.event(place);
                if event.at < compared.end() {
                    assert!(compared.matches(bytes, event.at), "{file} at {}", event.at);
                    keeper.skip_archived(&event, bytes)?;
                    continue;
                }
                keeper.append(&event, bytes)?;
                if count % every == every - 1 {
                    keeper.sync()?;
                    durable[number] = place.1;
                }
            }
            keeper.sync()?;
            durable[number] = LOG.len();
        }
        Ok(())
    }
}

fn none() -> HashComparer {
    let resume_point = segment::ResumePoint {
        last_start: 4,
        first_event_hash: String::new(),
        tail_hash: String::new(),
        gtid_state: None,
        next_file: None,
    };
    HashComparer::new(resume_point, 0)
}

pub(crate) fn info() -> TimelineInfo {
    TimelineInfo::new(BeginReason::First, 1_700_000_000, 7, "10.11".to_owned(), FILES[0].to_owned())
}

/// Archives all files as somebody does who was killed at any time.
pub(crate) fn archive(disk: &FaultDisk, key: Option<&Key>, every: usize) -> ([usize; 3], Result<(), String>) {
    let mut durable = [0; 3];
    let done = store(disk, key).map_err(|error| error.to_string()).and_then(|store| {
        let keeper = SegmentWriter::open(store).map_err(|error| error.to_string())?;
        let mut keeper = keeper.unwrap();
        Sender::new().send(&mut keeper, every, &mut durable).map_err(|error| error.to_string())?;
        keeper.note_caught_up(1_700_000_001).map_err(|error| error.to_string())
    });
    (durable, done)
}

/// Somebody who has begun the first file, and who sends it.
pub(crate) fn begun(disk: &FaultDisk, key: Option<&Key>) -> (SegmentWriter, Sender) {
    let mut keeper = SegmentWriter::open(store(disk, key).unwrap()).unwrap().unwrap();
    keeper.begin_timeline(info()).unwrap();
    keeper.begin(FILES[0]).unwrap();
    (keeper, Sender::new())
}

pub(crate) fn segments(disk: &FaultDisk, key: Option<&Key>) -> Arc<SegmentArchive> {
    Arc::new(SegmentArchive::open(store(disk, key).unwrap()).unwrap().unwrap())
}

/// A file of the newest timeline, as far as it can be read.
pub(crate) fn read(segments: &Arc<SegmentArchive>, name: &str) -> Option<Vec<u8>> {
    let file = segments.timelines().last()?.files.iter().find(|file| file.name == name)?;
    let mut bytes = Vec::new();
    segments.open_file(file).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

pub(crate) fn proven(disk: &FaultDisk, key: Option<&Key>) -> Verified {
    verify(&segments(disk, key), None, &mut |_| true).unwrap()
}

/// All files have the log, and only the last one is in use.
#[track_caller]
fn is_whole(disk: &FaultDisk, key: Option<&Key>) {
    let segments = segments(disk, key);
    assert_eq!((segments.timelines().len(), segments.damages()), (1, &[][..]));
    for file in FILES {
        let mut bytes = read(&segments, file).unwrap();
        assert_eq!(bytes[21] & 1, u8::from(file == FILES[2]), "{file}");
        bytes[21] = LOG[21];
        assert!(bytes == LOG, "{file}");
    }
    let found = verify(&segments, None, &mut |_| true).unwrap();
    assert_eq!((found.damages, found.is_opened), (Vec::new(), true));
}

/// The files with segments, with their names.
pub(crate) fn stored(disk: &FaultDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let names = disk.names().into_iter();
    let logs = names.filter(|path| {
        path.extension().is_some_and(|end| end == "log") && path.parent() == Some(Path::new("/repo/db/log"))
    });
    logs.map(|path| (path.clone(), disk.bytes(&path).unwrap())).collect()
}

/// Every number that was used with a key, and what was sealed with it: of files and of data.
fn used(disk: &FaultDisk, put: &Key, all: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let sealed = store(disk, Some(put)).unwrap();
    for (path, bytes) in stored(disk) {
        let mut add = |number: &[u8], bytes: &[u8]| {
            let before = all.insert(number.to_vec(), bytes.to_vec());
            assert!(before.is_none_or(|before| before == bytes), "{}: a nonce came twice", path.display());
        };
        add(&bytes[20..52], &bytes);
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut plain = Vec::new();
        // What was torn is no file.
        sealed.open(name).unwrap().read_to_end(&mut plain).unwrap();
        let numbers = |at: usize| u32::from_le_bytes(plain[at..at + 4].try_into().unwrap()) as usize;
        let header = 20 + numbers(12) + 40 * numbers(16) + 32;
        let mut at = header;
        for chunk in 0..numbers(16) {
            let stored = numbers(20 + numbers(12) + 40 * chunk + 4);
            add(&plain[at..at + 44], &plain[at..at + stored]);
            at += stored;
        }
        assert_eq!(at, plain.len());
    }
}

#[test]
fn kill9_each_sync_loses_nothing_durable_and_no_nonce_comes_twice() {
    let (full, put) = keys();
    let whole = FaultDisk::default();
    archive(&whole, Some(&put), 9).1.unwrap();
    is_whole(&whole, Some(&full));
    let syncs = whole.syncs();
    assert!(syncs > 40, "{syncs}");
    for stop in 1..=syncs {
        for unsynced in Unsynced::ALL {
            let disk = FaultDisk::stopping_at(stop);
            let (durable, done) = archive(&disk, Some(&put), 9);
            assert!(done.is_err() || stop == syncs, "{stop}");
            let disk = disk.after_crash(unsynced);
            let mut numbers = BTreeMap::new();
            if disk.names().iter().any(|path| path.extension().is_some_and(|end| end == "keys")) {
                used(&disk, &put, &mut numbers);
                let segments = segments(&disk, Some(&full));
                for (file, durable) in FILES.iter().zip(durable).filter(|(_, durable)| *durable > 0) {
                    let found = read(&segments, file).unwrap();
                    assert!(
                        found.len() >= durable && found[22..durable] == LOG[22..durable],
                        "{stop} {unsynced:?} {file}"
                    );
                }
            }
            archive(&disk, Some(&put), 9).1.unwrap();
            used(&disk, &put, &mut numbers);
            is_whole(&disk, Some(&full));
        }
    }
}

/// Each event is a segment, and a run is killed while it compacts, too.
#[test]
fn many_segments_are_compacted_and_a_compaction_that_is_killed_is_harmless() {
    let (full, put) = keys();
    let whole = FaultDisk::default();
    archive(&whole, Some(&put), 1).1.unwrap();
    is_whole(&whole, Some(&full));
    let count = stored(&whole).len();
    assert!(events().len() > 64 && count < 64 + 3, "{count} segments of {} events", 3 * events().len());
    let names: Vec<String> = stored(&whole).iter().map(|(path, _)| path.display().to_string()).collect();
    assert!(names.iter().any(|name| name.contains('-')), "{names:?}");
    for stop in (1..=whole.syncs()).step_by(7).chain(whole.syncs() - 80..whole.syncs()) {
        let disk = FaultDisk::stopping_at(stop);
        let (durable, _) = archive(&disk, Some(&put), 1);
        let disk = disk.after_crash(Unsynced::ALL[usize::try_from(stop).unwrap() % Unsynced::ALL.len()]);
        if !is_there(&*folder(&disk, "/repo/db/log")).unwrap() {
            continue;
        }
        let segments = segments(&disk, Some(&full));
        for (file, durable) in FILES.iter().zip(durable).filter(|(_, durable)| *durable > 0) {
            assert!(read(&segments, file).unwrap().len() >= durable, "{stop} {file}");
        }
        drop(segments);
        archive(&disk, Some(&put), 1).1.unwrap();
        is_whole(&disk, Some(&full));
    }
}

/// Who reads keeps segments from being removed; later they go.
#[test]
fn what_is_read_stays_until_it_was_read() {
    let (full, put) = keys();
    let disk = FaultDisk::default();
    let (mut keeper, mut sender) = begun(&disk, Some(&put));
    let all = sender.events.clone();
    for (count, place) in all.iter().enumerate() {
        let (event, bytes) = sender.event(*place);
        keeper.append(&event, bytes).unwrap();
        keeper.sync().unwrap();
        if count == 61 {
            let reading = segments(&disk, Some(&full));
            let before = read(&reading, FILES[0]).unwrap();
            for place in &all[62..70] {
                let (event, bytes) = sender.event(*place);
                keeper.append(&event, bytes).unwrap();
                keeper.sync().unwrap();
            }
            assert!(stored(&disk).iter().any(|(path, _)| path.display().to_string().contains('-')));
            assert!(stored(&disk).len() > 64);
            assert_eq!(read(&reading, FILES[0]).unwrap(), before);
            drop(reading);
            keeper.remove_superseded().unwrap();
            assert!(stored(&disk).len() < 10);
            return;
        }
    }
}

#[test]
fn a_put_key_goes_on_and_reads_nothing_of_what_was_written() {
    let (_, put) = keys();
    let disk = FaultDisk::default();
    archive(&disk, Some(&put), 5).1.unwrap();
    let sealed = store(&disk, Some(&put)).unwrap();
    for (path, bytes) in stored(&disk) {
        let holds = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut opened = Vec::new();
        sealed.open(name).unwrap().read_to_end(&mut opened).unwrap();
        for text in PLANTED {
            assert!(!holds(&bytes, text), "{name} shows {text:?} to everybody");
            // The put key opens what a segment says of itself, which has the name of the server's file.
            assert!(text == PLANTED[1] || !holds(&opened, text), "{name} shows {text:?} to the put key");
        }
    }
    let segments = segments(&disk, Some(&put));
    assert!(!segments.reads());
    let file = &segments.timelines()[0].files[0];
    let error = segments.open_file(file).read_full_at(0, &mut [0; 64]).unwrap_err();
    assert!(error.to_string().contains("full key"), "{error}");
    let found = proven(&disk, Some(&put));
    assert_eq!((found.damages, found.is_opened, found.files), (Vec::new(), false, 3));
    // Another key opens nothing.
    let other = Key::Full(FullKey::generate().unwrap());
    assert!(store(&disk, Some(&other)).is_err());
}

#[test]
fn one_archives_at_a_time_and_who_was_taken_for_dead_adds_nothing() {
    let disk = FaultDisk::default();
    let first = SegmentWriter::open(store(&disk, None).unwrap()).unwrap();
    assert!(SegmentWriter::open(store(&disk, None).unwrap()).unwrap().is_none());
    drop(first);
    // Two that both believe that they are alone, as in a store after a long silence.
    let unlocked = || {
        SegmentWriter::open(Box::new(Unlocked(store(&disk, None).unwrap(), Arc::default()))).unwrap().unwrap()
    };
    let (mut slow, mut quick) = (unlocked(), unlocked());
    quick.begin_timeline(info()).unwrap();
    let error = slow.begin_timeline(TimelineInfo { began_s: 1, ..info() }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    slow.reload().unwrap();
    assert_eq!(slow.newest().unwrap().info, info());
    let mut sender = Sender::new();
    let places = sender.events.clone();
    for keeper in [&mut slow, &mut quick] {
        keeper.begin(FILES[0]).unwrap();
        let (event, bytes) = sender.event(places[0]);
        keeper.append(&event, bytes).unwrap();
    }
    quick.sync().unwrap();
    assert_eq!(slow.sync().unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(proven(&disk, None).damages.is_empty());
}

/// A store whose locks keep nobody out. It notes what is to be retained.
struct Unlocked(Box<dyn Store>, Arc<Mutex<Vec<String>>>);

struct Nothing;

impl Guard for Nothing {}

impl Store for Unlocked {
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> std::io::Result<Box<dyn Source>> {
        self.0.open(name)
    }

    fn create(&self, name: &str) -> std::io::Result<Box<dyn Upload + '_>> {
        self.0.create(name)
    }

    fn leftover(&self, name: &str) -> std::io::Result<Option<Box<dyn Source>>> {
        self.0.leftover(name)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }

    fn retain(&self, name: &str) -> std::io::Result<()> {
        self.1.lock().unwrap().push(name.to_owned());
        Ok(())
    }

    fn lock(&self, _: &str, _: Share) -> std::io::Result<Option<Box<dyn Guard>>> {
        Ok(Some(Box::new(Nothing)))
    }

    fn shown(&self, name: &str) -> String {
        self.0.shown(name)
    }
}

#[test]
fn what_counts_is_retained_however_old_it_is() {
    let disk = FaultDisk::default();
    archive(&disk, None, 4).1.unwrap();
    let segments = SegmentArchive::open(store(&disk, None).unwrap()).unwrap().unwrap();
    prune(segments, &[FILES[1].to_owned()], false).unwrap();
    // One that is in another.
    disk.put(Path::new("/repo/db/log/0000000001.log"), b"an old one");
    let retained = Arc::default();
    let kept = Unlocked(store(&disk, None).unwrap(), Arc::clone(&retained));
    SegmentWriter::open(Box::new(kept)).unwrap().unwrap().retain().unwrap();
    let counts = stored(&disk).into_iter().filter_map(|(path, _)| {
        let name = path.file_name()?.to_str()?.to_owned();
        (name != "0000000001.log").then_some(name)
    });
    let (mut counts, mut retained) = (counts.collect::<Vec<_>>(), retained.lock().unwrap().clone());
    counts.push("first.note".to_owned());
    counts.sort();
    retained.sort();
    assert_eq!(retained, counts);
    assert!(counts.len() > 2, "{counts:?}");
}

#[test]
fn what_no_backup_needs_goes_and_numbers_stay() {
    let (full, put) = keys();
    let disk = FaultDisk::default();
    archive(&disk, Some(&put), 40).1.unwrap();
    let before = stored(&disk);
    let open = || SegmentArchive::open(store(&disk, Some(&put)).unwrap()).unwrap().unwrap();
    assert_eq!(prune(open(), &["other.000001".to_owned()], false).unwrap(), None);
    let tried = prune(open(), &[FILES[1].to_owned()], true).unwrap().unwrap();
    assert_eq!((tried.files, stored(&disk).len()), (1, before.len()));
    let done = prune(open(), &[FILES[2].to_owned(), FILES[1].to_owned()], false).unwrap().unwrap();
    assert_eq!(done, tried);
    let left = segments(&disk, Some(&full));
    assert_eq!((left.damages(), left.timelines()[0].files.len()), (&[][..], 2));
    assert_eq!(left.timelines()[0].info, info());
    assert!(read(&left, FILES[1]).unwrap()[22..] == LOG[22..]);
    assert!(stored(&disk).len() < before.len());
    drop(left);
    // The first one that is left can't be taken away unnoticed.
    disk.remove(&stored(&disk)[0].0).unwrap();
    assert!(!segments(&disk, Some(&full)).damages().is_empty());
}

#[test]
fn the_first_event_and_the_last_transaction_must_be_the_same() {
    let disk = FaultDisk::default();
    archive(&disk, None, 1).1.unwrap();
    let keeper = SegmentWriter::open(store(&disk, None).unwrap()).unwrap().unwrap();
    let newest = keeper.newest().unwrap();
    let (tail, resume_point) = (newest.tail.unwrap(), newest.resume_point.unwrap());
    assert_eq!(tail.end, LOG.len() as u64);
    let compare = |flip: Option<usize>| {
        let mut compared = HashComparer::new(resume_point.clone(), tail.end);
        events().into_iter().filter(|(start, _)| *start as u64 >= tail.last).all(|(start, end)| {
            let mut bytes = LOG[start..end].to_vec();
            if let Some(at) = flip.filter(|at| (start..end).contains(at)) {
                bytes[at - start] ^= 1;
            }
            compared.matches(&bytes, start as u64)
        })
    };
    assert!(compare(None));
    for at in usize::try_from(tail.last).unwrap()..LOG.len() {
        assert!(!compare(Some(at)), "byte {at}");
    }
    let head = events()[0];
    let has = |bytes: &[u8]| HashComparer::new(resume_point.clone(), tail.end).matches_first_event(bytes);
    assert!(has(&LOG[head.0..head.1]));
    for at in head.0..head.1 {
        let mut bytes = LOG[head.0..head.1].to_vec();
        bytes[at - head.0] ^= 2;
        assert!(!has(&bytes), "byte {at}");
    }
    assert_eq!(Kind::FORMAT_DESCRIPTION.0, LOG[8]);
}
