//! Random transactions, from seeds, against a model that is a map; crashes and compactions come between.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Error, Queue, RowId, Savepoint, Session, Sync, Transaction, WaitOutcome};

use crate::support::{
    FOLDER, Random, all, engine, fresh_transactional, only, poll, prepared, seen, session, xid,
};

const SEEDS: u64 = 60;
const STEPS: usize = 250;
const SESSIONS: u64 = 3;
const CLASSES: [&str; 3] = ["a", "b", "c"];
const SEGMENT: u64 = 2400;

/// What a row is in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Waiting,
    /// A session took it.
    Held(u64),
    /// A session's transaction ends it.
    RetainedFilter(u64),
    /// A prepared transaction adds it.
    Added(u64),
    /// A prepared transaction ends it.
    Ending(u64),
}

/// What a session has done since it began.
struct Begun {
    transaction: Transaction,
    texts: Vec<String>,
    ended: Vec<u64>,
    /// Savepoints: the mark, and how much there was then.
    marks: Vec<(Savepoint, usize, usize)>,
}

struct Run {
    disk: FaultDisk,
    engine: Engine,
    queue: Arc<Queue>,
    sync: Sync,
    sessions: Vec<(Session, Option<Begun>)>,
    rows: BTreeMap<u64, (String, Doing)>,
    next: u64,
    xids: u64,
    random: Random,
    /// How often each of the less frequent things happened.
    did: BTreeMap<&'static str, u64>,
}

fn sessions() -> Vec<(Session, Option<Begun>)> {
    (0..SESSIONS).map(|number| (session(number), None)).collect()
}

impl Run {
    fn new(seed: u64) -> Run {
        let disk = FaultDisk::default();
        let sync = [Sync::Always, Sync::Interval, Sync::Never][usize::try_from(seed % 3).unwrap()];
        let (engine, queue) = fresh_transactional(&disk, SEGMENT, sync);
        let (rows, did, random) = (BTreeMap::new(), BTreeMap::new(), Random::new(seed));
        Run { disk, engine, queue, sync, sessions: sessions(), rows, next: 1, xids: 0, random, did }
    }

    fn texts(&mut self) -> Vec<String> {
        let count = self.random.below(4);
        let text = |random: &mut Random| {
            let class = CLASSES[usize::try_from(random.below(3)).unwrap()];
            format!("{class}{}", "-".repeat(usize::try_from(random.below(300)).unwrap()))
        };
        (0..count).map(|_| text(&mut self.random)).collect()
    }

    fn add(&mut self, texts: Vec<String>, doing: Doing) {
        for text in texts {
            self.rows.insert(self.next, (text, doing));
            self.next += 1;
        }
    }

    /// Every row that is one becomes the other.
    fn turn(&mut self, from: Doing, to: Doing) {
        self.rows.values_mut().filter(|(_, doing)| *doing == from).for_each(|(_, doing)| *doing = to);
    }

    fn gone(&mut self, doing: Doing) {
        self.rows.retain(|_, (_, now)| *now != doing);
    }

    fn session(&mut self) -> usize {
        usize::try_from(self.random.below(SESSIONS)).unwrap()
    }

    /// The transaction of a session, which begins if there is none.
    fn begun(&mut self, at: usize) -> &mut Begun {
        let (session, begun) = &mut self.sessions[at];
        begun.get_or_insert_with(|| Begun {
            transaction: session.begin(&self.queue).unwrap(),
            texts: Vec::new(),
            ended: Vec::new(),
            marks: Vec::new(),
        })
    }

    fn publish(&mut self) {
        let texts = self.texts();
        let at = self.session();
        let slices: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        if self.random.below(3) == 0 && !texts.is_empty() {
            self.queue.publish(&slices, None).unwrap();
            self.add(texts, Doing::Waiting);
        } else {
            let begun = self.begun(at);
            begun.transaction.publish(&slices).unwrap();
            begun.texts.extend(texts);
        }
    }

    /// What a session held is ended within its transaction.
    fn end_within(&mut self, at: usize) {
        self.begun(at);
        let (session, begun) = &mut self.sessions[at];
        let begun = begun.as_mut().unwrap();
        assert!(session.end_within(&mut begun.transaction));
        let held = Doing::Held(at as u64);
        begun.ended.extend(self.rows.iter().filter(|(_, (_, doing))| *doing == held).map(|(id, _)| *id));
        self.turn(held, Doing::RetainedFilter(at as u64));
    }

    fn wait(&mut self) {
        let at = self.session();
        self.end_within(at);
        let class = CLASSES.get(usize::try_from(self.random.below(6)).unwrap()).copied();
        let target = class.map_or_else(|| all(&self.queue), |class| only(&self.queue, class));
        let rows_max = usize::try_from(1 + self.random.below(3)).unwrap();
        let waited = self.sessions[at].0.wait(&[target], &mut poll(rows_max)).unwrap();
        let fits = |row: &str| class.is_none_or(|class| row.starts_with(class));
        let free = self.rows.values_mut().filter(|(row, doing)| *doing == Doing::Waiting && fits(row));
        let taken: Vec<&mut (String, Doing)> = free.take(rows_max).collect();
        assert_eq!(waited, if taken.is_empty() { WaitOutcome::TimedOut } else { WaitOutcome::Taken(0) });
        taken.into_iter().for_each(|(_, doing)| *doing = Doing::Held(at as u64));
    }

    fn delete(&mut self) {
        let at = self.session();
        let ids: Vec<u64> = (0..4).map(|_| self.random.below(self.next + 1)).collect();
        let rows: Vec<RowId> = ids.iter().copied().map(RowId).collect();
        self.begun(at);
        let (session, begun) = &mut self.sessions[at];
        let begun = begun.as_mut().unwrap();
        let count = session.delete_within(&mut begun.transaction, &rows).unwrap();
        let held = Doing::Held(at as u64);
        let mine = |id: &u64, doing: Doing| ids.contains(id) && [Doing::Waiting, held].contains(&doing);
        let mut going = 0;
        for (id, (_, doing)) in self.rows.iter_mut().filter(|(id, (_, doing))| mine(id, *doing)) {
            *doing = Doing::RetainedFilter(at as u64);
            begun.ended.push(*id);
            going += 1;
        }
        assert_eq!(count, going);
    }

    fn savepoint(&mut self) {
        let at = self.session();
        let back = self.random.below(3) == 0;
        let nth = self.random.below(8);
        let begun = self.begun(at);
        if !back || begun.marks.is_empty() {
            let mark = (begun.transaction.savepoint(), begun.texts.len(), begun.ended.len());
            begun.marks.push(mark);
            return;
        }
        let keep = usize::try_from(nth).unwrap() % begun.marks.len();
        let (mark, texts, ended) = begun.marks[keep];
        begun.marks.truncate(keep + 1);
        begun.transaction.roll_back_to(mark).unwrap();
        begun.texts.truncate(texts);
        for id in begun.ended.split_off(ended) {
            self.rows.get_mut(&id).unwrap().1 = Doing::Waiting;
        }
        *self.did.entry("savepoint").or_default() += 1;
    }

    fn finish(&mut self) {
        let at = self.session();
        self.end_within(at);
        let Begun { transaction, texts, .. } = self.sessions[at].1.take().unwrap();
        let ended = Doing::RetainedFilter(at as u64);
        match self.random.below(7) {
            0 => {
                transaction.rollback().unwrap();
                self.turn(ended, Doing::Waiting);
            }
            1 => {
                drop(transaction);
                self.turn(ended, Doing::Waiting);
            }
            2 | 3 => {
                transaction.commit_one_phase().unwrap();
                self.gone(ended);
                self.add(texts, Doing::Waiting);
            }
            _ => {
                self.xids += 1;
                let decided = transaction.prepare(&xid(self.xids)).unwrap();
                self.turn(ended, Doing::Ending(self.xids));
                self.add(texts, Doing::Added(self.xids));
                match self.random.below(4) {
                    0 => {
                        decided.commit().unwrap();
                        self.decided(self.xids, true);
                    }
                    1 => {
                        decided.rollback().unwrap();
                        self.decided(self.xids, false);
                    }
                    _ => {}
                }
            }
        }
    }

    fn decided(&mut self, number: u64, commit: bool) {
        let (added, ending) = (Doing::Added(number), Doing::Ending(number));
        let (back, gone) = if commit { (added, ending) } else { (ending, added) };
        self.gone(gone);
        self.turn(back, Doing::Waiting);
    }

    fn decide(&mut self) {
        let open = prepared(&self.queue);
        let Some(number) = open.get(usize::try_from(self.random.below(4)).unwrap()).copied() else {
            assert!(matches!(self.queue.commit_by_xid(&xid(0)), Err(Error::UnknownTransaction)));
            return;
        };
        if self.random.below(2) == 0 {
            self.queue.commit_by_xid(&xid(number)).unwrap();
            self.decided(number, true);
        } else {
            self.queue.rollback_by_xid(&xid(number)).unwrap();
            self.decided(number, false);
        }
        *self.did.entry("decided by XID").or_default() += 1;
    }

    /// Everything that returned is there after a crash, and connections own nothing.
    fn crash(&mut self) {
        if self.sync != Sync::Always {
            self.queue.sync().unwrap();
        }
        let unsynced = Unsynced::ALL[usize::try_from(self.random.below(4)).unwrap()];
        self.disk = self.disk.after_crash(unsynced);
        self.sessions = sessions();
        self.engine = engine(&self.disk, SEGMENT);
        self.queue = self.engine.open(Path::new(FOLDER)).unwrap();
        for at in 0..SESSIONS {
            self.turn(Doing::Held(at), Doing::Waiting);
            self.turn(Doing::RetainedFilter(at), Doing::Waiting);
        }
        let survived = if prepared(&self.queue).is_empty() { "crash" } else { "crash with prepared" };
        *self.did.entry(survived).or_default() += 1;
    }

    fn compact(&mut self) {
        let before = self.queue.status().counters.compacted;
        self.queue.compact().unwrap();
        let moved = self.queue.status().counters.compacted - before;
        *self.did.entry("moved").or_default() += moved;
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.publish(),
            25..50 => self.wait(),
            50..58 => self.delete(),
            58..66 => self.savepoint(),
            66..80 => self.finish(),
            80..88 => self.decide(),
            88..92 => self.queue.maintain().unwrap(),
            92..96 => self.compact(),
            _ => self.crash(),
        }
    }

    fn check(&self) {
        let waiting: Vec<(RowId, String)> = self
            .rows
            .iter()
            .filter(|(_, (_, doing))| *doing == Doing::Waiting)
            .map(|(id, (row, _))| (RowId(*id), row.clone()))
            .collect();
        assert_eq!(seen(&session(99), &self.queue), waiting);
        let status = self.queue.status();
        assert_eq!(status.waiting, waiting.len() as u64);
        assert_eq!(status.owned, (self.rows.len() - waiting.len()) as u64);
        let owners: BTreeMap<u64, bool> =
            self.queue.owned().into_iter().map(|(id, of)| (id.0, of.owner.is_transaction())).collect();
        let owned = self.rows.iter().filter(|(_, (_, doing))| *doing != Doing::Waiting);
        let is_prepared = |doing: &Doing| matches!(doing, Doing::Added(_) | Doing::Ending(_));
        assert_eq!(owners, owned.map(|(id, (_, doing))| (*id, is_prepared(doing))).collect());
    }
}

#[test]
fn random_transactions_do_what_the_model_does() {
    let mut did: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 1..=SEEDS {
        // Shown by the test runner when something below fails.
        println!("seed {seed}");
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
            run.check();
        }
        run.did.iter().for_each(|(what, count)| *did.entry(what).or_default() += count);
    }
    for what in ["savepoint", "decided by XID", "crash", "crash with prepared", "moved"] {
        assert!(did.get(what).is_some_and(|count| *count >= 30), "{did:?}");
    }
}
