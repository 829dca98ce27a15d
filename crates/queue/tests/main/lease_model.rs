//! Random operations with leases, from seeds, against a model that is a map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::FaultDisk;
use queue::{Engine, Queue, RowId, Session, Sync, Target, Token, Waited};

use crate::support::{FOLDER, Random, all, definition, only, pass_ms, poll, seen, session, timed};

const SEEDS: u64 = 60;
const STEPS: usize = 300;

/// What a row is doing. Times are those of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Wait,
    /// A session owns it.
    Owned,
    Leased(u64),
    Delayed(u64),
}

#[derive(Clone, Debug)]
struct Row {
    text: String,
    does: Does,
    failed: u64,
    /// The token that is good for it, unless somebody has taken it.
    token: Option<Token>,
}

/// A queue beside its model.
struct Run {
    disk: FaultDisk,
    engine: Option<Engine>,
    queue: Arc<Queue>,
    taker: Session,
    rows: BTreeMap<u64, Row>,
    next: u64,
    now: u64,
    last: u64,
    /// All tokens that there were, with their rows.
    tokens: Vec<(Token, u64)>,
    random: Random,
}

fn open(disk: &FaultDisk) -> (Engine, Arc<Queue>) {
    let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (engine, queue)
}

impl Run {
    fn new(seed: u64) -> Run {
        let disk = FaultDisk::default();
        let sync = [Sync::Always, Sync::Interval, Sync::Never][usize::try_from(seed % 3).unwrap()];
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        engine.create(Path::new(FOLDER), &definition(sync)).unwrap();
        drop(engine);
        let (engine, queue) = open(&disk);
        let (rows, tokens, random) = (BTreeMap::new(), Vec::new(), Random::new(seed));
        let (engine, taker) = (Some(engine), session(1));
        Run { disk, engine, queue, taker, rows, next: 1, now: 0, last: 0, tokens, random }
    }

    fn publish(&mut self) {
        let class = ["a", "b"][usize::try_from(self.random.below(2)).unwrap()];
        let text = format!("{class}{}", "-".repeat(usize::try_from(self.random.below(60)).unwrap()));
        self.queue.publish(&[text.as_bytes()], None).unwrap();
        self.rows.insert(self.next, Row { text, does: Does::Wait, failed: 0, token: None });
        self.next += 1;
    }

    fn target(&mut self) -> (Target, &'static str) {
        let class = ["", "a", "b"][usize::try_from(self.random.below(3)).unwrap()];
        let target = if class.is_empty() { all(&self.queue) } else { only(&self.queue, class) };
        (target, class)
    }

    /// The rows that a taker of this class gets.
    fn first(&mut self, class: &str, count: usize) -> Vec<u64> {
        self.end_due();
        let waiting =
            self.rows.iter().filter(|(_, row)| row.does == Does::Wait && row.text.starts_with(class));
        waiting.map(|(id, _)| *id).take(count).collect()
    }

    fn end_due(&mut self) {
        for row in self.rows.values_mut() {
            match row.does {
                Does::Leased(until) if until <= self.now => {
                    (row.does, row.failed) = (Does::Wait, row.failed + 1);
                }
                Does::Delayed(until) if until <= self.now => row.does = Does::Wait,
                _ => {}
            }
        }
    }

    fn lease(&mut self) {
        let count = usize::try_from(1 + self.random.below(3)).unwrap();
        let length = 1 + self.random.below(400);
        let (target, class) = self.target();
        let expected = self.first(class, count);
        let mut session = session(2);
        let (_, leased) = session.lease(&[target], &mut poll(count), Duration::from_millis(length)).unwrap();
        let leased = leased.map(|leased| leased.rows().to_vec()).unwrap_or_default();
        assert_eq!(leased.iter().map(|leased| leased.row.0).collect::<Vec<_>>(), expected);
        for leased in leased {
            let row = self.rows.get_mut(&leased.row.0).unwrap();
            assert_eq!(leased.tries, row.failed + 1);
            assert!(leased.token.number > self.last);
            self.last = leased.token.number;
            (row.does, row.token) = (Does::Leased(self.now + length), Some(leased.token));
            self.tokens.push((leased.token, leased.row.0));
        }
    }

    fn wait(&mut self) {
        self.rows.retain(|_, row| row.does != Does::Owned);
        let (target, class) = self.target();
        let expected = self.first(class, 2);
        let waited = self.taker.wait(&[target], &mut poll(2)).unwrap();
        assert_eq!(waited == Waited::Taken(0), !expected.is_empty());
        for id in expected {
            self.rows.get_mut(&id).unwrap().does = Does::Owned;
        }
    }

    fn finish(&mut self) {
        if self.random.below(2) == 0 {
            self.taker.end().unwrap();
            self.rows.retain(|_, row| row.does != Does::Owned);
        } else {
            self.taker.abort().unwrap();
            self.rows
                .values_mut()
                .filter(|row| row.does == Does::Owned)
                .for_each(|row| row.does = Does::Wait);
        }
    }

    /// Does something with a token; most are stale.
    fn use_token(&mut self) {
        if self.tokens.is_empty() {
            return;
        }
        let back = 1 + usize::try_from(self.random.below(8)).unwrap().min(self.tokens.len() - 1);
        let (token, id) = self.tokens[self.tokens.len() - back];
        // The queue notices what is over when somebody looks.
        self.queue.end_due().unwrap();
        self.end_due();
        let row = self.rows.get(&id).filter(|row| row.token == Some(token)).cloned();
        let leased = row.as_ref().is_some_and(|row| matches!(row.does, Does::Leased(_)));
        let expired = row.as_ref().is_some_and(|row| row.does == Does::Wait);
        let length = self.random.below(3) * 50;
        let span = Duration::from_millis(length);
        let what = self.random.below(4);
        let good = leased || expired && what < 2;
        let done = match what {
            0 => self.queue.ack(&[token]).unwrap(),
            1 => self.queue.extend(&[token], span).unwrap(),
            2 => self.queue.nack(&[token], span).unwrap(),
            _ => self.queue.release(&[token]).unwrap(),
        };
        assert_eq!(done, u64::from(good), "{what} {row:?}");
        if !good {
            return;
        }
        let Some(row) = self.rows.get_mut(&id) else { return };
        match what {
            0 => drop(self.rows.remove(&id)),
            1 => row.does = Does::Leased(self.now + length),
            2 => {
                let does = if length == 0 { Does::Wait } else { Does::Delayed(self.now + length) };
                (row.does, row.failed, row.token) = (does, row.failed + 1, None);
            }
            _ => (row.does, row.token) = (Does::Wait, None),
        }
    }

    fn reopen(&mut self) {
        self.taker = session(1);
        drop(self.engine.take());
        let (engine, queue) = open(&self.disk);
        (self.engine, self.queue) = (Some(engine), queue);
        self.rows.values_mut().filter(|row| row.does == Does::Owned).for_each(|row| row.does = Does::Wait);
    }

    fn truncate(&mut self) {
        self.queue.truncate().unwrap();
        self.rows.clear();
        self.next = 1;
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.publish(),
            25..45 => self.lease(),
            45..70 => self.use_token(),
            70..76 => self.wait(),
            76..80 => self.finish(),
            80..90 => {
                let ms = self.random.below(150);
                pass_ms(ms);
                self.now += ms;
            }
            90..93 => self.queue.maintain().unwrap(),
            93..95 => self.queue.compact().unwrap(),
            95..99 => self.reopen(),
            _ => self.truncate(),
        }
    }

    fn check(&mut self) {
        self.queue.end_due().unwrap();
        self.end_due();
        let count = |does: fn(Does) -> bool| self.rows.values().filter(|row| does(row.does)).count() as u64;
        let status = self.queue.status();
        assert_eq!(status.leased, count(|does| matches!(does, Does::Leased(_))));
        assert_eq!(status.delayed, count(|does| matches!(does, Does::Delayed(_))));
        assert_eq!(status.owned, count(|does| does != Does::Wait));
        let free = self.rows.iter().filter(|(_, row)| row.does == Does::Wait);
        let free: Vec<_> = free.map(|(id, row)| (RowId(*id), row.text.clone())).collect();
        assert_eq!(seen(&session(9), &self.queue), free);
    }
}

#[test]
fn random_operations_with_leases_do_what_the_model_does() {
    for seed in 1..=SEEDS {
        // Shown by the test runner when something below fails.
        println!("seed {seed}");
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
            if run.random.below(2) == 0 {
                run.check();
            }
        }
    }
}

/// The canary: a queue that gives a leased row back too early.
#[test]
#[should_panic(expected = "left == right")]
fn the_model_rejects_a_lease_that_ends_early() {
    let mut run = Run::new(1);
    while !run.rows.values().any(|row| matches!(row.does, Does::Leased(_))) {
        run.step();
        run.check();
    }
    let tokens: Vec<Token> = run.rows.values().filter_map(|row| row.token).collect();
    run.queue.release(&tokens).unwrap();
    run.check();
}
