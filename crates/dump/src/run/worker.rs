//! One session plans, the others read: chunks of the largest tables first.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use server::catalogue::table_state;
use server::definition::without_counter;
use server::snapshot::Snapshot;
use server::{Hold, Session};

use super::pace::Pace;
use super::throttle::Throttle;
use super::{DumpRequest, World};
use crate::file::Writer;
use crate::hash::Sum;
use crate::journal::{Journal, Step};
use crate::line::Lines;
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::parallel::Failure;
use crate::plan::{self, Cut};
use crate::tally::Tally;
use crate::{Error, select};

/// A chunk to be read.
struct Task {
    table: usize,
    chunk: Chunk,
    /// What it was planned with, to judge the time it takes by.
    bytes: u64,
}

/// How far a table is.
#[derive(Default)]
struct State {
    planned: bool,
    open: usize,
    chunks: Vec<Chunk>,
}

/// What the threads share.
struct Shared<'a> {
    world: &'a World,
    request: &'a DumpRequest,
    manifest: &'a Manifest,
    journal: &'a Journal,
    throttle: Throttle,
    pace: Mutex<Pace>,
    states: Vec<Mutex<State>>,
    tallies: Vec<Tally>,
    /// Tables that are locked because no snapshot covers them, until all are read.
    locked: Mutex<(usize, Option<Hold>)>,
    failure: Failure,
}

/// Reads the rows of all tables into files, and notes the chunks in the manifest.
pub(super) fn run(
    world: &World,
    request: &DumpRequest,
    snapshot: &mut Snapshot,
    (manifest, journal): (&mut Manifest, &Journal),
) -> Result<(), Error> {
    let total = manifest.tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum();
    world.progress.phase("dumping", Some(total));
    let unversioned =
        manifest.tables.iter().filter(|entry| entry.is_due() && !entry.table.is_transactional()).count();
    let shared = Shared {
        world,
        request,
        manifest,
        journal,
        throttle: Throttle::new(request.limits, request.sessions),
        pace: Mutex::new(request.chunk_bytes.map_or_else(|| Pace::new(total, request.sessions), Pace::fixed)),
        states: manifest.tables.iter().map(|_| Mutex::default()).collect(),
        tallies: manifest
            .tables
            .iter()
            .map(|entry| Tally::new(&entry.table.name, entry.table.bytes))
            .collect(),
        locked: Mutex::new((unversioned, snapshot.take_locks())),
        failure: Failure::default(),
    };
    let mut sessions = std::mem::take(&mut snapshot.sessions).into_iter();
    let planner = sessions.next();
    std::thread::scope(|scope| {
        let (send, tasks) = crossbeam_channel::bounded::<Task>(request.sessions);
        for session in sessions {
            let (tasks, shared) = (tasks.clone(), &shared);
            scope.spawn(move || shared.failure.guard(|| shared.work(session, &tasks)));
        }
        drop(tasks);
        shared.failure.guard(|| match planner {
            Some(session) => shared.plan(session, &send),
            None => Ok(()),
        });
        drop(send);
    });
    shared.failure.into_result()?;
    let states: Vec<State> = shared
        .states
        .into_iter()
        .map(|state| state.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect();
    for (entry, state) in manifest.tables.iter_mut().zip(states).filter(|(entry, _)| entry.is_due()) {
        entry.set_chunks(state.chunks);
    }
    Ok(())
}

impl Shared<'_> {
    fn must_end(&self) -> bool {
        self.failure.is_there() || self.world.is_stopped()
    }

    fn state(&self, table: usize) -> MutexGuard<'_, State> {
        self.states[table].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, mut session: Session, tasks: &Sender<Task>) -> Result<(), Error> {
        let mut order: Vec<usize> = (0..self.manifest.tables.len()).collect();
        order.retain(|at| self.manifest.tables[*at].is_due());
        order.sort_by_key(|at| {
            let table = &self.manifest.tables[*at].table;
            (table.is_transactional(), std::cmp::Reverse(table.bytes))
        });
        for at in order {
            let table = &self.manifest.tables[at].table;
            let parts: Vec<Option<usize>> = if table.versioned || table.partitions.is_empty() {
                vec![None]
            } else {
                (0..table.partitions.len()).map(Some).collect()
            };
            let mut number = 0;
            for part in parts {
                let partition =
                    part.and_then(|part| table.partitions.get(part)).map(|part| part.name.clone());
                let mut hand_on = |range, bytes| {
                    let chunk = Chunk {
                        number,
                        partition: partition.clone(),
                        range,
                        sum: Sum::default(),
                        text_bytes: 0,
                        file_bytes: 0,
                        blake3: String::new(),
                    };
                    number += 1;
                    self.state(at).open += 1;
                    // When nobody takes it any more, the reason is in `error`.
                    tasks.send(Task { table: at, chunk, bytes }).ok();
                    if self.must_end() { Err(Error::Stopped(STOPPED)) } else { Ok(()) }
                };
                let cut = Cut { table, partition: part, chunk_bytes: &|| self.pace().bytes() };
                let planned = cut.run(&mut session, &mut hand_on);
                planned.map_err(|error| explain(error, table))?;
            }
            session.execute(plan::FORGET)?;
            self.state(at).planned = true;
            self.close(&mut session, at, None)?;
        }
        Ok(())
    }

    fn work(&self, mut session: Session, tasks: &Receiver<Task>) -> Result<(), Error> {
        for task in tasks {
            if self.must_end() {
                return Err(Error::Stopped(STOPPED));
            }
            let entry = &self.manifest.tables[task.table];
            self.throttle.begin(&mut session, &|| self.must_end())?;
            let began = Instant::now();
            let read = self.read(&mut session, (task.table, entry), task.chunk);
            let chunk = read.map_err(|error| match error {
                Error::Server(server::Error::Sink(_)) | Error::File { .. } if self.must_end() => {
                    Error::Stopped(STOPPED)
                }
                error => explain(error, &entry.table),
            })?;
            self.pace().note(task.bytes, began.elapsed());
            self.close(&mut session, task.table, Some(chunk))?;
        }
        Ok(())
    }

    /// Reads a chunk into its file.
    fn read(
        &self,
        session: &mut Session,
        (at, entry): (usize, &TableEntry),
        mut chunk: Chunk,
    ) -> Result<Chunk, Error> {
        let request = self.request;
        let path = self.manifest.path(&request.folder, entry, chunk.number);
        let columns = select::literals(entry);
        let encoder = request.format.encoder(&entry.table.name, &columns);
        let mut writer =
            Writer::create(&*self.world.disk, &path, request.codec, encoder).map_err(Error::file(&path))?;
        let estimate = entry.table.bytes / entry.table.rows.max(1);
        let mut failed = None;
        let mut to = |lines: &[u8], rows: u64| {
            if self.must_end() {
                return Err(io::Error::other("stopped"));
            }
            self.throttle.pass(lines.len() as u64, &|| self.must_end());
            self.world.progress.read(rows * estimate);
            self.world.progress.done(rows, lines.len() as u64);
            self.tallies[at].add(&*self.world.progress, rows, rows * estimate);
            writer.lines(lines).map_err(|error| {
                failed = Some(error);
                io::Error::other("the file can't be written")
            })
        };
        let mut lines = Lines::new(&mut to);
        let sql = select::query(entry, &chunk, request.condition.as_deref());
        let streamed = session.stream(&sql, &mut lines).map_err(Error::from);
        let ended = streamed.and_then(|_| lines.finish().map_err(Error::file(&path)));
        if let Some(error) = failed {
            return Err(Error::file(&path)(error));
        }
        (chunk.sum, chunk.text_bytes) = ended?;
        let written = writer.finish().map_err(Error::file(&path))?;
        (chunk.file_bytes, chunk.blake3) = (written.bytes, written.blake3);
        session.execute(plan::FORGET)?;
        Ok(chunk)
    }

    /// Notes a chunk; with a table's last one makes sure that the table is still the one that the catalogue told of.
    fn close(&self, session: &mut Session, at: usize, chunk: Option<Chunk>) -> Result<(), Error> {
        if let Some(chunk) = &chunk {
            self.journal.add(&Step::Chunk(at, chunk.clone()))?;
        }
        {
            let mut state = self.state(at);
            state.open -= usize::from(chunk.is_some());
            state.chunks.extend(chunk);
            if !state.planned || state.open > 0 {
                return Ok(());
            }
        }
        let table = &self.manifest.tables[at].table;
        let (definition, created) =
            table_state(session, &table.name).map_err(|error| explain(error.into(), table))?;
        session.execute(plan::FORGET)?;
        let altered = |what: &str| Error::Altered { table: table.name.to_string(), what: what.to_owned() };
        if without_counter(&definition) != without_counter(&table.definition) {
            return Err(altered("its definition is another"));
        }
        if table.is_transactional() && created != table.created {
            return Err(altered("it was made anew"));
        }
        self.journal.add(&Step::Table(at))?;
        self.tallies[at].end(&*self.world.progress);
        if table.is_transactional() {
            return Ok(());
        }
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        locked.0 = locked.0.saturating_sub(1);
        if locked.0 == 0 {
            locked.1 = None;
        }
        Ok(())
    }
}

pub(super) const STOPPED: &str = "the folder has no manifest: remove it, or dump into it again with --resume, which keeps its whole tables";

/// What errors of a table mean that is not as it was.
fn explain(error: Error, table: &server::catalogue::Table) -> Error {
    /// Definition changed since the snapshot; no such table, column, partition or index; engine's table gone.
    const ALTERED: [u16; 8] = [1412, 1146, 1054, 1735, 1176, 1932, 1105, 1030];
    match error {
        Error::Server(source) if source.code().is_some_and(|code| ALTERED.contains(&code)) => {
            Error::Altered { table: table.name.to_string(), what: source.to_string() }
        }
        Error::Server(source) if source.code().is_some() => {
            Error::Object { object: format!("table {}", table.name), source: Box::new(source) }
        }
        error => error,
    }
}
