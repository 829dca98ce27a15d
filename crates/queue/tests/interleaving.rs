//! Waiting and waking under a scheduler that tries interleavings: `cargo test -p queue --features shuttle
//! --test interleaving`. A lost wake-up leaves a thread waiting for ever, and the scheduler reports that as a
//! deadlock.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "interleaving/commit_ordered.rs"]
mod commit_ordered;
#[path = "interleaving/dedupe.rs"]
mod dedupe;
#[path = "interleaving/fifo.rs"]
mod fifo;
#[path = "interleaving/give_back.rs"]
mod give_back;
#[path = "interleaving/reader.rs"]
mod reader;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use disk::faults::FaultDisk;
use queue::{
    Definition, Engine, Error, Filter, Options, OwnerId, Queue, Session, Sync, Target, WaitOptions,
    WaitOutcome, Xid,
};
use shuttle::thread;

const SCHEDULES: usize = 400;

/// The clock of all queues.
static UP_MS: AtomicU64 = AtomicU64::new(0);

/// An engine and `count` queues in it.
fn queues(count: usize, sync: Sync) -> (Engine, Vec<Arc<Queue>>) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let random = || u128::from(NEXT.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
    let up_ms = || UP_MS.load(Ordering::Relaxed);
    let options = Options { threads: 0, segment_bytes: 300, up_ms, ..Options::new(|| 0, random) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    let definition = Definition { sync, transactional: true, ..Definition::default() };
    let open = |number: usize| {
        let folder = format!("/db/{number}");
        engine.create(Path::new(&folder), &definition).unwrap();
        engine.open(Path::new(&folder)).unwrap()
    };
    let queues = (0..count).map(open).collect();
    (engine, queues)
}

fn session(number: u64) -> Session {
    Session::new(OwnerId(number))
}

fn all(queue: &Arc<Queue>) -> Target {
    Target { queue: queue.clone(), filter: None, reader: None }
}

fn put(queue: &Queue, row: &[u8]) {
    queue.publish(&[row], None).unwrap();
}

/// Rows with this first byte.
struct First(u8, String);

impl Filter for First {
    fn text(&self) -> &str {
        &self.1
    }

    fn matches(&self, row: &[u8]) -> bool {
        row.first() == Some(&self.0)
    }
}

fn only(queue: &Arc<Queue>, first: u8) -> Target {
    Target { queue: queue.clone(), filter: Some(Arc::new(First(first, first.to_string()))), reader: None }
}

fn check(scenario: impl Fn() + Send + std::marker::Sync + Copy + 'static) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, 3);
}

/// Takes one row and ends it.
fn take(number: u64, targets: &[Target]) {
    let mut session = session(number);
    assert!(matches!(session.wait(targets, &mut WaitOptions::forever()).unwrap(), WaitOutcome::Taken(_)));
    assert_eq!(session.owned_rows().unwrap().1.len(), 1);
    session.end().unwrap();
}

#[test]
fn publishers_and_takers_meet() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Always);
        let queue = queues[0].clone();
        let mut threads = Vec::new();
        for number in 0..2 {
            let target = all(&queue);
            threads.push(thread::spawn(move || take(number, &[target])));
            let queue = queue.clone();
            threads.push(thread::spawn(move || put(&queue, b"row")));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((queue.status().waiting, queue.status().owned, queue.status().waiters), (0, 0, 0));
    });
}

/// A row that is ended while its queue is replaced is gone from the replacement, and nobody owns it there.
#[test]
fn a_row_ended_while_its_queue_is_replaced_does_not_come_back() {
    for sync in [Sync::Always, Sync::Never] {
        let scenario = move || {
            let (_engine, queues) = queues(2, sync);
            let [old, new] = [queues[0].clone(), queues[1].clone()];
            old.publish(&[b"a", b"b"], None).unwrap();
            let mut owner = session(1);
            owner.wait(&[all(&old)], &mut WaitOptions::poll()).unwrap();
            old.begin_copy().unwrap();
            let ending = thread::spawn(move || owner.end().unwrap());
            let mut cursor = old.copy_cursor(true);
            while let Some((_, row)) = cursor.advance().unwrap() {
                new.publish(&[row], None).unwrap();
            }
            old.replaced_by(&new, || Ok(())).unwrap();
            ending.join().unwrap();
            old.end_copy();
            assert_eq!((new.status().waiting, new.status().owned), (1, 0));
        };
        check(scenario);
    }
}

#[test]
fn a_row_given_back_reaches_who_waits_for_it_behind_a_condition() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Never);
        let queue = queues[0].clone();
        queue.publish(&[b"a", b"b"], None).unwrap();
        let mut owner = session(1);
        owner.wait(&[only(&queue, b'a')], &mut WaitOptions::forever()).unwrap();
        let target = only(&queue, b'a');
        let taker = thread::spawn(move || take(2, &[target]));
        let second = queue.clone();
        let other = thread::spawn(move || {
            let mut three = session(3);
            three.wait(&[only(&second, b'b')], &mut WaitOptions::poll()).unwrap();
            three.abort().unwrap();
        });
        owner.abort().unwrap();
        taker.join().unwrap();
        other.join().unwrap();
        assert_eq!(queue.status().waiting, 1);
    });
}

#[test]
fn what_a_transaction_adds_or_gives_back_reaches_who_waits_for_it() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Never);
        let queue = queues[0].clone();
        put(&queue, b"back");
        let mut owner = session(1);
        let mut transaction = owner.begin(&queue).unwrap();
        assert_eq!(owner.wait(&[all(&queue)], &mut WaitOptions::poll()).unwrap(), WaitOutcome::Taken(0));
        assert!(owner.end_within(&mut transaction));
        let mut threads = Vec::new();
        for (number, first) in [(2, b'b'), (3, b'n')] {
            let target = only(&queue, first);
            threads.push(thread::spawn(move || take(number, &[target])));
        }
        threads.push(thread::spawn(move || {
            let preparing = transaction.begin_prepare(&Xid::new(1, b"one", b"").unwrap()).unwrap();
            preparing.finish().unwrap().rollback().unwrap();
        }));
        let writer = queue.clone();
        threads.push(thread::spawn(move || {
            let mut transaction = session(4).begin(&writer).unwrap();
            transaction.publish(&[b"new"]).unwrap();
            let preparing = transaction.begin_prepare(&Xid::new(1, b"two", b"").unwrap()).unwrap();
            assert!(preparing.finish().unwrap().commit_remembered());
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(queue.rows(), 0);
    });
}

#[test]
fn one_of_two_decides_whoever_else_writes() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Always);
        let queue = queues[0].clone();
        let mut transaction = session(1).begin(&queue).unwrap();
        transaction.publish(&[b"row"]).unwrap();
        let xid = Xid::new(1, b"one", b"").unwrap();
        transaction.prepare(&xid).unwrap();
        let decide = |commit: bool| {
            let (queue, xid) = (queue.clone(), xid.clone());
            thread::spawn(move || {
                let decided = if commit { queue.commit_by_xid(&xid) } else { queue.rollback_by_xid(&xid) };
                assert!(matches!(decided, Ok(()) | Err(Error::UnknownTransaction)));
                decided.is_ok()
            })
        };
        let (commit, rollback) = (decide(true), decide(false));
        let writer = queue.clone();
        let writer = thread::spawn(move || put(&writer, b"other"));
        queue.maintain().unwrap();
        let committed = commit.join().unwrap();
        assert_ne!(committed, rollback.join().unwrap());
        writer.join().unwrap();
        assert_eq!(queue.rows(), 1 + u64::from(committed));
    });
}

#[test]
fn a_queue_is_not_replaced_while_a_transaction_is_prepared() {
    check(|| {
        let (_engine, queues) = queues(2, Sync::Always);
        let (queue, copy) = (queues[0].clone(), queues[1].clone());
        let mut transaction = session(1).begin(&queue).unwrap();
        transaction.publish(&[b"row"]).unwrap();
        let preparing =
            thread::spawn(move || transaction.prepare(&Xid::new(1, b"one", b"").unwrap()).is_ok());
        let replaced = queue.begin_copy().and_then(|()| queue.replaced_by(&copy, || Ok(()))).is_ok();
        assert!(!(preparing.join().unwrap() && replaced), "a prepared transaction is lost");
    });
}

#[test]
fn a_waiter_on_two_queues_is_given_one_row_and_the_other_stays() {
    check(|| {
        let (_engine, queues) = queues(2, Sync::Always);
        let [one, two] = [queues[0].clone(), queues[1].clone()];
        let targets = [all(&one), all(&two)];
        let reversed = [all(&two), all(&one)];
        let takers = [thread::spawn(move || take(1, &targets)), thread::spawn(move || take(2, &reversed))];
        let publishers =
            [one.clone(), two.clone(), two.clone()].map(|queue| thread::spawn(move || put(&queue, b"row")));
        takers.into_iter().for_each(|thread| thread.join().unwrap());
        publishers.into_iter().for_each(|thread| thread.join().unwrap());
        let left = one.status().waiting + two.status().waiting;
        assert_eq!((left, one.status().owned + two.status().owned), (1, 0));
        assert_eq!(one.status().waiters + two.status().waiters, 0);
    });
}

#[test]
fn the_first_target_is_preferred_whoever_publishes_first() {
    check(|| {
        let (_engine, queues) = queues(2, Sync::Never);
        let [high, low] = [queues[0].clone(), queues[1].clone()];
        let publisher = thread::spawn({
            let (high, low) = (high.clone(), low.clone());
            move || {
                high.publish(&[b"row"], None).unwrap();
                low.publish(&[b"row"], None).unwrap();
            }
        });
        // A row was in `high` before one was in `low`, so a session that looks at both never takes from
        // `low`.
        let waited = session(1).wait(&[all(&high), all(&low)], &mut WaitOptions::forever()).unwrap();
        assert_eq!(waited, WaitOutcome::Taken(0));
        publisher.join().unwrap();
    });
}

#[test]
fn an_interrupt_ends_a_wait_and_loses_no_row() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Never);
        let queue = queues[0].clone();
        let mut waiting = session(1);
        let interrupter = waiting.interrupter();
        let killed = Arc::new(AtomicBool::new(false));
        let target = all(&queue);
        let waiter = thread::spawn({
            let killed = killed.clone();
            move || {
                let mut alive = || !killed.load(Ordering::SeqCst);
                let mut patience = WaitOptions { alive: Some(&mut alive), ..WaitOptions::forever() };
                let waited = waiting.wait(&[target], &mut patience).unwrap();
                waiting.close().unwrap();
                waited
            }
        });
        let publisher = thread::spawn({
            let queue = queue.clone();
            move || put(&queue, b"row")
        });
        killed.store(true, Ordering::SeqCst);
        interrupter.interrupt();
        waiter.join().unwrap();
        publisher.join().unwrap();
        assert_eq!((queue.status().waiting, queue.status().owned), (1, 0));
    });
}

#[test]
fn one_write_at_a_time_and_everybody_returns() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Always);
        let queue = queues[0].clone();
        let publishers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || {
                    (0..2).for_each(|_| put(&queue, &[b'x'; 60]));
                })
            })
            .collect();
        let tidy = thread::spawn({
            let queue = queue.clone();
            move || queue.compact().unwrap()
        });
        queue.sync().unwrap();
        publishers.into_iter().for_each(|thread| thread.join().unwrap());
        tidy.join().unwrap();
        assert_eq!(queue.status().waiting, 6);
    });
}

#[test]
fn emptying_meets_publishers_takers_and_tidying() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Always);
        let queue = queues[0].clone();
        (0..4).for_each(|_| put(&queue, &[b'x'; 60]));
        let taker = thread::spawn({
            let queue = queue.clone();
            move || {
                let mut session = session(1);
                session.wait(&[all(&queue)], &mut WaitOptions::poll()).unwrap();
                session.end().unwrap();
            }
        });
        let tidy = thread::spawn({
            let queue = queue.clone();
            move || queue.compact().unwrap()
        });
        let publisher = thread::spawn({
            let queue = queue.clone();
            move || put(&queue, b"new")
        });
        queue.truncate().unwrap();
        [taker, tidy, publisher].into_iter().for_each(|thread| thread.join().unwrap());
        let status = queue.status();
        assert!(status.waiting <= 1 && status.owned == 0, "{status:?}");
    });
}

/// The canary: a condition that breaks its word. It refuses a row first and would accept it later, so a
/// session waits while a matching row is there. The harness must report this waiter, which is never woken.
struct Moody(AtomicBool);

impl Filter for Moody {
    fn text(&self) -> &'static str {
        "moody"
    }

    fn matches(&self, _: &[u8]) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_harness_reports_a_lost_wake_up() {
    check(|| {
        let (_engine, queues) = queues(1, Sync::Never);
        let filter = Arc::new(Moody(AtomicBool::new(false)));
        let target = Target { queue: queues[0].clone(), filter: Some(filter), reader: None };
        let taker = thread::spawn(move || take(1, &[target]));
        queues[0].publish(&[b"row"], None).unwrap();
        taker.join().unwrap();
    });
}
