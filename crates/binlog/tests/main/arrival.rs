//! When bytes came: what is noted survives, and what is not certain is not noted.

use std::path::Path;

use binlog::archive::segments::SegmentWriter;
use binlog::archive::{
    Archive, Arrival, Arrivals, BeginReason, Timeline, TimelineInfo, arrivals, files, prune,
};
use disk::Disk;
use disk::faults::FaultDisk;

use crate::segments::{Sender, events, info, keys, segments, store, stored};

const LOG: &[u8] = include_bytes!("../cases/mariadb-10.11.binlog");
const FOLDER: &str = "/repo/db/log";

fn came(end: u64, time_s: i64, all: bool) -> Arrival {
    Arrival { end, time_s, all }
}

fn begin(disk: &FaultDisk) -> Timeline<'_> {
    let info = TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), "bin.000001".to_owned());
    Archive::open(disk, Path::new(FOLDER)).unwrap().unwrap().begin(info).unwrap()
}

fn noted(disk: &FaultDisk, file: &str) -> Vec<Arrival> {
    arrivals(disk, &Path::new(FOLDER).join("000001"), file).unwrap()
}

#[test]
fn a_file_has_its_notes_beside_it() {
    let disk = FaultDisk::default();
    let timeline = begin(&disk);
    let mut writer = timeline.writer().unwrap();
    writer.note_arrival(99, false).unwrap();
    writer.begin("bin.000001").unwrap();
    let first = usize::from(u16::from_le_bytes([LOG[13], LOG[14]]));
    writer.append(&LOG[4..4 + first]).unwrap();
    writer.note_arrival(100, false).unwrap();
    let one = writer.at();
    writer.append(&LOG[4 + first..]).unwrap();
    // Of a second one note is enough, unless it says more.
    writer.note_arrival(100, false).unwrap();
    writer.note_arrival(100, true).unwrap();
    writer.note_arrival(103, false).unwrap();
    let end = writer.at();
    let all = [came(one, 100, false), came(end, 100, true), came(end, 103, false)];
    assert_eq!(noted(&disk, "bin.000001"), all);
    writer.begin("bin.000002").unwrap();
    writer.note_arrival(104, true).unwrap();
    assert_eq!(noted(&disk, "bin.000002"), [came(4, 104, true)]);
    // It goes with the file.
    let needed = ["bin.000002".to_owned()];
    assert_eq!(prune(&disk, Path::new(FOLDER), &needed, false).unwrap().unwrap().files, 1);
    let names = disk.list(timeline.folder()).unwrap();
    assert!(!names.iter().any(|name| name.to_str().unwrap().starts_with("bin.000001")), "{names:?}");
    assert_eq!(files(&disk, timeline.folder()).unwrap(), needed);
}

/// After a crash notes may be about bytes that are not there, end anywhere, or with zeros.
#[test]
fn notes_that_are_cut_or_of_lost_bytes_are_not_believed() {
    let disk = FaultDisk::default();
    let timeline = begin(&disk);
    let mut writer = timeline.writer().unwrap();
    writer.begin("bin.000001").unwrap();
    writer.append(&LOG[4..]).unwrap();
    writer.sync().unwrap();
    let end = LOG.len() as u64;
    let path = timeline.folder().join("bin.000001.arrived");
    let whole = format!("250 100\n300 101 all\n{end} 170000\n");
    for len in 0..=whole.len() {
        let known = whole[..len].matches('\n').count();
        let cut = &whole.as_bytes()[..len];
        for bytes in
            [cut.to_vec(), [cut, &[0; 20]].concat(), [cut, b" x\n"].concat(), [cut, b"9 9 9 9\n"].concat()]
        {
            disk.put(&path, &bytes);
            let found = noted(&disk, "bin.000001");
            assert_eq!(found.len(), known, "{len}: {found:?}");
            let mut writer = timeline.resume(&timeline.tail().unwrap().unwrap()).unwrap();
            writer.note_arrival(200_000, true).unwrap();
            let again = noted(&disk, "bin.000001");
            assert_eq!(again.last(), Some(&came(end, 200_000, true)), "{len}");
            assert_eq!(again[..again.len() - 1], found, "{len}");
        }
    }
    // What the archive does not have came later.
    disk.put(&path, format!("250 100\n{} 101\n", end + 1).as_bytes());
    let mut writer = timeline.resume(&timeline.tail().unwrap().unwrap()).unwrap();
    writer.note_arrival(200, false).unwrap();
    assert_eq!(noted(&disk, "bin.000001"), [came(250, 100, false), came(end, 200, false)]);
    // They can't go back.
    disk.put(&path, b"250 100\n240 101\n");
    assert_eq!(noted(&disk, "bin.000001"), [came(250, 100, false)]);
}

#[test]
fn what_is_before_and_behind_is_the_nearest_that_is_known() {
    let first = Arrivals::new(vec![came(100, 10, true), came(200, 20, false)], None);
    assert_eq!(first.span((0, 100)), (None, Some(10)));
    assert_eq!(first.span((100, 101)), (Some(10), Some(20)));
    assert_eq!(first.span((200, 300)), (Some(10), None));
    let all = vec![came(4, 30, true), came(100, 40, false), came(150, 41, true), came(900, 60, false)];
    let next = Arrivals::new(all, Some(&first));
    assert_eq!(next.span((4, 100)), (Some(30), Some(40)));
    assert_eq!(next.span((100, 120)), (Some(30), Some(41)));
    // Within what arrived together.
    assert_eq!(next.span((120, 150)), (Some(30), Some(41)));
    assert_eq!(next.span((149, 151)), (Some(30), Some(60)));
    assert_eq!(next.span((150, 900)), (Some(41), Some(60)));
    // What a file before it says holds until something newer is known.
    let later = Arrivals::new(vec![came(500, 70, false)], Some(&Arrivals::new(Vec::new(), Some(&next))));
    assert_eq!(later.span((4, 500)), (Some(41), Some(70)));
    assert_eq!(Arrivals::default().span((4, 500)), (None, None));
}

#[test]
fn segments_say_when_they_came_also_when_they_are_compacted() {
    for key in [None, Some(keys().1)] {
        let disk = FaultDisk::default();
        let mut keeper = SegmentWriter::open(store(&disk, key.as_ref()).unwrap()).unwrap().unwrap();
        keeper.begin_timeline(info()).unwrap();
        keeper.begin("binlog.000001").unwrap();
        let mut sender = Sender::new();
        let mut time = 1000;
        let mut expected = Vec::new();
        for place in events() {
            let (event, bytes) = sender.event(place);
            keeper.append(&event, bytes).unwrap();
            time += 1;
            keeper.note_arrival(time, time % 3 == 0);
            expected.push(came(place.1 as u64, time, time % 3 == 0));
            keeper.sync().unwrap();
        }
        let read = |disk: &FaultDisk| {
            let segments = segments(disk, key.as_ref());
            segments.arrivals(&segments.timelines()[0].files[0])
        };
        assert_eq!(read(&disk), expected);
        let before = stored(&disk).len();
        keeper.begin("binlog.000002").unwrap();
        assert!(stored(&disk).len() < before, "nothing was compacted");
        assert_eq!(read(&disk), expected);
    }
}
