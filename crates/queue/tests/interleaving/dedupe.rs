//! Rows with the same key that come at once: one of them is there, whoever fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use condition::{Column, ColumnLayout, Kind, Schema};
use disk::faults::FaultDisk;
use queue::{Dedupe, Definition, Engine, Options, Queue, Sync, WaitOptions, Xid};
use shuttle::thread;

use crate::{all, check, session, take};

/// A queue whose rows are a key and a number.
fn dedupe(sync: Sync, for_ms: u64) -> (Engine, Arc<Queue>) {
    let options = Options { threads: 0, ..Options::new(|| 1000, || [5; 16]) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    let (kind, layout) = (Kind::Integer { signed: false }, ColumnLayout::Fixed(0, 1));
    let columns = vec![Column { name: "key".to_owned(), kind, layout, null_bit: None, members: Vec::new() }];
    let schema = Schema { null_bytes: 0, fixed_bytes: 2, columns }.encode();
    let dedupe = Some(Dedupe { column: 0, for_ms });
    let definition = Definition { sync, schema, dedupe, transactional: true, ..Definition::default() };
    engine.create(Path::new("/db/jobs"), &definition).unwrap();
    let queue = engine.open(Path::new("/db/jobs")).unwrap();
    (engine, queue)
}

/// Adds a row in one of four ways.
fn add(queue: &Arc<Queue>, way: u8, who: u8) {
    let (row, mut session): (&[u8], _) = (&[7, who], session(u64::from(who)));
    match way {
        0 => drop(queue.publish_once(&[row]).unwrap()),
        1 => {
            session.publish_in_statement(queue, &[row]).unwrap();
            session.end_statement(true).unwrap();
        }
        _ => {
            let mut transaction = session.begin(queue).unwrap();
            transaction.publish(&[row]).unwrap();
            if way == 2 {
                transaction.commit_one_phase().unwrap();
            } else {
                transaction.prepare(&Xid::new(1, &[who], b"").unwrap()).unwrap().commit().unwrap();
            }
        }
    }
}

#[test]
fn of_rows_that_come_at_once_one_is_there() {
    for (sync, for_ms) in [(Sync::Always, 1000), (Sync::Never, 1000), (Sync::Always, 0), (Sync::Never, 0)] {
        // Each pair of ways.
        static PAIR: AtomicU64 = AtomicU64::new(0);
        let scenario = move || {
            let (_engine, queue) = dedupe(sync, for_ms);
            let pair = u8::try_from(PAIR.fetch_add(1, Ordering::Relaxed) % 16).unwrap();
            let adders = [(1, pair / 4), (2, pair % 4)].map(|(who, way)| {
                let queue = queue.clone();
                thread::spawn(move || add(&queue, way, who))
            });
            adders.into_iter().for_each(|adder| adder.join().unwrap());
            assert_eq!((queue.rows(), queue.status().counters.left_out), (1, 1));
        };
        check(scenario);
    }
}

/// With no time, a row that comes while another one is being worked on is not lost.
#[test]
fn a_row_that_comes_while_one_is_worked_on_is_there_or_was_taken_with_it() {
    check(|| {
        let (_engine, queue) = dedupe(Sync::Never, 0);
        queue.publish_once(&[&[7, 1]]).unwrap();
        let taker = thread::spawn({
            let queue = queue.clone();
            move || take(1, &[all(&queue)])
        });
        let left_out = queue.publish_once(&[&[7, 2]]).unwrap();
        taker.join().unwrap();
        // It was left out only if the first one was still to be taken.
        assert_eq!(queue.rows(), 1 - left_out);
        let mut session = session(2);
        session.wait(&[all(&queue)], &mut WaitOptions::poll()).unwrap();
    });
}
