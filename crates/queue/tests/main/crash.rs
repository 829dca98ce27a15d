//! A queue is stopped at every sync; what was not synced is dropped, kept, torn or scattered. Recovery must
//! find a state that the queue had, and none older than the last operation that returned.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, Guard, Share, Sink, Source, Stat, Volume};
use queue::{Engine, Error, Origin, Published, Queue, RowId, Session, Sync};

use crate::support::{FOLDER, all, definition, options, poll, seen, session};

/// What a queue holds: its rows, and the last row that came through slot 1.
type Held = (BTreeMap<RowId, String>, u64);

/// All states that a queue went through.
struct History {
    states: Vec<Held>,
    /// The number of states whose operations had returned.
    returned: usize,
    /// The number of states written for sure: without a sync with every batch, an acknowledgement is written
    /// with the next write.
    written: usize,
}

struct Script {
    _engine: Engine,
    queue: Arc<Queue>,
    taker: Session,
    history: History,
}

fn start(disk: Arc<dyn Disk>) -> Engine {
    Engine::start(disk, options(600)).unwrap()
}

fn origin(row: u64) -> Origin {
    Origin { source: queue::Source::Slot(1), row, floor: 0, overwrite: false }
}

impl Script {
    fn begin(disk: Arc<dyn Disk>, sync: Sync) -> Result<Script, Error> {
        let engine = start(disk);
        engine.create(Path::new(FOLDER), &definition(sync))?;
        let queue = engine.open(Path::new(FOLDER))?;
        let history = History { states: vec![Held::default()], returned: 1, written: 1 };
        Ok(Script { _engine: engine, queue, taker: session(1), history })
    }

    /// Does something that leads to a new state.
    fn change(
        &mut self,
        next: impl FnOnce(&mut Held),
        what: impl FnOnce(&Queue, &mut Session) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = self.history.states.last().unwrap().clone();
        next(&mut state);
        self.history.states.push(state);
        what(&self.queue, &mut self.taker)?;
        self.history.returned = self.history.states.len();
        self.history.written = self.history.returned;
        Ok(())
    }

    fn publish(&mut self, first: u64, texts: &[String], relayed: Option<u64>) -> Result<(), Error> {
        let origin = relayed.map(origin);
        self.change(
            |(rows, mark)| {
                rows.extend((first..).map(RowId).zip(texts.iter().cloned()));
                *mark = relayed.unwrap_or(*mark);
            },
            |queue, _| {
                let slices: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
                assert_eq!(queue.publish(&slices, origin.as_ref())?, Published::New(RowId(first)));
                Ok(())
            },
        )
    }

    /// Takes the first rows and ends them.
    fn consume(&mut self, count: usize) -> Result<(), Error> {
        let target = all(&self.queue);
        self.taker.wait(&[target], &mut poll(count))?;
        let gone = self.taker.owned_rows().map(|(_, rows)| rows.to_vec()).unwrap_or_default();
        let written = self.history.written;
        self.change(|(rows, _)| gone.iter().for_each(|id| drop(rows.remove(id))), |_, taker| taker.end())?;
        if self.queue.definition().sync != Sync::Always {
            self.history.written = written;
        }
        Ok(())
    }

    fn delete(&mut self, ids: &[RowId]) -> Result<(), Error> {
        self.change(
            |(rows, _)| ids.iter().for_each(|id| drop(rows.remove(id))),
            |queue, taker| taker.delete(queue, ids).map(|_| ()),
        )
    }

    fn run(&mut self) -> Result<(), Error> {
        let text =
            |number: u64| format!("row {number} {}", "z".repeat(usize::try_from(number % 7 * 20).unwrap()));
        let mut next = 1;
        for round in 0..12 {
            let texts: Vec<String> = (next..next + 1 + round % 3).map(text).collect();
            self.publish(next, &texts, (round % 4 == 1).then_some(round))?;
            next += texts.len() as u64;
            self.publish(next, &[text(next)], None)?;
            next += 1;
            match round % 6 {
                1 => self.consume(2)?,
                2 => self.delete(&[RowId(next - 2), RowId(next - 3)])?,
                3 => self.queue.maintain()?,
                4 => self.queue.compact()?,
                _ => {}
            }
        }
        let doomed: Vec<RowId> = (8..next - 1).map(RowId).collect();
        self.delete(&doomed)?;
        self.queue.maintain()?;
        self.publish(next, &[text(next)], Some(40))?;
        self.change(|state| *state = Held::default(), |queue, _| queue.truncate())?;
        self.publish(1, &["after emptying".to_owned()], Some(3))?;
        self.publish(2, &["a second one".to_owned()], None)?;
        self.consume(1)
    }
}

/// The contents of a queue that was just opened.
fn held(queue: &Arc<Queue>) -> BTreeMap<RowId, String> {
    seen(&session(5), queue).into_iter().collect()
}

/// Opens what the crash left, stops that too at each sync, and compares the result with the history.
fn check(after: &FaultDisk, history: &History, may_lose: bool) -> Result<(), String> {
    for sync in 0.. {
        let disk = after.after_crash(Unsynced::Keep);
        disk.stop_in(sync);
        let engine = start(Arc::new(disk.clone()));
        match engine.open(Path::new(FOLDER)) {
            Ok(queue) => {
                disk.stop_in(u64::MAX / 2);
                return compare(&disk, engine, queue, history, may_lose);
            }
            Err(Error::Disk { .. }) if disk.is_stopped() => {}
            Err(Error::Missing { .. }) if history.returned == 0 => return Ok(()),
            Err(error) => return Err(format!("opening: {error}")),
        }
        for unsynced in Unsynced::ALL {
            let again = disk.after_crash(unsynced);
            let engine = start(Arc::new(again.clone()));
            let queue = engine.open(Path::new(FOLDER)).map_err(|error| format!("second opening: {error}"))?;
            compare(&again, engine, queue, history, may_lose)?;
        }
    }
    Ok(())
}

/// The journal of relayed rows must match a state with these marks.
fn check_journal(queue: &Queue, marks: &[u64]) -> Result<(), String> {
    let came = |mark: u64| {
        let published = queue.publish(&[b"probe"], Some(&origin(mark)));
        published.map(|published| published == Published::Duplicate).map_err(|error| error.to_string())
    };
    let mut found = None;
    for mark in marks {
        if *mark != 0 && !came(*mark)? {
            return found
                .map(|_| ())
                .ok_or("a relayed row is in the queue and not in its journal".to_owned());
        }
        found = Some(*mark);
    }
    if came(found.unwrap_or(0) + 1)? {
        return Err("a relayed row is in the journal and not in the queue".to_owned());
    }
    Ok(())
}

fn compare(
    disk: &FaultDisk,
    engine: Engine,
    queue: Arc<Queue>,
    history: &History,
    may_lose: bool,
) -> Result<(), String> {
    let rows = held(&queue);
    let first = if may_lose { 0 } else { history.written.saturating_sub(1) };
    let fitting = history.states[first..].iter().filter(|state| state.0 == rows);
    let mut marks: Vec<u64> = fitting.map(|(_, mark)| *mark).collect();
    if marks.is_empty() {
        return Err(format!("found {rows:?}, which is none of {:?}", &history.states[first..]));
    }
    marks.sort_unstable();
    check_journal(&queue, &marks)?;
    queue.maintain().map_err(|error| format!("afterwards: {error}"))?;
    let before = held(&queue);
    drop((queue, engine));
    let engine = start(Arc::new(disk.clone()));
    let reopened = engine.open(Path::new(FOLDER)).map_err(|error| error.to_string())?;
    if held(&reopened) == before { Ok(()) } else { Err("it changed when it was opened again".to_owned()) }
}

/// Wraps a disk to watch it.
type Wrap = fn(FaultDisk) -> Arc<dyn Disk>;

fn honest(disk: FaultDisk) -> Arc<dyn Disk> {
    Arc::new(disk)
}

/// Runs the script on a disk until it stops. Returns the history, and whether the script reached its end.
fn play(disk: &FaultDisk, wrap: Wrap, sync: Sync) -> (History, Result<(), Error>) {
    match Script::begin(wrap(disk.clone()), sync) {
        Err(error) => (History { states: vec![Held::default()], returned: 0, written: 0 }, Err(error)),
        Ok(mut script) => {
            let result = script.run();
            (script.history, result)
        }
    }
}

fn crash_everywhere(wrap: Wrap, sync: Sync) -> Result<u64, String> {
    let calm = FaultDisk::default();
    play(&calm, wrap, sync).1.map_err(|error| error.to_string())?;
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let (history, _) = play(&disk, wrap, sync);
        for unsynced in Unsynced::ALL {
            let may_lose = sync != Sync::Always && unsynced != Unsynced::Keep;
            check(&disk.after_crash(unsynced), &history, may_lose)
                .map_err(|what| format!("stopped at sync {stop}, {unsynced:?}, {sync:?}: {what}"))?;
        }
    }
    Ok(calm.syncs())
}

#[test]
fn nothing_that_returned_is_lost_wherever_it_stops() {
    let syncs = crash_everywhere(honest, Sync::Always).unwrap();
    assert!(syncs > 60, "{syncs}");
}

#[test]
fn without_syncs_the_end_is_lost_and_nothing_else() {
    let always = crash_everywhere(honest, Sync::Always).unwrap();
    let never = crash_everywhere(honest, Sync::Never).unwrap();
    assert!(never < always);
}

#[test]
fn a_failed_sync_ends_the_service_and_loses_nothing_that_returned() {
    fail_everywhere(honest).unwrap();
}

/// Lets each sync fail once, on a disk that then pretends.
fn fail_everywhere(wrap: Wrap) -> Result<(), String> {
    let calm = FaultDisk::default();
    play(&calm, wrap, Sync::Always).1.map_err(|error| error.to_string())?;
    for fail in 0..calm.syncs() {
        let disk = FaultDisk::failing_at(fail);
        let (history, result) = play(&disk, wrap, Sync::Always);
        if result.is_ok() {
            return Err(format!("nobody was told of sync {fail}"));
        }
        check(&disk.after_crash(Unsynced::Drop), &history, false)
            .map_err(|what| format!("sync {fail} failed: {what}"))?;
    }
    Ok(())
}

#[test]
fn after_a_failed_sync_nothing_is_taken_or_given() {
    let calm = FaultDisk::default();
    let mut script = Script::begin(Arc::new(calm.clone()), Sync::Always).unwrap();
    script.publish(1, &["kept".to_owned()], None).unwrap();
    let disk = FaultDisk::failing_at(calm.syncs());
    let mut script = Script::begin(Arc::new(disk.clone()), Sync::Always).unwrap();
    script.publish(1, &["kept".to_owned()], None).unwrap();
    let queue = script.queue.clone();
    assert!(matches!(queue.publish(&[b"unsynced"], None), Err(Error::Disk { .. })));
    assert!(matches!(queue.publish(&[b"more"], None), Err(Error::Failed { .. })));
    assert!(matches!(script.taker.wait(&[all(&queue)], &mut poll(1)), Err(Error::Failed { .. })));
    assert!(matches!(queue.read(RowId(1)), Err(Error::Failed { .. })));
}

/// The canaries: disks that make the queue careless. The harness must reject them.
struct Careless {
    disk: FaultDisk,
    files: bool,
    folders: bool,
    /// Sync errors are swallowed.
    deaf: bool,
}

struct CarelessSink {
    sink: Box<dyn Sink>,
    sync: bool,
    deaf: bool,
}

impl Write for CarelessSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Sink for CarelessSink {
    fn sync(&mut self) -> io::Result<()> {
        if !self.sync {
            return Ok(());
        }
        match self.sink.sync() {
            Err(_) if self.deaf => Ok(()),
            other => other,
        }
    }
}

impl Careless {
    fn sink(&self, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        Box::new(CarelessSink { sink, sync: self.files, deaf: self.deaf })
    }
}

impl Disk for Careless {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.disk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        Ok(self.sink(self.disk.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if self.folders { self.disk.sync_folder(folder) } else { Ok(()) }
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.disk.stat(path)
    }

    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        Ok(self.sink(self.disk.append(path, len)?))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.create_folder(folder)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.remove_folder(folder)
    }

    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>> {
        self.disk.volume(path)
    }

    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.disk.lock(path, share)
    }
}

#[test]
fn the_harness_rejects_a_queue_that_does_not_sync_its_files() {
    let wrap = |disk| Arc::new(Careless { disk, files: false, folders: true, deaf: false }) as Arc<dyn Disk>;
    crash_everywhere(wrap, Sync::Always).unwrap_err();
}

#[test]
fn the_harness_rejects_a_queue_that_does_not_sync_its_folder() {
    let wrap = |disk| Arc::new(Careless { disk, files: true, folders: false, deaf: false }) as Arc<dyn Disk>;
    crash_everywhere(wrap, Sync::Always).unwrap_err();
}

#[test]
fn the_harness_rejects_a_queue_that_does_not_hear_of_a_failed_sync() {
    let wrap = |disk| Arc::new(Careless { disk, files: true, folders: true, deaf: true }) as Arc<dyn Disk>;
    fail_everywhere(wrap).unwrap_err();
}
