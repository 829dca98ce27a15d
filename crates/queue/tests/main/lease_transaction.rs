//! Leases that a transaction ends: their rows are gone at its commit, and the leases go on otherwise.

use std::path::Path;
use std::sync::Arc;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Definition, Engine, Queue, RowId, Savepoint, Sync, Token};

use crate::lease::{SECOND, counts, lease, start, tokens, waiting};
use crate::support::{FOLDER, limited, only, pass_ms, poll, prepared, seen, session, transactional, xid};

#[test]
fn an_end_within_a_transaction_is_decided_by_it() {
    let disk = FaultDisk::default();
    let engine = start(&disk);
    engine.create(Path::new(FOLDER), &transactional(Sync::Always)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    queue.publish(&[b"a", b"b", b"c"], None).unwrap();
    let one = session(1);
    let leased = tokens(&lease(&queue, 2));
    let mut transaction = one.begin(&queue).unwrap();
    assert_eq!(one.ack_within(&mut transaction, &leased[..1]).unwrap(), 1);
    assert_eq!(one.ack_within(&mut transaction, &leased[..1]).unwrap(), 0);
    assert_eq!(counts(&queue), (1, 2, 0));
    transaction.rollback().unwrap();
    assert_eq!(waiting(&queue), ["c"], "the lease continues");
    assert_eq!(queue.nack(&leased[..1], None, "").unwrap(), 1);
    assert_eq!(waiting(&queue), ["a", "c"]);
    let mut transaction = one.begin(&queue).unwrap();
    assert_eq!(one.ack_within(&mut transaction, &leased[1..]).unwrap(), 1);
    let prepared_one = transaction.prepare(&xid(1)).unwrap();
    drop((prepared_one, one, queue, engine));
    let engine = start(&disk);
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    assert_eq!((counts(&queue), prepared(&queue)), ((2, 1, 0), vec![1]));
    pass_ms(60_000);
    queue.end_due().unwrap();
    assert_eq!(waiting(&queue), ["a", "c"], "the transaction has it");
    queue.commit_by_xid(&xid(1)).unwrap();
    assert_eq!(seen(&session(2), &queue).len(), 2);
    assert_eq!(queue.rows(), 2);
}

/// How a transaction ends that does not end its rows after all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Undone {
    Rollback,
    Dropped,
    Savepoint,
    Prepared,
    /// It is prepared, and the queue is opened again before the rollback.
    Restart,
    /// The queue stops within it.
    Crash,
    Abandoned,
}

/// Whatever becomes of a transaction that is not committed: the lease that it was to end continues, its token
/// is good, and no try is counted. Only the end of the connection is a failed try. Leases that were over stay
/// so.
#[test]
fn a_lease_goes_on_when_the_transaction_that_was_to_end_it_is_undone() {
    for undone in [
        Undone::Rollback,
        Undone::Dropped,
        Undone::Savepoint,
        Undone::Prepared,
        Undone::Restart,
        Undone::Crash,
        Undone::Abandoned,
    ] {
        for (backoff, passed) in [("0,1,0", 0), ("0,1,0", 12_000), ("30,1,0", 12_000)] {
            let (queue, token, _disk, _engine) = undo(undone, backoff, passed);
            let case = format!("{undone:?}, {backoff}, {passed} ms");
            let lost = Undone::Abandoned == undone && passed == 0;
            queue.end_due().unwrap();
            let waits = lost || passed > 0 && backoff.starts_with('0');
            assert_eq!(queue.status().waiting, u64::from(waits), "{case}: waits");
            let failed = queue.lease_of(RowId(1)).map(|(_, failed)| failed);
            assert_eq!(failed, Some(u64::from(lost || passed > 0)), "{case}: failed");
            assert_eq!(queue.extend(&token, 10 * SECOND).unwrap(), 1, "{case}: its token is good");
            if backoff == "0,1,0" {
                assert_eq!(queue.nack(&token, None, "").unwrap(), 1, "{case}: nack counts");
                assert_eq!(lease(&queue, 1)[0].tries, 2 + u64::from(lost || passed > 0), "{case}");
            }
            for _ in 0..2 {
                pass_ms(40_000);
                queue.end_due().unwrap();
            }
            assert_eq!(counts(&queue), (1, 0, 0), "{case}: it comes back in the end");
        }
    }
}

/// A row was leased for ten seconds, so much time has passed, and a transaction that ends it is undone.
fn undo(undone: Undone, backoff: &str, passed: u64) -> (Arc<Queue>, Vec<Token>, FaultDisk, Engine) {
    let disk = FaultDisk::default();
    let engine = start(&disk);
    let policy = limited(9, backoff, false);
    engine.create(Path::new(FOLDER), &Definition { policy, ..transactional(Sync::Always) }).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    queue.publish(&[b"a"], None).unwrap();
    let token = tokens(&lease(&queue, 1));
    pass_ms(passed);
    queue.end_due().unwrap();
    queue.sync().unwrap();
    let one = session(1);
    let mut transaction = one.begin(&queue).unwrap();
    assert_eq!(one.ack_within(&mut transaction, &token).unwrap(), 1);
    assert_eq!((queue.status().waiting, queue.status().owned), (0, 1));
    match undone {
        Undone::Rollback => transaction.rollback().unwrap(),
        Undone::Dropped => drop(transaction),
        Undone::Savepoint => {
            transaction.roll_back_to(Savepoint::default()).unwrap();
            transaction.commit_one_phase().unwrap();
        }
        Undone::Prepared => transaction.prepare(&xid(1)).unwrap().rollback().unwrap(),
        Undone::Restart => drop(transaction.prepare(&xid(1)).unwrap()),
        Undone::Crash => std::mem::forget(transaction),
        Undone::Abandoned => transaction.abandon().unwrap(),
    }
    if !matches!(undone, Undone::Restart | Undone::Crash) {
        return (queue, token, disk, engine);
    }
    let after = if undone == Undone::Crash { disk.after_crash(Unsynced::Drop) } else { disk };
    drop((queue, engine));
    let engine = start(&after);
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    if undone == Undone::Restart {
        assert_eq!((queue.status().waiting, queue.status().owned), (0, 1), "the transaction has it");
        queue.rollback_by_xid(&xid(1)).unwrap();
    }
    (queue, token, after, engine)
}

#[test]
fn rows_that_were_taken_and_ended_in_a_transaction_have_failed_when_its_connection_ends() {
    let disk = FaultDisk::default();
    let engine = start(&disk);
    let policy = limited(9, "0,1,0", false);
    engine.create(Path::new(FOLDER), &Definition { policy, ..transactional(Sync::Always) }).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    queue.publish(&[b"taken", b"deleted"], None).unwrap();
    for (abandoned, failed) in [(false, [0, 0]), (true, [1, 0])] {
        let mut one = session(1);
        one.wait(&[only(&queue, "taken")], &mut poll(1)).unwrap();
        let mut transaction = one.begin(&queue).unwrap();
        assert!(one.end_within(&mut transaction));
        assert_eq!(one.delete_within(&mut transaction, &[RowId(2)]).unwrap(), 1);
        assert_eq!(queue.status().waiting, 0);
        if abandoned {
            transaction.abandon().unwrap()
        } else {
            transaction.rollback().unwrap()
        };
        assert_eq!(queue.status().waiting, 2);
        let known = [1, 2].map(|row| queue.lease_of(RowId(row)).map_or(0, |(_, failed)| failed));
        assert_eq!(known, failed, "abandoned: {abandoned}");
    }
}
