//! Transactions: what they add is seen at COMMIT and not before, what they end comes back with ROLLBACK.

use std::path::Path;
use std::sync::Arc;
use std::thread::scope;
use std::time::Duration;

use disk::faults::{FaultDisk, Unsynced};
use queue::{
    Engine, Error, Options, PUBLISH_BYTES_MAX, Queue, RowId, Session, Sync, Transaction, WaitOptions,
    WaitOutcome,
};

use crate::support::{
    FOLDER, all, ends, engine, fresh, fresh_transactional, only, options, poll, prepared, put, rows, session,
    transactional, xid,
};

fn queue() -> (FaultDisk, Engine, Arc<Queue>) {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh_transactional(&disk, 1 << 20, Sync::Always);
    (disk, engine, queue)
}

/// A session that took these rows within a transaction.
fn taken(queue: &Arc<Queue>, number: u64, count: usize) -> (Session, Transaction) {
    let mut taker = session(number);
    let mut transaction = taker.begin(queue).unwrap();
    assert_eq!(taker.wait(&[all(queue)], &mut poll(count)).unwrap(), WaitOutcome::Taken(0));
    assert!(taker.end_within(&mut transaction));
    assert!(!taker.is_owner());
    (taker, transaction)
}

/// What somebody else gets.
fn given(queue: &Arc<Queue>, prefix: &str) -> WaitOutcome {
    let mut other = session(77);
    let waited = other.wait(&[only(queue, prefix)], &mut poll(1)).unwrap();
    other.abort().unwrap();
    waited
}

fn waiting(queue: &Arc<Queue>) -> Vec<String> {
    rows(&session(78), queue)
}

#[test]
fn what_is_added_is_seen_at_commit_and_not_before() {
    let (_disk, _engine, queue) = queue();
    let mut writer = session(1);
    let mut transaction = writer.begin(&queue).unwrap();
    transaction.publish(&[b"one", b"two"]).unwrap();
    assert_eq!(queue.rows(), 0);
    assert_eq!(writer.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::TimedOut, "not even its own");
    let batches = queue.status().counters.batches;
    transaction.commit_one_phase().unwrap();
    assert_eq!(queue.status().counters.batches, batches + 1);
    assert_eq!(waiting(&queue), ["one", "two"]);
}

#[test]
fn a_taker_is_woken_by_commit_and_not_by_prepare() {
    ends(|| {
        let (_disk, _engine, queue) = queue();
        for two_phases in [false, true] {
            let mut transaction = session(1).begin(&queue).unwrap();
            transaction.publish(&[b"row"]).unwrap();
            scope(|scope| {
                let mut taker = session(2);
                let target = all(&queue);
                let waiter = scope.spawn(move || {
                    let waited = taker.wait(&[target], &mut WaitOptions::forever()).unwrap();
                    taker.end().unwrap();
                    waited
                });
                while queue.status().waiters == 0 {
                    std::thread::yield_now();
                }
                if two_phases {
                    let prepared = transaction.prepare(&xid(1)).unwrap();
                    assert_eq!(queue.status().waiters, 1, "it still waits");
                    prepared.commit().unwrap();
                } else {
                    transaction.commit_one_phase().unwrap();
                }
                assert_eq!(waiter.join().unwrap(), WaitOutcome::Taken(0));
            });
        }
    });
}

#[test]
fn what_was_taken_is_gone_with_commit_and_back_with_rollback() {
    let (_disk, _engine, queue) = queue();
    ["a", "b", "c", "d"].iter().for_each(|row| put(&queue, row));
    let (_, transaction) = taken(&queue, 1, 1);
    assert_eq!(waiting(&queue), ["b", "c", "d"]);
    transaction.rollback().unwrap();
    assert_eq!(waiting(&queue), ["a", "b", "c", "d"]);
    let (_, mut transaction) = taken(&queue, 1, 1);
    transaction.publish(&[b"e"]).unwrap();
    drop(transaction);
    assert_eq!(waiting(&queue), ["a", "b", "c", "d"], "one that is dropped is rolled back");
    assert_eq!(queue.status().counters.restored_by_abort, 2);
    let (_, mut transaction) = taken(&queue, 1, 2);
    transaction.publish(&[b"e"]).unwrap();
    transaction.commit_one_phase().unwrap();
    assert_eq!(waiting(&queue), ["c", "d", "e"]);
    assert_eq!((queue.rows(), queue.status().owned), (3, 0));
}

#[test]
fn a_savepoint_undoes_what_came_after_it() {
    let (_disk, _engine, queue) = queue();
    ["a", "b", "c"].iter().for_each(|row| put(&queue, row));
    let (mut taker, mut transaction) = taken(&queue, 1, 1);
    transaction.publish(&[b"before"]).unwrap();
    let mark = transaction.savepoint();
    transaction.publish(&[b"after"]).unwrap();
    assert_eq!(taker.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert!(taker.end_within(&mut transaction));
    assert_eq!(waiting(&queue), ["c"]);
    transaction.roll_back_to(mark).unwrap();
    assert_eq!(waiting(&queue), ["b", "c"]);
    transaction.publish(&[b"again"]).unwrap();
    transaction.commit_one_phase().unwrap();
    assert_eq!(waiting(&queue), ["b", "c", "before", "again"]);
}

#[test]
fn rows_are_deleted_within_a_transaction() {
    let (_disk, _engine, queue) = queue();
    ["a", "b", "c", "d"].iter().for_each(|row| put(&queue, row));
    let mut other = session(2);
    assert_eq!(other.wait(&[only(&queue, "d")], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    let mut taker = session(1);
    let mut transaction = taker.begin(&queue).unwrap();
    assert_eq!(taker.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    let ids: Vec<RowId> = [4, 1, 2, 2, 9].map(RowId).into();
    assert_eq!(taker.delete_within(&mut transaction, &ids).unwrap(), 2, "d is another's");
    assert_eq!(taker.delete_within(&mut transaction, &ids).unwrap(), 0);
    assert_eq!(waiting(&queue), ["c"]);
    assert_eq!(taker.owned_rows().unwrap().1, [], "the session no longer owns what it deleted");
    transaction.rollback().unwrap();
    assert_eq!(waiting(&queue), ["a", "b", "c"]);
    let mut transaction = taker.begin(&queue).unwrap();
    assert_eq!(taker.delete_within(&mut transaction, &ids).unwrap(), 2);
    transaction.commit_one_phase().unwrap();
    assert_eq!((waiting(&queue), queue.rows()), (vec!["c".to_owned()], 2));
}

#[test]
fn a_prepared_transaction_keeps_its_rows_until_it_is_decided() {
    for commit in [true, false] {
        let (_disk, _engine, queue) = queue();
        ["a", "b", "c"].iter().for_each(|row| put(&queue, row));
        let (mut taker, mut transaction) = taken(&queue, 1, 2);
        transaction.publish(&[b"x", b"y"]).unwrap();
        let decided = transaction.prepare(&xid(1)).unwrap();
        put(&queue, "z");
        taker.close().unwrap();
        assert_eq!(waiting(&queue), ["c", "z"]);
        // The condition passes them while they are owned.
        assert_eq!([given(&queue, "a"), given(&queue, "x")], [WaitOutcome::TimedOut; 2]);
        assert_eq!(session(1).delete(&queue, &[RowId(1), RowId(4)]).unwrap(), 0);
        assert!(queue.owned().iter().all(|(_, ownership)| ownership.owner.is_transaction()));
        assert_eq!((prepared(&queue), queue.status().owned), (vec![1], 4));
        let relayed = queue.origin(RowId(6)).unwrap();
        assert_eq!(relayed.floor, 1, "a row that may come back holds the floor");
        if commit {
            decided.commit().unwrap();
            assert_eq!(waiting(&queue), ["c", "x", "y", "z"]);
            assert_eq!(given(&queue, "x"), WaitOutcome::Taken(0));
        } else {
            decided.rollback().unwrap();
            assert_eq!(waiting(&queue), ["a", "b", "c", "z"]);
            assert_eq!(given(&queue, "a"), WaitOutcome::Taken(0));
        }
        assert_eq!((prepared(&queue), queue.status().owned), (vec![], 0));
        assert!(matches!(decided.commit(), Err(Error::UnknownTransaction)));
        assert!(matches!(decided.rollback(), Err(Error::UnknownTransaction)));
    }
}

#[test]
fn a_transaction_is_decided_by_its_xid() {
    let (_disk, _engine, queue) = queue();
    for number in [1, 2] {
        let mut transaction = session(number).begin(&queue).unwrap();
        transaction.publish(&[format!("row {number}").as_bytes()]).unwrap();
        transaction.prepare(&xid(number)).unwrap();
    }
    assert_eq!(prepared(&queue), [1, 2]);
    let again = session(3).begin(&queue).unwrap();
    assert!(matches!(again.prepare(&xid(2)), Err(Error::KnownTransaction)));
    assert!(matches!(queue.commit_by_xid(&xid(3)), Err(Error::UnknownTransaction)));
    assert!(matches!(queue.rollback_by_xid(&xid(3)), Err(Error::UnknownTransaction)));
    queue.commit_by_xid(&xid(2)).unwrap();
    queue.rollback_by_xid(&xid(1)).unwrap();
    assert_eq!(waiting(&queue), ["row 2"]);
    assert!(matches!(queue.rollback_by_xid(&xid(2)), Err(Error::UnknownTransaction)));
    session(3).begin(&queue).unwrap().prepare(&xid(2)).unwrap();
}

#[test]
fn transactions_are_counted_until_they_are_over() {
    let (_disk, _engine, queue) = queue();
    let counts = || {
        let status = queue.status();
        (status.transactions, status.prepared, status.in_doubt)
    };
    ["a", "b", "c"].iter().for_each(|row| put(&queue, row));
    let (_, dropped) = taken(&queue, 1, 1);
    let (_, committed) = taken(&queue, 2, 1);
    let (_, mut forgotten) = taken(&queue, 3, 1);
    forgotten.publish(&[b"x", b"y"]).unwrap();
    assert_eq!(counts(), (3, 0, 0));
    drop(dropped);
    committed.commit_one_phase().unwrap();
    assert_eq!(counts(), (1, 0, 0));
    forgotten.prepare(&xid(1)).unwrap();
    session(4).begin(&queue).unwrap().prepare(&xid(2)).unwrap();
    assert_eq!(counts(), (0, 2, 0));
    queue.doubt(&xid(1));
    queue.doubt(&xid(3));
    assert_eq!(counts(), (0, 2, 3), "what it adds and what it ends");
    queue.rollback_by_xid(&xid(1)).unwrap();
    assert_eq!(counts(), (0, 1, 0));
}

#[test]
fn only_one_of_two_decides() {
    ends(|| {
        let (_disk, _engine, queue) = queue();
        for number in 0..50 {
            let mut transaction = session(1).begin(&queue).unwrap();
            transaction.publish(&[b"row"]).unwrap();
            transaction.prepare(&xid(number)).unwrap();
            let before = queue.rows() - 1;
            let (committed, rolled_back) = scope(|scope| {
                let commit = scope.spawn(|| queue.commit_by_xid(&xid(number)));
                let rollback = scope.spawn(|| queue.rollback_by_xid(&xid(number)));
                (commit.join().unwrap().is_ok(), rollback.join().unwrap().is_ok())
            });
            assert_ne!(committed, rolled_back);
            assert_eq!(queue.rows() - before, u64::from(committed));
        }
    });
}

#[test]
fn a_queue_without_the_option_has_no_transactions() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 4096);
    assert!(matches!(session(1).begin(&queue), Err(Error::NotTransactional)));
}

#[test]
fn a_transaction_ends_only_rows_of_its_queue() {
    let (_disk, engine, queue) = queue();
    let other = Path::new("/db/other");
    engine.create(other, queue.definition()).unwrap();
    let other = engine.open(other).unwrap();
    put(&other, "elsewhere");
    let mut taker = session(1);
    assert_eq!(taker.wait(&[all(&other)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    let mut transaction = taker.begin(&queue).unwrap();
    assert!(!taker.end_within(&mut transaction));
    assert!(taker.is_owner() && transaction.is_empty());
}

#[test]
fn a_transaction_is_as_large_as_a_statement() {
    let (_disk, _engine, queue) = queue();
    let mut transaction = session(1).begin(&queue).unwrap();
    let half = vec![0; PUBLISH_BYTES_MAX / 2 - 64];
    transaction.publish(&[&half]).unwrap();
    let mark = transaction.savepoint();
    transaction.publish(&[&half]).unwrap();
    assert!(matches!(transaction.publish(&[&[0; 128]]), Err(Error::TooLarge { .. })));
    transaction.roll_back_to(mark).unwrap();
    transaction.publish(&[&[0; 128]]).unwrap();
}

#[test]
fn a_queue_with_prepared_transactions_is_not_emptied_dropped_or_copied() {
    let (_disk, engine, queue) = queue();
    put(&queue, "a");
    let (_taker, transaction) = taken(&queue, 1, 1);
    queue.begin_copy().unwrap();
    let while_copied = session(2).begin(&queue).unwrap();
    assert!(matches!(while_copied.prepare(&xid(3)), Err(Error::Copied)));
    queue.end_copy();
    let refused = || {
        assert!(matches!(queue.truncate(), Err(Error::Prepared { transactions: 1 })));
        assert!(matches!(queue.begin_copy(), Err(Error::Prepared { transactions: 1 })));
        assert!(matches!(engine.remove(Path::new(FOLDER)), Err(Error::Prepared { transactions: 1 })));
    };
    let preparing = transaction.begin_prepare(&xid(1)).unwrap();
    refused();
    let decided = preparing.finish().unwrap();
    refused();
    decided.rollback().unwrap();
    assert_eq!(waiting(&queue), ["a"]);
    assert!(Arc::ptr_eq(&queue, &engine.open(Path::new(FOLDER)).unwrap()), "it stayed open");
    queue.truncate().unwrap();
    engine.remove(Path::new(FOLDER)).unwrap();
}

#[test]
fn rows_of_an_emptied_queue_are_not_ended() {
    let (disk, _engine, queue) = queue();
    put(&queue, "old");
    for two_phases in [true, false] {
        let (_taker, mut transaction) = taken(&queue, 1, 1);
        transaction.publish(&[b"new"]).unwrap();
        queue.truncate().unwrap();
        put(&queue, "other");
        if two_phases {
            let decided = transaction.prepare(&xid(1)).unwrap();
            let engine = engine(&disk.after_crash(Unsynced::Keep), 1 << 20);
            assert_eq!(waiting(&engine.open(Path::new(FOLDER)).unwrap()), ["other"]);
            decided.commit().unwrap();
        } else {
            transaction.commit_one_phase().unwrap();
        }
        assert_eq!(waiting(&queue), ["other", "new"]);
    }
    // Rows that were taken before and after.
    let (mut taker, mut transaction) = taken(&queue, 1, 2);
    queue.truncate().unwrap();
    ["first", "second"].iter().for_each(|row| put(&queue, row));
    assert_eq!(taker.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    assert!(taker.end_within(&mut transaction));
    transaction.commit_one_phase().unwrap();
    assert_eq!(waiting(&queue), ["second"]);
}

#[test]
fn a_queue_out_of_service_is_dropped_with_its_transactions() {
    let (_disk, engine, queue) = queue();
    session(1).begin(&queue).unwrap().prepare(&xid(1)).unwrap();
    let preparing = session(2).begin(&queue).unwrap().begin_prepare(&xid(2)).unwrap();
    queue.fail("for a test");
    engine.remove(Path::new(FOLDER)).unwrap();
    assert!(matches!(preparing.finish(), Err(Error::Dropped)));
}

#[test]
fn a_full_disk_leaves_a_transaction_as_it_was() {
    ends(|| {
        let (disk, _engine, queue) = queue();
        put(&queue, "a");
        let used: usize =
            disk.names().into_iter().filter_map(|name| disk.bytes(&name)).map(|b| b.len()).sum();
        disk.limit(used as u64 + 30);
        let (_taker, mut transaction) = taken(&queue, 1, 1);
        transaction.publish(&[b"x"]).unwrap();
        assert!(matches!(transaction.prepare(&xid(1)), Err(Error::Disk { .. })));
        assert_eq!((waiting(&queue), prepared(&queue)), (vec!["a".to_owned()], vec![]));
        disk.limit(u64::MAX);
        let (_taker, mut transaction) = taken(&queue, 1, 1);
        transaction.publish(&[b"x"]).unwrap();
        let decided = transaction.prepare(&xid(1)).unwrap();
        disk.limit(0);
        assert!(matches!(decided.commit(), Err(Error::Disk { .. })));
        assert_eq!((waiting(&queue), prepared(&queue)), (vec![], vec![1]));
        disk.limit(u64::MAX);
        decided.commit().unwrap();
        assert_eq!((waiting(&queue), prepared(&queue)), (vec!["x".to_owned()], vec![]));
    });
}

#[test]
fn a_prepare_shares_the_write_of_others() {
    let (disk, _engine, queue) = queue();
    let xids: Vec<_> = (1..=3).map(xid).collect();
    let begun = xids.iter().map(|xid| {
        let mut transaction = session(1).begin(&queue).unwrap();
        transaction.publish(&[b"x"]).unwrap();
        transaction.begin_prepare(xid).unwrap()
    });
    let syncs = disk.syncs();
    let mut begun: Vec<_> = begun.collect();
    assert_eq!((disk.syncs(), prepared(&queue)), (syncs, vec![]), "nobody has written it");
    begun.remove(0).finish().unwrap();
    assert_eq!((disk.syncs(), prepared(&queue)), (syncs + 1, vec![1, 2, 3]));
    for preparing in begun {
        preparing.finish().unwrap().rollback().unwrap();
    }
    assert_eq!(disk.syncs(), syncs + 3, "only what was decided");

    // It is written even if its statement goes no further.
    let mut transaction = session(1).begin(&queue).unwrap();
    transaction.publish(&[b"x"]).unwrap();
    let preparing = transaction.begin_prepare(&xid(4)).unwrap();
    put(&queue, "other");
    assert_eq!(prepared(&queue), [1, 4]);
    preparing.finish().unwrap().rollback().unwrap();
    assert_eq!(waiting(&queue), ["other"]);
}

#[test]
fn what_a_coordinator_remembers_is_not_synced_before_it_may_forget() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let disk = FaultDisk::default();
        let (_engine, queue) = fresh_transactional(&disk, 1 << 20, sync);
        put(&queue, "old");
        let (_taker, mut transaction) = taken(&queue, 1, 1);
        transaction.publish(&[b"new"]).unwrap();
        let decided = transaction.prepare(&xid(1)).unwrap();
        let syncs = disk.syncs();
        assert!(decided.commit_remembered());
        assert_eq!((disk.syncs(), prepared(&queue)), (syncs, vec![]));
        assert_eq!(waiting(&queue), ["new"], "others see it at once");
        let after = || {
            let engine = engine(&disk.after_crash(Unsynced::Drop), 1 << 20);
            let queue = engine.open(Path::new(FOLDER)).unwrap();
            (waiting(&queue), prepared(&queue))
        };
        assert_eq!(after(), (vec![], vec![1]));
        queue.sync().unwrap();
        assert_eq!(after(), (vec!["new".to_owned()], vec![]));
        assert!(decided.commit_remembered(), "there is nothing left to do");
    }
}

#[test]
fn what_a_coordinator_remembers_is_written_though_nobody_writes_anything_else() {
    ends(|| {
        let disk = FaultDisk::default();
        let options = Options { threads: 1, interval: Duration::from_millis(1), ..options(1 << 20) };
        let engine = Engine::start(Arc::new(disk.clone()), options).unwrap();
        engine.create(Path::new(FOLDER), &transactional(Sync::Always)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        let mut transaction = session(1).begin(&queue).unwrap();
        transaction.publish(&[b"x"]).unwrap();
        let decided = transaction.prepare(&xid(1)).unwrap();
        let batches = queue.status().counters.batches;
        assert!(decided.commit_remembered());
        while queue.status().counters.batches == batches {
            std::thread::yield_now();
        }
        let after = crate::support::engine(&disk.after_crash(Unsynced::Keep), 1 << 20);
        assert_eq!(prepared(&after.open(Path::new(FOLDER)).unwrap()), [0; 0]);
    });
}

/// A coordinator relies on what it was told.
#[test]
fn two_phases_are_synced_in_every_mode() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let disk = FaultDisk::default();
        let (_engine, queue) = fresh_transactional(&disk, 1 << 20, sync);
        let after = || {
            let engine = engine(&disk.after_crash(Unsynced::Drop), 1 << 20);
            let queue = engine.open(Path::new(FOLDER)).unwrap();
            (waiting(&queue), prepared(&queue))
        };
        for (number, commit) in [(1, true), (2, false)] {
            let mut transaction = session(1).begin(&queue).unwrap();
            transaction.publish(&[b"x"]).unwrap();
            let decided = transaction.prepare(&xid(number)).unwrap();
            assert_eq!(after().1, [number], "{sync:?}");
            if commit {
                decided.commit().unwrap()
            } else {
                decided.rollback().unwrap()
            }
            assert_eq!(after(), (vec!["x".to_owned()], vec![]), "{sync:?}");
        }
    }
}
