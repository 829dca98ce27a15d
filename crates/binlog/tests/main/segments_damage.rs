//! Segments that are damaged, swapped, missing, not durable or of another archive.

use binlog::archive::segments::{SegmentWriter, verify};
use binlog::archive::{TimelineInfo, segment};
use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, Source};

use crate::segments::{
    FILES, LOG, Sender, archive, begun, info, keys, proven, read, segments, store, stored,
};

#[test]
fn every_flipped_byte_and_every_cut_is_told_with_every_key() {
    let (full, put) = keys();
    for key in [None, Some(&full)] {
        let disk = FaultDisk::default();
        archive(&disk, key, 40).1.unwrap();
        assert!(proven(&disk, key).damages.is_empty());
        for (path, bytes) in stored(&disk) {
            let step = if key.is_none() { 3 } else { 29 };
            let places = (0..bytes.len()).step_by(step).filter(|at| sandbox::is_turn(at / step, 4));
            for at in places.chain(bytes.len() - 3..bytes.len()) {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << (at % 8);
                disk.put(&path, &bad);
                assert!(!proven(&disk, key).damages.is_empty(), "{} byte {at}", path.display());
                if key.is_some() {
                    assert!(!proven(&disk, Some(&put)).damages.is_empty(), "{} byte {at}", path.display());
                }
            }
            for len in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
                disk.put(&path, &bytes[..len]);
                let found = proven(&disk, key);
                assert!(!found.damages.is_empty(), "{} cut to {len}", path.display());
            }
            disk.put(&path, &bytes);
        }
        assert!(proven(&disk, key).damages.is_empty());
    }
}

/// What was swapped, taken away or put back does not read as if it were the log.
#[test]
fn swapped_missing_and_foreign_segments_are_named() {
    let (full, put) = keys();
    for key in [None, Some(&full)] {
        let disk = FaultDisk::default();
        archive(&disk, key, 40).1.unwrap();
        let all = stored(&disk);
        assert!(all.len() > 3);
        for pair in all.windows(2) {
            disk.put(&pair[0].0, &pair[1].1);
            disk.put(&pair[1].0, &pair[0].1);
            let found = proven(&disk, key);
            assert!(found.damages.len() >= 2, "{}: {found:?}", pair[0].0.display());
            disk.put(&pair[0].0, &pair[0].1);
            disk.put(&pair[1].0, &pair[1].1);
        }
        for (path, bytes) in &all {
            disk.remove(path).unwrap();
            let segments = segments(&disk, key);
            assert!(!segments.damages().is_empty(), "{} is missed", path.display());
            drop(segments);
            disk.put(path, bytes);
        }
        assert!(proven(&disk, key).damages.is_empty());
    }
    // Of another archive with the same keys of people: another repository.
    let (one, other) = (FaultDisk::default(), FaultDisk::default());
    archive(&one, Some(&put), 40).1.unwrap();
    archive(&other, Some(&put), 40).1.unwrap();
    let (path, bytes) = stored(&other).remove(1);
    one.put(&path, &bytes);
    assert!(!proven(&one, Some(&full)).damages.is_empty());
}

/// A segment that was valid once under this name, put back by somebody who has an old copy.
#[test]
fn a_segment_of_another_history_does_not_fit_between_its_neighbours() {
    let disk = FaultDisk::default();
    archive(&disk, None, 40).1.unwrap();
    let other = FaultDisk::default();
    let mut keeper = SegmentWriter::open(store(&other, None).unwrap()).unwrap().unwrap();
    keeper.begin_timeline(TimelineInfo { began_s: 5, ..info() }).unwrap();
    Sender::new().send(&mut keeper, 40, &mut [0; 3]).unwrap();
    let (path, foreign) = stored(&other).remove(2);
    let own = disk.bytes(&path).unwrap();
    assert_ne!(own, foreign);
    disk.put(&path, &foreign);
    let found = proven(&disk, None);
    assert!(found.damages.iter().any(|it| it.what.contains("does not follow")), "{found:?}");
}

/// Whoever continues behind damage closes the hole, if the server has the bytes still.
#[test]
fn damage_at_the_end_is_fetched_again_and_a_number_is_not_used_twice() {
    let (full, put) = keys();
    for is_removed in [false, true] {
        let disk = FaultDisk::default();
        archive(&disk, Some(&put), 40).1.unwrap();
        let (path, _) = stored(&disk).pop().unwrap();
        if is_removed {
            disk.remove(&path).unwrap();
        } else {
            // In what the segment says of itself.
            disk.corrupt(&path, 100, 4);
        }
        assert!(!segments(&disk, Some(&full)).damages().is_empty());
        let mut keeper = SegmentWriter::open(store(&disk, Some(&put)).unwrap()).unwrap().unwrap();
        assert_eq!(keeper.damages().len(), 1);
        drop(keeper);
        archive(&disk, Some(&put), 40).1.unwrap();
        let segments = segments(&disk, Some(&full));
        let found = read(&segments, FILES[2]).unwrap();
        assert!(found[22..] == LOG[22..] && segments.damages().is_empty(), "{:?}", segments.damages());
        assert!(is_removed != disk.bytes(&path).is_some());
    }
}

/// What a header says must be true of the segment that has it.
#[test]
fn a_front_is_that_of_its_segment() {
    let chunk = segment::Chunk { len: 7, stored: 67, hash: [3; 32] };
    let segment = segment::Segment {
        first: 5,
        last: 5,
        level: 0,
        before: Some("00".repeat(32)),
        root: None,
        timeline: 2,
        info: Some(info()),
        file: FILES[0].to_owned(),
        start: 100,
        end: 107,
        whole: false,
        resume_point: None,
        arrived: vec![binlog::archive::Arrival { end: 107, time_s: 1_700_000_000, all: true }],
    };
    let header = segment::SegmentHeader { segment, chunks: vec![chunk] };
    let (bytes, root) = header.encode().unwrap();
    let len = bytes.len() as u64 + 67;
    let decode = |bytes: &[u8], numbers, len| {
        segment::SegmentHeader::decode(bytes, numbers, len).map_err(|it| it.what)
    };
    assert_eq!(decode(&bytes, (5, 5), len), Ok((header.clone(), root)));
    assert!(decode(&bytes, (4, 4), len).unwrap_err().contains("differs from the file name"));
    assert!(decode(&bytes, (5, 5), len + 1).unwrap_err().contains("file length differs"));
    let changed = |change: fn(&mut segment::SegmentHeader)| {
        let mut header = header.clone();
        change(&mut header);
        let (bytes, _) = header.encode().unwrap();
        decode(&bytes, (header.segment.first, header.segment.last), bytes.len() as u64 + 67).map(|_| ())
    };
    assert_eq!(changed(|header| header.segment.whole = true), Ok(()));
    assert!(changed(|header| header.segment.end = 108).unwrap_err().contains("chunk lengths"));
    assert!(changed(|header| header.segment.start = u64::MAX).unwrap_err().contains("chunk lengths"));
    assert!(changed(|header| header.segment.last = 6).unwrap_err().contains("a root must be named"));
    assert!(
        changed(|header| header.segment.root = Some(String::new()))
            .unwrap_err()
            .contains("a root must be named")
    );
    // A segment that nobody would read is not written.
    let long = |count| {
        let mut header = header.clone();
        header.segment.arrived = vec![header.segment.arrived[0]; count];
        header.encode().map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(long(300_000), Ok(()));
    assert!(long(500_000).unwrap_err().contains("too long"));
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(decode(&bad, (5, 5), len).is_err(), "byte {at}");
        assert!(decode(&bytes[..at], (5, 5), len).is_err(), "{at} bytes");
    }
}

/// A segment that can't be read is not compacted away with its neighbours: they would be lost too.
#[test]
fn what_is_damaged_is_not_compacted_with_its_neighbours() {
    let disk = FaultDisk::default();
    archive(&disk, None, 20).1.unwrap();
    let before = segments(&disk, None);
    let at = before.timelines()[0].files[2].end;
    drop(before);
    let last: Vec<_> = stored(&disk).into_iter().rev().take(4).collect();
    assert!(last.iter().all(|(path, _)| !path.display().to_string().contains('-')));
    disk.corrupt(&last[1].0, 30, 1);
    let mut keeper = SegmentWriter::open(store(&disk, None).unwrap()).unwrap().unwrap();
    keeper.resume();
    keeper.begin("binlog.000004").unwrap();
    drop(keeper);
    let after = segments(&disk, None);
    let file = &after.timelines()[0].files[2];
    assert!(file.missing.is_some() && file.end > 0 && file.end < at, "{file:?}");
    let mut bytes = vec![0; usize::try_from(file.end).unwrap()];
    assert_eq!(after.open_file(file).read_full_at(0, &mut bytes).unwrap(), bytes.len());
    assert!(bytes[22..] == LOG[22..bytes.len()]);
    let behind = stored(&disk).into_iter().map(|(path, _)| path).filter(|path| *path > last[1].0);
    assert!(behind.count() > 0, "what is behind it is there");
    let found = verify(&after, None, &mut |_| true).unwrap();
    assert!(found.damages.iter().all(|it| !it.what.contains("chunk lengths")), "{found:?}");
}

/// A run that is killed behind a rename has not synced the folder, and what is found then is acknowledged.
#[test]
fn what_a_killed_run_has_named_is_durable_once_another_one_opens_it() {
    let (full, put) = keys();
    let whole = FaultDisk::default();
    archive(&whole, Some(&put), 9).1.unwrap();
    let mut lost = 0;
    for (opens, fails) in
        [true, false].into_iter().flat_map(|opens| (1..whole.syncs()).map(move |it| (opens, it)))
    {
        let disk = FaultDisk::failing_at(fails);
        archive(&disk, Some(&put), 9).1.unwrap_err();
        let before = stored(&disk);
        if opens {
            drop(SegmentWriter::open(store(&disk, Some(&put)).unwrap()).unwrap().unwrap());
        }
        let disk = disk.after_crash(Unsynced::Drop);
        let kept = stored(&disk) == before;
        assert!(kept || !opens, "{fails}");
        lost += u32::from(!kept);
        if opens {
            assert_eq!(segments(&disk, Some(&full)).damages(), &[][..], "{fails}");
        }
    }
    assert!(lost > 0, "nothing is lost without it");
}

/// What segments say of when their bytes came may be too much for one: then they stay as they are.
#[test]
fn segments_are_not_compacted_into_one_that_nobody_reads() {
    let disk = FaultDisk::default();
    let (mut keeper, mut sender) = begun(&disk, None);
    let all = sender.events.clone();
    for (count, place) in all.iter().enumerate() {
        let (event, bytes) = sender.event(*place);
        keeper.append(&event, bytes).unwrap();
        if count % 10 == 9 {
            (0..80_000).for_each(|time_s| keeper.note_arrival(1_700_000_000 + time_s, true));
            keeper.sync().unwrap();
        }
    }
    // It is whole, and everything small is compacted.
    keeper.begin(FILES[1]).unwrap();
    keeper.remove_superseded().unwrap();
    let headers: usize =
        stored(&disk).iter().map(|(_, bytes)| bytes.len() - LOG.len().min(bytes.len())).sum();
    assert!(headers > 16 << 20, "{headers}");
    let segments = segments(&disk, None);
    assert_eq!(segments.damages(), &[]);
    let mut found = read(&segments, FILES[0]).unwrap();
    found[21] = LOG[21];
    assert!(found == LOG);
}
