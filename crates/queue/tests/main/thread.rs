//! Publishers and consumers in their own threads, while the background threads tidy up behind them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use disk::{Disk, RealDisk};
use queue::{Cursor, Engine, Options, Queue, RowId, Sync, WaitOptions, WaitOutcome};

use crate::support::{all, definition, only, options, poll, put, rows, session};

const TAKERS: u64 = 6;
const PUBLISHERS: u64 = 3;
const EACH: u64 = 400;

/// An engine with threads on the real disk, and a queue in it.
fn real(sync: Sync, segment_bytes: u64) -> (tempfile::TempDir, Engine, Arc<Queue>) {
    let parent = tempfile::tempdir().unwrap();
    let options = Options { threads: 2, interval: Duration::from_millis(5), ..options(segment_bytes) };
    let engine = Engine::start(Arc::new(RealDisk), options).unwrap();
    let folder = parent.path().join("jobs");
    engine.create(&folder, &definition(sync)).unwrap();
    let queue = engine.open(&folder).unwrap();
    (parent, engine, queue)
}

#[test]
fn each_row_is_taken_once_while_segments_come_and_go() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let (_parent, _engine, queue) = real(sync, 4000);
        let got = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..TAKERS {
                let (queue, got) = (&queue, &got);
                scope.spawn(move || take_until_told(number, queue, got));
            }
            let publishers: Vec<_> = (0..PUBLISHERS)
                .map(|number| {
                    let queue = &queue;
                    scope.spawn(move || {
                        (0..EACH).for_each(|nth| put(queue, &format!("{}", number * EACH + nth)))
                    })
                })
                .collect();
            publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
            (0..TAKERS).for_each(|_| put(&queue, "stop"));
        });
        let got = got.into_inner().unwrap();
        assert_eq!(got.len() as u64, PUBLISHERS * EACH);
        assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), got.len(), "none came twice");
        let status = queue.status();
        assert_eq!((status.waiting, status.owned), (0, 0));
        assert_eq!(status.counters.maintenance_errors, 0);
        assert!(status.counters.batches <= status.counters.rows_written + status.counters.rows_removed);
        queue.maintain().unwrap();
        assert!(queue.status().bytes < 20_000, "{:?}", queue.status());
    }
}

fn take_until_told(number: u64, queue: &Arc<Queue>, got: &Mutex<Vec<String>>) {
    let mut session = session(number);
    let mut aborted = false;
    loop {
        assert_eq!(session.wait(&[all(queue)], &mut WaitOptions::forever()).unwrap(), WaitOutcome::Taken(0));
        let row = rows(&session, queue).remove(0);
        if row == "stop" {
            return session.end().unwrap();
        }
        // Every other row is given back once.
        aborted = !aborted;
        if aborted {
            session.abort().unwrap();
        } else {
            got.lock().unwrap().push(row);
        }
    }
}

#[test]
fn a_queue_is_renamed_under_load() {
    let (parent, engine, queue) = real(Sync::Never, 2000);
    let names = [parent.path().join("jobs"), parent.path().join("tasks")];
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| (0..600).for_each(|nth| put(&queue, &format!("row {nth}"))));
        let taker = scope.spawn(|| {
            let mut session = session(1);
            (0..600).for_each(|_| {
                session.wait(&[all(&queue)], &mut WaitOptions::forever()).unwrap();
                assert_eq!(rows(&session, &queue).len(), 1);
            });
            session.end().unwrap();
        });
        let mut renames = 0;
        while !publisher.is_finished() || !taker.is_finished() {
            engine.rename(&names[renames % 2], &names[(renames + 1) % 2]).unwrap();
            renames += 1;
        }
    });
    let status = queue.status();
    assert_eq!((status.counters.rows_removed, status.counters.maintenance_errors), (600, 0));
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let (_parent, _engine, queue) = real(Sync::Never, 1 << 20);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for number in 0..5u64 {
            let (queue, send) = (&queue, send.clone());
            scope.spawn(move || {
                let mut session = session(number);
                session.wait(&[all(queue)], &mut WaitOptions::forever()).unwrap();
                send.send((rows(&session, queue), number)).unwrap();
                session.end().unwrap();
            });
            until(|| queue.status().waiters == number + 1);
        }
        for number in 0..5u64 {
            put(&queue, &format!("for {number}"));
        }
    });
    drop(send);
    let mut got: Vec<_> = receive.iter().collect();
    got.sort();
    assert_eq!(got, (0..5).map(|number| (vec![format!("for {number}")], number)).collect::<Vec<_>>());
    assert_eq!(queue.status().counters.handed_over, 5);
}

#[test]
fn a_waiter_takes_what_it_prefers_of_several_rows_that_come_together() {
    let (_parent, _engine, queue) = real(Sync::Never, 1 << 20);
    std::thread::scope(|scope| {
        let waiting = &queue;
        let waiter = scope.spawn(move || {
            let mut session = session(1);
            let classes = [only(waiting, "urgent"), only(waiting, "later")];
            let waited = session.wait(&classes, &mut WaitOptions::forever()).unwrap();
            (waited, rows(&session, waiting))
        });
        until(|| queue.status().waiters == 1);
        queue.publish(&[b"other"], None).unwrap();
        queue.publish(&[b"later 1", b"urgent 2", b"urgent 3"], None).unwrap();
        assert_eq!(waiter.join().unwrap(), (WaitOutcome::Taken(0), vec!["urgent 2".to_owned()]));
    });
}

#[test]
fn a_wait_ends_by_its_time_by_an_interrupt_and_by_a_dead_client() {
    let (_parent, _engine, queue) = real(Sync::Never, 1 << 20);
    let target = [all(&queue)];
    let mut one = session(1);
    let mut short = WaitOptions { timeout: Some(Duration::from_millis(20)), ..poll(1) };
    let started = Instant::now();
    assert_eq!(one.wait(&target, &mut short).unwrap(), WaitOutcome::TimedOut);
    assert!(started.elapsed() >= Duration::from_millis(20));
    assert!(one.is_owner());

    let interrupter = one.interrupter();
    interrupter.interrupt();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| one.wait(&target, &mut WaitOptions::forever()));
        until(|| queue.status().waiters == 1);
        interrupter.interrupt();
        assert_eq!(waiter.join().unwrap().unwrap(), WaitOutcome::Interrupted);
    });
    assert!(!one.is_owner());
    assert_eq!(queue.status().waiters, 0);

    let alive = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut ask = || alive.load(Ordering::Relaxed);
            let mut patience = WaitOptions {
                alive: Some(&mut ask),
                alive_every: Some(Duration::from_millis(2)),
                ..WaitOptions::forever()
            };
            one.wait(&target, &mut patience)
        });
        until(|| queue.status().waiters == 1);
        alive.store(false, Ordering::Relaxed);
        assert_eq!(waiter.join().unwrap().unwrap(), WaitOutcome::Interrupted);
    });
    put(&queue, "still here");
    assert_eq!(queue.status().waiting, 1, "a dead client is given nothing");
}

#[test]
fn what_comes_back_is_handed_to_who_waits() {
    let (_parent, _engine, queue) = real(Sync::Always, 1 << 20);
    put(&queue, "x1");
    let mut one = session(1);
    one.wait(&[all(&queue)], &mut poll(1)).unwrap();
    std::thread::scope(|scope| {
        let waiting = &queue;
        let waiter = scope.spawn(move || {
            let mut two = session(2);
            two.wait(&[only(waiting, "y"), only(waiting, "x")], &mut WaitOptions::forever()).unwrap();
            rows(&two, waiting)
        });
        until(|| queue.status().waiters == 1);
        one.close().unwrap();
        assert_eq!(waiter.join().unwrap(), ["x1"]);
    });
}

#[test]
fn a_waiter_of_an_emptied_queue_gets_what_comes_then() {
    let (parent, engine, queue) = real(Sync::Always, 1 << 20);
    (0..3).for_each(|_| put(&queue, "old"));
    session(5).delete(&queue, &[RowId(1), RowId(2), RowId(3)]).unwrap();
    std::thread::scope(|scope| {
        let waiting = &queue;
        let waiter = scope.spawn(move || {
            let mut two = session(2);
            two.wait(&[all(waiting)], &mut WaitOptions::forever()).unwrap();
            rows(&two, waiting)
        });
        until(|| queue.status().waiters == 1);
        queue.truncate().unwrap();
        put(&queue, "new");
        assert_eq!(waiter.join().unwrap(), ["new"]);
    });
    engine.remove(&parent.path().join("jobs")).unwrap();
    assert!(RealDisk.stat(Path::new(&parent.path().join("jobs"))).is_err());
}

/// Waits for something that another thread is about to do.
fn until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "it did not happen");
        std::thread::yield_now();
    }
}

/// A walk that continues where the last one ended misses no row, even while rows are being written.
#[test]
fn walks_that_follow_each_other_miss_no_row() {
    let (_parent, _engine, queue) = real(Sync::Always, 1 << 20);
    let rows = PUBLISHERS * EACH;
    let seen = std::thread::scope(|scope| {
        for number in 0..PUBLISHERS {
            let queue = &queue;
            scope.spawn(move || (0..EACH).for_each(|nth| put(queue, &format!("{}", number * EACH + nth))));
        }
        let (mut seen, mut next) = (Vec::new(), RowId(1));
        while next.0 <= rows {
            let mut cursor = Cursor::starting_at(&queue, next);
            while let Some((id, _)) = cursor.advance().unwrap() {
                seen.push(id.0);
            }
            next = cursor.end();
        }
        seen
    });
    assert_eq!(seen, (1..=rows).collect::<Vec<_>>());
}
