//! Taking, ending, giving back; what each session sees; several targets; conditions; relayed rows; emptying
//! and the like.

use std::path::Path;

use disk::faults::FaultDisk;
use queue::{Error, Origin, Published, RowId, Source, WaitOptions, WaitOutcome};

use crate::support::{FOLDER, all, engine, fresh, only, poll, put, rows, seen, session};

#[test]
fn an_owner_sees_its_row_and_others_the_rest() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 4096);
    let (mut one, mut two) = (session(1), session(2));
    for row in ["a", "b", "c"] {
        put(&queue, row);
    }
    assert_eq!(rows(&one, &queue), ["a", "b", "c"]);
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(seen(&one, &queue), [(RowId(1), "a".to_owned())]);
    assert_eq!((one.count(&queue), two.count(&queue)), (1, 3));
    assert_eq!(rows(&two, &queue), ["b", "c"]);
    assert_eq!(two.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(rows(&two, &queue), ["b"]);
    one.abort().unwrap();
    assert_eq!(rows(&one, &queue), ["a", "c"], "back in its opened");
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(rows(&one, &queue), ["a"]);
    two.close().unwrap();
    one.end().unwrap();
    assert_eq!(rows(&one, &queue), ["b", "c"]);
    let status = queue.status();
    assert_eq!((status.waiting, status.owned, status.counters.restored_by_close), (2, 0, 1));
}

#[test]
fn a_wait_in_vain_leaves_an_owner_of_nothing_and_the_next_consumes() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 4096);
    let mut one = session(1);
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::TimedOut);
    put(&queue, "a");
    assert!(one.is_owner());
    assert!(rows(&one, &queue).is_empty());
    assert_eq!(one.count(&queue), 0);
    one.end().unwrap();
    assert_eq!(rows(&one, &queue), ["a"]);
    put(&queue, "b");
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    assert_eq!(rows(&one, &queue), ["b"]);
    assert_eq!(queue.status().counters.rows_removed, 1);
}

#[test]
fn an_owner_deletes_its_row_and_it_does_not_come_back() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 4096);
    let (mut one, mut two) = (session(1), session(2));
    ["a", "b", "c"].iter().for_each(|row| put(&queue, row));
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    assert_eq!(two.delete(&queue, &[RowId(1), RowId(2)]).unwrap(), 1, "the owned row stays");
    assert_eq!(one.delete(&queue, &[RowId(1)]).unwrap(), 1);
    assert!(rows(&one, &queue).is_empty());
    assert_eq!(one.count(&queue), 0);
    one.abort().unwrap();
    assert_eq!(rows(&two, &queue), ["c"]);
    assert_eq!(two.count(&queue), 1, "no row is counted off twice");
    assert_eq!(one.delete(&queue, &[RowId(1), RowId(99)]).unwrap(), 0);
}

#[test]
fn the_first_target_that_has_a_row_is_taken_from() {
    let disk = FaultDisk::default();
    let (engine, high) = fresh(&disk, 4096);
    engine.create(Path::new("/db/low"), &crate::support::definition(queue::Sync::Never)).unwrap();
    let low = engine.open(Path::new("/db/low")).unwrap();
    let mut one = session(1);
    put(&low, "l1");
    put(&low, "l2");
    let both = [all(&high), all(&low)];
    assert_eq!(one.wait(&both, &mut poll(1)).unwrap(), WaitOutcome::Taken(1));
    put(&high, "h");
    assert!(rows(&one, &high).is_empty(), "an owner sees its own row only");
    assert_eq!(one.wait(&both, &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(one.wait(&both, &mut poll(5)).unwrap(), WaitOutcome::Taken(1));
    assert_eq!(rows(&one, &low), ["l2"]);
    assert_eq!(one.wait(&both, &mut poll(1)).unwrap(), WaitOutcome::TimedOut);
}

#[test]
fn conditions_make_classes_within_one_queue() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 1024);
    let mut one = session(1);
    for number in 0..40 {
        put(&queue, &format!("{}-{number:02}", if number % 4 == 3 { "urgent" } else { "later" }));
    }
    let classes = [only(&queue, "urgent"), only(&queue, "later")];
    let mut order = Vec::new();
    while let WaitOutcome::Taken(_) = one.wait(&classes, &mut poll(1)).unwrap() {
        order.extend(rows(&one, &queue));
    }
    let urgent = (0..40).filter(|number| number % 4 == 3).map(|number| format!("urgent-{number:02}"));
    let later = (0..40).filter(|number| number % 4 != 3).map(|number| format!("later-{number:02}"));
    assert_eq!(order, urgent.chain(later).collect::<Vec<_>>());
    let evaluations = queue.status().counters.evaluations;
    assert!(evaluations <= 82, "{evaluations}: each class looks at each row once");
}

#[test]
fn a_row_that_comes_back_behind_a_condition_is_found_again() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 4096);
    let (mut one, mut two) = (session(1), session(2));
    ["a1", "b1", "a2"].iter().for_each(|row| put(&queue, row));
    // One session owns it while the condition passes over it.
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    assert_eq!(two.wait(&[only(&queue, "b")], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(two.wait(&[only(&queue, "b")], &mut poll(1)).unwrap(), WaitOutcome::TimedOut);
    assert_eq!(two.wait(&[only(&queue, "a")], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(rows(&two, &queue), ["a2"]);
    one.abort().unwrap();
    assert_eq!(one.wait(&[only(&queue, "a")], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(rows(&one, &queue), ["a1"]);
}

#[test]
fn a_batch_is_owned_and_ended_together() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 4096);
    let mut one = session(1);
    let many: Vec<String> = (0..10).map(|number| format!("r{number}")).collect();
    let slices: Vec<&[u8]> = many.iter().map(|row| row.as_bytes()).collect();
    assert_eq!(queue.publish(&slices, None).unwrap(), Published::New(RowId(1)));
    one.wait(&[all(&queue)], &mut poll(4)).unwrap();
    assert_eq!(rows(&one, &queue), many[..4]);
    assert_eq!(one.count(&queue), 4);
    one.wait(&[all(&queue)], &mut poll(100)).unwrap();
    assert_eq!(rows(&one, &queue), many[4..]);
    one.abort().unwrap();
    assert_eq!(rows(&one, &queue), many[4..]);
}

#[test]
fn a_relayed_row_comes_once_also_after_a_reopening() {
    let disk = FaultDisk::default();
    let (engine_one, queue) = fresh(&disk, 600);
    let from = |row| Origin { source: Source::Slot(5), row, floor: 0, overwrite: false };
    assert_eq!(queue.publish(&[b"one", b"more"], Some(&from(7))).unwrap(), Published::New(RowId(1)));
    assert_eq!(queue.publish(&[b"one"], Some(&from(7))).unwrap(), Published::Duplicate);
    (0..30).for_each(|_| put(&queue, "filler that makes segments"));
    queue.maintain().unwrap();
    let far = |row| Origin { source: Source::Incarnation([1; 16]), row, floor: 3, overwrite: false };
    queue.publish(&[b"far"], Some(&far(9))).unwrap();
    drop((engine_one, queue));
    let engine_two = engine(&disk, 600);
    let queue = engine_two.open(Path::new(FOLDER)).unwrap();
    assert_eq!(queue.publish(&[b"one"], Some(&from(7))).unwrap(), Published::Duplicate);
    assert_eq!(queue.publish(&[b"far"], Some(&far(9))).unwrap(), Published::Duplicate);
    assert_eq!(queue.publish(&[b"late"], Some(&far(8))).unwrap(), Published::New(RowId(34)));
    assert_eq!(queue.publish(&[b"old"], Some(&far(2))).unwrap(), Published::Duplicate);
    assert_eq!(queue.status().waiting, 34);
}

#[test]
fn emptying_starts_over_and_owners_lose_their_rows() {
    let disk = FaultDisk::default();
    let (engine_one, queue) = fresh(&disk, 600);
    let mut one = session(1);
    (0..50).for_each(|number| put(&queue, &format!("row number {number}")));
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    queue.truncate().unwrap();
    assert_eq!(queue.status().waiting, 0);
    put(&queue, "new");
    assert!(rows(&one, &queue).is_empty());
    one.end().unwrap();
    assert_eq!(seen(&one, &queue), [(RowId(1), "new".to_owned())]);
    drop((engine_one, queue));
    let engine_two = engine(&disk, 600);
    let queue = engine_two.open(Path::new(FOLDER)).unwrap();
    assert_eq!(seen(&one, &queue), [(RowId(1), "new".to_owned())]);
    assert_eq!(disk.names().len(), 3, "the folder, a checkpoint and a segment: {:?}", disk.names());
}

#[test]
fn a_queue_is_renamed_while_it_is_in_use_and_dropped() {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh(&disk, 600);
    let mut one = session(1);
    (0..50).for_each(|number| put(&queue, &format!("row number {number}")));
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    let to = Path::new("/db/tasks");
    engine.rename(Path::new(FOLDER), to).unwrap();
    assert_eq!(rows(&one, &queue), ["row number 0"]);
    assert!(matches!(engine.open(Path::new(FOLDER)), Err(Error::Missing { .. })));
    one.end().unwrap();
    queue.maintain().unwrap();
    assert_eq!(engine.open(to).unwrap().status().waiting, 49);
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    engine.remove(to).unwrap();
    assert!(disk.names().is_empty(), "{:?}", disk.names());
    assert!(matches!(queue.publish(&[b"x"], None), Err(Error::Dropped)));
    one.end().unwrap();
    assert!(matches!(engine.remove(to), Err(Error::Missing { .. })));
    engine.create(to, &crate::support::definition(queue::Sync::Always)).unwrap();
    assert_eq!(engine.open(to).unwrap().status().waiting, 0);
}

#[test]
fn emptied_segments_are_removed_and_sparse_ones_rewritten() {
    let disk = FaultDisk::default();
    let (engine_one, queue) = fresh(&disk, 8192);
    let mut one = session(1);
    for number in 0..600 {
        put(&queue, &format!("row number {number:04}, and some more to make it longer {}", "x".repeat(60)));
    }
    let before = queue.status();
    assert!(before.bytes > 80_000, "{before:?}");
    let doomed: Vec<RowId> = (1..=600).filter(|id| id % 60 != 30).map(RowId).collect();
    one.delete(&queue, &doomed).unwrap();
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    queue.maintain().unwrap();
    let after = queue.status();
    assert!(after.bytes < 30_000, "{after:?}");
    assert!(after.counters.compacted >= 8, "{after:?}");
    assert!(disk.names().len() <= 6, "{:?}", disk.names());
    let left: Vec<RowId> = (1..=600).filter(|id| id % 60 == 30).map(RowId).collect();
    assert_eq!(seen(&one, &queue)[0].0, left[0]);
    assert_eq!(seen(&session(2), &queue).into_iter().map(|(id, _)| id).collect::<Vec<_>>(), left[1..]);
    put(&queue, "behind");
    drop((engine_one, queue));
    let engine_two = engine(&disk, 8192);
    let queue = engine_two.open(Path::new(FOLDER)).unwrap();
    let found = seen(&session(3), &queue);
    assert_eq!(found.iter().map(|(id, _)| *id).take(10).collect::<Vec<_>>(), left);
    assert_eq!(found[10], (RowId(601), "behind".to_owned()));
    let numbers: Vec<u64> = found[..10].iter().map(|(_, row)| row[11..15].parse().unwrap()).collect();
    assert_eq!(numbers, left.iter().map(|id| id.0 - 1).collect::<Vec<_>>());
}

#[test]
fn a_file_of_a_later_version_is_refused_as_that() {
    let disk = FaultDisk::default();
    let (engine_one, queue) = fresh(&disk, 4096);
    drop((engine_one, queue));
    disk.corrupt(&Path::new(FOLDER).join("checkpoint"), 8, 2);
    let error = engine(&disk, 4096).open(Path::new(FOLDER)).unwrap_err();
    assert!(matches!(error, Error::Version { .. }), "{error}");
}

/// A condition that no row matches reads all rows; the waiter learns earlier that it was ended.
#[test]
fn a_wait_that_looks_through_many_rows_is_ended() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 1 << 20);
    queue.publish(&vec![b"row".as_slice(); 5000], None).unwrap();
    let mut asked = 0;
    let mut alive = || {
        asked += 1;
        asked < 3
    };
    let mut patience = WaitOptions { alive: Some(&mut alive), ..WaitOptions::poll() };
    let waited = session(1).wait(&[only(&queue, "none")], &mut patience).unwrap();
    assert_eq!(waited, WaitOutcome::Interrupted);
    assert!(queue.status().counters.evaluations < 5000, "{:?}", queue.status());
}
