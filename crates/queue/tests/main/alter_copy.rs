//! A queue that is held while it is copied, and one that is dropped while sessions wait on it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use disk::faults::{FaultDisk, Unsynced};
use queue::{
    Definition, Engine, Error, Options, Origin, Published, Queue, RowId, Session, Source, Sync, WaitOptions,
    WaitOutcome,
};

use crate::support::{FOLDER, all, definition, ends, fresh, options, poll, put, rows, session};

#[test]
fn nobody_takes_from_a_queue_that_is_held_back() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 1 << 20);
    put(&queue, "one");
    let (mut owner, mut other) = (session(1), session(2));
    assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    owner.abort().unwrap();
    queue.begin_copy().unwrap();
    assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::TimedOut);
    scope(|scope| {
        let waiter = scope.spawn(|| other.wait(&[all(&queue)], &mut WaitOptions::forever()).unwrap());
        while queue.status().waiters == 0 {
            std::thread::yield_now();
        }
        put(&queue, "two");
        assert_eq!(queue.status().owned, 0);
        queue.end_copy();
        assert_eq!(waiter.join().unwrap(), WaitOutcome::Taken(0));
    });
    assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
}

/// Copies the rows to another queue; `between` runs when all but the last row were read.
fn copy(queue: &Arc<Queue>, copy: &Queue, between: impl FnOnce()) {
    queue.begin_copy().unwrap();
    let mut cursor = queue.copy_cursor(true);
    let mut between = Some(between);
    let mut rows = 0;
    while let Some((_, row)) = cursor.advance().unwrap() {
        copy.publish(&[row], None).unwrap();
        rows += 1;
        if rows == 5 {
            between.take().unwrap()();
        }
    }
    assert_eq!(rows, 6);
}

#[test]
fn owners_find_their_rows_in_the_copy_and_what_they_ended_is_gone() {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh(&disk, 1 << 20);
    let other = Path::new("/db/other");
    engine.create(other, queue.definition()).unwrap();
    let new = engine.open(other).unwrap();
    ["gone", "one", "two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&queue, row));
    let mut first = session(9);
    first.wait(&[all(&queue)], &mut poll(1)).unwrap();
    first.end().unwrap();
    let mut owners = [1, 2, 3, 4, 5].map(session);
    for owner in &mut owners {
        assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    }
    let [one, two, three, four, five] = &mut owners;
    copy(&queue, &new, || {
        three.end().unwrap();
        four.abort().unwrap();
    });
    assert!(queue.copied_owned());
    queue.replaced_by(&new, || Ok(())).unwrap();
    queue.end_copy();
    assert_eq!(rows(one, &new), ["one"]);
    assert_eq!((one.count(&new), new.status().owned), (1, 3));
    assert_eq!(one.owned_rows().unwrap().1, [RowId(1)]);
    one.end().unwrap();
    two.abort().unwrap();
    five.close().unwrap();
    assert_eq!(rows(&session(7), &new), ["two", "four", "five", "six"]);
    assert!(matches!(queue.publish(&[b"late"], None), Err(Error::Dropped)));
    drop((engine, queue, new));
    let engine = Engine::start(Arc::new(disk.after_crash(Unsynced::Drop)), options(1 << 20)).unwrap();
    assert_eq!(rows(&session(7), &engine.open(other).unwrap()), ["two", "four", "five", "six"]);
}

#[test]
fn who_owned_a_row_before_an_emptying_has_no_part_in_the_copy() {
    let (engine, queue) = fresh(&FaultDisk::default(), 1 << 20);
    let other = Path::new("/db/other");
    engine.create(other, queue.definition()).unwrap();
    let new = engine.open(other).unwrap();
    put(&queue, "before");
    let (mut one, mut two) = (session(1), session(2));
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    queue.truncate().unwrap();
    ["one", "two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&queue, row));
    two.wait(&[all(&queue)], &mut poll(1)).unwrap();
    copy(&queue, &new, || {});
    queue.replaced_by(&new, || Ok(())).unwrap();
    assert!(rows(&one, &new).is_empty());
    one.end().unwrap();
    assert_eq!(rows(&two, &new), ["one"]);
}

/// A queue of six rows, the first of them owned by a session, and a queue that it was copied to.
fn copied(other: &Path) -> (Engine, Arc<Queue>, Arc<Queue>, Session) {
    let (engine, queue) = fresh(&FaultDisk::default(), 1 << 20);
    engine.create(other, queue.definition()).unwrap();
    let new = engine.open(other).unwrap();
    ["one", "two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&queue, row));
    let mut one = session(1);
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    copy(&queue, &new, || {});
    (engine, queue, new, one)
}

#[test]
fn a_copy_that_takes_no_place_leaves_everything_as_it_was() {
    let other = Path::new("/db/other");
    let (_engine, queue, new, mut one) = copied(other);
    let failed = queue.replaced_by(&new, || Err(Error::Missing { folder: other.to_owned() }));
    assert!(matches!(failed, Err(Error::Missing { .. })));
    queue.end_copy();
    assert_eq!(new.status().owned, 0);
    assert_eq!(rows(&one, &queue), ["one"]);
    one.end().unwrap();
    assert_eq!(queue.status().waiting, 5);
}

/// The copy takes over the ended rows under the lock of the other queue. Meanwhile, no file may be closed
/// whose closing needs this lock.
#[test]
fn a_copy_is_completed_when_too_many_files_are_open() {
    let options = Options { files_max: 2, ..options(1 << 20) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    let [from, other] = ["/db/from", "/db/other"].map(Path::new);
    for folder in [from, other] {
        engine.create(folder, &definition(Sync::Always)).unwrap();
    }
    let (old, new) = (engine.open(from).unwrap(), engine.open(other).unwrap());
    ["one", "two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&old, row));
    ends(move || {
        let mut one = session(1);
        one.wait(&[all(&old)], &mut poll(1)).unwrap();
        copy(&old, &new, || one.end().unwrap());
        old.copied_to(&new).unwrap();
        assert_eq!(rows(&session(2), &new), ["two", "three", "four", "five", "six"]);
        drop(engine);
    });
}

/// A failed copy can't replace the queue: the original continues as if there had been no copy.
#[test]
fn a_copy_out_of_service_takes_no_place_and_no_end() {
    let other = Path::new("/db/other");
    let (engine, queue, new, mut one) = copied(other);
    queue.copied_to(&new).unwrap();
    new.fail("for this test");
    assert!(matches!(one.end(), Err(Error::Failed { .. })));
    assert!(matches!(queue.replaced_by(&new, || Ok(())), Err(Error::Failed { .. })));
    engine.remove(other).unwrap();
    queue.end_copy();
    assert_eq!(rows(&one, &queue), ["one"]);
    one.end().unwrap();
    assert_eq!((queue.status().waiting, queue.status().owned), (5, 0));
}

/// The copy writes its own checkpoints meanwhile.
#[test]
fn a_copy_that_is_tidied_up_keeps_what_was_relayed() {
    let origin = Origin { source: Source::Slot(1), row: 100, floor: 0, overwrite: false };
    for _ in 0..100 {
        let disk = FaultDisk::default();
        let (engine, queue) = fresh(&disk, 1 << 20);
        let other = Path::new("/db/other");
        engine.create(other, queue.definition()).unwrap();
        let new = engine.open(other).unwrap();
        queue.publish(&[b"one"], Some(&origin)).unwrap();
        ["two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&queue, row));
        copy(&queue, &new, || {});
        let copied = AtomicBool::new(false);
        scope(|scope| {
            let tidier = scope.spawn(|| {
                while !copied.load(Ordering::Relaxed) {
                    new.maintain().unwrap();
                }
            });
            let result = queue.copied_to(&new);
            copied.store(true, Ordering::Relaxed);
            result.unwrap();
            tidier.join().unwrap();
        });
        let engine = Engine::start(Arc::new(disk.after_crash(Unsynced::Drop)), options(1 << 20)).unwrap();
        let found = engine.open(other).unwrap();
        assert_eq!(found.publish(&[b"one"], Some(&origin)).unwrap(), Published::Duplicate);
    }
}

#[test]
fn a_queue_whose_copy_had_its_place_and_goes_is_there_again() {
    for sync in [Sync::Always, Sync::Never] {
        let (engine, queue) = fresh(&FaultDisk::default(), 1 << 20);
        let [from, aside, other] = ["/db/from", "/db/aside", "/db/other"].map(Path::new);
        for folder in [from, other] {
            engine.create(folder, &Definition { sync, ..queue.definition().clone() }).unwrap();
        }
        let (old, new) = (engine.open(from).unwrap(), engine.open(other).unwrap());
        ["gone", "one", "two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&old, row));
        let mut one = session(1);
        one.wait(&[all(&old)], &mut poll(1)).unwrap();
        one.end().unwrap();
        one.wait(&[all(&old)], &mut poll(1)).unwrap();
        copy(&old, &new, || {});
        engine.rename(from, aside).unwrap();
        old.replaced_by(&new, || engine.rename(other, from)).unwrap();
        old.end_copy();
        engine.rename(from, other).unwrap();
        engine.rename(aside, from).unwrap();
        engine.remove(other).unwrap();
        let back = engine.open(from).unwrap();
        assert_eq!(rows(&session(2), &back), ["one", "two", "three", "four", "five", "six"]);
        // The owner of a row has lost it, and is not told.
        one.end().unwrap();
        assert_eq!(back.status().waiting, 6);
    }
}

#[test]
fn who_waits_in_a_queue_that_is_dropped_is_told() {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh(&disk, 1 << 20);
    let other = Path::new("/db/other");
    engine.create(other, queue.definition()).unwrap();
    let stays = engine.open(other).unwrap();
    let mut one = session(1);
    scope(|scope| {
        let waiter = scope.spawn(|| {
            let waited = one.wait(&[all(&stays), all(&queue)], &mut WaitOptions::forever()).unwrap();
            (waited, one.is_owner())
        });
        while stays.status().waiters == 0 {
            std::thread::yield_now();
        }
        engine.remove(Path::new(FOLDER)).unwrap();
        assert_eq!(waiter.join().unwrap(), (WaitOutcome::Dropped, true));
    });
    assert_eq!(stays.status().waiters, 0);
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Dropped);
    assert!(matches!(queue.publish(&[b"row"], None), Err(Error::Dropped)));
}

/// From the moment the copy is complete, a crash may leave either queue. Rows ended before or after that
/// moment come back in neither, and both queues know what was relayed.
#[test]
fn what_is_ended_when_the_copy_is_complete_is_gone_in_both() {
    for sync in [Sync::Always, Sync::Never] {
        let disk = FaultDisk::default();
        let engine = Engine::start(Arc::new(disk.clone()), options(1 << 20)).unwrap();
        let [from, other] = ["/db/from", "/db/other"].map(Path::new);
        for folder in [from, other] {
            engine.create(folder, &definition(sync)).unwrap();
        }
        let (old, new) = (engine.open(from).unwrap(), engine.open(other).unwrap());
        let origin = Origin { source: Source::Slot(1), row: 100, floor: 0, overwrite: false };
        old.publish(&[b"one"], Some(&origin)).unwrap();
        ["two", "three", "four", "five", "six"].into_iter().for_each(|row| put(&old, row));
        let mut owners = [1, 2, 3].map(session);
        for owner in &mut owners {
            owner.wait(&[all(&old)], &mut poll(1)).unwrap();
        }
        let [one, two, three] = &mut owners;
        copy(&old, &new, || one.end().unwrap());
        old.copied_to(&new).unwrap();
        two.end().unwrap();
        three.abort().unwrap();
        old.sync().unwrap();
        for folder in [from, other] {
            let engine = Engine::start(Arc::new(disk.after_crash(Unsynced::Keep)), options(1 << 20)).unwrap();
            let queue = engine.open(folder).unwrap();
            assert_eq!(rows(&session(7), &queue), ["three", "four", "five", "six"], "{folder:?}");
            assert_eq!(queue.publish(&[b"one"], Some(&origin)).unwrap(), Published::Duplicate);
        }
        // The copy does not replace the original after all.
        drop(new);
        engine.remove(other).unwrap();
        old.end_copy();
        one.wait(&[all(&old)], &mut poll(1)).unwrap();
        assert_eq!(rows(one, &old), ["three"]);
        one.end().unwrap();
    }
}
