//! A queue that is held back while it is copied, and one that is dropped under those who wait.

use std::path::Path;
use std::thread::scope;

use disk::faults::FaultDisk;
use queue::{Error, Patience, Waited};

use crate::support::{FOLDER, all, fresh, poll, put, session};

#[test]
fn nobody_takes_from_a_queue_that_is_held_back() {
    let (_engine, queue) = fresh(&FaultDisk::default(), 1 << 20);
    put(&queue, "one");
    let (mut owner, mut other) = (session(1), session(2));
    assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), Waited::Taken(0));
    assert!(!queue.hold_back().unwrap(), "somebody owns a row");
    owner.abort().unwrap();
    assert!(queue.hold_back().unwrap());
    assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), Waited::TimedOut);
    scope(|scope| {
        let waiter = scope.spawn(|| other.wait(&[all(&queue)], &mut Patience::forever()).unwrap());
        while queue.status().waiters == 0 {
            std::thread::yield_now();
        }
        put(&queue, "two");
        assert_eq!(queue.status().owned, 0);
        queue.let_go();
        assert_eq!(waiter.join().unwrap(), Waited::Taken(0));
    });
    assert_eq!(owner.wait(&[all(&queue)], &mut poll(1)).unwrap(), Waited::Taken(0));
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
            let waited = one.wait(&[all(&stays), all(&queue)], &mut Patience::forever()).unwrap();
            (waited, one.is_owner())
        });
        while stays.status().waiters == 0 {
            std::thread::yield_now();
        }
        engine.remove(Path::new(FOLDER)).unwrap();
        assert_eq!(waiter.join().unwrap(), (Waited::Dropped, true));
    });
    assert_eq!(stays.status().waiters, 0);
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), Waited::Dropped);
    assert!(matches!(queue.publish(&[b"row"], None), Err(Error::Dropped)));
}
