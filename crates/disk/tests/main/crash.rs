//! `Output` stopped at each of its syncs: the name holds the old file or the new one, whole.

use std::io::{self, Read, Write};
use std::path::Path;

use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, Output};

const NAME: &str = "/folder/report";
const OLD: &[u8] = b"the old report, which is long enough to be torn in the middle";
const NEW: &[u8] = b"the new report, which is long enough to be torn in the middle as well";

type Write2 = fn(&dyn Disk, &[u8]) -> io::Result<()>;

fn careful(disk: &dyn Disk, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(disk, Path::new(NAME))?;
    output.write_all(bytes)?;
    output.finish()
}

/// The canary: renames without having synced. The harness must reject it.
fn hasty(disk: &dyn Disk, bytes: &[u8]) -> io::Result<()> {
    let partial = Path::new("/folder/report.partial");
    disk.create(partial)?.write_all(bytes)?;
    disk.rename(partial, Path::new(NAME))?;
    disk.sync_folder(Path::new("/folder"))
}

fn found(disk: &dyn Disk) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    disk.open(Path::new(NAME)).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Stops `write` at each sync in each way; the first broken promise, if any.
fn crash_everywhere(write: Write2) -> Result<(), String> {
    let calm = FaultDisk::default();
    careful(&calm, OLD).map_err(|e| e.to_string())?;
    let first = calm.syncs();
    write(&calm, NEW).map_err(|e| e.to_string())?;
    for stop in first..=calm.syncs() {
        for unsynced in Unsynced::ALL {
            let disk = FaultDisk::stopping_at(stop);
            careful(&disk, OLD).map_err(|e| e.to_string())?;
            let done = write(&disk, NEW).is_ok();
            let after = disk.after_crash(unsynced);
            let bytes = found(&after);
            let whole = bytes.as_deref() == Some(NEW) || (!done && bytes.as_deref() == Some(OLD));
            if !whole {
                return Err(format!("stopped at sync {stop}, {unsynced:?}: found {bytes:?}"));
            }
            careful(&after, NEW).map_err(|e| format!("a leftover is in the way: {e}"))?;
        }
    }
    Ok(())
}

#[test]
fn an_output_is_old_or_new_after_a_crash() {
    crash_everywhere(careful).unwrap();
}

#[test]
fn the_harness_rejects_a_rename_without_sync() {
    crash_everywhere(hasty).unwrap_err();
}

#[test]
fn an_output_that_can_not_be_synced_leaves_no_half_file() {
    let disk = FaultDisk::failing_at(0);
    careful(&disk, NEW).unwrap_err();
    assert_eq!(disk.names(), Vec::<&Path>::new());
    careful(&disk, NEW).unwrap();
    assert_eq!(found(&disk).as_deref(), Some(NEW));
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let disk = FaultDisk::default();
    careful(&disk, OLD).unwrap();
    disk.limit(OLD.len() as u64 + 10);
    assert_eq!(careful(&disk, NEW).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(found(&disk).as_deref(), Some(OLD));
    assert_eq!(disk.names(), [Path::new(NAME)], "no leftover");
}

#[test]
fn a_torn_log_keeps_what_was_synced_and_a_moved_folder_its_files() {
    let (old, new) = (Path::new("/folder/q"), Path::new("/folder/r"));
    for unsynced in Unsynced::ALL {
        let disk = FaultDisk::default();
        disk.create_folder(old).unwrap();
        let mut sink = disk.create(&old.join("log")).unwrap();
        sink.write_all(b"synced, and long").unwrap();
        sink.sync().unwrap();
        disk.sync_folder(old).unwrap();
        disk.sync_folder(Path::new("/folder")).unwrap();
        disk.rename(old, new).unwrap();
        disk.sync_folder(Path::new("/folder")).unwrap();
        sink.write_all(b"not").unwrap();
        let mut bytes = Vec::new();
        let after = disk.after_crash(unsynced);
        after.open(&new.join("log")).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes.starts_with(b"synced, and long"), "{unsynced:?}: {bytes:?}");
        assert_eq!(bytes.ends_with(b"not"), unsynced == Unsynced::Keep);
        assert_eq!(bytes.len() > 16, unsynced != Unsynced::Drop);
    }
}

#[test]
fn a_failed_sync_is_not_made_good_by_the_next() {
    let disk = FaultDisk::failing_at(0);
    let mut sink = disk.create(Path::new(NAME)).unwrap();
    sink.write_all(OLD).unwrap();
    sink.sync().unwrap_err();
    sink.sync().unwrap();
    disk.sync_folder(Path::new("/folder")).unwrap();
    assert_eq!(found(&disk.after_crash(Unsynced::Drop)).as_deref(), Some(&b""[..]));
}
