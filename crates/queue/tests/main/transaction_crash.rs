//! Transactions over crashes: a queue is stopped at every sync and cut at every byte, and bits are flipped.
//! What is prepared must stay so, what is decided must stay decided, and no other row may come or go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Error, PreparedTransaction, Queue, RowId, Session, Sync};

use crate::support::{
    FOLDER, all, engine, fresh, fresh_transactional, options, poll, prepared, seen, session, transactional,
    xid,
};

/// Segments so small that a few rows fill one, and so large that a sparse one is rewritten.
const SEGMENT: u64 = 2400;

type Rows = BTreeMap<RowId, String>;

/// What a queue holds after a crash, when no connection owns rows any more.
#[derive(Clone, Debug, Default, PartialEq)]
struct OwnedState {
    waiting: Rows,
    /// What each prepared transaction adds and what it ends.
    prepared: BTreeMap<u64, (Rows, Rows)>,
}

impl OwnedState {
    fn decide(&mut self, number: u64, commit: bool) {
        let (added, ended) = self.prepared.remove(&number).unwrap();
        self.waiting.extend(if commit { added } else { ended });
    }
}

/// What a script does, and all states that the queue went through.
struct Script {
    _engine: Engine,
    queue: Arc<Queue>,
    taker: Session,
    prepared: BTreeMap<u64, PreparedTransaction>,
    states: Vec<OwnedState>,
    /// The first state that a crash may leave: what arrived before is known to be durable.
    durable: usize,
    next: u64,
    always: bool,
}

impl Script {
    fn begin(disk: &FaultDisk, sync: Sync, segment_bytes: u64) -> Result<Script, Error> {
        let engine = Engine::start(Arc::new(disk.clone()), options(segment_bytes)).unwrap();
        engine.create(Path::new(FOLDER), &transactional(sync))?;
        let queue = engine.open(Path::new(FOLDER))?;
        let (states, always) = (vec![OwnedState::default()], sync == Sync::Always);
        let (taker, prepared) = (session(1), BTreeMap::new());
        Ok(Script { _engine: engine, queue, taker, prepared, states, durable: 0, next: 1, always })
    }

    fn now(&self) -> &OwnedState {
        self.states.last().unwrap()
    }

    /// Does something that leads to a state; `synced` when it is durable afterwards in every mode.
    fn change(
        &mut self,
        state: OwnedState,
        synced: bool,
        what: impl FnOnce(&Queue) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.states.push(state);
        what(&self.queue)?;
        if synced || self.always {
            self.durable = self.states.len() - 1;
        }
        Ok(())
    }

    fn text(&self, skip: u64) -> (RowId, String) {
        let number = self.next + skip;
        (RowId(number), format!("row {number} {}", "z".repeat(usize::try_from(number % 5 * 120).unwrap())))
    }

    fn publish(&mut self) -> Result<(), Error> {
        let (id, text) = self.text(0);
        let mut state = self.now().clone();
        state.waiting.insert(id, text.clone());
        self.next += 1;
        self.change(state, false, |queue| queue.publish(&[text.as_bytes()], None).map(|_| ()))
    }

    /// A transaction that takes rows and adds rows; with a number it is prepared, else committed.
    fn transaction(&mut self, number: Option<u64>, take: usize, add: u64) -> Result<(), Error> {
        let queue = self.queue.clone();
        let mut transaction = self.taker.begin(&queue)?;
        let mut state = self.now().clone();
        let mut ended = Rows::new();
        if take > 0 {
            self.taker.wait(&[all(&queue)], &mut poll(take))?;
            for id in self.taker.owned_rows().map(|(_, rows)| rows.to_vec()).unwrap_or_default() {
                ended.extend(state.waiting.remove_entry(&id));
            }
            assert!(self.taker.end_within(&mut transaction));
        }
        let added: Rows = (0..add).map(|skip| self.text(skip)).collect();
        let texts: Vec<&[u8]> = added.values().map(|text| text.as_bytes()).collect();
        transaction.publish(&texts)?;
        self.next += add;
        match number {
            None => {
                state.waiting.extend(added);
                self.change(state, false, |_| transaction.commit_one_phase())
            }
            Some(number) => {
                state.prepared.insert(number, (added, ended));
                let mut prepared = None;
                self.change(state, true, |_| {
                    prepared = Some(transaction.prepare(&xid(number))?);
                    Ok(())
                })?;
                self.prepared.extend(prepared.map(|prepared| (number, prepared)));
                Ok(())
            }
        }
    }

    fn decide(&mut self, number: u64, commit: bool) -> Result<(), Error> {
        let mut state = self.now().clone();
        state.decide(number, commit);
        self.change(state, true, |queue| {
            if commit { queue.commit_by_xid(&xid(number)) } else { queue.rollback_by_xid(&xid(number)) }
        })
    }

    /// Commits for a coordinator that remembers it: a crash may leave it prepared.
    fn commit_remembered(&mut self, number: u64) -> Result<(), Error> {
        let mut state = self.now().clone();
        state.decide(number, true);
        self.states.push(state);
        assert!(self.prepared.remove(&number).unwrap().commit_remembered());
        Ok(())
    }

    /// Has the coordinator forget what is decided.
    fn forget(&mut self) -> Result<(), Error> {
        self.queue.sync()?;
        self.durable = self.states.len() - 1;
        Ok(())
    }

    /// Transactions that stay prepared over sealed segments, checkpoints and compactions.
    fn run(&mut self) -> Result<(), Error> {
        self.publish()?;
        self.publish()?;
        for round in 0..6 {
            self.publish()?;
            self.transaction(Some(round), 1, round % 3)?;
            self.publish()?;
            self.transaction(None, 1, 1)?;
            match round % 3 {
                0 => self.queue.maintain()?,
                1 => self.queue.compact()?,
                _ => {}
            }
            match round {
                2 | 3 => self.decide(round - 2, round == 2)?,
                4 => self.commit_remembered(2)?,
                5 => {
                    self.commit_remembered(3)?;
                    self.forget()?;
                }
                _ => {}
            }
        }
        self.transaction(Some(9), 0, 3)?;
        self.queue.compact()?;
        self.decide(9, false)?;
        self.commit_remembered(5)?;
        self.queue.maintain()?;
        self.decide(4, true)?;
        self.publish()
    }
}

fn found(queue: &Arc<Queue>) -> (Rows, Vec<u64>) {
    (seen(&session(5), queue).into_iter().collect(), prepared(queue))
}

fn open(disk: &FaultDisk) -> Result<(Engine, Arc<Queue>), Error> {
    let engine = Engine::start(Arc::new(disk.clone()), options(SEGMENT)).unwrap();
    let queue = engine.open(Path::new(FOLDER))?;
    Ok((engine, queue))
}

/// The queue must be in one of these states, stay in it, and be able to decide what is prepared either way.
fn compare(disk: &FaultDisk, states: &[OwnedState]) -> Result<(), String> {
    let told = |error: Error| error.to_string();
    let (engine, queue) = open(disk).map_err(told)?;
    let (waiting, numbers) = found(&queue);
    let fits = |held: &&OwnedState| held.waiting == waiting && held.prepared.keys().eq(&numbers);
    let fitting: Vec<&OwnedState> = states.iter().filter(fits).collect();
    if fitting.is_empty() {
        return Err(format!("found {waiting:?} and {numbers:?}, which is none of {states:#?}"));
    }
    // With a new checkpoint that lists what is prepared, and a second crash.
    queue.compact().map_err(told)?;
    drop((queue, engine));
    for commit in [true, false] {
        let again = disk.after_crash(Unsynced::Drop);
        let (_engine, queue) = open(&again).map_err(told)?;
        if found(&queue) != (waiting.clone(), numbers.clone()) {
            return Err("it changed when it was opened again".to_owned());
        }
        for number in &numbers {
            let decide = if commit { Queue::commit_by_xid } else { Queue::rollback_by_xid };
            decide(&queue, &xid(*number)).map_err(told)?;
        }
        let right = fitting.iter().any(|held| {
            let mut held = (*held).clone();
            numbers.iter().for_each(|number| held.decide(*number, commit));
            found(&queue) == (held.waiting, Vec::new())
        });
        if !right || queue.rows() != found(&queue).0.len() as u64 {
            return Err(format!("decided {commit}: {:?} is wrong", found(&queue)));
        }
        let (_engine, last) = open(&again.after_crash(Unsynced::Drop)).map_err(told)?;
        if found(&last) != found(&queue) {
            return Err("what was decided changed when it was opened again".to_owned());
        }
    }
    Ok(())
}

fn play(disk: &FaultDisk, sync: Sync) -> (Vec<OwnedState>, usize, bool) {
    match Script::begin(disk, sync, SEGMENT) {
        Err(_) => (vec![OwnedState::default()], 0, false),
        Ok(mut script) => {
            let whole = script.run().is_ok();
            (script.states, script.durable, whole)
        }
    }
}

fn crash_everywhere(sync: Sync) {
    let calm = FaultDisk::default();
    let mut script = Script::begin(&calm, sync, SEGMENT).unwrap();
    script.run().unwrap();
    assert!(script.queue.status().counters.compacted > 0);
    let sealed = calm.names().into_iter().filter(|name| name.extension().is_some()).count();
    assert!(sealed > 1, "{sealed}");
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let (states, durable, _) = play(&disk, sync);
        for unsynced in Unsynced::ALL {
            let after = disk.after_crash(unsynced);
            if let Err(Error::Missing { .. }) = open(&after.after_crash(Unsynced::Keep)) {
                assert_eq!(states.len(), 1);
                continue;
            }
            compare(&after, &states[durable..])
                .unwrap_or_else(|what| panic!("stopped at sync {stop}, {unsynced:?}, {sync:?}: {what}"));
        }
    }
}

#[test]
fn transactions_survive_wherever_it_stops() {
    crash_everywhere(Sync::Always);
}

#[test]
fn transactions_survive_without_syncs_of_other_batches() {
    crash_everywhere(Sync::Never);
    crash_everywhere(Sync::Interval);
}

/// The files of the queue.
fn files(disk: &FaultDisk) -> Vec<PathBuf> {
    disk.names().into_iter().filter(|name| name.parent() == Some(Path::new(FOLDER))).collect()
}

/// The only segment of a queue.
fn segment() -> PathBuf {
    Path::new(FOLDER).join("0000000000000001.0.seg")
}

/// One step of a script.
type Step = fn(&mut Script) -> Result<(), Error>;

/// Runs the script in one segment. Returns its states, each with the length of the segment then.
fn in_one_segment(disk: &FaultDisk) -> Vec<(usize, OwnedState)> {
    let mut script = Script::begin(disk, Sync::Always, 1 << 20).unwrap();
    let len = || disk.bytes(&segment()).unwrap().len();
    let mut states = vec![(len(), OwnedState::default())];
    let mut note = |script: &Script| states.push((len(), script.now().clone()));
    let steps: [Step; 8] = [
        Script::publish,
        Script::publish,
        |script| script.transaction(Some(1), 1, 2),
        |script| script.transaction(None, 1, 1),
        |script| script.transaction(Some(2), 1, 0),
        |script| script.decide(1, true),
        |script| script.decide(2, false),
        |script| script.transaction(Some(3), 2, 2),
    ];
    for step in steps {
        step(&mut script).unwrap();
        note(&script);
    }
    states
}

#[test]
fn a_log_that_is_cut_at_any_byte_ends_with_the_last_whole_batch() {
    let disk = FaultDisk::default();
    let states = in_one_segment(&disk);
    let bytes = disk.bytes(&segment()).unwrap();
    for len in states[0].0..=bytes.len() {
        let cut = disk.after_crash(Unsynced::Keep);
        cut.put(&segment(), &bytes[..len]);
        let (_, held) = states.iter().rfind(|(end, _)| *end <= len).unwrap();
        compare(&cut, std::slice::from_ref(held)).unwrap_or_else(|what| panic!("cut at {len}: {what}"));
    }
}

#[test]
fn a_changed_bit_is_told_or_looks_like_a_torn_end() {
    let disk = FaultDisk::default();
    let states = in_one_segment(&disk);
    let (before, held) =
        states.split_last().map(|(last, before)| (&before.last().unwrap().1, &last.1)).unwrap();
    let (mut told, mut torn) = (0, 0);
    for file in files(&disk) {
        for at in 0..usize::try_from(disk.stat(&file).unwrap().len).unwrap() {
            for bit in [0, 3, 7] {
                let changed = disk.after_crash(Unsynced::Keep);
                changed.corrupt(&file, at, 1 << bit);
                match open(&changed).map(|(_, queue)| found(&queue)) {
                    Err(Error::Corrupt { .. } | Error::Version { .. }) => told += 1,
                    Err(error) => panic!("{}:{at}.{bit}: {error}", file.display()),
                    Ok((waiting, numbers)) => {
                        assert_eq!(waiting, before.waiting, "{}:{at}.{bit}", file.display());
                        assert!(numbers.iter().eq(before.prepared.keys()));
                        torn += 1;
                    }
                }
            }
        }
    }
    assert_ne!(before, held);
    let last = states[states.len() - 1].0 - states[states.len() - 2].0;
    assert_eq!(torn, 3 * last, "exactly the last batch may be torn; {told} were told");
}

#[test]
fn changed_bytes_of_moved_and_sealed_segments_are_told() {
    let disk = FaultDisk::default();
    let mut script = Script::begin(&disk, Sync::Always, SEGMENT).unwrap();
    script.run().unwrap();
    script.transaction(Some(20), 3, 3).unwrap();
    script.queue.compact().unwrap();
    script.publish().unwrap();
    let (before, last) = (script.states[script.states.len() - 2].clone(), script.now().clone());
    drop(script);
    compare(&disk.after_crash(Unsynced::Keep), std::slice::from_ref(&last)).unwrap();
    for file in files(&disk) {
        for at in 0..usize::try_from(disk.stat(&file).unwrap().len).unwrap() {
            let changed = disk.after_crash(Unsynced::Keep);
            changed.corrupt(&file, at, 1 << (at % 8));
            let engine = engine(&changed, SEGMENT);
            let result = engine.open(Path::new(FOLDER)).and_then(|queue| {
                queue.commit_by_xid(&xid(20))?;
                let mut cursor = session(5).cursor(&queue);
                let mut rows = Rows::new();
                while let Some((id, row)) = cursor.advance()? {
                    rows.insert(id, String::from_utf8(row.to_vec()).unwrap());
                }
                Ok(rows)
            });
            match result {
                Err(Error::Corrupt { .. } | Error::Version { .. }) => {}
                Err(error) => panic!("{}:{at}: {error}", file.display()),
                Ok(rows) => {
                    let right = [&before, &last].map(|held| {
                        let mut held = held.clone();
                        held.decide(20, true);
                        held.waiting
                    });
                    assert!(right.contains(&rows), "{}:{at}: {rows:?}", file.display());
                }
            }
        }
    }
}

#[test]
fn the_files_say_that_they_have_transactions() {
    for transactional in [false, true] {
        let disk = FaultDisk::default();
        let (engine, queue) = match transactional {
            true => fresh_transactional(&disk, SEGMENT, Sync::Always),
            false => fresh(&disk, SEGMENT),
        };
        let fill = || {
            for _ in 0..60 {
                queue.publish(&[&[b'r'; 100]], None).unwrap();
            }
            let doomed: Vec<RowId> = (1..50).filter(|id| id % 9 != 0).map(RowId).collect();
            session(2).delete(&queue, &doomed).unwrap();
            queue.compact().unwrap();
        };
        fill();
        queue.truncate().unwrap();
        fill();
        drop((queue, engine));
        let names = files(&disk);
        assert!(names.len() >= 3 && names.iter().any(|name| name.to_string_lossy().contains(".1.seg")));
        for name in names {
            let flags = u64::from_le_bytes(disk.bytes(&name).unwrap()[16..24].try_into().unwrap());
            assert_eq!(flags, u64::from(transactional), "{}", name.display());
        }
    }
}
