//! Rows that nobody returns: a lease is over, a try was the last one, a time has come.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use condition::{Column, ColumnLayout, Kind, Schema};
use disk::faults::FaultDisk;
use queue::{Definition, Engine, Options, Order, Queue, RetryPolicy, Sync, Token, WaitOptions, WaitOutcome};
use shuttle::thread;

use crate::{UP_MS, all, check, put, queues, session, take};

/// Leases a row.
fn leased(queue: &Arc<Queue>, length: Duration) -> Token {
    let (_, leased) = session(9).lease(&[all(queue)], &mut WaitOptions::poll(), length).unwrap();
    leased.unwrap().rows()[0].token
}

#[test]
fn a_leased_row_that_comes_back_reaches_who_waits_for_it() {
    for how in 0..3 {
        let scenario = move || {
            let (_engine, queues) = queues(1, Sync::Never);
            let queue = queues[0].clone();
            put(&queue, b"row");
            // Other tests move the clock too, but not by hours.
            let token = leased(&queue, Duration::from_secs(if how == 2 { 1 } else { 1_000_000 }));
            let target = all(&queue);
            let taker = thread::spawn(move || take(1, &[target]));
            match how {
                0 => assert_eq!(queue.nack(&[token], None, "").unwrap(), 1),
                1 => assert_eq!(queue.release(&[token]).unwrap(), 1),
                _ => {
                    UP_MS.fetch_add(1000, Ordering::Relaxed);
                    queue.end_due().unwrap();
                }
            }
            taker.join().unwrap();
            assert_eq!((queue.rows(), queue.status().leased), (0, 0));
        };
        check(scenario);
    }
}

/// A token is good once, whoever else uses it and whether its lease is over or not.
#[test]
fn a_token_ends_its_row_once() {
    for sync in [Sync::Always, Sync::Never] {
        let scenario = move || {
            let (_engine, queues) = queues(1, sync);
            let queue = queues[0].clone();
            put(&queue, b"row");
            let token = leased(&queue, Duration::from_secs(1));
            let mut threads: Vec<_> = (0..2)
                .map(|_| {
                    let queue = queue.clone();
                    thread::spawn(move || queue.ack(&[token]).unwrap())
                })
                .collect();
            let other = queue.clone();
            threads.push(thread::spawn(move || {
                UP_MS.fetch_add(1000, Ordering::Relaxed);
                other.end_due().unwrap();
                let taken = session(2).wait(&[all(&other)], &mut WaitOptions::poll()).unwrap();
                u64::from(matches!(taken, WaitOutcome::Taken(_)))
            }));
            let good: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(good, 1);
        };
        check(scenario);
    }
}

/// A token ends its row while the queue is replaced by a copy: the row is gone from that too.
#[test]
fn a_token_ends_its_row_while_the_queue_is_replaced() {
    for sync in [Sync::Always, Sync::Never] {
        let scenario = move || {
            let (_engine, queues) = queues(2, sync);
            let [old, new] = [queues[0].clone(), queues[1].clone()];
            old.publish(&[b"a", b"b"], None).unwrap();
            let token = leased(&old, Duration::from_secs(1_000_000));
            old.begin_copy().unwrap();
            let ended = old.clone();
            let ending = thread::spawn(move || assert_eq!(ended.ack(&[token]).unwrap(), 1));
            let mut cursor = old.copy_cursor(true);
            while let Some((_, row)) = cursor.advance().unwrap() {
                put(&new, row);
            }
            old.replaced_by(&new, || Ok(())).unwrap();
            ending.join().unwrap();
            old.end_copy();
            assert_eq!((new.status().waiting, new.status().leased), (1, 0));
        };
        check(scenario);
    }
}

/// Two rows fail for the last time at once; who waits where they go gets both, and each is there once.
#[test]
fn rows_without_tries_left_reach_who_waits_for_them() {
    let scenario = || {
        let (engine, mut queues) = queues(1, Sync::Always);
        let policy =
            RetryPolicy { tries: 1, dead_letter_folder: Some("/db/0".into()), ..RetryPolicy::default() };
        let definition = Definition { transactional: true, policy, ..Definition::default() };
        engine.create(Path::new("/db/jobs"), &definition).unwrap();
        queues.push(engine.open(Path::new("/db/jobs")).unwrap());
        let (dead, queue) = (queues[0].clone(), queues[1].clone());
        queue.publish(&[b"one", b"two"], None).unwrap();
        let hour = Duration::from_secs(1_000_000);
        let tokens = [leased(&queue, hour), leased(&queue, hour)];
        let target = all(&dead);
        let taker =
            thread::spawn(move || (1..3).for_each(|number| take(number, std::slice::from_ref(&target))));
        let threads = tokens.map(|token| {
            let queue = queue.clone();
            thread::spawn(move || assert_eq!(queue.nack(&[token], None, "why").unwrap(), 1))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(queue.rows(), 0, "they are moved when nack returns");
        taker.join().unwrap();
        assert_eq!(dead.rows(), 0);
    };
    check(scenario);
}

/// A row dies while its queue is replaced by a copy: it is where it goes to, or dead in the copy, never both.
#[test]
fn a_row_dies_while_its_queue_is_copied() {
    let scenario = || {
        let (engine, _) = queues(0, Sync::Always);
        let policy =
            RetryPolicy { tries: 1, dead_letter_folder: Some("/db/dead".into()), ..RetryPolicy::default() };
        let definition = Definition { policy, ..Definition::default() };
        let (folder, other) = (Path::new("/db/jobs"), Path::new("/db/copy"));
        engine.create(Path::new("/db/dead"), &Definition::default()).unwrap();
        engine.create(folder, &definition).unwrap();
        let (dead, queue) = (engine.open(Path::new("/db/dead")).unwrap(), engine.open(folder).unwrap());
        put(&queue, b"row");
        let token = leased(&queue, Duration::from_secs(1_000_000));
        let dying = queue.clone();
        let nacker = thread::spawn(move || assert_eq!(dying.nack(&[token], None, "").unwrap(), 1));
        queue.begin_copy().unwrap();
        engine.create(other, &definition).unwrap();
        let copy = engine.open(other).unwrap();
        let mut cursor = queue.copy_cursor(true);
        while let Some((_, row)) = cursor.advance().unwrap() {
            put(&copy, row);
        }
        queue.copied_to(&copy).unwrap();
        engine.rename(folder, Path::new("/db/away")).unwrap();
        queue.replaced_by(&copy, || engine.rename(other, folder)).unwrap();
        queue.end_copy();
        nacker.join().unwrap();
        copy.move_dead_letters().unwrap();
        assert_eq!((copy.rows(), dead.rows()), (0, 1));
    };
    check(scenario);
}

/// Rows become due while they are added, and while sessions begin to wait: each session is given one.
#[test]
fn rows_that_become_due_reach_who_waits() {
    static WALL_MS: AtomicU64 = AtomicU64::new(0);
    let scenario = || {
        WALL_MS.store(0, Ordering::Relaxed);
        let now_ms = || WALL_MS.load(Ordering::Relaxed);
        let options = Options { threads: 0, up_ms: now_ms, ..Options::new(now_ms, || [5; 16]) };
        let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
        let column = |name: &str, at| {
            let (kind, layout) = (Kind::Integer { signed: true }, ColumnLayout::Fixed(at, 1));
            Column { name: name.to_owned(), kind, layout, null_bit: None, members: Vec::new() }
        };
        let columns = vec![column("due", 0), column("priority", 1)];
        let schema = Schema { null_bytes: 0, fixed_bytes: 2, columns }.encode();
        let order = Order { due: Some(0), priority: Some(1), ..Order::default() };
        let folder = Path::new("/db/jobs");
        engine.create(folder, &Definition { schema, order, ..Definition::default() }).unwrap();
        let queue = engine.open(folder).unwrap();
        let target = all(&queue);
        let takers = [1, 2].map(|number| {
            let target = target.clone();
            thread::spawn(move || take(number, &[target]))
        });
        let adder = thread::spawn({
            let queue = queue.clone();
            move || {
                let mut session = session(3);
                session.publish_in_statement(&queue, &[&[1, 7]]).unwrap();
                put(&queue, &[1, 8]);
                session.end_statement(true).unwrap();
                // Who settles a row that is due already has a thread look.
                queue.end_due().unwrap();
            }
        });
        let timer = thread::spawn({
            let queue = queue.clone();
            move || {
                WALL_MS.store(1000, Ordering::Relaxed);
                queue.end_due().unwrap();
            }
        });
        timer.join().unwrap();
        adder.join().unwrap();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(queue.rows(), 0);
    };
    check(scenario);
}
