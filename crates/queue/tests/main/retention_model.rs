//! Random operations on a queue that keeps rows, beside a simple model of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::faults::FaultDisk;
use queue::{Definition, Engine, Queue, RetainedFilter, RowId, Sync};

use crate::support::{
    FOLDER, Random, TestQueue, all, altered, definition, kept, pass_ms, poll, rows, session, set_wall, wall,
    xid,
};

const BEGIN_MS: u64 = 1_700_000_000_000;
const KEEP_MS: u64 = 30_000;

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Waits,
    /// It was ended in this second.
    Kept(u64),
}

struct Model {
    opened: TestQueue,
    definition: Definition,
    random: Random,
    /// By their texts, which are in the order of the rows.
    rows: BTreeMap<String, At>,
    /// The number of each row in the queue; a copy gives new ones.
    numbers: BTreeMap<String, RowId>,
    next: u64,
}

impl Model {
    fn new(seed: u64, sync: Sync) -> Model {
        set_wall(BEGIN_MS);
        let definition = Definition { keep_ms: KEEP_MS, transactional: true, ..definition(sync) };
        let opened = TestQueue::new(&definition);
        let (rows, numbers) = (BTreeMap::new(), BTreeMap::new());
        Model { opened, definition, random: Random::new(seed), rows, numbers, next: 0 }
    }

    fn queue(&self) -> Arc<Queue> {
        self.opened.queue.clone()
    }

    fn second(&self) -> u64 {
        wall().div_ceil(1000)
    }

    fn new_rows(&mut self) -> Vec<String> {
        let count = 1 + self.random.below(5);
        let rows = (self.next..self.next + count).map(|number| format!("{number:016}")).collect();
        self.next += count;
        rows
    }

    fn came(&mut self, rows: &[String]) {
        self.rows.extend(rows.iter().map(|row| (row.clone(), At::Waits)));
    }

    fn ended(&mut self, rows: &[String]) {
        let second = self.second();
        for row in rows {
            assert_eq!(self.rows.insert(row.clone(), At::Kept(second)), Some(At::Waits), "{row}");
        }
    }

    fn step(&mut self, nth: u64) {
        let queue = self.queue();
        match self.random.below(16) {
            0..4 => {
                let new = self.new_rows();
                let bytes: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
                queue.publish(&bytes, None).unwrap();
                self.came(&new);
            }
            4..8 => self.take(nth),
            8 => {
                let new = self.new_rows();
                let bytes: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
                let mut one = session(1);
                one.publish_in_statement(&queue, &bytes).unwrap();
                let keep = self.random.below(2) == 0;
                one.end_statement(keep).unwrap();
                if keep {
                    self.came(&new);
                }
            }
            9 | 10 => self.replay(),
            11 => {
                // What is written later is taken for ended later.
                queue.sync().unwrap();
                pass_ms(self.random.below(9000));
            }
            12 => queue.maintain().unwrap(),
            13 => queue.compact().unwrap(),
            14 => {
                queue.sync().unwrap();
                self.reopen();
            }
            _ if self.random.below(4) == 0 => {
                let copy = altered(&self.opened.engine, &queue, &self.definition).unwrap();
                self.opened.queue = copy;
                self.number();
            }
            _ => {}
        }
        self.opened.queue.end_due().unwrap();
        let over = wall();
        self.rows.retain(|_, at| !matches!(at, At::Kept(second) if *second * 1000 + KEEP_MS <= over));
    }

    fn reopen(&mut self) {
        let disk = self.opened.disk.clone();
        let empty = TestQueue { disk: FaultDisk::default(), engine: engine(), queue: self.queue() };
        drop(std::mem::replace(&mut self.opened, empty));
        let (engine, queue) = {
            let engine = Engine::start(Arc::new(disk.clone()), crate::support::timed(700)).unwrap();
            let queue = engine.open(std::path::Path::new(FOLDER)).unwrap();
            (engine, queue)
        };
        self.opened = TestQueue { disk, engine, queue };
    }

    /// Takes rows and ends them or not, alone or in a transaction.
    fn take(&mut self, nth: u64) {
        let (queue, mut taker) = (self.queue(), session(2));
        taker.wait(&[all(&queue)], &mut poll(1 + usize::try_from(self.random.below(6)).unwrap())).unwrap();
        let taken = rows(&taker, &queue);
        match self.random.below(5) {
            0 => return taker.abort().unwrap(),
            1 | 2 => taker.end().unwrap(),
            way => {
                let mut transaction = taker.begin(&queue).unwrap();
                let new = self.new_rows();
                new.iter().for_each(|row| transaction.publish(&[row.as_bytes()]).unwrap());
                assert!(taker.end_within(&mut transaction));
                if way == 3 {
                    transaction.commit_one_phase().unwrap();
                } else {
                    let commit = self.random.below(2) == 0;
                    let prepared = transaction.prepare(&xid(nth)).unwrap();
                    assert!(prepared.decide(commit));
                    if !commit {
                        return;
                    }
                }
                self.came(&new);
            }
        }
        self.ended(&taken);
    }

    fn replay(&mut self) {
        self.number();
        let queue = self.queue();
        let (first, second) = (self.random.below(self.next + 2), self.second() - self.random.below(30));
        let rows = RowId(first)..RowId(first + self.random.below(40));
        let mut expected = 0;
        for (text, at) in &mut self.rows {
            if let At::Kept(ended) = *at
                && ended >= second
                && rows.contains(&self.numbers[text])
            {
                *at = At::Waits;
                expected += 1;
            }
        }
        let ended = RetainedFilter { rows, within_ms: second * 1000..=u64::MAX };
        assert_eq!(queue.replay(&ended).unwrap(), expected);
    }

    /// Asks which number each row has.
    fn number(&mut self) {
        let queue = self.queue();
        let mut cursors = [queue::Cursor::starting_at(&queue, RowId(0)), queue::Cursor::of_kept(&queue)];
        for cursor in &mut cursors {
            while let Some((id, row)) = cursor.advance().unwrap() {
                self.numbers.insert(String::from_utf8(row.to_vec()).unwrap(), id);
            }
        }
    }

    fn check(&self) {
        let queue = self.queue();
        let of = |waits: bool| -> Vec<String> {
            let is = |at: &At| (*at == At::Waits) == waits;
            self.rows.iter().filter(|(_, at)| is(at)).map(|(row, _)| row.clone()).collect()
        };
        assert_eq!(rows(&session(9), &queue), of(true));
        assert_eq!(kept(&queue), of(false));
        let (status, there) = (queue.status(), of(false));
        assert_eq!((status.waiting, status.kept), (of(true).len() as u64, there.len() as u64));
        assert_eq!(status.kept_bytes, there.len() as u64 * 20);
        assert_eq!(status.live_bytes, status.waiting * 20);
        assert_eq!(queue.rows(), status.waiting);
    }
}

fn engine() -> Engine {
    Engine::start(Arc::new(FaultDisk::default()), crate::support::timed(700)).unwrap()
}

#[test]
fn a_queue_keeps_what_the_model_keeps() {
    for sync in [Sync::Always, Sync::Never] {
        for seed in 0..30 {
            let mut model = Model::new(seed, sync);
            for nth in 0..150 {
                model.step(nth);
                model.check();
            }
            assert!(model.queue().status().counters.rows_written > 0 || seed > 0);
        }
    }
}
