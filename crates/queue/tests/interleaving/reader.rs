//! Readers of one queue, and rows that are given again, at the same time.

use std::path::Path;
use std::sync::Arc;

use disk::faults::FaultDisk;
use queue::{Definition, Engine, Options, Queue, RetainedFilter, Sync, Target};
use shuttle::thread;

use crate::{all, check, put, take};

/// A queue that keeps rows, with these readers.
fn keeping(sync: Sync, readers: &[&str]) -> (Engine, Arc<Queue>) {
    let options = Options { threads: 0, segment_bytes: 300, ..Options::new(|| 1000, || [5; 16]) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    let readers = readers.iter().map(|&name| name.to_owned()).collect();
    let definition = Definition { sync, keep_ms: 60_000, readers, ..Definition::default() };
    engine.create(Path::new("/db/jobs"), &definition).unwrap();
    let queue = engine.open(Path::new("/db/jobs")).unwrap();
    (engine, queue)
}

/// However the ends of a row meet, it is given to each reader, and the last end is noticed.
#[test]
fn the_last_of_the_readers_ends_a_row() {
    for sync in [Sync::Always, Sync::Never] {
        let scenario = move || {
            let (_engine, queue) = keeping(sync, &["a", "b"]);
            let mut threads = vec![thread::spawn({
                let queue = queue.clone();
                move || (0..2).for_each(|_| put(&queue, b"row"))
            })];
            for (number, reader) in [(1, 0), (2, 1), (3, 1)] {
                let target = Target { reader: Some(reader), ..all(&queue) };
                threads.push(thread::spawn(move || take(number, &[target])));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let lags: Vec<(u64, u64)> =
                queue.readers().unwrap().iter().map(|of| (of.waiting, of.owned)).collect();
            assert_eq!((lags, queue.status().waiters), (vec![(1, 0), (0, 0)], 0));
            assert_eq!((queue.rows(), queue.status().kept), (1, 1));
        };
        check(scenario);
    }
}

/// A row that is asked for twice at once is given again once, and whoever waits for it is woken.
#[test]
fn a_row_is_given_again_once() {
    for sync in [Sync::Always, Sync::Never] {
        let scenario = move || {
            let (_engine, queue) = keeping(sync, &[]);
            put(&queue, b"row");
            take(1, &[all(&queue)]);
            let taker = thread::spawn({
                let queue = queue.clone();
                move || take(2, &[all(&queue)])
            });
            let askers = [3, 4].map(|_| {
                let queue = queue.clone();
                thread::spawn(move || queue.replay(&RetainedFilter::all()).unwrap())
            });
            let given: u64 = askers.into_iter().map(|asker| asker.join().unwrap()).sum();
            taker.join().unwrap();
            // It may have been ended again between the two.
            assert_eq!(queue.status().counters.replayed, given);
            let rows = queue.rows();
            assert_eq!((given, queue.status().kept), (1 + rows, 1 - rows));
        };
        check(scenario);
    }
}
