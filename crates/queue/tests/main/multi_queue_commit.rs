//! A transaction over several queues happens in all of them or in none, wherever it stops.

use std::path::Path;
use std::sync::Arc;

use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Error, Queue, Sync, Transaction, WaitOutcome, commit_multi_queue};

use crate::support::{all, engine, poll, put, rows, session, transactional, xid};

const ROOT: &str = "/data";
const FOLDERS: [&str; 3] = ["/data/db/a.queue", "/data/db/b.queue", "/data/other/c.queue"];

/// What the three queues hold before and after the transaction.
const BEFORE: [&[&str]; 3] = [&["a"], &[], &["c"]];
const AFTER: [&[&str]; 3] = [&["a2"], &["b2"], &[]];

const GTRID: [u8; 16] = [9; 16];

fn queues(disk: &FaultDisk) -> (Engine, Vec<Arc<Queue>>) {
    let engine = engine(disk, 1 << 20);
    for folder in [ROOT, "/data/db", "/data/other"] {
        disk.create_folder(Path::new(folder)).unwrap();
        disk.sync_folder(Path::new("/")).ok();
        disk.sync_folder(Path::new(ROOT)).unwrap();
    }
    let queues = FOLDERS.map(|folder| {
        engine.create(Path::new(folder), &transactional(Sync::Interval)).unwrap();
        engine.open(Path::new(folder)).unwrap()
    });
    put(&queues[0], "a");
    put(&queues[2], "c");
    engine.queues().iter().for_each(|queue| queue.maintain().unwrap());
    (engine, queues.to_vec())
}

/// The transaction in each queue: what it ends and what it adds.
fn begun(queues: &[Arc<Queue>]) -> Vec<Transaction> {
    queues
        .iter()
        .enumerate()
        .map(|(at, queue)| {
            let mut taker = session(at as u64 + 1);
            let mut transaction = taker.begin(queue).unwrap();
            if !BEFORE[at].is_empty() {
                assert_eq!(taker.wait(&[all(queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
                assert!(taker.end_within(&mut transaction));
            }
            AFTER[at].iter().for_each(|row| transaction.publish(&[row.as_bytes()]).unwrap());
            transaction
        })
        .collect()
}

fn committed(queues: &[Arc<Queue>]) -> Result<(), Error> {
    commit_multi_queue(begun(queues), || GTRID, &mut Vec::new())
}

/// Bytes of all files.
fn bytes(disk: &FaultDisk) -> u64 {
    disk.names().iter().filter_map(|name| disk.bytes(name)).map(|bytes| bytes.len() as u64).sum()
}

fn held(queues: &[Arc<Queue>]) -> Vec<Vec<String>> {
    queues.iter().map(|queue| rows(&session(9), queue)).collect()
}

/// What the queues hold after a start.
fn started(disk: &FaultDisk) -> Result<Vec<Vec<String>>, Error> {
    let engine = engine(disk, 1 << 20);
    let failed = engine.open_transactional(Path::new(ROOT))?;
    if let Some((_, error)) = failed.into_iter().next() {
        return Err(error);
    }
    let queues: Vec<_> =
        FOLDERS.iter().map(|folder| engine.open(Path::new(folder))).collect::<Result<_, _>>()?;
    assert!(queues.iter().all(|queue| queue.recover().is_empty()), "nothing is in doubt");
    Ok(held(&queues))
}

#[test]
fn several_queues_change_together_wherever_it_stops() {
    let calm = FaultDisk::default();
    let (_engine, all) = queues(&calm);
    let from = calm.syncs();
    committed(&all).unwrap();
    assert_eq!(held(&all), AFTER);
    let syncs = calm.syncs() - from;
    assert_eq!(syncs, 6, "each is prepared and committed");
    let (mut whole, mut none) = (0, 0);
    for stop in 0..=syncs {
        let disk = FaultDisk::default();
        let (engine, all) = queues(&disk);
        disk.stop_in(stop);
        let done = committed(&all);
        drop((engine, all));
        for unsynced in Unsynced::ALL {
            // The start may be stopped too, and the next one gives the same answer.
            let calm = disk.after_crash(unsynced);
            let found = started(&calm).unwrap();
            for again in 0..=calm.syncs() {
                let second = disk.after_crash(unsynced);
                second.stop_in(again);
                started(&second).ok();
                for unsynced in Unsynced::ALL {
                    let after = started(&second.after_crash(unsynced)).unwrap();
                    assert_eq!(after, found, "stopped at {stop}, then at {again}");
                }
            }
            if found == AFTER {
                whole += 1;
            } else {
                assert_eq!(found, BEFORE, "stopped at {stop}, {unsynced:?}");
                assert!(done.is_err(), "stopped at {stop}: it is lost");
                none += 1;
            }
        }
    }
    assert!(whole > 3 && none > 3, "{whole} {none}");
}

#[test]
fn one_that_can_not_be_prepared_takes_all_back() {
    let disk = FaultDisk::default();
    let (engine, all) = queues(&disk);
    let transactions = begun(&all);
    // The last of them is gone.
    engine.remove(Path::new(FOLDERS[2])).unwrap();
    let mut left = Vec::new();
    assert!(matches!(commit_multi_queue(transactions, || GTRID, &mut left), Err(Error::Dropped)));
    assert!(left.is_empty());
    assert_eq!(held(&all[..2]), BEFORE[..2]);
    assert!(all[..2].iter().all(|queue| queue.recover().is_empty()));
}

#[test]
fn a_full_disk_at_the_decision_takes_all_back() {
    let disk = FaultDisk::default();
    let (_engine, all) = queues(&disk);
    let mut used = bytes(&disk);
    let (mut refused, mut whole, mut tried_again, mut several) = (0, 0, 0, 0);
    for room in (0..4000).step_by(7) {
        disk.limit(used + room);
        let mut left = Vec::new();
        let done = commit_multi_queue(begun(&all), || GTRID, &mut left);
        disk.limit(u64::MAX);
        tried_again += left.len();
        if let [_, .., (last, false)] = left.as_slice() {
            assert!(Arc::ptr_eq(last.queue(), &all[0]), "while the first is prepared, nothing is decided");
            several += 1;
        }
        assert!(left.iter().all(|(prepared, commit)| prepared.decide(*commit)));
        if done.is_ok() {
            assert_eq!(held(&all), AFTER, "with {room} bytes of room");
            whole += 1;
            break;
        }
        refused += 1;
        assert_eq!(held(&all), BEFORE, "with {room} bytes of room");
        used = bytes(&disk);
    }
    assert!(refused > 0 && whole == 1, "{refused} {whole}");
    assert!(tried_again > 0 && several > 0, "{tried_again} {several}");
}

#[test]
fn nothing_is_decided_while_a_queue_can_not_be_opened() {
    let disk = FaultDisk::default();
    let (running, all) = queues(&disk);
    // All are prepared, and the first decision is not written.
    disk.stop_in(3);
    assert!(committed(&all).is_err());
    drop((running, all));
    let after = disk.after_crash(Unsynced::Drop);
    let whole = after.bytes(&Path::new(FOLDERS[0]).join("checkpoint")).unwrap();
    after.corrupt(&Path::new(FOLDERS[0]).join("checkpoint"), whole.len() - 1, 1);
    let again = engine(&after, 1 << 20);
    let failed = again.open_transactional(Path::new(ROOT)).unwrap();
    assert!(
        matches!(failed.as_slice(), [(folder, Error::Corrupt { .. })] if folder == Path::new(FOLDERS[0]))
    );
    for folder in &FOLDERS[1..] {
        assert_eq!(again.open(Path::new(folder)).unwrap().recover().len(), 1, "{folder}");
    }
}

#[test]
fn a_start_leaves_what_others_coordinate() {
    let disk = FaultDisk::default();
    let (engine, all) = queues(&disk);
    let mut transactions = begun(&all);
    let prepared = transactions.remove(0).prepare(&xid(1)).unwrap();
    drop((prepared, transactions, engine, all));
    let again = self::engine(&disk.after_crash(Unsynced::Keep), 1 << 20);
    assert!(again.open_transactional(Path::new(ROOT)).unwrap().is_empty());
    let first = again.open(Path::new(FOLDERS[0])).unwrap();
    assert_eq!(first.recover(), [xid(1)]);
    assert_eq!(rows(&session(9), &first), [""; 0]);
}
