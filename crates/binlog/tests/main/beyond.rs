//! Files of more than 4 GiB, whose positions do not fit the 32 bits that an event has for them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use binlog::archive::{Archive, BeginReason, TimelineInfo};
use binlog::reader::{End, Reader};
use disk::RealDisk;

use crate::support::CASES;

/// A log without checksums, and the length of its first event.
const LOG: &[u8] = CASES[1].log;
/// Where positions begin again.
const AROUND: u64 = 1 << 32;
/// A kind that nobody knows, which may be skipped.
const FILLER: u8 = 200;
const IGNORABLE: u8 = 0x80;
const FILLER_BYTES: u32 = 64 << 20;

/// The events behind the first one, as if the log had begun `more` bytes earlier.
fn moved(more: u64) -> Vec<u8> {
    let mut reader = Reader::open(LOG).unwrap();
    let first = reader.next().unwrap().unwrap().end();
    let mut events = LOG[usize::try_from(first).unwrap()..].to_vec();
    let (mut at, mut end) = (0, first + more);
    while at < events.len() {
        let len = u32::from_le_bytes(events[at + 9..at + 13].try_into().unwrap());
        end += u64::from(len);
        let low = u32::try_from(end % AROUND).unwrap();
        events[at + 13..at + 17].copy_from_slice(&low.to_le_bytes());
        at += len as usize;
    }
    events
}

#[test]
fn events_around_4_gib_are_where_they_are() {
    let mut reader = Reader::open(LOG).unwrap();
    let first = reader.next().unwrap().unwrap().end();
    let format = reader.format().clone();
    let mut ends = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        ends.push(event.end());
    }
    // Each event is once the one that goes over it.
    for end in &ends {
        let more = AROUND - end + 3;
        let events = moved(more);
        for cut in [0, 1, 30] {
            let events = &events[..events.len() - cut];
            let mut reader = Reader::at(events, first + more, format.clone());
            let mut found = Vec::new();
            while let Some(event) = reader.next().unwrap() {
                found.push(event.end() - more);
            }
            let whole = ends.iter().take_while(|end| **end - first <= events.len() as u64).count();
            assert_eq!(found, ends[..whole], "{end} {cut}");
            // What is cut is not taken for damaged.
            assert_eq!(matches!(reader.end(), Some(End::Torn { .. })), cut > 0, "{end} {cut}");
        }
    }
}

/// The file has fillers up to there, which take no room.
#[test]
fn huge_group_an_archive_goes_on_behind_4_gib() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("beyond");
    // What a test has left that was killed.
    fs::remove_dir_all(&folder).ok();
    let archive = Archive::open(&RealDisk, &folder).unwrap().unwrap();
    let timeline = archive
        .begin(TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), "bin.000001".to_owned()))
        .unwrap();
    let mut writer = timeline.writer().unwrap();
    writer.begin("bin.000001").unwrap();
    drop(writer);
    let path = timeline.folder().join("bin.000001");
    let file = File::options().write(true).open(&path).unwrap();
    let mut reader = Reader::open(LOG).unwrap();
    let first = reader.next().unwrap().unwrap().end();
    file.write_all_at(&LOG[..usize::try_from(first).unwrap()], 0).unwrap();
    let mut at = first;
    while at < AROUND {
        let end = at + u64::from(FILLER_BYTES);
        let mut header = vec![0, 0, 0, 0, FILLER, 7, 0, 0, 0];
        header.extend(FILLER_BYTES.to_le_bytes());
        header.extend(u32::try_from(end % AROUND).unwrap().to_le_bytes());
        header.extend([IGNORABLE, 0]);
        file.write_all_at(&header, at).unwrap();
        at = end;
    }
    let events = moved(at - first);
    file.write_all_at(&events, at).unwrap();
    let own = |offset: u64| offset + at - first;
    let tail = timeline.tail().unwrap().unwrap();
    assert_eq!((tail.end, tail.damage), (own(LOG.len() as u64), None));
    assert!(tail.last > AROUND && tail.last < tail.end);
    // A part of a transaction goes, and nothing else.
    file.set_len(tail.end - 1).unwrap();
    let cut = timeline.tail().unwrap().unwrap();
    assert!(cut.end > AROUND && cut.end < tail.end, "{cut:?}");
    let mut writer = timeline.resume(&cut).unwrap();
    let rest = &events[usize::try_from(cut.end - at).unwrap()..];
    writer.append(rest).unwrap();
    writer.note_arrival(100, true).unwrap();
    writer.close().unwrap();
    assert_eq!(timeline.tail().unwrap().unwrap().end, tail.end);
    let notes = fs::read_to_string(path.with_extension("000001.arrived")).unwrap();
    assert_eq!(notes, format!("{} 100 all\n", tail.end));
    fs::remove_dir_all(&folder).unwrap();
}
