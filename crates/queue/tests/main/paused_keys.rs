//! A key that is paused: nobody is given a row of it until it is resumed, over restarts, crashes and ALTER
//! TABLE. Others go on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use condition::Kind;
use disk::faults::{FaultDisk, Unsynced};
use queue::{Definition, DeliveryRate, Engine, Error, Order, Queue, Sync, WaitOptions, WaitOutcome};

use crate::fifo::{FIFO, put, take};
use crate::support::{FOLDER, TestQueue, WHOLE, all, altered, ordered, poll, session, texts, timed};

const RATED: Order = Order { rate_key: Some(0), fifo: None, ..FIFO };

/// Queues with keys: the number in a text.
fn keyed(sync: Sync) -> [Definition; 2] {
    let rate = Some(DeliveryRate { rows: 1000, span_ms: 1000 });
    [ordered(sync, WHOLE, FIFO), Definition { rate, ..ordered(sync, WHOLE, RATED) }]
}

fn pause(queue: &Queue, key: i64) -> bool {
    queue.set_key_paused(&key.to_le_bytes(), true).unwrap()
}

fn resume(queue: &Queue, key: i64) -> bool {
    queue.set_key_paused(&key.to_le_bytes(), false).unwrap()
}

#[test]
fn nobody_is_given_a_row_of_a_key_until_it_is_resumed() {
    for definition in [Sync::Always, Sync::Interval, Sync::Never].into_iter().flat_map(keyed) {
        let TestQueue { queue, engine, disk } = TestQueue::new(&definition);
        let (mut owner, mut taker) = (session(1), session(2));
        put(&queue, &["a1", "a2", "a-"]);
        assert_eq!(take(&mut owner, &queue, 1), ["a1"]);
        assert!(pause(&queue, 1) && !pause(&queue, 1) && pause(&queue, 3));
        assert_eq!((queue.status().keys_paused, queue.status().paused), (2, 0));
        put(&queue, &["b1", "b2", "b-"]);
        // A row that was given is returned, and ended, as ever.
        owner.abort().unwrap();
        assert_eq!(queue.status().behind, if definition.order == FIFO { 3 } else { 2 });
        let others =
            if definition.order == FIFO { vec!["a2", "a-", "b-"] } else { vec!["a2", "a-", "b2", "b-"] };
        assert_eq!(take(&mut taker, &queue, 9), others);
        taker.end().unwrap();
        // Over a restart, and emptying it.
        queue.truncate().unwrap();
        put(&queue, &["c1", "c2"]);
        assert_eq!(queue.status().keys_paused, 2);
        assert_eq!(take(&mut taker, &queue, 9), ["c2"]);
        taker.abort().unwrap();
        let opened = TestQueue { disk, engine, queue }.reopened();
        assert_eq!(opened.queue.status().keys_paused, 2);
        assert_eq!(take(&mut taker, &opened.queue, 9), ["c2"]);
        assert!(resume(&opened.queue, 1) && !resume(&opened.queue, 1));
        assert_eq!(take(&mut taker, &opened.queue, 9), ["c1"]);
        taker.close().unwrap();
        let opened = opened.reopened();
        assert_eq!(opened.queue.status().keys_paused, 1);
        assert!(opened.queue.resume_keys().unwrap() && !opened.queue.resume_keys().unwrap());
        assert_eq!(opened.queue.status().keys_paused, 0);
        let names: Vec<_> =
            opened.disk.names().into_iter().filter(|name| name.ends_with("paused-keys")).collect();
        assert_eq!(
            names,
            [""; 0].map(std::path::PathBuf::from),
            "without paused keys it has the files of any queue"
        );
    }
}

#[test]
fn who_waits_is_given_a_row_when_its_key_is_resumed() {
    for definition in keyed(Sync::Always) {
        let TestQueue { queue, engine, .. } = TestQueue::new(&definition);
        pause(&queue, 1);
        put(&queue, &["a1"]);
        let waiter = std::thread::spawn({
            let queue = queue.clone();
            move || {
                let mut taker = session(1);
                let mut options =
                    WaitOptions { timeout: Some(Duration::from_secs(60)), ..WaitOptions::poll() };
                (taker.wait(&[all(&queue)], &mut options).unwrap(), texts(&taker, &queue))
            }
        });
        while queue.status().waiters == 0 {
            std::thread::yield_now();
        }
        resume(&queue, 1);
        assert_eq!(waiter.join().unwrap(), (WaitOutcome::Taken(0), vec!["a1".to_owned()]));
        drop(engine);
    }
}

#[test]
fn alter_table_keeps_keys_paused_or_is_refused() {
    for definition in keyed(Sync::Always) {
        let TestQueue { queue, engine, .. } = TestQueue::new(&definition);
        put(&queue, &["a1", "a2"]);
        pause(&queue, 1);
        let fifo = |column| Order { fifo: Some(column), ..Order::default() };
        for (kind, order) in [
            (WHOLE, Order::default()),
            // Other columns, one of them of the same type; and one of another type with as many bytes.
            (WHOLE, fifo(2)),
            (WHOLE, fifo(1)),
            ((Kind::Opaque, WHOLE.1), fifo(0)),
        ] {
            let error = altered(&engine, &queue, &ordered(Sync::Always, kind, order)).unwrap_err();
            assert!(matches!(error, Error::KeysPaused { keys: 1 }), "{error}");
        }
        // The other policy with the same column has the same keys.
        let [fifo, rated] = keyed(Sync::Always);
        let other = if definition.order == FIFO { rated } else { fifo };
        let new = altered(&engine, &queue, &other).unwrap();
        assert_eq!(new.status().keys_paused, 1);
        let mut taker = session(1);
        assert_eq!(take(&mut taker, &new, 9), ["a2"]);
        resume(&new, 1);
        assert_eq!(session(2).wait(&[all(&new)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
        taker.end().unwrap();
        let plain = altered(&engine, &new, &ordered(Sync::Always, WHOLE, Order::default())).unwrap();
        assert!(matches!(plain.set_key_paused(&[1], true), Err(Error::NoKeys)));
        assert!(!plain.resume_keys().unwrap());
        // Nothing of it stays behind.
        drop((queue, new, plain, taker));
        engine.remove(Path::new(FOLDER)).unwrap();
    }
}

/// After each sync, and each write, the keys that are paused are those that it was last said, or those that
/// were about to be.
#[test]
fn keys_are_paused_or_not_over_crashes() {
    let play = |disk: &FaultDisk| {
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        if engine.create(Path::new(FOLDER), &keyed(Sync::Always)[0]).is_err() {
            return None;
        }
        let queue = engine.open(Path::new(FOLDER)).ok()?;
        let steps = [(1, true), (2, true), (1, false), (3, true), (0, false), (4, true)];
        let counts = [1, 2, 1, 2, 0, 1];
        let mut known = vec![0];
        for ((key, paused), count) in steps.into_iter().zip(counts) {
            known.push(count);
            let changed = match key {
                0 => queue.resume_keys(),
                key => queue.set_key_paused(&i64::to_le_bytes(key), paused),
            };
            if changed.is_err() {
                return Some(known);
            }
            known = vec![count];
        }
        Some(known)
    };
    let calm = FaultDisk::default();
    assert_eq!(play(&calm), Some(vec![1]));
    let mut unsure = 0;
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let Some(known) = play(&disk) else { continue };
        unsure += known.len() - 1;
        for unsynced in Unsynced::ALL {
            let engine = Engine::start(Arc::new(disk.after_crash(unsynced)), timed(700)).unwrap();
            let paused = engine.open(Path::new(FOLDER)).unwrap().status().keys_paused;
            assert!(known.contains(&paused), "stopped at sync {stop}, {unsynced:?}: {paused} of {known:?}");
        }
    }
    assert!(unsure >= 5, "{unsure}");
}

/// Once the file has its name, nobody knows which of both a crash would leave: the queue is out of service.
#[test]
fn a_pause_that_fails_changes_nothing_or_ends_the_service() {
    let play = |disk: &FaultDisk, ended: &mut [u32; 2]| {
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        let created = engine.create(Path::new(FOLDER), &keyed(Sync::Never)[0]);
        let Some(queue) = created.ok().and_then(|()| engine.open(Path::new(FOLDER)).ok()) else { return };
        let mut before = 0;
        for (key, paused, count) in [(1_i64, true, 1), (2, true, 2), (2, false, 1), (1, false, 0)] {
            if queue.set_key_paused(&key.to_le_bytes(), paused).is_ok() {
                before = count;
                continue;
            }
            let is_usable = queue.read(queue::RowId(1)).is_ok();
            ended[usize::from(is_usable)] += 1;
            if is_usable {
                assert_eq!(queue.status().keys_paused, before);
                drop((queue, engine));
                let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
                assert_eq!(engine.open(Path::new(FOLDER)).unwrap().status().keys_paused, before);
            }
            return;
        }
    };
    let (calm, mut ended) = (FaultDisk::default(), [0, 0]);
    play(&calm, &mut ended);
    (0..=calm.syncs()).for_each(|at| play(&FaultDisk::failing_at(at), &mut ended));
    assert!(ended[0] >= 3 && ended[1] >= 3, "{ended:?}");
}
