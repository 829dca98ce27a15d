//! Stopped at any place, each change is written once.

use changes::Format;
use disk::faults::{FaultDisk, Unsynced};
use serde_json::Value;

use crate::support::{SERVERS, Wish, found, lines};

/// Runs that are stopped at any sync, each in each way in which a disk may stop, and what `begun` makes
/// without that.
fn stopped(begun: &Wish, mut take: impl FnMut(&str, FaultDisk)) {
    let disk = FaultDisk::default();
    begun.write(&disk).unwrap();
    for sync in 0..disk.syncs() {
        let stopped = FaultDisk::stopping_at(sync);
        begun.write(&stopped).unwrap_err();
        for unsynced in Unsynced::ALL {
            take(&format!("sync {sync}, {unsynced:?}"), stopped.after_crash(unsynced));
        }
    }
}

/// The next run finds another file of the log. What readers see meanwhile is what they see in the end.
#[test]
fn a_stopped_run_and_the_next_one_write_the_same_files() {
    for server in SERVERS {
        for (format, batch_bytes) in
            [(Format::Jsonl, 1), (Format::Jsonl, 1500), (Format::Parquet, changes::BATCH_BYTES)]
        {
            let whole = Wish { batch_bytes, ..Wish::all(server, format) };
            let mut begun = Wish { batch_bytes, ..Wish::all(server, format) };
            begun.files.truncate(1);
            let disk = FaultDisk::default();
            begun.write(&disk).unwrap();
            whole.write(&disk).unwrap();
            let expected = found(&disk);
            stopped(&begun, |place, disk| {
                let place = format!("{server} {format:?} {batch_bytes} {place}");
                for (name, bytes) in found(&disk) {
                    assert_eq!(expected.get(&name), Some(&bytes), "{place}: {name}");
                }
                whole.write(&disk).unwrap();
                assert_eq!(found(&disk), expected, "{place}");
            });
        }
    }
}

/// The next run finds more in the same file. A batch that got names ends where it was to end.
#[test]
fn a_log_that_grows_meanwhile_is_written_once() {
    for server in SERVERS {
        let whole = Wish::all(server, Format::Jsonl);
        let disk = FaultDisk::default();
        whole.write(&disk).unwrap();
        let all = |disk: &FaultDisk| -> Vec<Value> {
            let tables = ["d.t", "d.other", "_statements"];
            tables.iter().flat_map(|table| lines(&found(disk), table)).collect()
        };
        let expected = all(&disk);
        // The log as it was before the third change of the table.
        let cut = usize::try_from(lines(&found(&disk), "d.t")[2]["source"]["pos"].as_u64().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("binlog.000001");
        let bytes = std::fs::read(&whole.files[0]).unwrap();
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let mut begun = Wish::all(server, Format::Jsonl);
        begun.files = vec![path];
        stopped(&begun, |place, disk| {
            let before = found(&disk);
            whole.write(&disk).unwrap();
            assert_eq!(all(&disk), expected, "{server} {place}");
            // Whoever has read a file need not read it again.
            let after = found(&disk);
            assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "{server} {place}");
        });
    }
}
