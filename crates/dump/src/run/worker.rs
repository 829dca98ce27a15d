//! Dumps the tables: one session plans chunks, the others read them, largest tables first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use server::definition::with_counter;
use server::snapshot::Snapshot;
use server::{Hold, Session};

use super::altered::{is_damage, leave_out, read_again};
use super::check::explain;
use super::chunk_size::ChunkSize;
use super::table_ids::TableIds;
use super::throttle::Throttle;
use super::{Context, DumpRequest, read_units};
use crate::journal::Journal;
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::parallel::Failure;
use crate::table_progress::TableProgress;
use crate::{Error, plan};

/// What to do with the folder of a dump that was stopped.
pub(super) const STOPPED: &str = "the dump is incomplete: remove the folder, or dump into it again with --resume, which keeps its complete tables";

/// What all parts of a dump need.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) context: &'a Context,
    pub(super) request: &'a DumpRequest,
    pub(super) journal: &'a Journal,
    /// The time before which a table must have been created for an ALTER to show in that time.
    pub(super) settled: Option<&'a str>,
}

/// What one session does at a time.
enum Task {
    /// A chunk to be read.
    Chunk {
        table: usize,
        chunk: Chunk,
        /// The bytes it was planned with, by which the time it takes is judged.
        bytes: u64,
    },
    /// Small tables to be read into one file, and the file's number.
    SmallTables { tables: Vec<usize>, file: u32 },
}

/// The progress of a table.
#[derive(Default)]
pub(super) struct State {
    pub(super) planned: bool,
    /// Chunks that are planned and not read yet.
    pub(super) open: usize,
    pub(super) chunks: Vec<Chunk>,
    /// The AUTO_INCREMENT counter, if rows have moved it since the catalogue was read.
    pub(super) counter: Option<u64>,
}

/// What the threads share.
pub(super) struct Shared<'a> {
    pub(super) job: Job<'a>,
    pub(super) manifest: &'a Manifest,
    pub(super) throttle: Throttle,
    pace: Mutex<ChunkSize>,
    states: Vec<Mutex<State>>,
    pub(super) tallies: Vec<TableProgress>,
    /// Tables that are locked until all are read, because no snapshot covers them.
    pub(super) locked: Mutex<(usize, Option<Hold>)>,
    /// Tables that DDL changed, and what was observed.
    altered: Mutex<BTreeMap<usize, String>>,
    /// Tables whose rows the server can't read, and what it says.
    damaged: Mutex<BTreeMap<usize, String>>,
    failure: Failure,
}

/// Reads the rows of all tables into files, and records the chunks in the manifest. Returns a line for each
/// table whose rows the server can't read.
pub(super) fn run(
    job: Job<'_>,
    snapshot: &mut Snapshot,
    identities: &TableIds,
    manifest: &mut Manifest,
) -> Result<Vec<String>, Error> {
    let total = manifest.tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum();
    job.context.progress.phase("dumping", Some(total));
    let shared = Shared::new(job, manifest, snapshot.take_locks());
    let mut sessions = std::mem::take(&mut snapshot.sessions).into_iter();
    let mut planner = sessions.next();
    std::thread::scope(|scope| {
        let (send, tasks) = crossbeam_channel::bounded::<Task>(job.request.sessions);
        for session in sessions {
            let (tasks, shared) = (tasks.clone(), &shared);
            scope.spawn(move || shared.failure.guard(|| shared.work(session, &tasks)));
        }
        drop(tasks);
        shared.failure.guard(|| match &mut planner {
            Some(session) => shared.plan(session, &send),
            None => Ok(()),
        });
        drop(send);
    });
    shared.failure.into_result()?;
    let altered = shared.altered.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut damaged = shared.damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
    let states: Vec<State> = shared
        .states
        .into_iter()
        .map(|state| state.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect();
    for (entry, state) in manifest.tables.iter_mut().zip(states).filter(|(entry, _)| entry.is_due()) {
        state.store(entry);
    }
    let Some(mut session) = planner else { return Ok(Vec::new()) };
    for (at, what) in altered.into_iter().filter(|(at, _)| !damaged.contains_key(at)).collect::<Vec<_>>() {
        let name = &manifest.tables[at].table.name;
        if !identities.same(&TableIds::read(&mut session)?, name) {
            return Err(Error::Altered { table: name.to_string(), what });
        }
        match read_again(job, &mut session, manifest, (at, what)) {
            Err(Error::Object { source, .. }) if is_damage(&source) => {
                damaged.insert(at, source.to_string());
            }
            done => done?,
        }
    }
    damaged.into_iter().map(|(at, what)| leave_out(job, manifest, at, &what)).collect()
}

impl State {
    /// Stores in the manifest what was found out about a table that was read.
    pub(super) fn store(self, entry: &mut TableEntry) {
        if let Some(counter) = self.counter {
            entry.table.definition = with_counter(&entry.table.definition, counter);
        }
        entry.set_chunks(self.chunks);
    }
}

impl<'a> Shared<'a> {
    pub(super) fn new(job: Job<'a>, manifest: &'a Manifest, locks: Option<Hold>) -> Shared<'a> {
        let request = job.request;
        let due = || manifest.tables.iter().filter(|entry| entry.is_due());
        let total = due().map(|entry| entry.table.bytes).sum();
        let unversioned = due().filter(|entry| !entry.table.is_transactional()).count();
        let tally = |entry: &TableEntry| TableProgress::new(&entry.table.name, entry.table.bytes);
        Shared {
            job,
            manifest,
            throttle: Throttle::new(request.limits, request.sessions),
            pace: Mutex::new(
                request.chunk_bytes.map_or_else(|| ChunkSize::new(total, request.sessions), ChunkSize::fixed),
            ),
            states: manifest.tables.iter().map(|_| Mutex::default()).collect(),
            tallies: manifest.tables.iter().map(tally).collect(),
            locked: Mutex::new((unversioned, locks)),
            altered: Mutex::default(),
            damaged: Mutex::default(),
            failure: Failure::default(),
        }
    }

    /// Continues without a table that was altered, which is tried again in the end, or that can't be read.
    pub(super) fn survive(&self, at: usize, done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Err(Error::Object { source, .. }) if is_damage(&source) => {
                let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                damaged.entry(at).or_insert(source.to_string());
                Ok(())
            }
            Err(Error::Altered { what, .. }) => {
                let mut altered = self.altered.lock().unwrap_or_else(PoisonError::into_inner);
                altered.entry(at).or_insert(what);
                Ok(())
            }
            done => done,
        }
    }

    /// Whether it is useless to read more of a table.
    fn is_out(&self, at: usize) -> bool {
        [&self.altered, &self.damaged]
            .into_iter()
            .any(|tables| tables.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&at))
    }

    pub(super) fn must_end(&self) -> bool {
        self.failure.is_there() || self.job.context.is_stopped()
    }

    pub(super) fn state(&self, table: usize) -> MutexGuard<'_, State> {
        self.states[table].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, ChunkSize> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, session: &mut Session, tasks: &Sender<Task>) -> Result<(), Error> {
        let mut order: Vec<usize> = (0..self.manifest.tables.len()).collect();
        order.retain(|at| self.manifest.tables[*at].is_due());
        order.sort_by_key(|at| {
            let table = &self.manifest.tables[*at].table;
            (table.is_transactional(), std::cmp::Reverse(table.bytes))
        });
        let (small, large) = read_units::split(self.manifest, order);
        for at in large {
            let table = &self.manifest.tables[at].table;
            let mut number = 0;
            let mut hand_on = |partitions, range, bytes| {
                let chunk = Chunk::planned(number, partitions, range);
                number += 1;
                self.state(at).open += 1;
                self.send(tasks, Task::Chunk { table: at, chunk, bytes })
            };
            let planned = read_units::plan(table, session, &|| self.pace().bytes(), &mut hand_on);
            self.survive(at, planned.map_err(|error| explain(error, table)))?;
            session.execute(plan::RELEASE_LOCKS)?;
            self.state(at).planned = true;
            let closed = self.chunk_done(session, at, None);
            self.survive(at, closed)?;
        }
        // The numbers continue after those of files that a stopped dump has left.
        let chunks = self.manifest.tables.iter().flat_map(|entry| &entry.chunks);
        let kept = chunks.filter_map(|chunk| Some(chunk.within?.file + 1)).max().unwrap_or(0);
        for (file, tables) in (kept..).zip(small) {
            for at in &tables {
                let mut state = self.state(*at);
                (state.planned, state.open) = (true, 1);
            }
            self.send(tasks, Task::SmallTables { tables, file })?;
        }
        Ok(())
    }

    fn send(&self, tasks: &Sender<Task>, task: Task) -> Result<(), Error> {
        // If nobody takes it any more, the reason is in `error`.
        tasks.send(task).ok();
        if self.must_end() { Err(Error::Stopped(STOPPED)) } else { Ok(()) }
    }

    fn work(&self, mut session: Session, tasks: &Receiver<Task>) -> Result<(), Error> {
        for task in tasks {
            if self.must_end() {
                return Err(Error::Stopped(STOPPED));
            }
            self.throttle.begin(&mut session, &|| self.must_end())?;
            match task {
                Task::Chunk { table, .. } if self.is_out(table) => {}
                Task::Chunk { table, chunk, bytes } => {
                    let began = Instant::now();
                    let done = self.read_alone(&mut session, table, chunk);
                    self.survive(table, done)?;
                    self.pace().note(bytes, began.elapsed());
                }
                Task::SmallTables { tables, file } => self.read_small_tables(&mut session, tables, file)?,
            }
        }
        Ok(())
    }
}
