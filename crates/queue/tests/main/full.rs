//! A full disk, and files that can't be opened: the caller is told, nothing is lost, and the queue continues
//! when there is room again.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Error, Options, Origin, Published, Queue, Session, Source, Sync, WaitOutcome};

use crate::support::{FOLDER, all, definition, ends, engine, fresh, options, poll, put, rows, session};

fn queue(disk: &FaultDisk, sync: Sync, segment_bytes: u64) -> (Engine, Arc<Queue>) {
    let engine = engine(disk, segment_bytes);
    engine.create(Path::new(FOLDER), &definition(sync)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (engine, queue)
}

/// Bytes of all files of the disk.
fn used(disk: &FaultDisk) -> u64 {
    let files = disk.names().into_iter().filter_map(|name| disk.bytes(&name));
    files.map(|bytes| bytes.len() as u64).sum()
}

fn is_full<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(&result, Err(Error::Disk { .. })), "{result:?}");
}

/// The rows after the server was killed, and after the power failed.
fn after(disk: &FaultDisk, unsynced: Unsynced) -> Vec<String> {
    let engine = Engine::start(Arc::new(disk.after_crash(unsynced)), options(600)).unwrap();
    rows(&session(9), &engine.open(Path::new(FOLDER)).unwrap())
}

#[test]
fn a_full_disk_is_told_and_passes() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let disk = FaultDisk::default();
        let (_engine, queue) = queue(&disk, sync, 1 << 20);
        put(&queue, "one");
        put(&queue, "two");
        let mut taker = session(1);
        assert_eq!(taker.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
        // A part of the batch fits, and is cut off again.
        disk.limit(used(&disk) + 20);
        is_full(queue.publish(&[b"too much"], None));
        is_full(queue.publish(&[b"still too much"], None));
        assert_eq!(rows(&taker, &queue), ["one"], "what is there can be read");
        disk.limit(u64::MAX);
        put(&queue, "three");
        taker.end().unwrap();
        assert_eq!(rows(&taker, &queue), ["two", "three"]);
        queue.sync().unwrap();
        for unsynced in Unsynced::ALL {
            assert_eq!(after(&disk, unsynced), ["two", "three"], "{sync:?} {unsynced:?}");
        }
    }
}

#[test]
fn an_end_that_could_not_be_written_is_no_end() {
    let disk = FaultDisk::default();
    let (_engine, queue) = queue(&disk, Sync::Always, 1 << 20);
    put(&queue, "one");
    put(&queue, "two");
    let mut taker = session(1);
    taker.wait(&[all(&queue)], &mut poll(1)).unwrap();
    disk.limit(0);
    is_full(taker.end());
    is_full(taker.wait(&[all(&queue)], &mut poll(1)));
    assert!(taker.is_owner());
    assert_eq!(rows(&taker, &queue), ["one"]);
    is_full(session(2).delete(&queue, &[queue::RowId(2)]));
    assert_eq!(rows(&session(3), &queue), ["two"], "it waits again");
    is_full(queue.truncate());
    assert_eq!(rows(&session(3), &queue), ["two"]);
    disk.limit(u64::MAX);
    taker.end().unwrap();
    assert_eq!(rows(&taker, &queue), ["two"]);
    assert_eq!(after(&disk, Unsynced::Drop), ["two"]);
    queue.truncate().unwrap();
    assert!(after(&disk, Unsynced::Drop).is_empty());
}

/// Without a sync with every batch, an end takes effect at once and is written when there is room, however
/// often that failed before.
#[test]
fn an_end_that_was_put_off_is_written_later() {
    let disk = FaultDisk::default();
    let (_engine, queue) = queue(&disk, Sync::Never, 1 << 20);
    let mut taker = session(1);
    for row in ["one", "two", "three"] {
        put(&queue, row);
    }
    taker.wait(&[all(&queue)], &mut poll(2)).unwrap();
    taker.end().unwrap();
    disk.limit(0);
    for _ in 0..3 {
        is_full(queue.sync());
        is_full(queue.publish(&[b"four"], None));
    }
    disk.limit(u64::MAX);
    put(&queue, "five");
    assert_eq!(after(&disk, Unsynced::Keep), ["three", "five"]);
}

/// The disk becomes full at any point while a segment is sealed and the next one is begun.
#[test]
fn a_segment_is_sealed_on_a_full_disk() {
    let mut failures = 0;
    for room in (0..400).step_by(4) {
        let disk = FaultDisk::default();
        let (_engine, queue) = queue(&disk, Sync::Always, 300);
        let mut wanted: Vec<String> = Vec::new();
        for number in 0..4 {
            wanted.push(format!("row {number} {}", "x".repeat(20)));
            put(&queue, wanted.last().unwrap());
        }
        disk.limit(used(&disk) + room);
        for number in 4..12 {
            let row = format!("row {number} {}", "y".repeat(number * 5));
            match queue.publish(&[row.as_bytes()], None) {
                Ok(_) => wanted.push(row),
                Err(Error::Disk { .. }) => failures += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(after(&disk, Unsynced::Drop), wanted, "{room}");
        disk.limit(u64::MAX);
        wanted.push("last".to_owned());
        put(&queue, "last");
        queue.compact().unwrap();
        assert_eq!(rows(&session(1), &queue), wanted, "{room}");
        assert_eq!(after(&disk, Unsynced::Drop), wanted, "{room}");
    }
    assert!(failures > 100, "{failures}");
}

#[test]
fn a_relayed_row_that_could_not_be_written_comes_again() {
    let disk = FaultDisk::default();
    let (_engine, queue) = queue(&disk, Sync::Always, 1 << 20);
    let origin = Origin { source: Source::Slot(1), row: 7, floor: 0, overwrite: false };
    disk.limit(0);
    is_full(queue.publish(&[b"row"], Some(&origin)));
    disk.limit(u64::MAX);
    assert!(matches!(queue.publish(&[b"row"], Some(&origin)).unwrap(), Published::New(_)));
    assert_eq!(queue.publish(&[b"row"], Some(&origin)).unwrap(), Published::Duplicate);
    assert_eq!(after(&disk, Unsynced::Drop), ["row"]);
}

#[test]
fn what_a_statement_adds_is_there_when_it_is_over_and_gone_when_it_fails() {
    let disk = FaultDisk::default();
    let (_engine, queue) = queue(&disk, Sync::Always, 1 << 20);
    let mut one = session(1);
    let mut two: Session = session(2);
    for keep in [true, false] {
        one.publish_in_statement(&queue, &[b"a", b"b"]).unwrap();
        one.publish_in_statement(&queue, &[b"c"]).unwrap();
        assert!(rows(&two, &queue).is_empty());
        assert_eq!(two.wait(&[all(&queue)], &mut poll(9)).unwrap(), WaitOutcome::TimedOut);
        two.end().unwrap();
        one.end_statement(keep).unwrap();
        assert!(!one.has_statement_rows());
        let there: &[&str] = if keep { &["a", "b", "c"] } else { &[] };
        assert_eq!(rows(&two, &queue), there);
        assert_eq!(after(&disk, Unsynced::Drop), there);
        two.wait(&[all(&queue)], &mut poll(9)).unwrap();
        two.end().unwrap();
    }
    // The disk is full when the statement fails; its rows are gone all the same.
    one.publish_in_statement(&queue, &[b"d"]).unwrap();
    disk.limit(0);
    one.end_statement(false).unwrap();
    assert!(rows(&two, &queue).is_empty());
    disk.limit(u64::MAX);
    put(&queue, "e");
    assert_eq!(after(&disk, Unsynced::Drop), ["e"]);
    // Its connection ends before the batch is settled.
    one.publish_in_statement(&queue, &[b"f"]).unwrap();
    one.close().unwrap();
    assert_eq!(rows(&two, &queue), ["e"]);
}

/// A file can't be opened for a moment, as when a process has too many files open.
#[test]
fn an_opening_that_failed_is_tried_again() {
    let disk = FaultDisk::default();
    let (_engine, queue) = queue(&disk, Sync::Always, 1 << 20);
    put(&queue, "one");
    let segment =
        disk.names().into_iter().find(|name| name.extension().is_some_and(|end| end == "seg")).unwrap();
    let aside = Path::new("/db/aside");
    disk.rename(&segment, aside).unwrap();
    is_full(session(1).cursor(&queue).advance().map(|row| row.is_some()));
    disk.rename(aside, &segment).unwrap();
    assert_eq!(rows(&session(1), &queue), ["one"]);
}

/// The rows it added to one queue can't be settled; the row it owns in another goes back.
#[test]
fn a_connection_that_ends_gives_its_rows_back_whatever_else_fails() {
    let (engine, broken) = fresh(&FaultDisk::default(), 1 << 20);
    let other = Path::new("/db/other");
    engine.create(other, &definition(Sync::Always)).unwrap();
    let queue = engine.open(other).unwrap();
    put(&queue, "row");
    let mut one = session(1);
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    one.publish_in_statement(&broken, &[b"added"]).unwrap();
    broken.fail("for this test");
    one.close().unwrap_err();
    assert_eq!((queue.status().waiting, queue.status().owned), (1, 0));
}

thread_local! {
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

fn clock() -> u64 {
    assert!(!PANICS.get(), "asked for by the test");
    0
}

/// A bug of ours in the middle of a compaction: the queue is out of service, and nobody waits for the
/// compaction to end.
#[test]
fn a_panic_while_a_queue_is_compacted_holds_nobody_up() {
    let options = Options { now_ms: clock, ..options(8192) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (0..100).for_each(|_| put(&queue, &"x".repeat(100)));
    session(1).delete(&queue, &(1..50).map(queue::RowId).collect::<Vec<_>>()).unwrap();
    PANICS.set(true);
    catch_unwind(AssertUnwindSafe(|| queue.compact())).unwrap_err();
    PANICS.set(false);
    assert!(matches!(queue.publish(&[b"row"], None), Err(Error::Failed { .. })));
    ends(move || engine.remove(Path::new(FOLDER)).unwrap());
}
