//! A queue that is paused gives nobody a row until it is resumed, over restarts, crashes and ALTER TABLE.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Order, Queue, Sync, WaitOptions, WaitOutcome};

use crate::support::{
    FOLDER, TestQueue, WHOLE, all, altered, ordered, poll, session, texts, timed, whole_row,
};

fn put(queue: &Queue, text: &str) {
    queue.publish(&[&whole_row(None, None, text)], None).unwrap();
}

fn opened(sync: Sync) -> TestQueue {
    TestQueue::new(&ordered(sync, WHOLE, Order::default()))
}

#[test]
fn nobody_is_given_a_row_until_it_is_resumed() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let TestQueue { queue, engine, disk } = opened(sync);
        let (mut owner, mut taker) = (session(1), session(2));
        put(&queue, "a");
        put(&queue, "b");
        owner.wait(&[all(&queue)], &mut poll(1)).unwrap();
        assert!(queue.set_paused(true).unwrap() && !queue.set_paused(true).unwrap());
        assert_eq!((queue.is_paused(), queue.status().paused), (true, 1));
        put(&queue, "c");
        assert_eq!(taker.wait(&[all(&queue)], &mut poll(9)).unwrap(), WaitOutcome::TimedOut);
        owner.abort().unwrap();
        assert_eq!(taker.wait(&[all(&queue)], &mut poll(9)).unwrap(), WaitOutcome::TimedOut);
        // Over a restart, and emptying it.
        queue.truncate().unwrap();
        put(&queue, "d");
        let opened = TestQueue { disk, engine, queue }.reopened();
        assert_eq!(taker.wait(&[all(&opened.queue)], &mut poll(9)).unwrap(), WaitOutcome::TimedOut);
        assert!(opened.queue.set_paused(false).unwrap() && !opened.queue.set_paused(false).unwrap());
        assert_eq!(taker.wait(&[all(&opened.queue)], &mut poll(9)).unwrap(), WaitOutcome::Taken(0));
        assert_eq!(texts(&taker, &opened.queue), ["d"]);
        taker.close().unwrap();
        assert!(!opened.reopened().queue.is_paused());
    }
}

#[test]
fn who_waits_is_given_a_row_when_it_is_resumed() {
    let TestQueue { queue, engine, .. } = opened(Sync::Always);
    queue.set_paused(true).unwrap();
    put(&queue, "a");
    let waiter = std::thread::spawn({
        let queue = queue.clone();
        move || {
            let mut taker = session(1);
            let mut options = WaitOptions { timeout: Some(Duration::from_secs(60)), ..WaitOptions::poll() };
            taker.wait(&[all(&queue)], &mut options).unwrap()
        }
    });
    while queue.status().waiters == 0 {
        std::thread::yield_now();
    }
    queue.set_paused(false).unwrap();
    assert_eq!(waiter.join().unwrap(), WaitOutcome::Taken(0));
    drop(engine);
}

#[test]
fn the_copy_that_alter_table_makes_is_paused_as_the_table_is() {
    for paused in [true, false] {
        let TestQueue { queue, engine, .. } = opened(Sync::Always);
        queue.set_paused(paused).unwrap();
        put(&queue, "a");
        let new = altered(&engine, &queue, queue.definition()).unwrap();
        assert_eq!(new.is_paused(), paused);
        let waited = session(1).wait(&[all(&new)], &mut poll(1)).unwrap();
        assert_eq!(waited, if paused { WaitOutcome::TimedOut } else { WaitOutcome::Taken(0) });
        // Nothing of it stays behind.
        drop((queue, new));
        engine.remove(Path::new(FOLDER)).unwrap();
    }
}

/// After each sync, and each write, it is as it was last said to be, or as it was about to be.
#[test]
fn it_is_paused_or_not_over_crashes() {
    let play = |disk: &FaultDisk| {
        let mut known = vec![false];
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        let definition = ordered(Sync::Always, WHOLE, Order::default());
        if engine.create(Path::new(FOLDER), &definition).is_err() {
            return None;
        }
        let queue = engine.open(Path::new(FOLDER)).ok()?;
        for paused in [true, false, true, false] {
            known.push(paused);
            if queue.set_paused(paused).is_err() {
                return Some(known);
            }
            known = vec![paused];
        }
        Some(known)
    };
    let calm = FaultDisk::default();
    assert_eq!(play(&calm), Some(vec![false]));
    let mut unsure = 0;
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let Some(known) = play(&disk) else { continue };
        unsure += known.len() - 1;
        for unsynced in Unsynced::ALL {
            let engine = Engine::start(Arc::new(disk.after_crash(unsynced)), timed(700)).unwrap();
            let paused = engine.open(Path::new(FOLDER)).unwrap().is_paused();
            assert!(known.contains(&paused), "stopped at sync {stop}, {unsynced:?}: {paused}");
        }
    }
    assert!(unsure >= 4, "{unsure}");
}
