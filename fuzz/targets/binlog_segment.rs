//! Any bytes as a segment, and any change of a segmented archive: what is read is a part of what was
//! archived, or an error, and damage is told.
#![no_main]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use binlog::archive::segments::{SegmentArchive, SegmentWriter, verify};
use binlog::archive::{BeginReason, TimelineInfo, segment};
use binlog::event::format::Format;
use binlog::event::{Body, Event};
use block::{Folder, Store};
use disk::Disk;
use disk::faults::FaultDisk;
use libfuzzer_sys::fuzz_target;

const LOG: &[u8] = include_bytes!("../../crates/binlog/tests/cases/mariadb-10.11-no-sums.binlog");
const FOLDER: &str = "/log";

fn store(disk: &FaultDisk) -> Box<dyn Store> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Box::new(Folder::new(disk, PathBuf::from(FOLDER)))
}

/// The files of an archive of some segments.
fn archive() -> &'static Vec<(PathBuf, Vec<u8>)> {
    static FILES: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = FaultDisk::default();
        let mut keeper = SegmentWriter::open(store(&disk)).expect("opened").expect("alone");
        let info =
            TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), "binlog.000001".to_owned());
        keeper.begin_timeline(info).expect("begun");
        for file in ["binlog.000001", "binlog.000002"] {
            keeper.begin(file).expect("begun");
            let (mut format, mut at) = (Format::without_sums(), 4);
            for count in 0.. {
                let Some(len) = LOG.get(at + 9..at + 13) else { break };
                let len = u32::from_le_bytes(len.try_into().expect("4 bytes")) as usize;
                let bytes = &LOG[at..at + len];
                let next = {
                    let event = Event::checked(bytes, at as u64, &format).expect("an event");
                    keeper.append(&event, bytes).expect("appended");
                    match event.parse() {
                        Ok(Body::Format(format)) => Some(*format),
                        _ => None,
                    }
                };
                format = next.unwrap_or(format);
                at += len;
                if count % 16 == 0 {
                    keeper.sync().expect("synced");
                }
            }
            keeper.sync().expect("synced");
        }
        keeper.note_caught_up(1).expect("noted");
        drop(keeper);
        let names = disk.names().into_iter();
        names.filter_map(|path| Some((path.clone(), disk.bytes(&path)?))).collect()
    })
}

/// Everything that can be read is what was archived.
fn read(disk: &FaultDisk) -> bool {
    let Ok(Some(segments)) = SegmentArchive::open(store(disk)) else { return true };
    let segments = Arc::new(segments);
    for file in segments.timelines().iter().flat_map(|timeline| &timeline.files) {
        let mut bytes = Vec::new();
        // An error is an answer, and the events before it count.
        segments.open_file(file).read_to_end(&mut bytes).ok();
        assert!(bytes.len() <= LOG.len());
        if bytes.len() > 22 {
            assert!(bytes[22..] == LOG[22..bytes.len()], "other bytes than those that were archived");
        }
    }
    let found = verify(&segments, None, &mut |_| true).expect("the store answers");
    !found.damages.is_empty()
}

fuzz_target!(|input: (Vec<u8>, u64, usize, usize, u8, bool)| {
    let (bytes, len, file, at, mask, replaces) = input;
    if let Ok((header, root)) = segment::SegmentHeader::decode(&bytes, (1, 1), len) {
        assert_eq!(header.encode().expect("it was read").1, root);
    }
    let all = archive();
    let disk = FaultDisk::default();
    disk.make_folder(Path::new(FOLDER)).expect("made");
    for (path, bytes) in all {
        disk.put(path, bytes);
    }
    let logs: Vec<_> =
        all.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "log")).collect();
    let (path, own) = logs[file % logs.len()];
    let mut changed = if replaces { bytes } else { own.clone() };
    if !replaces {
        let at = at % changed.len();
        changed[at] ^= mask;
    }
    disk.put(path, &changed);
    assert!(read(&disk) || changed == *own, "the damage was not told");
});
