//! The rows of a source: planned as a dump plans them, read from its snapshot while they are written.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use server::snapshot::Snapshot;
use server::{Hold, Session};

use crate::canonical::CanonicalLines;
use crate::hash::Sum;
use crate::load::{AGAIN, ChunkText, OnBlock, Sent, Task, TaskSource};
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::reading::ReadRequest;
use crate::reading::chunk_size::ChunkSize;
use crate::reading::read_units;
use crate::reading::table_check::{TABLES_PER_CHECK, TableCheck, explain};
use crate::reading::throttle::Throttle;
use crate::table_progress::TableProgress;
use crate::{Context, Error, plan, select};

/// This many small tables are committed at once.
const SMALL_TABLES_MAX: usize = 50;

/// A session of the snapshot, in the hands of one thread.
pub(crate) type SourceSession = Arc<Mutex<Session>>;

/// The progress of a table.
#[derive(Default)]
struct State {
    planned: bool,
    /// Chunks that are planned and not written yet.
    open: usize,
    chunks: Vec<Chunk>,
}

/// What is held on the source until its rows are read.
struct Held {
    /// A session that holds up DDL.
    ddl: Option<Session>,
    /// Locks on tables that no snapshot covers, and how many of these are left.
    unversioned: (usize, Option<Hold>),
}

/// The rows of a source.
pub(crate) struct ServerRows<'a> {
    context: &'a Context,
    /// Its tables, as they are defined there.
    tables: &'a [TableEntry],
    settled: Option<&'a str>,
    throttle: Arc<Throttle>,
    pace: Mutex<ChunkSize>,
    /// Sessions that nobody has taken yet; the first one plans.
    sessions: Mutex<Vec<Session>>,
    states: Vec<Mutex<State>>,
    held: Mutex<Held>,
}

impl<'a> ServerRows<'a> {
    pub(crate) fn new(
        context: &'a Context,
        request: &ReadRequest,
        (tables, settled): (&'a [TableEntry], Option<&'a str>),
        (mut snapshot, ddl): (Snapshot, Option<Session>),
    ) -> ServerRows<'a> {
        let is_unversioned = |entry: &&TableEntry| entry.is_due() && !entry.table.is_transactional();
        let unversioned = (tables.iter().filter(is_unversioned).count(), snapshot.take_locks());
        ServerRows {
            context,
            tables,
            settled,
            throttle: Arc::new(Throttle::new(request.limits, request.sessions)),
            pace: request.chunk_size(tables),
            sessions: Mutex::new(snapshot.sessions),
            states: tables.iter().map(|_| Mutex::default()).collect(),
            held: Mutex::new(Held { ddl, unversioned }),
        }
    }

    /// A session for one thread.
    pub(crate) fn session(&self) -> Option<SourceSession> {
        locked(&self.sessions).pop().map(|session| Arc::new(Mutex::new(session)))
    }

    /// Bytes of all tables, as the source estimates them.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum()
    }

    /// Plans all tables and hands on their chunks, largest tables first.
    pub(crate) fn feed(&self, feed: TaskSource<'_>) -> Result<(), Error> {
        let Some(planner) = self.session() else { return Ok(()) };
        let session = &mut *locked(&planner);
        let mut order: Vec<usize> = (0..self.tables.len()).collect();
        order.retain(|at| self.tables[*at].is_due());
        order.sort_by_key(|at| {
            let table = &self.tables[*at].table;
            (table.is_transactional(), std::cmp::Reverse(table.bytes))
        });
        let (small, large) = read_units::split(self.tables, order);
        large.into_iter().try_for_each(|at| self.plan(session, &feed, at))?;
        for tables in small.iter().flat_map(|group| group.chunks(SMALL_TABLES_MAX)) {
            for at in tables {
                let mut state = locked(&self.states[*at]);
                (state.planned, state.open) = (true, 1);
            }
            let pieces = tables.iter().map(|at| (*at, Chunk::planned(0, Vec::new(), None))).collect();
            feed.send(Task { pieces, planned_bytes: 0 })?;
        }
        Ok(())
    }

    /// Plans a table and hands on its chunks: one by one, or all at once if its engine can't roll back.
    fn plan(&self, session: &mut Session, feed: &TaskSource<'_>, at: usize) -> Result<(), Error> {
        let table = &self.tables[at].table;
        let mut pieces = Vec::new();
        let mut number = 0;
        let mut hand_on = |partitions, range, planned_bytes| {
            let chunk = Chunk::planned(number, partitions, range);
            number += 1;
            locked(&self.states[at]).open += 1;
            pieces.push((at, chunk));
            if !table.is_transactional() {
                return Ok(());
            }
            feed.send(Task { pieces: std::mem::take(&mut pieces), planned_bytes })
        };
        let chunk_bytes = || locked(&self.pace).bytes();
        let planned = read_units::plan(table, session, &chunk_bytes, &mut hand_on);
        planned.map_err(|error| explain(error, table))?;
        session.execute(plan::RELEASE_LOCKS)?;
        if !pieces.is_empty() {
            feed.send(Task { pieces, planned_bytes: 0 })?;
        }
        let is_whole = {
            let mut state = locked(&self.states[at]);
            state.planned = true;
            state.open == 0
        };
        if is_whole { self.check_with(session, &[at]) } else { Ok(()) }
    }

    /// Waits as long as the source is busy with others.
    pub(crate) fn wait(&self, source: &SourceSession, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
        self.throttle.begin(&mut locked(source), is_over)
    }

    /// Notes how long a task took that was planned with this many bytes.
    pub(crate) fn note(&self, planned_bytes: u64, took: Duration) {
        locked(&self.pace).note(planned_bytes, took);
    }

    /// Records chunks that are written. Returns the tables that are complete now.
    pub(crate) fn add(&self, chunks: Vec<(usize, Chunk)>) -> Vec<usize> {
        let mut whole = Vec::new();
        for (at, chunk) in chunks {
            let mut state = locked(&self.states[at]);
            state.open -= 1;
            state.chunks.push(chunk);
            if state.planned && state.open == 0 {
                whole.push(at);
            }
        }
        whole
    }

    /// Checks that tables which were read completely are still those in the catalogue.
    pub(crate) fn check(&self, source: &SourceSession, tables: &[usize]) -> Result<(), Error> {
        self.check_with(&mut locked(source), tables)
    }

    fn check_with(&self, session: &mut Session, tables: &[usize]) -> Result<(), Error> {
        let check = TableCheck { tables: self.tables, settled: self.settled };
        for some in tables.chunks(TABLES_PER_CHECK) {
            check.check(session, some).into_iter().try_for_each(|found| found.map(drop))?;
        }
        let unversioned = tables.iter().filter(|at| !self.tables[**at].table.is_transactional()).count();
        let mut held = locked(&self.held);
        held.unversioned.0 = held.unversioned.0.saturating_sub(unversioned);
        if held.unversioned.0 == 0 {
            held.unversioned.1 = None;
        }
        Ok(())
    }

    /// The text of a chunk, as it is read.
    pub(crate) fn text(
        &self,
        source: Option<&SourceSession>,
        at: usize,
        chunk: &Chunk,
        tally: Arc<TableProgress>,
    ) -> ChunkText {
        let entry = &self.tables[at];
        let sql = select::query(entry, chunk, entry.condition.as_deref());
        let estimate = entry.table.bytes / entry.table.rows.max(1);
        let (source, context, throttle) = (source.cloned(), self.context.clone(), Arc::clone(&self.throttle));
        let read = move |to: OnBlock<'_>| {
            let Some(source) = &source else { return Err(io::Error::other("no session is left")) };
            let mut pass = |lines: &[u8], rows: u64| {
                if context.is_stopped() {
                    return Err(io::Error::other("stopped"));
                }
                throttle.pass(lines.len() as u64, &|| context.is_stopped());
                context.progress.read(rows * estimate);
                context.progress.done(rows, lines.len() as u64);
                tally.add(&*context.progress, rows, rows * estimate, lines.len() as u64);
                to(lines)
            };
            stream(&mut locked(source), &sql, &mut pass)
        };
        let (table, context) = (entry.table.clone(), self.context.clone());
        let said = move |error: io::Error| match error.downcast::<server::Error>() {
            _ if context.is_stopped() => Error::Stopped(AGAIN),
            Ok(error) => explain(Error::Server(error), &table),
            Err(error) => Error::Server(server::Error::Sink(error)),
        };
        ChunkText { read: Box::new(read), explain: Box::new(said) }
    }

    /// The sum of a chunk's rows on the source.
    pub(super) fn sum(&self, source: &SourceSession, at: usize, chunk: &Chunk) -> Result<Sent, Error> {
        let entry = &self.tables[at];
        let sql = select::query(entry, chunk, entry.condition.as_deref());
        let estimate = entry.table.bytes / entry.table.rows.max(1);
        let mut pass = |lines: &[u8], rows: u64| {
            if self.context.is_stopped() {
                return Err(io::Error::other("stopped"));
            }
            self.throttle.pass(lines.len() as u64, &|| self.context.is_stopped());
            self.context.progress.read(rows * estimate);
            Ok(())
        };
        stream(&mut locked(source), &sql, &mut pass).map_err(|error| {
            match error.downcast::<server::Error>() {
                _ if self.context.is_stopped() => Error::Stopped(AGAIN),
                Ok(error) => explain(Error::Server(error), &entry.table),
                Err(error) => Error::Server(server::Error::Sink(error)),
            }
        })
    }

    /// Releases the source, and puts all chunks into the manifest.
    pub(crate) fn finish(&self, manifest: &mut Manifest) {
        locked(&self.held).ddl = None;
        for (entry, state) in manifest.tables.iter_mut().zip(&self.states) {
            entry.set_chunks(std::mem::take(&mut locked(state).chunks));
        }
    }
}

/// Reads the rows of a query as lines. What the sink says comes back as it is, what the server says inside.
fn stream(
    session: &mut Session,
    sql: &str,
    pass: &mut dyn FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<Sent> {
    let mut lines = CanonicalLines::new(pass);
    match session.stream(sql, &mut lines) {
        Err(server::Error::Sink(error)) => return Err(error),
        streamed => drop(streamed.map_err(io::Error::other)?),
    }
    let (sum, text_bytes): (Sum, u64) = lines.finish()?;
    // Metadata locks last for one chunk.
    session.execute(plan::RELEASE_LOCKS).map_err(io::Error::other)?;
    Ok(Sent { sum, text_bytes })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
