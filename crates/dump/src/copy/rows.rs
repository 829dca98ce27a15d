//! The rows of a source: planned as a dump plans them, read from its snapshot while they are written.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use server::snapshot::Snapshot;
use server::{Hold, Session};

use super::replica_lag::ReplicaLags;
use super::settle::settle;
use crate::canonical::CanonicalLines;
use crate::hash::Sum;
use crate::load::{AGAIN, ChunkText, Load, OnBlock, Sent, ServerOrigin, Settled, SourceSession, Task};
use crate::manifest::{Chunk, Manifest};
use crate::reading::chunk_size::ChunkSize;
use crate::reading::read_units;
use crate::reading::table_check::{TABLES_PER_CHECK, TableCheck, explain};
use crate::reading::throttle::Throttle;
use crate::reading::{ReadRequest, unversioned};
use crate::table_progress::TableProgress;
use crate::{Context, Error, Format, plan, select};

/// This many small tables are committed at once.
const SMALL_TABLES_MAX: usize = 50;

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
    source: TableCheck<'a>,
    throttle: Arc<Throttle>,
    lags: ReplicaLags,
    pace: Mutex<ChunkSize>,
    /// Sessions that nobody has taken yet.
    sessions: Mutex<Vec<Session>>,
    states: Vec<Mutex<State>>,
    held: Mutex<Held>,
}

impl<'a> ServerRows<'a> {
    /// `ddl` is a session that holds up DDL until the rows are read.
    pub(crate) fn new(
        context: &'a Context,
        request: &ReadRequest,
        source: TableCheck<'a>,
        mut snapshot: Snapshot,
        ddl: Option<Session>,
    ) -> ServerRows<'a> {
        let unversioned = (unversioned(source.tables).len(), snapshot.take_locks());
        ServerRows {
            context,
            throttle: Arc::new(Throttle::new(request.limits, request.sessions)),
            lags: ReplicaLags::default(),
            pace: request.chunk_size(source.tables, Format::Tsv),
            sessions: Mutex::new(snapshot.sessions),
            states: source.tables.iter().map(|_| Mutex::default()).collect(),
            held: Mutex::new(Held { ddl, unversioned }),
            source,
        }
    }

    /// The same, which begins no chunk while one of these replicas is late.
    pub(crate) fn waiting_for(self, lags: ReplicaLags) -> ServerRows<'a> {
        ServerRows { lags, ..self }
    }

    /// Plans a table and hands on its chunks: one by one, or all at once if its engine can't roll back.
    fn plan(
        &self,
        session: &mut Session,
        send: &mut dyn FnMut(Task) -> Result<(), Error>,
        at: usize,
    ) -> Result<(), Error> {
        let table = &self.source.tables[at].table;
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
            send(Task { pieces: std::mem::take(&mut pieces), planned_bytes })
        };
        let chunk_bytes = || locked(&self.pace).bytes();
        let planned = read_units::plan(&self.source.tables[at], session, &chunk_bytes, &mut hand_on);
        planned.map_err(|error| explain(error, table))?;
        session.execute(plan::RELEASE_LOCKS)?;
        if !pieces.is_empty() {
            send(Task { pieces, planned_bytes: 0 })?;
        }
        let is_whole = {
            let mut state = locked(&self.states[at]);
            state.planned = true;
            state.open == 0
        };
        if is_whole { self.check(session, &[at]) } else { Ok(()) }
    }

    /// Checks that tables which were read completely are still those in the catalogue.
    fn check(&self, session: &mut Session, tables: &[usize]) -> Result<(), Error> {
        for some in tables.chunks(TABLES_PER_CHECK) {
            self.source.check(session, some).into_iter().try_for_each(|found| found.map(drop))?;
        }
        let unversioned =
            tables.iter().filter(|at| !self.source.tables[**at].table.is_transactional()).count();
        let mut held = locked(&self.held);
        held.unversioned.0 = held.unversioned.0.saturating_sub(unversioned);
        if held.unversioned.0 == 0 {
            held.unversioned.1 = None;
        }
        Ok(())
    }

    /// The sum of a chunk's rows on the source.
    fn sum(&self, source: &SourceSession, at: usize, chunk: &Chunk) -> Result<Sent, Error> {
        let entry = &self.source.tables[at];
        let sql = select::source(entry, chunk);
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
}

impl ServerOrigin for ServerRows<'_> {
    fn session(&self) -> Option<SourceSession> {
        locked(&self.sessions).pop().map(|session| Arc::new(Mutex::new(session)))
    }

    fn bytes(&self) -> u64 {
        self.source.tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum()
    }

    fn feed(&self, send: &mut dyn FnMut(Task) -> Result<(), Error>) -> Result<(), Error> {
        let Some(planner) = self.session() else { return Ok(()) };
        let session = &mut *locked(&planner);
        let mut order: Vec<usize> = (0..self.source.tables.len()).collect();
        order.retain(|at| self.source.tables[*at].is_due());
        order.sort_by_key(|at| {
            let table = &self.source.tables[*at].table;
            (table.is_transactional(), std::cmp::Reverse(table.bytes))
        });
        let (small, large) = read_units::split(self.source.tables, order, Format::Tsv);
        large.into_iter().try_for_each(|at| self.plan(session, send, at))?;
        for tables in small.iter().flat_map(|group| group.chunks(SMALL_TABLES_MAX)) {
            for at in tables {
                let mut state = locked(&self.states[*at]);
                (state.planned, state.open) = (true, 1);
            }
            let pieces = tables.iter().map(|at| (*at, Chunk::planned(0, Vec::new(), None))).collect();
            send(Task { pieces, planned_bytes: 0 })?;
        }
        Ok(())
    }

    fn wait(&self, source: &SourceSession, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
        self.throttle.begin(&mut locked(source), is_over)?;
        self.lags.wait(self.context, is_over);
        Ok(())
    }

    fn settle(
        &self,
        load: &Load<'_>,
        source: &SourceSession,
        target: (&mut Session, &mut Session),
        pieces: Vec<(usize, Chunk)>,
    ) -> Result<Settled, Error> {
        settle(load, target, pieces, &|at, chunk| self.sum(source, at, chunk))
    }

    fn text(
        &self,
        source: Option<&SourceSession>,
        at: usize,
        chunk: &Chunk,
        tally: Arc<TableProgress>,
    ) -> ChunkText {
        let entry = &self.source.tables[at];
        let sql = select::source(entry, chunk);
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

    fn note(&self, planned_bytes: u64, took: Duration) {
        locked(&self.pace).note(planned_bytes, took);
    }

    fn add(&self, source: &SourceSession, chunks: Vec<(usize, Chunk)>) -> Result<Vec<usize>, Error> {
        let mut whole = Vec::new();
        for (at, chunk) in chunks {
            let mut state = locked(&self.states[at]);
            state.open -= 1;
            state.chunks.push(chunk);
            if state.planned && state.open == 0 {
                whole.push(at);
            }
        }
        self.check(&mut locked(source), &whole)?;
        Ok(whole)
    }

    fn finish(&self, manifest: &mut Manifest) {
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
