//! A queue whose rows say when they are due and which come first is stopped at every sync, and what was not
//! synced is dropped, kept, torn or scattered. A row that was not ended is there, and given when it is due
//! and not before, and in order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Definition, Engine, Error, Order, Queue, Sync};

use crate::support::{
    FOLDER, WHOLE, all, log_bytes, ordered, pass_ms, poll, session, set_wall, states_of_cuts, texts, timed,
    wall, whole_row, xid,
};

const BEGIN_MS: u64 = 1_700_000_000_000;

/// When each row is due, as far as clients know when the queue stops.
#[derive(Default)]
struct Expected {
    rows: BTreeMap<String, u64>,
    /// Rows that are being published or ended, or may be back because nobody waited for a sync.
    unsure: BTreeMap<String, u64>,
}

fn open(disk: &FaultDisk, create: Option<Sync>) -> Result<(Engine, Arc<Queue>), Error> {
    let engine = Engine::start(Arc::new(disk.clone()), timed(500)).unwrap();
    if let Some(sync) = create {
        let definition = ordered(sync, WHOLE, Order { due: Some(0), priority: Some(1), ..Order::default() });
        engine.create(Path::new(FOLDER), &Definition { transactional: true, ..definition })?;
    }
    let queue = engine.open(Path::new(FOLDER))?;
    Ok((engine, queue))
}

/// Which of them come first.
fn priority_of(text: &str) -> i64 {
    text.parse::<i64>().unwrap() * 5 % 3
}

fn run(queue: &Arc<Queue>, expected: &mut Expected, sync: Sync) -> Result<(), Error> {
    for round in 0..6u64 {
        let row = |number: u64| {
            let due_ms = wall() + number * 7 % 4 * 2000;
            let text = format!("{:020}", round * 4 + number);
            let due = i64::try_from(due_ms / 1000).unwrap();
            (whole_row(Some(due), Some(priority_of(&text)), &text), (text, due_ms))
        };
        let (bytes, rows): (Vec<_>, Vec<_>) = (0..4).map(row).unzip();
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        expected.unsure.extend(rows.clone());
        if round % 2 == 0 {
            queue.publish(&bytes, None)?;
            queue.sync()?;
        } else {
            let mut transaction = session(1).begin(queue)?;
            transaction.publish(&bytes)?;
            let prepared = transaction.prepare(&xid(round))?;
            queue.maintain()?;
            prepared.commit()?;
        }
        expected.unsure.retain(|text, _| !rows.iter().any(|(new, _)| new == text));
        expected.rows.extend(rows);
        let mut taker = session(2);
        taker.wait(&[all(queue)], &mut poll(2))?;
        for text in texts(&taker, queue) {
            let due_ms = expected.rows.remove(&text).unwrap();
            expected.unsure.insert(text, due_ms);
        }
        taker.end()?;
        if sync == Sync::Always {
            expected.unsure.clear();
        }
        pass_ms(2000);
        if round % 3 == 2 { queue.compact()? } else { queue.maintain()? }
    }
    Ok(())
}

fn compare(queue: &Arc<Queue>, expected: &Expected) -> Result<(), String> {
    for _ in 0..5 {
        queue.end_due().map_err(|error| error.to_string())?;
        for xid in queue.recover() {
            queue.commit_by_xid(&xid).map_err(|error| error.to_string())?;
        }
        let mut taker = session(3);
        taker.wait(&[all(queue)], &mut poll(100)).map_err(|error| error.to_string())?;
        let there = texts(&taker, queue);
        taker.abort().map_err(|error| error.to_string())?;
        if !there.is_sorted_by_key(|text| (priority_of(text), text.clone())) {
            return Err(format!("{there:?} is not in order"));
        }
        for text in &there {
            match expected.rows.get(text).or(expected.unsure.get(text)) {
                None => return Err(format!("{text} is back")),
                Some(due_ms) if *due_ms > wall() => return Err(format!("{text} is too early")),
                Some(_) => {}
            }
        }
        let lost = expected.rows.iter().find(|(text, due_ms)| **due_ms <= wall() && !there.contains(text));
        if let Some((text, _)) = lost {
            return Err(format!("{text} is lost"));
        }
        pass_ms(2000);
    }
    Ok(())
}

#[test]
fn a_row_is_given_once_it_is_due_over_crashes() {
    for sync in [Sync::Always, Sync::Interval] {
        let play = |disk: &FaultDisk| {
            set_wall(BEGIN_MS);
            let mut expected = Expected::default();
            let opened = open(disk, Some(sync)).ok();
            opened.map(|(engine, queue)| {
                run(&queue, &mut expected, sync).ok();
                drop(engine);
                expected
            })
        };
        let calm = FaultDisk::default();
        play(&calm).unwrap();
        for stop in 0..=calm.syncs() {
            let disk = FaultDisk::stopping_at(stop);
            let expected = play(&disk);
            let now_ms = wall();
            for unsynced in Unsynced::ALL {
                set_wall(now_ms);
                let after = disk.after_crash(unsynced);
                let failed = |what: String| panic!("{sync:?}, stopped at sync {stop}, {unsynced:?}: {what}");
                match (open(&after, None), &expected) {
                    (Ok((_engine, queue)), Some(expected)) => {
                        compare(&queue, expected).unwrap_or_else(failed)
                    }
                    (Err(Error::Missing { .. }) | Ok(_), None) => {}
                    (Err(error), _) => failed(error.to_string()),
                }
            }
        }
    }
}

/// The log ends after each of its bytes: then a prefix of what was done is there.
#[test]
fn a_log_that_is_cut_at_any_byte_has_what_came_before() {
    set_wall(BEGIN_MS);
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), timed(1 << 20)).unwrap();
    engine
        .create(Path::new(FOLDER), &ordered(Sync::Always, WHOLE, Order { due: Some(0), ..Order::default() }))
        .unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let begin = log_bytes(&disk).1.len();
    let at = |ms: u64| whole_row(Some(i64::try_from(ms / 1000).unwrap()), None, "text");
    queue.publish(&[&at(BEGIN_MS + 5000), &at(BEGIN_MS)], None).unwrap();
    queue.publish(&[&at(BEGIN_MS + 1000), &at(BEGIN_MS + 9000)], None).unwrap();
    let states = states_of_cuts(&disk, begin, |found| (found.waiting, found.delayed));
    assert_eq!(states, [(0, 0), (1, 1), (1, 3)]);
    set_wall(BEGIN_MS + 5000);
    let states = states_of_cuts(&disk, begin, |found| (found.waiting, found.delayed));
    assert_eq!(states, [(0, 0), (2, 0), (3, 1)]);
}
