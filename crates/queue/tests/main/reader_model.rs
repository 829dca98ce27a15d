//! Random operations on a queue with readers, beside a simple model of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use queue::{Engine, PreparedTransaction, RetainedFilter, RowId, Session, Sync};

use crate::support::{
    FOLDER, Random, TestQueue, altered, kept, read, read_by, session, set_wall, timed, xid,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

struct Model {
    opened: Option<TestQueue>,
    sync: Sync,
    random: Random,
    /// The rows that are there, and which readers have not ended them.
    rows: BTreeMap<String, BTreeSet<usize>>,
    kept: BTreeSet<String>,
    /// Rows of a transaction that is prepared.
    prepared: Option<(PreparedTransaction, Vec<String>)>,
    next: u64,
}

impl Model {
    fn opened(&self) -> &TestQueue {
        self.opened.as_ref().unwrap()
    }

    fn new_rows(&mut self) -> Vec<String> {
        let count = 1 + self.random.below(4);
        let rows = (self.next..self.next + count).map(|number| format!("{number:016}")).collect();
        self.next += count;
        rows
    }

    fn came(&mut self, rows: &[String]) {
        self.rows.extend(rows.iter().map(|row| (row.clone(), (0..3).collect())));
    }

    fn before(&self, reader: usize) -> Vec<String> {
        let has = |readers: &BTreeSet<usize>| readers.contains(&reader);
        self.rows.iter().filter(|(_, readers)| has(readers)).map(|(row, _)| row.clone()).collect()
    }

    fn step(&mut self, nth: u64) {
        let queue = self.opened().queue.clone();
        match self.random.below(14) {
            0..3 => {
                let new = self.new_rows();
                queue.publish(&new.iter().map(String::as_bytes).collect::<Vec<_>>(), None).unwrap();
                self.came(&new);
            }
            3..8 => {
                let reader = usize::try_from(self.random.below(3)).unwrap();
                let rows_max = 1 + usize::try_from(self.random.below(5)).unwrap();
                let mut taker = session(2);
                let taken = read(&mut taker, &queue, NAMES[reader], rows_max);
                let expected: Vec<String> = self.before(reader).into_iter().take(rows_max).collect();
                assert_eq!(taken, expected, "{reader}");
                self.finish(taker, reader, &taken);
            }
            8 => match self.prepared.take() {
                None => {
                    let new = self.new_rows();
                    let mut transaction = session(1).begin(&queue).unwrap();
                    new.iter().for_each(|row| transaction.publish(&[row.as_bytes()]).unwrap());
                    self.prepared = Some((transaction.prepare(&xid(nth)).unwrap(), new));
                }
                Some((transaction, rows)) => {
                    let commit = self.random.below(3) > 0;
                    assert!(transaction.decide(commit));
                    if commit {
                        self.came(&rows);
                    }
                }
            },
            9 => self.replay(),
            10 => queue.maintain().unwrap(),
            11 => queue.compact().unwrap(),
            12 if self.prepared.is_none() => {
                queue.sync().unwrap();
                drop(queue);
                let disk = self.opened().disk.clone();
                drop(self.opened.take());
                let engine = Engine::start(std::sync::Arc::new(disk.clone()), timed(700)).unwrap();
                let queue = engine.open(Path::new(FOLDER)).unwrap();
                self.opened = Some(TestQueue { disk, engine, queue });
            }
            13 if self.prepared.is_none() && self.random.below(3) == 0 => {
                let definition = read_by(self.sync, &NAMES);
                let copy = altered(&self.opened().engine, &queue, &definition).unwrap();
                self.opened.iter_mut().for_each(|opened| opened.queue = copy.clone());
            }
            _ => {}
        }
    }

    fn finish(&mut self, mut taker: Session, reader: usize, taken: &[String]) {
        match self.random.below(4) {
            0 => return taker.abort().unwrap(),
            1 => return taker.close().unwrap(),
            _ => taker.end().unwrap(),
        }
        for row in taken {
            let readers = self.rows.get_mut(row).unwrap();
            readers.remove(&reader);
            if readers.is_empty() {
                self.rows.remove(row);
                self.kept.insert(row.clone());
            }
        }
    }

    /// Gives all that a reader has ended again, to it or to all.
    fn replay(&mut self) {
        let reader = self.random.below(4).checked_sub(1).map(|reader| usize::try_from(reader).unwrap());
        let whole = RetainedFilter { rows: RowId(0)..RowId(u64::MAX), ..RetainedFilter::all() };
        let mut expected = self.kept.len() as u64;
        for row in std::mem::take(&mut self.kept) {
            self.rows.insert(row, reader.map_or_else(|| (0..3).collect(), |reader| [reader].into()));
        }
        if let Some(reader) = reader {
            for readers in self.rows.values_mut() {
                expected += u64::from(readers.insert(reader));
            }
        }
        assert_eq!(self.opened().queue.replay_to(reader, &whole).unwrap(), expected);
    }

    fn check(&self) {
        let queue = &self.opened().queue;
        assert_eq!(
            queue.rows() + queue.status().kept,
            (self.rows.len() + self.kept.len()) as u64 + self.pending()
        );
        assert_eq!(kept(queue), self.kept.iter().cloned().collect::<Vec<_>>());
        for (reader, status) in queue.readers().unwrap().into_iter().enumerate() {
            assert_eq!((status.waiting, status.owned), (self.before(reader).len() as u64, 0), "{reader}");
        }
    }

    fn pending(&self) -> u64 {
        self.prepared.as_ref().map_or(0, |(_, rows)| rows.len() as u64)
    }
}

#[test]
fn readers_are_given_what_the_model_gives() {
    for sync in [Sync::Always, Sync::Never] {
        for seed in 0..40 {
            set_wall(1_700_000_000_000);
            let opened = Some(TestQueue::new(&read_by(sync, &NAMES)));
            let (rows, kept) = (BTreeMap::new(), BTreeSet::new());
            let mut model =
                Model { opened, sync, random: Random::new(seed), rows, kept, prepared: None, next: 0 };
            for nth in 0..150 {
                model.step(nth);
                model.check();
            }
        }
    }
}
