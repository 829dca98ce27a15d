//! Rows of the same key, which are given one after the other whoever takes them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use condition::{Column, ColumnLayout, Kind, Schema};
use disk::faults::FaultDisk;
use queue::{Definition, Engine, Options, Order, Queue, Session, Sync, Target, WaitOptions, WaitOutcome};
use shuttle::thread;

use crate::{UP_MS, all, check, put, session};

/// A queue whose rows are a key and a number.
fn fifo(sync: Sync) -> (Engine, Arc<Queue>) {
    let up_ms = || UP_MS.load(Ordering::Relaxed);
    let options = Options { threads: 0, up_ms, ..Options::new(|| 0, || [5; 16]) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    let (kind, layout) = (Kind::Integer { signed: false }, ColumnLayout::Fixed(0, 1));
    let columns = vec![Column { name: "key".to_owned(), kind, layout, null_bit: None, members: Vec::new() }];
    let schema = Schema { null_bytes: 0, fixed_bytes: 2, columns }.encode();
    let order = Order { fifo: Some(0), ..Order::default() };
    let definition = Definition { sync, schema, order, transactional: true, ..Definition::default() };
    engine.create(Path::new("/db/jobs"), &definition).unwrap();
    let queue = engine.open(Path::new("/db/jobs")).unwrap();
    (engine, queue)
}

/// What is in flight of a key, and how far it is.
#[derive(Default)]
struct Key {
    busy: AtomicBool,
    last: AtomicU8,
}

impl Key {
    fn begin(&self, number: u8) {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two rows of the key are in flight");
        assert!(self.last.swap(number, Ordering::SeqCst) < number, "out of order");
    }

    /// The row may be given to somebody again.
    fn give_back(&self, number: u8) {
        self.last.store(number - 1, Ordering::SeqCst);
        self.busy.store(false, Ordering::SeqCst);
    }
}

fn number_of(session: &Session, queue: &Arc<Queue>) -> u8 {
    session.cursor(queue).advance().unwrap().unwrap().1[1]
}

/// Two sessions take four rows of a key, and give two back before: the next one comes when the one before is
/// gone.
#[test]
fn rows_of_a_key_reach_who_waits_one_after_the_other() {
    for (sync, leases) in [(Sync::Always, false), (Sync::Never, false), (Sync::Never, true)] {
        let scenario = move || {
            let (_engine, queue) = fifo(sync);
            put(&queue, &[7, 1]);
            let key = Arc::new(Key::default());
            let takers = [1, 2].map(|owner| {
                let (target, queue, key) = (all(&queue), queue.clone(), key.clone());
                thread::spawn(move || {
                    let mut session = session(owner);
                    if leases {
                        lease_two(&mut session, &target, &key)
                    } else {
                        take_two(&mut session, &queue, &key)
                    }
                })
            });
            let adder = thread::spawn({
                let queue = queue.clone();
                move || (2..5).for_each(|number| put(&queue, &[7, number]))
            });
            adder.join().unwrap();
            takers.into_iter().for_each(|taker| taker.join().unwrap());
            assert_eq!((queue.rows(), queue.status().behind), (0, 0));
        };
        check(scenario);
    }
}

/// Takes a row and gives it back, and then takes two and ends them.
fn take_two(session: &mut Session, queue: &Arc<Queue>, key: &Key) {
    for back in [true, false, false] {
        session.wait(&[all(queue)], &mut WaitOptions::forever()).unwrap();
        let number = number_of(session, queue);
        key.begin(number);
        if back {
            key.give_back(number);
            session.abort().unwrap();
        } else {
            key.busy.store(false, Ordering::SeqCst);
            session.end().unwrap();
        }
    }
}

/// The same with leases.
fn lease_two(session: &mut Session, target: &Target, key: &Key) {
    let targets = std::slice::from_ref(target);
    for back in [true, false, false] {
        let hours = Duration::from_secs(1_000_000);
        let (_, leased) = session.lease(targets, &mut WaitOptions::forever(), hours).unwrap();
        let mut leased = leased.unwrap();
        let number = leased.cursor().advance().unwrap().unwrap().1[1];
        key.begin(number);
        let token = [leased.rows()[0].token];
        if back {
            key.give_back(number);
            assert_eq!(target.queue.nack(&token, None, "").unwrap(), 1);
        } else {
            key.busy.store(false, Ordering::SeqCst);
            assert_eq!(target.queue.ack(&token).unwrap(), 1);
        }
    }
}

/// A transaction that adds a row of the key is decided while others take: nobody waits for ever.
#[test]
fn a_key_goes_on_when_a_transaction_is_decided() {
    for commit in [true, false] {
        let scenario = move || {
            let (_engine, queue) = fifo(Sync::Never);
            let mut transaction = session(9).begin(&queue).unwrap();
            transaction.publish(&[&[7, 1]]).unwrap();
            let prepared = transaction.prepare(&queue::Xid::new(1, b"one", b"").unwrap()).unwrap();
            put(&queue, &[7, 2]);
            let taker = thread::spawn({
                let queue = queue.clone();
                move || {
                    let mut session = session(1);
                    let mut taken = Vec::new();
                    for _ in 0..1 + usize::from(commit) {
                        let waited = session.wait(&[all(&queue)], &mut WaitOptions::forever()).unwrap();
                        assert_eq!(waited, WaitOutcome::Taken(0));
                        taken.push(number_of(&session, &queue));
                    }
                    session.end().unwrap();
                    taken
                }
            });
            assert!(prepared.decide(commit));
            assert_eq!(taker.join().unwrap(), if commit { vec![1, 2] } else { vec![2] });
        };
        check(scenario);
    }
}
