//! A queue whose rows run out of tries is stopped at every sync, with the queue that they go to; what was not
//! synced is dropped, kept, torn or scattered, and recovery is stopped at every sync too. A row that was not
//! ended is in exactly one of the two.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Definition, Engine, Error, Queue, RetryPolicy, Sync, Token};

use crate::support::{
    DEAD, FOLDER, all, definition, limited, log_bytes, pass_ms, poll, session, states_of_cuts, timed,
};

/// What clients know when the queues stop.
#[derive(Default)]
struct Expected {
    rows: BTreeSet<String>,
    /// Rows that are being published or ended.
    unsure: BTreeSet<String>,
    /// Whether a row may have been ended, and be back because nobody waited for a sync.
    forgets: bool,
    ended: BTreeSet<String>,
}

struct QueueAndDeadLetters {
    engine: Engine,
    queue: Arc<Queue>,
    dead: Arc<Queue>,
}

fn open(disk: &FaultDisk, create: Option<(Sync, Sync)>) -> Result<QueueAndDeadLetters, Error> {
    let engine = Engine::start(Arc::new(disk.clone()), timed(600)).unwrap();
    if let Some((sync, of_dead)) = create {
        let of = |policy, sync| Definition { policy, ..definition(sync) };
        engine.create(
            Path::new(DEAD),
            &of(RetryPolicy { shows_delivery_info: true, ..RetryPolicy::default() }, of_dead),
        )?;
        engine.create(Path::new(FOLDER), &of(limited(2, "1,1,0", true), sync))?;
    }
    let (dead, queue) = (engine.open(Path::new(DEAD))?, engine.open(Path::new(FOLDER))?);
    Ok(QueueAndDeadLetters { engine, queue, dead })
}

fn publish(queue: &Queue, expected: &mut Expected, first: u64, count: u64) -> Result<(), Error> {
    let rows: Vec<String> = (first..first + count).map(|number| format!("{number:030}")).collect();
    expected.unsure.extend(rows.clone());
    queue.publish(&rows.iter().map(|row| row.as_bytes()).collect::<Vec<_>>(), None)?;
    queue.sync()?;
    expected.unsure.clear();
    expected.rows.extend(rows);
    Ok(())
}

fn run(both: &QueueAndDeadLetters, expected: &mut Expected) -> Result<(), Error> {
    let queue = &both.queue;
    for round in 0..6 {
        publish(queue, expected, round * 3, 3)?;
        let (_, leased) = session(1).lease(&[all(queue)], &mut poll(3), Duration::from_secs(5))?;
        let Some(mut leased) = leased else { continue };
        let tokens: Vec<Token> = leased.rows().iter().map(|row| row.token).collect();
        match round % 3 {
            0 => drop(queue.nack(&tokens, Some(Duration::ZERO), "because")?),
            1 => {
                let mut cursor = leased.cursor();
                let row = cursor.advance()?.map(|(_, row)| String::from_utf8(row.to_vec()).unwrap());
                expected.unsure.extend(row.clone());
                queue.ack(&tokens[..1])?;
                expected.unsure.clear();
                row.into_iter().for_each(|row| {
                    expected.rows.remove(&row);
                    expected.ended.insert(row);
                });
                queue.nack(&tokens[1..], None, "")?;
                queue.maintain()?;
            }
            _ => {
                pass_ms(5000);
                queue.end_due()?;
                let mut taker = session(2);
                taker.wait(&[all(queue)], &mut poll(1))?;
                taker.close()?;
                queue.compact()?;
                both.dead.maintain()?;
            }
        }
        pass_ms(1000);
        queue.end_due()?;
    }
    Ok(())
}

fn compare(both: &QueueAndDeadLetters, expected: &Expected) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    both.queue.move_dead_letters().map_err(text)?;
    if both.queue.status().dead > 0 {
        return Err("rows without tries left stay".to_owned());
    }
    // Leases are over, and so is the wait after that.
    for _ in 0..2 {
        pass_ms(60_000);
        both.queue.end_due().map_err(text)?;
    }
    let mut there = Vec::new();
    for queue in [&both.queue, &both.dead] {
        let mut cursor = session(3).cursor(queue);
        while let Some((_, row)) = cursor.advance().map_err(text)? {
            there.push(String::from_utf8(row.to_vec()).unwrap());
        }
    }
    let set: BTreeSet<&String> = there.iter().collect();
    if set.len() < there.len() {
        return Err(format!("a row is there twice: {there:?}"));
    }
    let lost = expected.rows.iter().find(|row| !set.contains(row) && !expected.unsure.contains(*row));
    let may_be = |row: &str| {
        expected.rows.contains(row)
            || expected.unsure.contains(row)
            || expected.forgets && expected.ended.contains(row)
    };
    let back = there.iter().find(|row| !may_be(row));
    if lost.is_some() || back.is_some() { Err(format!("lost {lost:?}, back {back:?}")) } else { Ok(()) }
}

/// Opens what the crash left, and stops that too at each sync.
fn check(after: &FaultDisk, expected: Option<&Expected>) -> Result<(), String> {
    for sync in 0.. {
        let disk = after.after_crash(Unsynced::Keep);
        disk.stop_in(sync);
        let both = match open(&disk, None) {
            Ok(both) => both,
            Err(Error::Disk { .. }) if disk.is_stopped() => continue,
            Err(Error::Missing { .. }) if expected.is_none() => return Ok(()),
            Err(error) => return Err(format!("opening: {error}")),
        };
        let moved = both.queue.move_dead_letters();
        if !disk.is_stopped() {
            disk.stop_in(u64::MAX / 2);
            moved.map_err(|error| error.to_string())?;
            return expected.map_or(Ok(()), |expected| compare(&both, expected));
        }
        // It stopped while rows were moved.
        drop(both);
        let again = open(&disk.after_crash(Unsynced::Drop), None).map_err(|error| error.to_string())?;
        expected.map_or(Ok(()), |expected| compare(&again, expected))?;
    }
    Ok(())
}

fn everywhere(sync: Sync, of_dead: Sync) {
    let play = |disk: &FaultDisk| {
        let mut expected = Expected { forgets: sync != Sync::Always, ..Expected::default() };
        let both = open(disk, Some((sync, of_dead)));
        let expected = both.ok().map(|both| {
            run(&both, &mut expected).ok();
            drop(both.engine);
            expected
        });
        expected.filter(|_| disk.names().iter().any(|name| name.ends_with("checkpoint")))
    };
    let calm = FaultDisk::default();
    let expected = play(&calm).unwrap();
    let dead = open(&calm.after_crash(Unsynced::Keep), None).unwrap().dead.rows();
    assert!(dead >= 4 && expected.rows.len() as u64 > dead, "{dead} of {}", expected.rows.len());
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let expected = play(&disk);
        for unsynced in Unsynced::ALL {
            check(&disk.after_crash(unsynced), expected.as_ref()).unwrap_or_else(|what| {
                panic!("{sync:?}, {of_dead:?}, stopped at sync {stop}, {unsynced:?}: {what}")
            });
        }
    }
}

#[test]
fn tries_dead_exactly_once() {
    everywhere(Sync::Always, Sync::Always);
    everywhere(Sync::Always, Sync::Never);
    everywhere(Sync::Interval, Sync::Always);
}

/// The log ends after each of its bytes: then a prefix of what was done is there.
#[test]
fn a_log_with_a_policy_that_is_cut_at_any_byte_has_what_came_before() {
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), timed(1 << 20)).unwrap();
    let of = |policy| Definition { policy, ..definition(Sync::Always) };
    engine.create(Path::new(FOLDER), &of(limited(1, "1,1,0", false))).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    queue.publish(&[b"a", b"b"], None).unwrap();
    let begin = log_bytes(&disk).1.len();
    let (_, leased) = session(1).lease(&[all(&queue)], &mut poll(2), Duration::from_secs(10)).unwrap();
    let tokens: Vec<Token> = leased.unwrap().rows().iter().map(|leased| leased.token).collect();
    queue.sync().unwrap();
    queue.nack(&tokens[..1], None, "it broke").unwrap();
    queue.sync().unwrap();
    let states = states_of_cuts(&disk, begin, |found| (found.waiting, found.leased, found.dead));
    assert_eq!(states, [(2, 0, 0), (0, 2, 0), (0, 1, 1)]);
}
