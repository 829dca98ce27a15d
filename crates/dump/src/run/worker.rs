//! One session plans, the others read; chunks of the largest tables come first.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use disk::Output;
use server::catalogue::{Catalogue, Table, Wanted, table_state};
use server::definition::{counted, counter, with_counter, without_counter};
use server::snapshot::Snapshot;
use server::{Hold, Session, TableName};

use super::identity::Identities;
use super::pace::Pace;
use super::throttle::Throttle;
use super::{DumpRequest, World, part};
use crate::file::Writer;
use crate::journal::{Journal, Step};
use crate::line::Lines;
use crate::manifest::{Chunk, Manifest, TableEntry, Within};
use crate::parallel::Failure;
use crate::plan;
use crate::tally::Tally;
use crate::{Error, select};

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
    Together { tables: Vec<usize>, file: u32 },
}

/// The progress of a table.
#[derive(Default)]
struct State {
    planned: bool,
    open: usize,
    chunks: Vec<Chunk>,
    /// The AUTO_INCREMENT counter, if rows have moved it since the catalogue was read.
    counter: Option<u64>,
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
    /// Tables that are locked until all are read, because no snapshot covers them.
    locked: Mutex<(usize, Option<Hold>)>,
    /// Tables that DDL changed, and what was observed.
    altered: Mutex<BTreeMap<usize, String>>,
    /// Tables whose rows the server can't read, and what it says.
    damaged: Mutex<BTreeMap<usize, String>>,
    failure: Failure,
}

/// Reads the rows of all tables into files, and records the chunks in the manifest. Returns a line for each
/// table whose rows the server can't read.
pub(super) fn run(
    world: &World,
    request: &DumpRequest,
    (snapshot, identities): (&mut Snapshot, &Identities),
    (manifest, journal): (&mut Manifest, &Journal),
) -> Result<Vec<String>, Error> {
    let total = manifest.tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum();
    world.progress.phase("dumping", Some(total));
    let shared = Shared::new(world, request, manifest, journal, snapshot.take_locks());
    let mut sessions = std::mem::take(&mut snapshot.sessions).into_iter();
    let mut planner = sessions.next();
    std::thread::scope(|scope| {
        let (send, tasks) = crossbeam_channel::bounded::<Task>(request.sessions);
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
        state.give(entry);
    }
    let Some(mut session) = planner else { return Ok(Vec::new()) };
    for (at, what) in altered.into_iter().filter(|(at, _)| !damaged.contains_key(at)).collect::<Vec<_>>() {
        let name = &manifest.tables[at].table.name;
        if !identities.same(&Identities::read(&mut session)?, name) {
            return Err(Error::Altered { table: name.to_string(), what });
        }
        match again(world, request, &mut session, (manifest, journal), (at, what)) {
            Err(Error::Object { source, .. }) if is_damage(&source) => {
                damaged.insert(at, source.to_string());
            }
            done => done?,
        }
    }
    damaged
        .into_iter()
        .map(|(at, what)| leave_out(world, request, (manifest, journal), (at, &what)))
        .collect()
}

/// Leaves out the rows of a table that the server can't read. Returns a line that says so.
fn leave_out(
    world: &World,
    request: &DumpRequest,
    (manifest, journal): (&mut Manifest, &Journal),
    (at, what): (usize, &str),
) -> Result<String, Error> {
    // What was read of it before does not count.
    journal.add(&Step::Again(at))?;
    let entry = &mut manifest.tables[at];
    entry.data = false;
    entry.set_chunks(Vec::new());
    super::resume::clear(&*world.disk, &request.folder.join(&entry.folder))?;
    Ok(format!("rows of table {}: the server can't read them ({what})", entry.table.name))
}

/// Whether the server says that the files of a table are missing or damaged. Numbers below 200 are those of
/// storage engines.
fn is_damage(error: &server::Error) -> bool {
    /// Can't open, can't find the file; the engine failed; incorrect information, key file, old key file;
    /// crashed; the index is corrupt, the tablespace is missing or discarded; not in the engine.
    const DAMAGE: [u16; 12] = [1016, 1017, 1030, 1033, 1034, 1035, 1194, 1195, 1712, 1812, 1814, 1932];
    matches!(error, server::Error::Sql { code, .. } if *code < 200 || DAMAGE.contains(code))
}

/// Reads an altered table once more, in one piece and under its new definition, if the snapshot allows that.
/// If not, all other tables are complete by now, and a resumed dump has to read only this one.
fn again(
    world: &World,
    request: &DumpRequest,
    session: &mut Session,
    (manifest, journal): (&mut Manifest, &Journal),
    (at, what): (usize, String),
) -> Result<(), Error> {
    let name = manifest.tables[at].table.name.clone();
    journal.add(&Step::Again(at))?;
    let found = Catalogue::read(session, &Only(&name), &mut |_, _| {})?;
    session.execute(plan::FORGET)?;
    let Some(table) = found.tables.into_iter().find(|table| table.name == name) else {
        return Err(Error::Altered { table: name.to_string(), what });
    };
    manifest.tables[at] = super::entry(&table, request);
    let entry = &manifest.tables[at];
    let folder = request.folder.join(&entry.folder);
    super::resume::clear(&*world.disk, &folder)?;
    world.disk.create_folder(&folder).map_err(Error::file(&folder))?;
    let shared = Shared::new(world, request, manifest, journal, None);
    (shared.state(at).planned, shared.state(at).open) = (true, 1);
    let chunk = Chunk::planned(0, Vec::new(), None);
    let path = manifest.path(&request.folder, entry, &chunk);
    let output = Output::create(&*world.disk, &path).map_err(Error::file(&path))?;
    let (chunk, output) = match shared.rows(session, (at, entry), chunk, (output, &path)) {
        // It is not that the table was altered.
        Err(Error::Server(source)) if is_damage(&source) => {
            return Err(Error::Object { object: format!("table {name}"), source: Box::new(source) });
        }
        read => read.map_err(|error| shared.told(error, entry))?,
    };
    output.finish().map_err(Error::file(&path))?;
    shared.close(session, at, Some(chunk))?;
    let state = std::mem::take(&mut *shared.state(at));
    state.give(&mut manifest.tables[at]);
    world.progress.note(&format!(
        "table {name} was altered while it was dumped ({what}); it was read again, and is in the dump under its new definition"
    ));
    Ok(())
}

/// Selects one table.
struct Only<'a>(&'a TableName);

impl Wanted for Only<'_> {
    fn schema(&self, schema: &str) -> bool {
        self.0.schema == schema
    }

    fn table(&self, schema: &str, table: &str) -> bool {
        self.0.schema == schema && self.0.table == table
    }

    fn programs(&self, _: &str) -> bool {
        false
    }

    fn accounts(&self) -> bool {
        false
    }
}

impl State {
    /// Stores in the manifest what was found out about a table that was read.
    fn give(self, entry: &mut TableEntry) {
        if let Some(counter) = self.counter {
            entry.table.definition = with_counter(&entry.table.definition, counter);
        }
        entry.set_chunks(self.chunks);
    }
}

impl<'a> Shared<'a> {
    fn new(
        world: &'a World,
        request: &'a DumpRequest,
        manifest: &'a Manifest,
        journal: &'a Journal,
        locks: Option<Hold>,
    ) -> Shared<'a> {
        let due = || manifest.tables.iter().filter(|entry| entry.is_due());
        let total = due().map(|entry| entry.table.bytes).sum();
        let unversioned = due().filter(|entry| !entry.table.is_transactional()).count();
        let tally = |entry: &TableEntry| Tally::new(&entry.table.name, entry.table.bytes);
        Shared {
            world,
            request,
            manifest,
            journal,
            throttle: Throttle::new(request.limits, request.sessions),
            pace: Mutex::new(
                request.chunk_bytes.map_or_else(|| Pace::new(total, request.sessions), Pace::fixed),
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
    fn survive(&self, at: usize, done: Result<(), Error>) -> Result<(), Error> {
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

    fn must_end(&self) -> bool {
        self.failure.is_there() || self.world.is_stopped()
    }

    fn state(&self, table: usize) -> MutexGuard<'_, State> {
        self.states[table].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, session: &mut Session, tasks: &Sender<Task>) -> Result<(), Error> {
        let mut order: Vec<usize> = (0..self.manifest.tables.len()).collect();
        order.retain(|at| self.manifest.tables[*at].is_due());
        order.sort_by_key(|at| {
            let table = &self.manifest.tables[*at].table;
            (table.is_transactional(), std::cmp::Reverse(table.bytes))
        });
        let (small, large) = part::split(self.manifest, order);
        for at in large {
            let table = &self.manifest.tables[at].table;
            let mut number = 0;
            let mut hand_on = |partitions, range, bytes| {
                let chunk = Chunk::planned(number, partitions, range);
                number += 1;
                self.state(at).open += 1;
                self.give(tasks, Task::Chunk { table: at, chunk, bytes })
            };
            let planned = part::plan(table, session, &|| self.pace().bytes(), &mut hand_on);
            self.survive(at, planned.map_err(|error| explain(error, table)))?;
            session.execute(plan::FORGET)?;
            self.state(at).planned = true;
            let closed = self.close(session, at, None);
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
            self.give(tasks, Task::Together { tables, file })?;
        }
        Ok(())
    }

    fn give(&self, tasks: &Sender<Task>, task: Task) -> Result<(), Error> {
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
                    let done = self.alone(&mut session, table, chunk);
                    self.survive(table, done)?;
                    self.pace().note(bytes, began.elapsed());
                }
                Task::Together { tables, file } => self.together(&mut session, tables, file)?,
            }
        }
        Ok(())
    }

    /// Reads a chunk into a file of its own.
    fn alone(&self, session: &mut Session, table: usize, chunk: Chunk) -> Result<(), Error> {
        let path = self.manifest.path(&self.request.folder, &self.manifest.tables[table], &chunk);
        let output = Output::create(&*self.world.disk, &path).map_err(Error::file(&path))?;
        let (chunk, output) = self.read(session, table, chunk, (output, &path))?;
        output.finish().map_err(Error::file(&path))?;
        self.close(session, table, Some(chunk))
    }

    /// Reads small tables into one file, one after the other. If one was altered the file is started again
    /// without it.
    fn together(&self, session: &mut Session, mut tables: Vec<usize>, file: u32) -> Result<(), Error> {
        let path = self.manifest.path_together(&self.request.folder, file);
        let chunks = loop {
            if tables.is_empty() {
                return Ok(());
            }
            let mut chunks = Vec::new();
            let read = self.parts(session, &tables, (file, &path), &mut chunks);
            match tables.get(chunks.len()).copied() {
                Some(at) => {
                    self.survive(at, read)?;
                    session.execute(plan::FORGET)?;
                    tables.retain(|other| *other != at);
                }
                None => {
                    read?;
                    break chunks;
                }
            }
        };
        tables.into_iter().zip(chunks).try_for_each(|(at, chunk)| {
            let closed = self.close(session, at, Some(chunk));
            self.survive(at, closed)
        })
    }

    /// The parts of such a file, as far as they could be read.
    fn parts(
        &self,
        session: &mut Session,
        tables: &[usize],
        (file, path): (u32, &Path),
        chunks: &mut Vec<Chunk>,
    ) -> Result<(), Error> {
        let mut output = Output::create(&*self.world.disk, path).map_err(Error::file(path))?;
        let mut offset = 0;
        for at in tables {
            let mut chunk = Chunk::planned(0, Vec::new(), None);
            chunk.within = Some(Within { file, offset });
            let (chunk, rest) = self.read(session, *at, chunk, (output, path))?;
            output = rest;
            offset += chunk.file_bytes;
            chunks.push(chunk);
        }
        output.finish().map_err(Error::file(path))
    }

    /// Reads a chunk into a file, and explains errors in the user's words.
    fn read<W: Write>(
        &self,
        session: &mut Session,
        at: usize,
        chunk: Chunk,
        to: (W, &Path),
    ) -> Result<(Chunk, W), Error> {
        let entry = &self.manifest.tables[at];
        self.rows(session, (at, entry), chunk, to).map_err(|error| self.told(error, entry))
    }

    fn told(&self, error: Error, entry: &TableEntry) -> Error {
        match error {
            Error::Server(server::Error::Sink(_)) | Error::File { .. } if self.must_end() => {
                Error::Stopped(STOPPED)
            }
            error => explain(error, &entry.table),
        }
    }

    fn rows<W: Write>(
        &self,
        session: &mut Session,
        (at, entry): (usize, &TableEntry),
        mut chunk: Chunk,
        (output, path): (W, &Path),
    ) -> Result<(Chunk, W), Error> {
        let request = self.request;
        let columns = select::literals(entry);
        let encoder = request.format.encoder(&entry.table.name, &columns, entry.history);
        let mut writer = Writer::new(output, request.codec, encoder).map_err(Error::file(path))?;
        let estimate = entry.table.bytes / entry.table.rows.max(1);
        let mut failed = None;
        let mut to = |lines: &[u8], rows: u64| {
            if self.must_end() {
                return Err(io::Error::other("stopped"));
            }
            self.throttle.pass(lines.len() as u64, &|| self.must_end());
            self.world.progress.read(rows * estimate);
            self.world.progress.done(rows, lines.len() as u64);
            self.tallies[at].add(&*self.world.progress, rows, rows * estimate, lines.len() as u64);
            writer.lines(lines).map_err(|error| {
                failed = Some(error);
                io::Error::other("the file can't be written")
            })
        };
        let mut lines = Lines::new(&mut to);
        let sql = select::query(entry, &chunk, entry.condition.as_deref());
        let streamed = session.stream(&sql, &mut lines).map_err(Error::from);
        let ended = streamed.and_then(|_| lines.finish().map_err(Error::file(path)));
        if let Some(error) = failed {
            return Err(Error::file(path)(error));
        }
        (chunk.sum, chunk.text_bytes) = ended?;
        let (written, output) = writer.end().map_err(Error::file(path))?;
        (chunk.file_bytes, chunk.blake3) = (written.bytes, written.blake3);
        session.execute(plan::FORGET)?;
        Ok((chunk, output))
    }

    /// Records a chunk. After a table's last chunk, checks that the table is still the one in the catalogue.
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
        // While somebody has the table open in certain ways the server does not know its time of creation.
        let known = !created.is_empty() && !table.created.is_empty();
        if table.is_transactional() && known && created != table.created {
            return Err(altered("it was made anew"));
        }
        if counter(&definition) > counter(&table.definition) {
            let counter = counter_of_rows(session, table).map_err(|error| explain(error, table))?;
            self.state(at).counter = counter;
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

/// The counter for a table with the rows of the snapshot.
fn counter_of_rows(session: &mut Session, table: &Table) -> Result<Option<u64>, Error> {
    let Some(column) = counted(&table.definition) else { return Ok(None) };
    let last = session.value(&format!("SELECT MAX({column}) FROM {}", table.name))?;
    session.execute(plan::FORGET)?;
    let last = last.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Ok(Some(last.saturating_add(1).max(counter(&table.definition).unwrap_or(1))))
}

pub(super) const STOPPED: &str = "the folder has no manifest: remove it, or dump into it again with --resume, which keeps its whole tables";

/// Explains errors that mean that a table has changed.
fn explain(error: Error, table: &Table) -> Error {
    /// Definition changed since the snapshot; no such table, column, partition or index; the engine lost the
    /// table.
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
