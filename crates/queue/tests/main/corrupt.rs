//! Every byte of a queue's files is changed in turn: the queue reports it, or loses nothing that had been
//! synced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use queue::{Error, Queue, RowId};

use crate::support::{FOLDER, engine, fresh, session};

/// A queue with sealed, rewritten and emptied segments and a tail; its rows.
fn populated() -> (FaultDisk, Vec<(RowId, Vec<u8>)>) {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh(&disk, 2048);
    for number in 0..60 {
        queue.publish(&[format!("row {number:02} {}", "y".repeat(50)).as_bytes()], None).unwrap();
    }
    let mut one = session(1);
    let doomed: Vec<RowId> = (1..=40).filter(|id| id % 9 != 0).map(RowId).collect();
    one.delete(&queue, &doomed).unwrap();
    queue.compact().unwrap();
    queue.publish(&[b"the last but one"], None).unwrap();
    queue.publish(&[b"the last"], None).unwrap();
    let rows = read_all(&queue).unwrap();
    drop((queue, engine));
    (disk, rows)
}

fn read_all(queue: &Arc<Queue>) -> Result<Vec<(RowId, Vec<u8>)>, Error> {
    let mut cursor = session(9).cursor(queue);
    let mut rows = Vec::new();
    while let Some((id, row)) = cursor.advance()? {
        rows.push((id, row.to_vec()));
    }
    Ok(rows)
}

fn is_told(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Version { .. } | Error::Missing { .. })
}

#[test]
fn any_changed_byte_is_told_or_harmless() {
    let (disk, rows) = populated();
    let files: Vec<PathBuf> = disk.names().into_iter().filter(|name| name.extension().is_some()).collect();
    assert!(files.len() >= 3, "{files:?}");
    let mut told = 0;
    for file in files {
        let len = usize::try_from(disk.stat(&file).unwrap().len).unwrap();
        for at in 0..len {
            let changed = disk.after_crash(Unsynced::Keep);
            changed.corrupt(&file, at, if at % 2 == 0 { 0x01 } else { 0x80 });
            let engine = engine(&changed, 2048);
            let found = engine.open(Path::new(FOLDER)).and_then(|queue| read_all(&queue));
            match found {
                Err(error) => {
                    assert!(is_told(&error), "{}:{at}: {error}", file.display());
                    told += 1;
                }
                // A damaged last batch looks the same as one that a crash has torn.
                Ok(found) if found == rows[..rows.len() - 1] => {}
                Ok(found) => assert_eq!(found, rows, "{}:{at}", file.display()),
            }
        }
    }
    assert!(told > 2000, "{told}: most bytes matter");
}

#[test]
fn a_missing_or_shortened_segment_is_told() {
    let (disk, rows) = populated();
    let last = disk.names().into_iter().rfind(|name| name.extension().is_some()).unwrap();
    for file in disk.names().into_iter().filter(|name| name.extension().is_some()) {
        let len = disk.stat(&file).unwrap().len;
        for cut in [None, Some(0), Some(30), Some(len / 2), Some(len - 1)] {
            let changed = disk.after_crash(Unsynced::Keep);
            match cut {
                None => changed.remove(&file).unwrap(),
                Some(cut) => drop(changed.append(&file, cut).unwrap()),
            }
            let engine = engine(&changed, 2048);
            match engine.open(Path::new(FOLDER)).and_then(|queue| read_all(&queue)) {
                Err(error) => assert!(is_told(&error), "{error}"),
                Ok(found) => assert!(file == last && rows.starts_with(&found), "{} {cut:?}", file.display()),
            }
        }
    }
}
