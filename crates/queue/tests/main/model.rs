//! Random operations, from seeds, against a model that is a map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use disk::faults::FaultDisk;
use queue::{Engine, Origin, Published, Queue, RowId, Session, Source, Sync, Target, WaitOutcome};

use crate::support::{FOLDER, Random, all, definition, engine, only, poll, rows, seen, session};

const SEEDS: u64 = 60;
const STEPS: usize = 250;
const SESSIONS: u64 = 4;
const CLASSES: [&str; 3] = ["a", "b", "c"];

/// The state that the queue must have.
#[derive(Default)]
struct Model {
    /// The row and who owns it.
    rows: BTreeMap<u64, (String, Option<u64>)>,
    next: u64,
    mark: Option<u64>,
}

impl Model {
    fn free(&self) -> impl Iterator<Item = (u64, &str)> {
        self.rows.iter().filter(|(_, (_, owner))| owner.is_none()).map(|(id, (row, _))| (*id, row.as_str()))
    }

    fn owned_by(&self, owner: u64) -> Vec<u64> {
        self.rows.iter().filter(|(_, (_, who))| *who == Some(owner)).map(|(id, _)| *id).collect()
    }
}

/// A queue beside its model.
struct Run {
    disk: FaultDisk,
    engine: Engine,
    queue: Arc<Queue>,
    sessions: Vec<Session>,
    model: Model,
    random: Random,
}

impl Run {
    fn new(seed: u64) -> Run {
        let disk = FaultDisk::default();
        let engine = engine(&disk, 700);
        let sync = [Sync::Always, Sync::Interval, Sync::Never][usize::try_from(seed % 3).unwrap()];
        engine.create(Path::new(FOLDER), &definition(sync)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        let random = Random::new(seed);
        let sessions = (0..SESSIONS).map(session).collect();
        Run { disk, engine, queue, sessions, model: Model { next: 1, ..Model::default() }, random }
    }

    fn session(&mut self) -> (u64, &mut Session) {
        let number = self.random.below(SESSIONS);
        (number, &mut self.sessions[usize::try_from(number).unwrap()])
    }

    fn publish(&mut self) {
        let count = 1 + self.random.below(4);
        let texts: Vec<String> = (0..count)
            .map(|_| {
                let class = CLASSES[usize::try_from(self.random.below(3)).unwrap()];
                format!("{class}{}", "-".repeat(usize::try_from(self.random.below(90)).unwrap()))
            })
            .collect();
        let slices: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let origin = (self.random.below(4) == 0).then(|| {
            let row = (self.model.mark.unwrap_or(0) + self.random.below(4)).saturating_sub(1);
            Origin { source: Source::Slot(1), row, floor: 0, overwrite: self.random.below(8) == 0 }
        });
        let published = self.queue.publish(&slices, origin.as_ref()).unwrap();
        if let Some(origin) = origin {
            if !origin.overwrite && self.model.mark.is_some_and(|mark| origin.row <= mark) {
                assert_eq!(published, Published::Duplicate);
                return;
            }
            self.model.mark = Some(origin.row);
        }
        assert_eq!(published, Published::New(RowId(self.model.next)));
        for text in texts {
            self.model.rows.insert(self.model.next, (text, None));
            self.model.next += 1;
        }
    }

    fn wait(&mut self) {
        let rows_max = 1 + self.random.below(3);
        let classes = self.random.below(4);
        let wanted: Vec<Option<&str>> = match classes {
            0 => vec![None],
            1 => vec![Some("a")],
            2 => vec![Some("b"), Some("c")],
            _ => vec![Some("c"), None],
        };
        let queue = self.queue.clone();
        let targets: Vec<Target> = wanted
            .iter()
            .map(|class| class.map_or_else(|| all(&queue), |class| only(&queue, class)))
            .collect();
        let (number, session) = self.session();
        let waited = session.wait(&targets, &mut poll(usize::try_from(rows_max).unwrap())).unwrap();
        self.model.rows.retain(|_, (_, owner)| *owner != Some(number));
        let found = wanted.iter().enumerate().find_map(|(at, class)| {
            let matching =
                self.model.free().filter(|(_, row)| class.is_none_or(|class| row.starts_with(class)));
            let ids: Vec<u64> = matching.map(|(id, _)| id).take(usize::try_from(rows_max).unwrap()).collect();
            (!ids.is_empty()).then_some((at, ids))
        });
        match found {
            None => assert_eq!(waited, WaitOutcome::TimedOut),
            Some((at, ids)) => {
                assert_eq!(waited, WaitOutcome::Taken(at));
                for id in ids {
                    self.model.rows.get_mut(&id).unwrap().1 = Some(number);
                }
            }
        }
    }

    fn finish(&mut self) {
        let how = self.random.below(3);
        let (number, session) = self.session();
        match how {
            0 => session.end().unwrap(),
            1 => session.abort().unwrap(),
            _ => session.close().unwrap(),
        }
        if how == 0 {
            self.model.rows.retain(|_, (_, owner)| *owner != Some(number));
        }
        self.model.rows.values_mut().filter(|(_, owner)| *owner == Some(number)).for_each(|row| row.1 = None);
    }

    fn delete(&mut self) {
        let ids: Vec<u64> = (0..6).map(|_| self.random.below(self.model.next + 2)).collect();
        let queue = self.queue.clone();
        let (number, session) = self.session();
        let rows: Vec<RowId> = ids.iter().copied().map(RowId).collect();
        let gone = session.delete(&queue, &rows).unwrap();
        let before = self.model.rows.len();
        let mine =
            |id: &u64, owner: Option<u64>| ids.contains(id) && owner.is_none_or(|owner| owner == number);
        self.model.rows.retain(|id, (_, owner)| !mine(id, *owner));
        assert_eq!(usize::try_from(gone).unwrap(), before - self.model.rows.len());
    }

    fn reopen(&mut self) {
        // Ownership ends with the process: the sessions are gone and so is what they owned.
        self.sessions = (0..SESSIONS).map(session).collect();
        self.queue = {
            let empty = engine(&FaultDisk::default(), 700);
            drop(std::mem::replace(&mut self.engine, empty));
            self.engine = engine(&self.disk, 700);
            self.engine.open(Path::new(FOLDER)).unwrap()
        };
        self.model.rows.values_mut().for_each(|row| row.1 = None);
    }

    fn truncate(&mut self) {
        self.queue.truncate().unwrap();
        self.model = Model { next: 1, ..Model::default() };
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..35 => self.publish(),
            35..65 => self.wait(),
            65..80 => self.finish(),
            80..88 => self.delete(),
            88..93 => self.queue.maintain().unwrap(),
            93..95 => self.queue.compact().unwrap(),
            95..99 => self.reopen(),
            _ if self.random.below(3) == 0 => self.truncate(),
            _ => {}
        }
    }

    /// Every session must see what the model says.
    fn check(&self) {
        let status = self.queue.status();
        let free: Vec<(RowId, String)> =
            self.model.free().map(|(id, row)| (RowId(id), row.to_owned())).collect();
        assert_eq!(status.waiting, free.len() as u64);
        assert_eq!(status.owned, (self.model.rows.len() - free.len()) as u64);
        for (number, session) in self.sessions.iter().enumerate() {
            let own = self.model.owned_by(number as u64);
            if session.is_owner() {
                let texts: Vec<_> = own.iter().map(|id| self.model.rows[id].0.clone()).collect();
                assert_eq!(rows(session, &self.queue), texts);
                assert_eq!(session.count(&self.queue), own.len() as u64);
            } else {
                assert!(own.is_empty());
                assert_eq!(seen(session, &self.queue), free);
                assert_eq!(session.count(&self.queue), self.model.rows.len() as u64);
            }
        }
    }
}

#[test]
fn random_operations_do_what_the_model_does() {
    for seed in 1..=SEEDS {
        // Shown by the test runner when something below fails.
        println!("seed {seed}");
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
            run.check();
        }
    }
}

/// The canary: a queue that loses a row.
#[test]
#[should_panic(expected = "left == right")]
fn the_model_rejects_a_queue_that_loses_a_row() {
    let mut run = Run::new(1);
    while run.model.free().next().is_none() {
        run.step();
    }
    let (first, _) = run.model.free().next().unwrap();
    session(77).delete(&run.queue, &[RowId(first)]).unwrap();
    run.check();
}
