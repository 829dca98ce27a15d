//! Random operations with leases and policies, from seeds, against a model that is a map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::FaultDisk;
use queue::{Definition, Engine, Queue, RetryPolicy, RowId, Session, Sync, Target, Token, WaitOutcome};

use crate::support::{
    DEAD, FOLDER, Random, all, definition, limited, only, pass_ms, poll, seen, session, timed,
};

const SEEDS: u64 = 60;
const STEPS: usize = 300;

/// What a row is doing. Times are those of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Wait,
    /// A session owns it.
    Owned,
    LeasedRows(u64),
    Delayed(u64),
    /// Its lease is over, and it waits until then.
    Late(u64),
    /// It has no tries left, and nowhere to go.
    Dead,
}

#[derive(Clone, Debug)]
struct Row {
    text: String,
    does: Does,
    failed: u64,
    /// The token that is good for it, unless somebody has taken it.
    token: Option<Token>,
    why: String,
}

/// A queue beside its model.
struct Run {
    disk: FaultDisk,
    engine: Option<Engine>,
    queue: Arc<Queue>,
    taker: Session,
    policy: RetryPolicy,
    dead: Option<Arc<Queue>>,
    /// The rows there, with their failed tries and reasons.
    dead_lettered: Vec<(String, u64, String)>,
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
        let policy = match seed / 3 % 4 {
            0 => RetryPolicy::default(),
            1 => limited(3, "0.05,2,0.3", false),
            buries => limited(buries, "0.04,1,0", true),
        };
        let of = |policy| Definition { policy, ..definition(sync) };
        engine.create(Path::new(FOLDER), &of(policy.clone())).unwrap();
        engine
            .create(Path::new(DEAD), &of(RetryPolicy { shows_delivery_info: true, ..RetryPolicy::default() }))
            .unwrap();
        drop(engine);
        let (engine, queue) = open(&disk);
        let dead = policy.dead_letter_folder.as_ref().map(|dead| engine.open(dead).unwrap());
        let (rows, tokens, random) = (BTreeMap::new(), Vec::new(), Random::new(seed));
        let (engine, taker, dead_lettered) = (Some(engine), session(1), Vec::new());
        Run {
            disk,
            engine,
            queue,
            taker,
            policy,
            dead,
            dead_lettered,
            rows,
            next: 1,
            now: 0,
            last: 0,
            tokens,
            random,
        }
    }

    /// What becomes of a row when a try has failed.
    fn fail(&mut self, id: u64, delay: Option<u64>, expired: bool) {
        let policy = &self.policy;
        let Some(row) = self.rows.get_mut(&id) else { return };
        row.failed += 1;
        let wait = delay.unwrap_or_else(|| match policy.backoff.first_ms {
            50 => [50, 100, 200, 300][usize::try_from(row.failed - 1).unwrap().min(3)],
            first => first,
        });
        row.does = match wait {
            _ if policy.tries > 0 && row.failed >= policy.tries => Does::Dead,
            0 => Does::Wait,
            wait if expired => Does::Late(self.now + wait),
            wait => Does::Delayed(self.now + wait),
        };
    }

    /// Moves rows that have no tries left.
    fn move_dead_letters(&mut self) {
        self.queue.move_dead_letters().unwrap();
        if self.dead.is_some() {
            let dead: Vec<u64> =
                self.rows.iter().filter(|(_, row)| row.does == Does::Dead).map(|(id, _)| *id).collect();
            for id in dead {
                let row = self.rows.remove(&id).unwrap();
                self.dead_lettered.push((row.text, row.failed, row.why));
            }
        }
    }

    fn publish(&mut self) {
        let class = ["a", "b"][usize::try_from(self.random.below(2)).unwrap()];
        let text = format!("{class}{}", "-".repeat(usize::try_from(self.random.below(60)).unwrap()));
        self.queue.publish(&[text.as_bytes()], None).unwrap();
        self.rows
            .insert(self.next, Row { text, does: Does::Wait, failed: 0, token: None, why: String::new() });
        self.next += 1;
    }

    fn target(&mut self) -> (Target, &'static str) {
        let class = ["", "a", "b"][usize::try_from(self.random.below(3)).unwrap()];
        let target = if class.is_empty() { all(&self.queue) } else { only(&self.queue, class) };
        (target, class)
    }

    /// The rows that a consumer of this class gets.
    fn first(&mut self, class: &str, count: usize) -> Vec<u64> {
        self.end_due();
        let waiting =
            self.rows.iter().filter(|(_, row)| row.does == Does::Wait && row.text.starts_with(class));
        waiting.map(|(id, _)| *id).take(count).collect()
    }

    fn end_due(&mut self) {
        let mut over = Vec::new();
        for (id, row) in &mut self.rows {
            match row.does {
                Does::LeasedRows(until) if until <= self.now => over.push(*id),
                Does::Delayed(until) | Does::Late(until) if until <= self.now => row.does = Does::Wait,
                _ => {}
            }
        }
        over.into_iter().for_each(|id| self.fail(id, None, true));
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
            (row.does, row.token) = (Does::LeasedRows(self.now + length), Some(leased.token));
            self.tokens.push((leased.token, leased.row.0));
        }
    }

    fn wait(&mut self) {
        self.rows.retain(|_, row| row.does != Does::Owned);
        let (target, class) = self.target();
        let expected = self.first(class, 2);
        let waited = self.taker.wait(&[target], &mut poll(2)).unwrap();
        assert_eq!(waited == WaitOutcome::Taken(0), !expected.is_empty());
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
        let leased = row.as_ref().is_some_and(|row| matches!(row.does, Does::LeasedRows(_)));
        let expired = row.as_ref().is_some_and(|row| matches!(row.does, Does::Wait | Does::Late(_)));
        let length = self.random.below(3) * 50;
        let span = Duration::from_millis(length);
        let what = self.random.below(4);
        let delay = (self.random.below(2) == 0).then_some(length);
        let why = ["", "one", "other"][usize::try_from(self.random.below(3)).unwrap()];
        let good = leased || expired && what < 2;
        let done = match what {
            0 => self.queue.ack(&[token]).unwrap(),
            1 => self.queue.extend(&[token], span).unwrap(),
            2 => self.queue.nack(&[token], delay.map(|_| span), why).unwrap(),
            _ => self.queue.release(&[token]).unwrap(),
        };
        assert_eq!(done, u64::from(good), "{what} {row:?}");
        if !good {
            return;
        }
        if what == 2 {
            self.fail(id, delay, false);
        }
        let keeps = self.policy.is_set() && !why.is_empty();
        let Some(row) = self.rows.get_mut(&id) else { return };
        match what {
            0 => drop(self.rows.remove(&id)),
            1 => row.does = Does::LeasedRows(self.now + length),
            2 => {
                row.token = None;
                if keeps {
                    row.why = why.to_owned();
                }
            }
            _ => (row.does, row.token) = (Does::Wait, None),
        }
    }

    fn reopen(&mut self) {
        self.taker = session(1);
        self.dead = None;
        drop(self.engine.take());
        let (engine, queue) = open(&self.disk);
        self.dead = self.policy.dead_letter_folder.as_ref().map(|dead| engine.open(dead).unwrap());
        (self.engine, self.queue) = (Some(engine), queue);
        self.rows.values_mut().filter(|row| row.does == Does::Owned).for_each(|row| row.does = Does::Wait);
    }

    fn truncate(&mut self) {
        self.queue.truncate().unwrap();
        self.rows.clear();
        self.next = 1;
    }

    /// The connection ends, and another one begins.
    fn cut(&mut self) {
        self.taker.close().unwrap();
        let owned = self.rows.iter().filter(|(_, row)| row.does == Does::Owned);
        for id in owned.map(|(id, _)| *id).collect::<Vec<_>>() {
            if self.policy.is_set() {
                self.fail(id, None, false);
            } else {
                self.rows.get_mut(&id).unwrap().does = Does::Wait;
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.publish(),
            25..45 => self.lease(),
            45..70 => self.use_token(),
            70..76 => self.wait(),
            76..79 => self.finish(),
            79..81 => self.cut(),
            81..90 => {
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
        self.move_dead_letters();
        let count = |does: fn(Does) -> bool| self.rows.values().filter(|row| does(row.does)).count() as u64;
        let status = self.queue.status();
        assert_eq!(status.leased, count(|does| matches!(does, Does::LeasedRows(_))));
        assert_eq!(status.delayed, count(|does| matches!(does, Does::Delayed(_) | Does::Late(_))));
        assert_eq!(status.dead, count(|does| does == Does::Dead));
        assert_eq!(status.owned, count(|does| does != Does::Wait));
        let free = self.rows.iter().filter(|(_, row)| row.does == Does::Wait);
        let free: Vec<_> = free.map(|(id, row)| (RowId(*id), row.text.clone())).collect();
        assert_eq!(seen(&session(9), &self.queue), free);
        let Some(dead) = &self.dead else { return };
        let (mut cursor, mut there) = (session(9).cursor(dead), Vec::new());
        while let Some((_, row)) = cursor.advance().unwrap() {
            let text = String::from_utf8(row.to_vec()).unwrap();
            there.push((text, cursor.delivery_info().failed, cursor.delivery_info().why.to_string()));
        }
        there.sort();
        self.dead_lettered.sort();
        assert_eq!(there, self.dead_lettered);
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
    while !run.rows.values().any(|row| matches!(row.does, Does::LeasedRows(_))) {
        run.step();
        run.check();
    }
    let tokens: Vec<Token> = run.rows.values().filter_map(|row| row.token).collect();
    run.queue.release(&tokens).unwrap();
    run.check();
}
