//! Random operations on queues whose rows say when they are due, which come first, which one after the other,
//! which are left_out, or several of it, from seeds, against a model that is a map.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use disk::faults::FaultDisk;
use queue::{
    Dedupe, Definition, DeliveryRate, Engine, Filter, Order, Queue, RowId, Session, Sync, Target, WaitOutcome,
};

use crate::support::{
    FOLDER, Random, WHOLE, ordered, pass_ms, poll, prepared, session, set_wall, text_of, timed, wall,
    whole_row, xid,
};

const SEEDS: usize = 120;
const STEPS: usize = 250;
const SESSIONS: u64 = 3;
const CLASSES: [&str; 2] = ["a", "b"];
/// How many rows of a key are given within a time, in queues with such a limit.
const RATE: DeliveryRate = DeliveryRate { rows: 3, span_ms: 9000 };

/// Who has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Nobody,
    /// A session has taken it.
    Taker(u64),
    /// A statement of a session has added it.
    Adder(u64),
    /// A prepared transaction has added it.
    Prepared(u64),
}

struct Row {
    text: String,
    due_ms: u64,
    priority: i64,
    /// What its column of FIFO or RATE_KEY has.
    key: Option<String>,
    has: Has,
}

/// Rows of this class.
struct Class(&'static str);

impl Filter for Class {
    fn text(&self) -> &str {
        self.0
    }

    fn matches(&self, row: &[u8]) -> bool {
        text_of(row).starts_with(self.0)
    }
}

/// A queue beside its model.
struct Run {
    disk: FaultDisk,
    engine: Option<Engine>,
    queue: Arc<Queue>,
    order: Order,
    /// For how long a text leaves others out.
    dedupe: Option<u64>,
    /// When each text came, if that matters.
    came: BTreeMap<String, u64>,
    left_out: u64,
    /// Those before the queue was opened.
    left_out_before: u64,
    sessions: Vec<Session>,
    rows: BTreeMap<u64, Row>,
    /// When rows of a key were given since the queue was opened.
    given: Vec<(u64, String)>,
    paused: BTreeSet<String>,
    next: u64,
    xids: u64,
    random: Random,
}

impl Run {
    fn new(seed: u64) -> Run {
        set_wall(1_700_000_000_000);
        let disk = FaultDisk::default();
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        let sync = [Sync::Always, Sync::Interval, Sync::Never][usize::try_from(seed % 3).unwrap()];
        let (due, priority, fifo) = (Some(0), Some(1), Some(2));
        let orders = [
            Order { due, ..Order::default() },
            Order { priority, ..Order::default() },
            Order { due, priority, ..Order::default() },
            Order { fifo, ..Order::default() },
            Order { fifo: Some(1), ..Order::default() },
            Order { due, priority, fifo, ..Order::default() },
            Order { fifo, concurrency: 2, ..Order::default() },
            Order { due, priority, fifo, concurrency: 3, ..Order::default() },
            Order { priority, age_s: 2, ..Order::default() },
            Order { due, priority, fifo, concurrency: 2, age_s: 1, ..Order::default() },
            Order { rate_key: fifo, ..Order::default() },
            Order { due, priority, rate_key: fifo, ..Order::default() },
            Order { priority, rate_key: Some(1), fifo: Some(1), concurrency: 2, ..Order::default() },
        ];
        let order = orders[usize::try_from(seed / 3 % 13).unwrap()];
        let rate = order.rate_key.map(|_| RATE);
        let definition = Definition { rate, ..ordered(sync, WHOLE, order) };
        let for_ms = [None, Some(5000), Some(0)][usize::try_from(seed / 39 % 3).unwrap()];
        let dedupe = for_ms.map(|for_ms| Dedupe { column: 2, for_ms });
        engine.create(Path::new(FOLDER), &Definition { transactional: true, dedupe, ..definition }).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        let sessions = (0..SESSIONS).map(session).collect();
        let (rows, random, came) = (BTreeMap::new(), Random::new(seed), BTreeMap::new());
        let (dedupe, left_out, left_out_before, next, xids, engine) = (for_ms, 0, 0, 1, 0, Some(engine));
        Run {
            disk,
            engine,
            queue,
            order,
            dedupe,
            came,
            left_out,
            left_out_before,
            sessions,
            rows,
            given: Vec::new(),
            paused: BTreeSet::new(),
            next,
            xids,
            random,
        }
    }

    fn pick(&mut self) -> (u64, usize) {
        let number = self.random.below(SESSIONS);
        (number, usize::try_from(number).unwrap())
    }

    fn visible(&self) -> impl Iterator<Item = (u64, &str)> {
        let free = |row: &Row| row.has == Has::Nobody && row.due_ms <= wall();
        self.rows.iter().filter(move |(_, row)| free(row)).map(|(id, row)| (*id, row.text.as_str()))
    }

    /// Whether a visible row is among the first of its key: as many may be given as nobody has.
    fn is_ready(&self, id: u64) -> bool {
        let Some(key) = &self.rows[&id].key else { return true };
        if self.paused.contains(key) {
            return false;
        }
        let same = || self.rows.iter().filter(|(_, row)| row.key.as_ref() == Some(key));
        let owned = same().filter(|(_, row)| row.has != Has::Nobody).count();
        let free = match self.order.fifo {
            Some(_) => usize::try_from(self.order.concurrency.max(1)).unwrap().saturating_sub(owned),
            None => usize::MAX,
        };
        let recent = |(at, of): &&(u64, String)| of == key && at + RATE.span_ms > wall();
        let left = match self.order.rate_key {
            Some(_) => usize::try_from(RATE.rows).unwrap() - self.given.iter().filter(recent).count(),
            None => usize::MAX,
        };
        let mut waiting: Vec<(&u64, &Row)> =
            same().filter(|(_, row)| row.has == Has::Nobody && row.due_ms <= wall()).collect();
        if self.order.fifo.is_none() {
            waiting.sort_by_key(|(id, row)| (row.priority, **id));
        }
        waiting.into_iter().take(free.min(left)).any(|(first, _)| *first == id)
    }

    /// What may be given, in the order in which it is given.
    fn in_turn(&self) -> Vec<(u64, &str)> {
        let mut rows: Vec<(u64, &str)> = self.visible().filter(|(id, _)| self.is_ready(*id)).collect();
        rows.sort_by_key(|(id, _)| (self.rows[id].priority, *id));
        rows
    }

    /// Some rows, and their bytes.
    fn make(&mut self, has: Has) -> (Vec<Row>, Vec<Vec<u8>>) {
        let mut bytes = Vec::new();
        let mut rows = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let class = CLASSES[usize::try_from(self.random.below(2)).unwrap()];
            let text = format!("{class}{}", "-".repeat(usize::try_from(self.random.below(3)).unwrap() * 24));
            let due = (self.random.below(4) > 0).then(|| wall() / 1000 + self.random.below(20) - 4);
            let priority = [None, Some(-1), Some(0), Some(3)][usize::try_from(self.random.below(4)).unwrap()];
            bytes.push(whole_row(due.map(|due| i64::try_from(due).unwrap()), priority, &text));
            let due_ms = due.filter(|_| self.order.due.is_some()).unwrap_or(0) * 1000;
            let key = match self.order.group() {
                Some(2) => Some(text.clone()),
                Some(_) => priority.map(|key| key.to_string()),
                None => None,
            };
            let priority = priority.filter(|_| self.order.priority.is_some()).unwrap_or(0);
            let priority = match i64::from(self.order.age_s) {
                0 => priority,
                age_s => priority * age_s + i64::try_from(wall() / 1000).unwrap(),
            };
            rows.push(Row { text, due_ms, priority, key, has });
        }
        (rows, bytes)
    }

    /// Whether a row that would be seen now is none because another one with its text came before. If it is
    /// one, it came.
    fn is_double(&mut self, text: &str) -> bool {
        let Some(for_ms) = self.dedupe else { return false };
        let waits = self.rows.values().any(|row| row.text == text && row.has == Has::Nobody);
        let recent = self.came.get(text).is_some_and(|came| wall() - came < for_ms);
        let is_double = if for_ms == 0 { waits } else { recent };
        if is_double {
            self.left_out += 1;
        } else {
            self.came.insert(text.to_owned(), wall());
        }
        is_double
    }

    /// The rows of somebody are seen, but for left_out.
    fn show(&mut self, who: Has) {
        let ids: Vec<u64> = self.rows.iter().filter(|(_, row)| row.has == who).map(|(id, _)| *id).collect();
        for id in ids {
            let text = self.rows[&id].text.clone();
            if self.is_double(&text) {
                self.rows.remove(&id);
            } else {
                self.rows.get_mut(&id).unwrap().has = Has::Nobody;
            }
        }
    }

    fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            self.rows.insert(self.next, row);
            self.next += 1;
        }
    }

    fn publish(&mut self) {
        let (number, at) = self.pick();
        let unsettled = self.random.below(3) == 0;
        let (rows, bytes) = self.make(if unsettled { Has::Adder(number) } else { Has::Nobody });
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        if unsettled {
            self.sessions[at].publish_in_statement(&self.queue, &bytes).unwrap();
            self.add(rows);
            return;
        }
        let before = self.left_out;
        for row in rows {
            if !self.is_double(&row.text) {
                self.add(vec![row]);
            }
        }
        assert_eq!(self.queue.publish_once(&bytes).unwrap(), self.left_out - before);
    }

    /// A statement ends.
    fn settle(&mut self) {
        let ((number, at), keep) = (self.pick(), self.random.below(3) > 0);
        let before = self.left_out;
        if keep {
            self.show(Has::Adder(number));
        } else {
            self.free(Has::Adder(number), false);
        }
        assert_eq!(self.sessions[at].end_statement(keep).unwrap(), self.left_out - before);
    }

    fn free(&mut self, who: Has, keep: bool) {
        self.rows.retain(|_, row| keep || row.has != who);
        self.rows.values_mut().filter(|row| row.has == who).for_each(|row| row.has = Has::Nobody);
    }

    fn prepare(&mut self) {
        self.xids += 1;
        let (rows, bytes) = self.make(Has::Prepared(self.xids));
        let mut transaction = self.sessions[0].begin(&self.queue).unwrap();
        transaction.publish(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        transaction.prepare(&xid(self.xids)).unwrap();
        self.add(rows);
    }

    fn decide(&mut self) {
        let Some(number) = prepared(&self.queue).first().copied() else { return };
        let commit = self.random.below(2) == 0;
        if commit {
            self.queue.commit_by_xid(&xid(number)).unwrap();
            self.show(Has::Prepared(number));
        } else {
            self.queue.rollback_by_xid(&xid(number)).unwrap();
            self.free(Has::Prepared(number), false);
        }
    }

    fn wait(&mut self) {
        let rows_max = usize::try_from(1 + self.random.below(3)).unwrap();
        let class = [None, Some("a"), Some("b")][usize::try_from(self.random.below(3)).unwrap()];
        let filter = class.map(|class| Arc::new(Class(class)) as Arc<dyn Filter>);
        let target = Target { queue: self.queue.clone(), filter, reader: None };
        let (number, at) = self.pick();
        let waited = self.sessions[at].wait(&[target], &mut poll(rows_max)).unwrap();
        self.rows.retain(|_, row| row.has != Has::Taker(number));
        let in_turn = self.in_turn().into_iter();
        let matching = in_turn.filter(|(_, text)| class.is_none_or(|class| text.starts_with(class)));
        let taken: Vec<u64> = matching.map(|(id, _)| id).take(rows_max).collect();
        assert_eq!(waited, if taken.is_empty() { WaitOutcome::TimedOut } else { WaitOutcome::Taken(0) });
        for id in taken {
            let row = self.rows.get_mut(&id).unwrap();
            row.has = Has::Taker(number);
            self.given.extend(row.key.iter().map(|key| (wall(), key.clone())));
        }
    }

    fn finish(&mut self) {
        let ((number, at), how) = (self.pick(), self.random.below(3));
        let session = &mut self.sessions[at];
        match how {
            0 => session.end().unwrap(),
            1 => session.abort().unwrap(),
            _ => session.close().unwrap(),
        }
        self.free(Has::Taker(number), how > 0);
        if how == 2 {
            self.free(Has::Adder(number), false);
        }
    }

    /// Pauses a key or resumes it, or resumes all.
    fn pause(&mut self) {
        let (text, number) = (CLASSES[usize::try_from(self.random.below(2)).unwrap()], self.random.below(3));
        let (key, bytes) = match self.order.group() {
            Some(2) => (text.to_owned(), text.as_bytes().to_vec()),
            Some(_) => {
                let number = [-1, 0, 3][usize::try_from(number).unwrap()];
                (number.to_string(), i64::to_le_bytes(number).to_vec())
            }
            None => return assert!(self.queue.set_key_paused(&[], true).is_err()),
        };
        match self.random.below(5) {
            0..3 => assert_eq!(self.queue.set_key_paused(&bytes, true).unwrap(), self.paused.insert(key)),
            3 => assert_eq!(self.queue.set_key_paused(&bytes, false).unwrap(), self.paused.remove(&key)),
            _ => {
                assert_eq!(self.queue.resume_keys().unwrap(), !self.paused.is_empty());
                self.paused.clear();
            }
        }
        assert_eq!(self.queue.status().keys_paused, self.paused.len() as u64);
    }

    fn delete(&mut self) {
        let ids: Vec<u64> = (0..6).map(|_| self.random.below(self.next + 2)).collect();
        let (number, at) = self.pick();
        let rows: Vec<RowId> = ids.iter().copied().map(RowId).collect();
        self.sessions[at].delete(&self.queue, &rows).unwrap();
        let may = |row: &Row| match row.has {
            Has::Nobody => true,
            Has::Taker(who) | Has::Adder(who) => who == number,
            Has::Prepared(_) => false,
        };
        self.rows.retain(|id, row| !(ids.contains(id) && may(row)));
    }

    fn reopen(&mut self) {
        if self.dedupe.is_some() {
            // Else it would depend on the files which of their rows are known to have come.
            (0..SESSIONS).for_each(|number| self.free(Has::Adder(number), false));
            self.sessions.iter_mut().for_each(|session| assert_eq!(session.end_statement(false).unwrap(), 0));
        }
        self.sessions = (0..SESSIONS).map(session).collect();
        drop(self.engine.take());
        let engine = Engine::start(Arc::new(self.disk.clone()), timed(700)).unwrap();
        self.queue = engine.open(Path::new(FOLDER)).unwrap();
        self.engine = Some(engine);
        self.left_out_before = self.left_out;
        self.given.clear();
        let gone = self.rows.values_mut().filter(|row| !matches!(row.has, Has::Prepared(_)));
        gone.for_each(|row| row.has = Has::Nobody);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.publish(),
            25..32 => self.settle(),
            32..36 => self.prepare(),
            36..40 => self.decide(),
            40..60 => self.wait(),
            60..70 => self.finish(),
            70..76 => self.delete(),
            76..88 => pass_ms(self.random.below(4000)),
            88..90 => self.pause(),
            90..93 => self.queue.maintain().unwrap(),
            93..95 => self.queue.compact().unwrap(),
            95..99 => self.reopen(),
            _ if prepared(&self.queue).is_empty() && self.random.below(3) == 0 => {
                self.queue.truncate().unwrap();
                self.rows.clear();
                self.came.clear();
                self.next = 1;
            }
            _ => {}
        }
    }

    fn check(&self) {
        self.queue.end_due().unwrap();
        let status = self.queue.status();
        assert_eq!(status.waiting, self.visible().count() as u64);
        assert_eq!(status.counters.left_out, self.left_out - self.left_out_before);
        assert_eq!(status.behind, status.waiting - self.in_turn().len() as u64);
        let later = self.rows.values().filter(|row| row.has == Has::Nobody && row.due_ms > wall());
        assert_eq!(status.delayed, later.count() as u64);
        assert_eq!(status.waiting + status.owned, self.rows.len() as u64);
        for (number, session) in self.sessions.iter().enumerate() {
            let mut cursor = session.cursor(&self.queue);
            let mut seen = Vec::new();
            while let Some((id, row)) = cursor.advance().unwrap() {
                seen.push((id.0, text_of(row)));
            }
            let mine = |row: &Row| row.has == Has::Taker(number as u64);
            let expected: Vec<(u64, String)> = if session.is_owner() {
                let mut own: Vec<(&u64, &Row)> = self.rows.iter().filter(|(_, row)| mine(row)).collect();
                own.sort_by_key(|(id, row)| (row.priority, **id));
                own.into_iter().map(|(id, row)| (*id, row.text.clone())).collect()
            } else {
                self.visible().map(|(id, text)| (id, text.to_owned())).collect()
            };
            assert_eq!(seen, expected);
        }
    }
}

#[test]
fn random_operations_do_what_the_model_does() {
    for seed in (1..=SEEDS).filter(|seed| sandbox::is_turn(*seed, 3)) {
        // Shown by the test runner when something below fails.
        println!("seed {seed}");
        let mut run = Run::new(seed as u64);
        for _ in 0..STEPS {
            run.step();
            run.check();
        }
    }
}

/// The canary: a queue in which time is frozen.
#[test]
#[should_panic(expected = "left == right")]
fn the_model_rejects_a_row_that_does_not_come_when_it_is_due() {
    let mut run = Run::new(9);
    let due = i64::try_from(wall() / 1000 + 1).unwrap();
    run.queue.publish(&[&whole_row(Some(due + 1), None, "a")], None).unwrap();
    run.rows.insert(
        1,
        Row { text: "a".to_owned(), due_ms: wall() + 1000, priority: 0, key: None, has: Has::Nobody },
    );
    run.next = 2;
    run.check();
    pass_ms(1000);
    run.check();
}
