//! A queue with leases is stopped at every sync; what was not synced is dropped, kept, torn or scattered, and
//! recovery is stopped at every sync too. A row whose end returned is gone, no other row is; a leased row is
//! leased under its token or waits; no number comes twice, and no try is counted that was not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Error, LeasedRow, Queue, RowId, Sync, Token};

use crate::support::{
    FOLDER, all, definition, log_bytes, pass_ms, poll, seen, session, states_of_cuts, timed,
};

/// What clients know when the queue stops.
#[derive(Clone, Default)]
struct Expected {
    /// Rows, and the tries that have failed or may have.
    rows: BTreeMap<RowId, u64>,
    /// Rows that are being published or ended: they may be there or not.
    unsure: Vec<RowId>,
    /// The tokens that are good unless they were lost.
    tokens: BTreeMap<RowId, Token>,
    /// The greatest number that anybody has.
    number: u64,
}

struct Script {
    _engine: Engine,
    queue: Arc<Queue>,
    expected: Expected,
}

fn start(disk: &FaultDisk) -> Engine {
    Engine::start(Arc::new(disk.clone()), timed(600)).unwrap()
}

impl Script {
    fn publish(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let rows: Vec<RowId> = (first..first + count).map(RowId).collect();
        self.expected.unsure.extend(&rows);
        let text = "z".repeat(40);
        self.queue.publish(&vec![text.as_bytes(); rows.len()], None)?;
        self.expected.unsure.clear();
        self.expected.rows.extend(rows.into_iter().map(|row| (row, 0)));
        Ok(())
    }

    fn lease(&mut self, count: usize) -> Result<Vec<LeasedRow>, Error> {
        let (_, leased) = session(1).lease(&[all(&self.queue)], &mut poll(count), Duration::from_secs(10))?;
        let leased = leased.map(|leased| leased.rows().to_vec()).unwrap_or_default();
        for leased in &leased {
            assert!(leased.token.number > self.expected.number);
            assert!(leased.tries > self.expected.rows[&leased.row]);
            self.expected.number = leased.token.number;
            self.expected.tokens.insert(leased.row, leased.token);
        }
        Ok(leased)
    }

    fn ack(&mut self, leased: &[LeasedRow]) -> Result<(), Error> {
        let tokens: Vec<Token> = leased.iter().map(|leased| leased.token).collect();
        self.expected.unsure.extend(leased.iter().map(|leased| leased.row));
        assert_eq!(self.queue.ack(&tokens)?, leased.len() as u64);
        self.expected.unsure.clear();
        leased.iter().for_each(|leased| {
            self.expected.rows.remove(&leased.row);
        });
        Ok(())
    }

    /// A row was given back: its token is no longer good, but a crash may forget that.
    fn nack(&mut self, leased: &[LeasedRow], delay: Duration) -> Result<(), Error> {
        let tokens: Vec<Token> = leased.iter().map(|leased| leased.token).collect();
        assert_eq!(self.queue.nack(&tokens, Some(delay), "")?, leased.len() as u64);
        leased.iter().for_each(|leased| *self.expected.rows.get_mut(&leased.row).unwrap() += 1);
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut next = 1;
        for round in 0..6 {
            self.publish(next, 4)?;
            next += 4;
            let leased = self.lease(3)?;
            match (round % 3, leased.as_slice()) {
                (0, [one, two, ..]) => {
                    self.ack(&[*one])?;
                    self.nack(&[*two], Duration::ZERO)?;
                }
                (1, [one, two, ..]) => {
                    self.nack(&[*one], Duration::from_secs(5))?;
                    self.queue.extend(&[two.token], Duration::from_secs(15))?;
                    self.queue.maintain()?;
                }
                (_, leased) => {
                    self.publish(next, 1)?;
                    next += 1;
                    self.queue.compact()?;
                    self.ack(leased)?;
                }
            }
        }
        // All that are leased expire.
        pass_ms(20_000);
        self.queue.end_due()?;
        let leased = self.lease(50)?;
        assert_eq!(leased.len(), self.expected.rows.len());
        Ok(())
    }
}

fn play(disk: &FaultDisk) -> (Option<Expected>, Result<(), Error>) {
    let engine = start(disk);
    let folder = Path::new(FOLDER);
    let opened = engine.create(folder, &definition(Sync::Always)).and_then(|()| engine.open(folder));
    match opened {
        Err(error) => (None, Err(error)),
        Ok(queue) => {
            let mut script = Script { _engine: engine, queue, expected: Expected::default() };
            let result = script.run();
            (Some(script.expected), result)
        }
    }
}

fn compare(queue: &Arc<Queue>, expected: &Expected) -> Result<(), String> {
    // Whether leased, delayed or not: all come back in time.
    let status = queue.status();
    if status.leased + status.delayed != status.owned {
        return Err(format!("somebody owns rows without a lease: {status:?}"));
    }
    let waiting: Vec<RowId> = seen(&session(8), queue).into_iter().map(|(row, _)| row).collect();
    for (row, token) in &expected.tokens {
        let good = queue.extend(&[*token], Duration::from_secs(10)).map_err(|error| error.to_string())?;
        let there = expected.rows.contains_key(row) && !expected.unsure.contains(row);
        if good == 0 && there && !waiting.contains(row) && status.delayed == 0 {
            return Err(format!("nobody can end {row:?}"));
        }
    }
    pass_ms(60_000);
    let (_, leased) = session(2)
        .lease(&[all(queue)], &mut poll(100), Duration::from_secs(1))
        .map_err(|error| error.to_string())?;
    let leased = leased.map(|leased| leased.rows().to_vec()).unwrap_or_default();
    let mut there: Vec<RowId> = Vec::new();
    for leased in leased {
        there.push(leased.row);
        if leased.token.number <= expected.number {
            return Err(format!("number {} again", leased.token.number));
        }
        let failed = expected.rows.get(&leased.row).copied().unwrap_or(0);
        // More: one that expired in the script, the one that the crash found, and this one.
        if leased.tries > failed + 3 {
            return Err(format!("{:?} has {} tries, and {failed} have failed", leased.row, leased.tries));
        }
    }
    let lost = expected.rows.keys().find(|row| !there.contains(row) && !expected.unsure.contains(row));
    let back = there.iter().find(|row| !expected.rows.contains_key(row) && !expected.unsure.contains(row));
    match (lost, back) {
        (None, None) => Ok(()),
        other => Err(format!("lost or back: {other:?}")),
    }
}

/// Opens what the crash left, and stops that too at each sync.
fn check(after: &FaultDisk, expected: Option<&Expected>) -> Result<(), String> {
    for sync in 0.. {
        let disk = after.after_crash(Unsynced::Keep);
        disk.stop_in(sync);
        let engine = start(&disk);
        match engine.open(Path::new(FOLDER)) {
            Ok(queue) => {
                disk.stop_in(u64::MAX / 2);
                return expected.map_or(Ok(()), |expected| compare(&queue, expected));
            }
            Err(Error::Disk { .. }) if disk.is_stopped() => {}
            Err(Error::Missing { .. }) if expected.is_none() => return Ok(()),
            Err(error) => return Err(format!("opening: {error}")),
        }
    }
    Ok(())
}

#[test]
fn wherever_it_stops_leases_lose_and_double_nothing() {
    let calm = FaultDisk::default();
    play(&calm).1.unwrap();
    assert!(calm.syncs() > 40, "{}", calm.syncs());
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let (expected, _) = play(&disk);
        for unsynced in Unsynced::ALL {
            check(&disk.after_crash(unsynced), expected.as_ref())
                .unwrap_or_else(|what| panic!("stopped at sync {stop}, {unsynced:?}: {what}"));
        }
    }
}

/// The log ends after each of its bytes: then a prefix of what was done is there.
#[test]
fn a_log_that_is_cut_at_any_byte_has_what_came_before() {
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), timed(1 << 20)).unwrap();
    engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    queue.publish(&[b"a", b"b", b"c"], None).unwrap();
    let begin = log_bytes(&disk).1.len();
    let (_, leased) = session(1).lease(&[all(&queue)], &mut poll(2), Duration::from_secs(10)).unwrap();
    let tokens: Vec<Token> = leased.unwrap().rows().iter().map(|leased| leased.token).collect();
    queue.sync().unwrap();
    queue.nack(&tokens[..1], Some(Duration::from_secs(5)), "").unwrap();
    queue.sync().unwrap();
    queue.ack(&tokens[1..]).unwrap();
    let states = states_of_cuts(&disk, begin, |found| (found.waiting, found.leased, found.delayed));
    assert_eq!(states, [(3, 0, 0), (1, 2, 0), (1, 1, 1), (1, 0, 1)]);
}
