//! What a coordinator may forget.

use std::path::Path;
use std::sync::Arc;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Definition, Engine, Options, Xid};
use shuttle::thread;

use crate::{check, session};

const FOLDER: &str = "/db/q";

fn engine(disk: &FaultDisk) -> Engine {
    let options = Options { threads: 0, ..Options::new(|| 0, || [7; 16]) };
    Engine::start(Arc::new(disk.clone()), options).unwrap()
}

/// The record of a commit may be in the batch of somebody whose row finds no room on the disk.
#[test]
fn after_a_sync_no_commit_is_in_memory_only() {
    check(|| {
        let disk = FaultDisk::default();
        let engine = engine(&disk);
        let definition = Definition { transactional: true, ..Definition::default() };
        engine.create(Path::new(FOLDER), &definition).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        let mut transaction = session(1).begin(&queue).unwrap();
        transaction.publish(&[b"row"]).unwrap();
        let prepared = transaction.prepare(&Xid::new(1, b"one", b"").unwrap()).unwrap();
        let used: usize =
            disk.names().iter().filter_map(|name| disk.bytes(name)).map(|bytes| bytes.len()).sum();
        disk.limit(used as u64 + 100);
        assert!(prepared.commit_remembered());
        let publisher = thread::spawn({
            let queue = queue.clone();
            move || queue.publish(&[&[b'x'; 500]], None).unwrap_err()
        });
        let synced = queue.sync();
        publisher.join().unwrap();
        if synced.is_ok() {
            let after = self::engine(&disk.after_crash(Unsynced::Drop));
            let queue = after.open(Path::new(FOLDER)).unwrap();
            assert_eq!(queue.recover(), []);
        }
    });
}
