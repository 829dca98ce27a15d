//! What no backup needs goes from an archive, and nothing else, wherever that is stopped.

use std::path::{Path, PathBuf};

use binlog::Error;
use binlog::archive::{
    Archive, BeginReason, Pruned, Timeline, TimelineInfo, caught_up, files, prune, timelines,
};
use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};

const FOLDER: &str = "/repo/db/log";

/// Three timelines: a history, another one of a server that began again, and a third with names of its own.
const TIMELINES: [&[&str]; 3] = [
    &["bin.000001", "bin.000002", "bin.000003", "bin.000004"],
    &["bin.000001", "bin.000002"],
    &["other.000009", "other.000010", "other.000011"],
];

fn fill(disk: &FaultDisk) {
    let archive = Archive::open(disk, Path::new(FOLDER)).unwrap().unwrap();
    for names in TIMELINES {
        let info = TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), names[0].to_owned());
        let timeline = archive.begin(info).unwrap();
        let mut writer = timeline.writer().unwrap();
        for name in names {
            writer.begin(name).unwrap();
            writer.append(&[0; 60]).unwrap();
            writer.sync().unwrap();
        }
    }
}

fn archive(disk: &FaultDisk) -> Vec<(PathBuf, Vec<String>)> {
    let of = |folder: PathBuf| (folder.clone(), files(disk, &folder).unwrap());
    timelines(disk, Path::new(FOLDER)).unwrap().into_iter().map(of).collect()
}

fn run(disk: &FaultDisk, needed: &[&str]) -> Result<Option<Pruned>, Error> {
    let needed: Vec<String> = needed.iter().map(ToString::to_string).collect();
    prune(disk, Path::new(FOLDER), &needed, false)
}

/// The timelines and files that are left, and that nothing else is.
fn left(needed: &[&str]) -> (Option<Pruned>, Vec<Vec<String>>) {
    let disk = FaultDisk::default();
    fill(&disk);
    let done = run(&disk, needed).unwrap();
    is_tidy(&disk);
    (done, archive(&disk).into_iter().map(|(_, files)| files).collect())
}

/// Every file that is listed is there, and there is no other.
fn is_tidy(disk: &FaultDisk) {
    let all = archive(disk);
    for (folder, files) in &all {
        let names = disk.list(folder).unwrap().into_iter().map(|name| name.into_string().unwrap());
        let names = names.filter(|name| name.contains(".0000"));
        let (notes, logs): (Vec<String>, Vec<String>) = names.partition(|name| name.ends_with(".arrived"));
        assert_eq!(&logs, files);
        assert!(notes.iter().all(|name| logs.contains(&name.replace(".arrived", ""))), "{notes:?}");
    }
    let folders = disk.list(Path::new(FOLDER)).unwrap().into_iter();
    assert_eq!(folders.filter(|name| name.to_str().unwrap().starts_with("0000")).count(), all.len());
}

fn forgotten(files: u64) -> Option<Pruned> {
    Some(Pruned { files, bytes: files * 64, ..Pruned::default() })
}

#[test]
fn what_is_older_than_all_backups_goes() {
    let whole = TIMELINES.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let [one, two, three] = whole.clone();
    // A name in two timelines: any of them may be the backup's history. If it is the first one, and the
    // second is that of a replica which took over, the backup's place in that may be in any of its files.
    for needed in [&["bin.000002", "bin.000004"][..], &["bin.000002", "other.000011"]] {
        assert_eq!(left(needed), (forgotten(1), vec![one[1..].to_vec(), two.clone(), three.clone()]));
    }
    // The younger timelines have none of the names.
    assert_eq!(left(&["bin.000003"]), (forgotten(2), vec![one[2..].to_vec(), two, three.clone()]));
    assert_eq!(left(&["other.000010"]), (forgotten(7), vec![three[1..].to_vec()]));
    assert_eq!(left(&["bin.000001"]), (forgotten(0), whole.to_vec()));
    // A backup that is not in the archive says nothing.
    assert_eq!(left(&["other.000011", "bin.000077"]), (forgotten(8), vec![three[2..].to_vec()]));
    assert_eq!(left(&["bin.000077"]), (None, whole.to_vec()));
    assert_eq!(left(&[]), (None, whole.to_vec()));
}

/// The server's log got another name, within one history.
#[test]
fn what_the_index_has_before_a_file_is_older_whatever_its_name() {
    let disk = FaultDisk::default();
    let archive = Archive::open(&disk, Path::new(FOLDER)).unwrap().unwrap();
    let info = TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), "old.000009".to_owned());
    let timeline = archive.begin(info).unwrap();
    let mut writer = timeline.writer().unwrap();
    for name in ["old.000009", "bin.000001", "bin.000002", "bin.000003"] {
        writer.begin(name).unwrap();
    }
    assert_eq!(run(&disk, &["bin.000002"]).unwrap().unwrap().files, 2);
    assert_eq!(files(&disk, timeline.folder()).unwrap(), ["bin.000002", "bin.000003"]);
    is_tidy(&disk);
    // What a run has left that was killed: it is older by its name.
    let put = |name: &str| disk.put(&timeline.folder().join(name), &[0; 64]);
    ["bin.000000", "bin.00000x", "old.000001"].into_iter().for_each(put);
    assert_eq!(run(&disk, &["bin.000003"]).unwrap().unwrap().files, 2);
    let left = disk.list(timeline.folder()).unwrap().into_iter().map(|name| name.into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.contains(".0000")).collect();
    assert_eq!(left, ["bin.000003", "bin.000003.arrived", "bin.00000x", "old.000001"]);
    // A timeline that is only begun has no description yet.
    let begun = Path::new(FOLDER).join("000002");
    disk.create_folder(&begun).unwrap();
    run(&disk, &["bin.000003"]).unwrap();
    assert!(disk.list(&begun).is_ok());
}

#[test]
fn a_trial_removes_nothing() {
    let disk = FaultDisk::default();
    fill(&disk);
    let before = archive(&disk);
    let needed = ["other.000010".to_owned()];
    assert_eq!(prune(&disk, Path::new(FOLDER), &needed, true).unwrap(), forgotten(7));
    assert_eq!(archive(&disk), before);
    is_tidy(&disk);
}

#[test]
fn an_archiver_at_work_goes_on() {
    let disk = FaultDisk::default();
    let path = Path::new(FOLDER);
    let archive = Archive::open(&disk, path).unwrap().unwrap();
    let info = TimelineInfo::new(BeginReason::First, 1, 7, "10.11".to_owned(), "bin.000001".to_owned());
    let timeline = archive.begin(info).unwrap();
    let mut writer = timeline.writer().unwrap();
    writer.begin("bin.000001").unwrap();
    writer.begin("bin.000002").unwrap();
    assert_eq!(run(&disk, &["bin.000002"]).unwrap().unwrap().files, 1);
    // It writes its list again, and knows nothing of what was removed.
    writer.begin("bin.000003").unwrap();
    writer.close().unwrap();
    assert_eq!(files(&disk, timeline.folder()).unwrap(), ["bin.000002", "bin.000003"]);
    is_tidy(&disk);
    // The last one has no event yet.
    assert_eq!(Timeline::read(&disk, timeline.folder()).unwrap().tail().unwrap().unwrap().file, "bin.000002");
}

#[test]
fn wherever_it_is_stopped_the_archive_is_whole_and_the_next_run_ends_it() {
    for needed in [&["bin.000002"][..], &["other.000010"]] {
        let whole = FaultDisk::default();
        fill(&whole);
        let filled = whole.syncs();
        run(&whole, needed).unwrap();
        let after = archive(&whole);
        assert!(whole.syncs() > filled + 1);
        for sync in filled + 1..=whole.syncs() {
            for unsynced in Unsynced::ALL {
                let disk = FaultDisk::stopping_at(sync);
                fill(&disk);
                let done = run(&disk, needed);
                assert!(done.is_err() || sync == whole.syncs());
                let disk = disk.after_crash(unsynced);
                for (folder, files) in archive(&disk) {
                    for file in files {
                        assert!(disk.stat(&folder.join(&file)).is_ok(), "{sync} {unsynced:?} {file}");
                    }
                }
                run(&disk, needed).unwrap();
                assert_eq!(archive(&disk), after, "{sync} {unsynced:?}");
                is_tidy(&disk);
            }
        }
    }
}

#[test]
fn when_it_had_everything_is_noted() {
    let disk = FaultDisk::default();
    let path = Path::new(FOLDER);
    let archive = Archive::open(&disk, path).unwrap().unwrap();
    assert_eq!(caught_up(&disk, path).unwrap(), None);
    for now_s in [5, 1_700_000_000] {
        archive.note_caught_up(now_s).unwrap();
        assert_eq!(caught_up(&disk, path).unwrap(), Some(now_s));
    }
}
