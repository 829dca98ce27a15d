//! Loads rows into tables: several sessions, each chunk in one transaction with its ledger line.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use disk::Disk;
use server::{Session, TableName, quote_name, snapshot};

use super::ledger::WHOLE;
use super::origin::{ServerOrigin, Settled, SourceSession, Task};
use super::{AGAIN, Load, Origin, Sent, VerifiedChunks, Verify, connect};
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::parallel::Failure;
use crate::table_progress::TableProgress;
use crate::verify::{self, ChunkOf};
use crate::{Context, Error};
use progress::count;

/// The engine of a table does not have this.
const NOT_BY_ENGINE: u16 = 1031;
/// How often something is tried again after a deadlock with another session.
pub(super) const TRIES: u32 = 20;

/// This many small tables are committed at once.
const SMALL_TABLES_MAX: usize = 50;

/// What one thread has: a session that writes, one that reads back, and one of the source, if rows come from
/// a server.
struct Worker {
    session: Session,
    reader: Option<Session>,
    source: Option<SourceSession>,
}

/// The sessions of a load, and what they share.
pub(super) struct Sessions<'a> {
    pub(super) load: &'a Load<'a>,
    pub(super) local_infile: bool,
    rows: AtomicU64,
    pub(super) tallies: Vec<Arc<TableProgress>>,
    verified: Mutex<VerifiedChunks>,
    /// What the server warned about, by table.
    pub(super) warnings: Mutex<Vec<(TableName, String)>>,
    failure: Failure,
}

/// Hands tasks to the sessions.
pub(super) struct TaskSource<'a> {
    load: &'a Load<'a>,
    done: BTreeSet<(usize, i64)>,
    send: Sender<Task>,
    shared: &'a Sessions<'a>,
}

impl Load<'_> {
    /// Loads everything that is not loaded yet.
    pub(super) fn load_rows(&mut self, session: &mut Session) -> Result<(), Error> {
        let done = self.ledger.read(session)?;
        let local_infile = session.about.local_infile;
        if !local_infile {
            self.context.progress.warn("the server does not allow LOAD DATA LOCAL (local_infile is off): rows are loaded by INSERT, which is slower");
        }
        let mut follow = self.follow.take();
        let ways = if self.request.verify == Verify::Rows { 2 } else { 1 };
        let total = match &self.origin {
            Origin::Files(files) => files.is_whole.then(|| self.text_bytes() * ways),
            Origin::Server(rows) => Some(rows.bytes() * ways),
        };
        self.context.progress.phase(self.origin.verb(), total);
        let shared = Sessions {
            load: self,
            local_infile,
            rows: AtomicU64::new(0),
            tallies: self.manifest.tables.iter().map(|entry| Arc::new(tally(entry))).collect(),
            verified: Mutex::default(),
            warnings: Mutex::default(),
            failure: Failure::default(),
        };
        std::thread::scope(|scope| {
            let (send, tasks) = crossbeam_channel::bounded(0);
            for _ in 0..self.request.sessions.max(1) {
                let (tasks, shared) = (tasks.clone(), &shared);
                scope.spawn(move || shared.failure.guard(|| shared.work(&tasks)));
            }
            drop(tasks);
            let feed = TaskSource { load: self, done, send, shared: &shared };
            shared.failure.guard(|| match (&self.origin, &mut follow) {
                (Origin::Server(rows), _) => rows.feed(&mut |task| feed.send(task)),
                (_, Some(follow)) => follow.feed(&feed),
                _ => feed.send_all(),
            });
        });
        let rows = shared.rows.into_inner();
        let verified = shared.verified.into_inner().unwrap_or_else(PoisonError::into_inner);
        let warnings = shared.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let result = shared.failure.into_result();
        self.warnings.extend(warnings);
        self.summary.rows = rows;
        result?;
        if let Some(follow) = follow {
            follow.finish(self.context, &mut self.manifest)?;
        }
        if let Origin::Server(rows) = &self.origin {
            rows.finish(&mut self.manifest);
        }
        self.verified.extend(verified);
        self.summary.text_bytes = self.text_bytes();
        Ok(())
    }

    fn text_bytes(&self) -> u64 {
        self.manifest.tables.iter().map(TableEntry::text_bytes).sum()
    }
}

/// Removes the rows that an earlier try may have left in a table whose engine can't roll back.
fn empty(session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
    let name = &entry.table.name;
    match session.execute(&format!("TRUNCATE TABLE {name}")) {
        // ARCHIVE of MySQL only takes rows.
        Err(error) if error.code() == Some(NOT_BY_ENGINE) => {
            session.execute(&format!("DROP TABLE {name}"))?;
            session.execute(&format!("USE {}", quote_name(&name.schema)))?;
            session.execute(&entry.table.definition)?;
        }
        done => drop(done?),
    }
    Ok(())
}

impl TaskSource<'_> {
    /// Hands on all that is left of a complete dump, largest tables first.
    fn send_all(&self) -> Result<(), Error> {
        let tables = &self.load.manifest.tables;
        let mut order: Vec<usize> = (0..tables.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(tables[*at].text_bytes()));
        let is_small = |at: &usize| {
            let is_within = |chunk: &Chunk| chunk.within.is_some();
            tables[*at].table.is_transactional()
                && matches!(tables[*at].chunks.as_slice(), [one] if is_within(one))
        };
        let (small, large): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_small);
        for table in large {
            let entry = &tables[table];
            if !entry.table.is_transactional() {
                self.send_table(table, entry.chunks.clone())?;
                continue;
            }
            for chunk in &entry.chunks {
                self.send_chunk(table, chunk.clone())?;
            }
        }
        small.chunks(SMALL_TABLES_MAX).try_for_each(|tables| self.send_small_tables(tables))
    }

    /// Hands on small tables that are not loaded yet.
    fn send_small_tables(&self, tables: &[usize]) -> Result<(), Error> {
        let mut pieces = Vec::new();
        for table in tables {
            for chunk in &self.load.manifest.tables[*table].chunks {
                if self.done.contains(&(self.place(*table), i64::from(chunk.number))) {
                    self.shared.committed(*table, chunk);
                } else if chunk.sum.rows > 0 {
                    pieces.push((*table, chunk.clone()));
                }
            }
        }
        if pieces.is_empty() { Ok(()) } else { self.send(Task { pieces, planned_bytes: 0 }) }
    }

    /// Hands on a chunk of a table whose engine can roll back.
    pub(super) fn send_chunk(&self, table: usize, chunk: Chunk) -> Result<(), Error> {
        if self.done.contains(&(self.place(table), i64::from(chunk.number))) {
            self.shared.committed(table, &chunk);
        } else if chunk.sum.rows > 0 {
            self.send(Task { pieces: vec![(table, chunk)], planned_bytes: 0 })?;
        }
        Ok(())
    }

    /// Hands on all chunks of a table whose engine can't roll back.
    pub(super) fn send_table(&self, table: usize, chunks: Vec<Chunk>) -> Result<(), Error> {
        if self.done.contains(&(self.place(table), WHOLE)) {
            chunks.iter().for_each(|chunk| self.shared.committed(table, chunk));
        } else if !chunks.is_empty() {
            let pieces = chunks.into_iter().map(|chunk| (table, chunk)).collect();
            self.send(Task { pieces, planned_bytes: 0 })?;
        }
        Ok(())
    }

    /// The number of a table in the ledger.
    fn place(&self, table: usize) -> usize {
        self.load.manifest.tables[table].place
    }

    /// Hands on a task as soon as somebody takes it.
    fn send(&self, task: Task) -> Result<(), Error> {
        // If nobody takes it any more, the reason is already known.
        self.send.send(task).ok();
        self.check_running()
    }

    /// Fails when it is useless to hand on more.
    pub(super) fn check_running(&self) -> Result<(), Error> {
        if self.load.context.is_stopped() || self.shared.failure.is_there() {
            return Err(Error::Stopped(AGAIN));
        }
        Ok(())
    }

    pub(super) fn context(&self) -> &Context {
        self.load.context
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.load.context.disk
    }

    /// The dump's manifest, as far as it is known.
    pub(super) fn manifest(&self) -> &Manifest {
        &self.load.manifest
    }
}

impl Sessions<'_> {
    fn work(&self, tasks: &Receiver<Task>) -> Result<(), Error> {
        let load = self.load;
        let verifies = load.request.verify == Verify::Rows;
        let mut worker = Worker {
            session: connect(load.target, load.request)?,
            reader: verifies.then(|| snapshot::connect(load.target)).transpose()?,
            source: load.origin.session(),
        };
        for task in tasks {
            if load.context.is_stopped() {
                return Err(Error::Stopped(AGAIN));
            }
            if self.failure.is_there() {
                return Ok(());
            }
            match (&load.origin, worker.source.clone()) {
                (Origin::Server(rows), Some(source)) => self.copy(&mut worker, *rows, &source, task)?,
                _ => drop(self.load_task(&mut worker, &task.pieces)?),
            }
        }
        Ok(())
    }

    /// Copies what a task has from the source. What a stopped run has left of it and is right stays.
    fn copy(
        &self,
        worker: &mut Worker,
        rows: &dyn ServerOrigin,
        source: &SourceSession,
        task: Task,
    ) -> Result<(), Error> {
        let is_over = || self.load.context.is_stopped() || self.failure.is_there();
        rows.wait(source, &is_over)?;
        let began = Instant::now();
        let Task { pieces, planned_bytes } = task;
        let mut found = Settled { missing: pieces, there: Vec::new() };
        if let Some(reader) = worker.reader.as_mut().filter(|_| !self.load.kept.is_empty()) {
            found = rows.settle(self.load, source, (&mut worker.session, reader), found.missing)?;
            self.there(&mut worker.session, &found.there)?;
        }
        let mut done = found.there;
        done.extend(self.load_task(worker, &found.missing)?);
        rows.note(planned_bytes, began.elapsed());
        let ended = rows.add(source, done)?;
        ended.iter().for_each(|table| self.tallies[*table].end(&*self.load.context.progress));
        Ok(())
    }

    /// Records chunks that a stopped run has written and that are right.
    fn there(&self, session: &mut Session, chunks: &[(usize, Chunk)]) -> Result<(), Error> {
        if chunks.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = chunks.iter().map(|(at, chunk)| (*at, i64::from(chunk.number))).collect();
        self.load.ledger.add_all(session, &lines)?;
        for (at, chunk) in chunks {
            self.committed(*at, chunk);
            self.is_verified(*at, chunk);
        }
        Ok(())
    }

    /// Loads the chunks of a task, in one transaction, and reads them back. Returns them with their sums.
    fn load_task(
        &self,
        worker: &mut Worker,
        pieces: &[(usize, Chunk)],
    ) -> Result<Vec<(usize, Chunk)>, Error> {
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        let mut tries = 0;
        let done = loop {
            let done = self.transaction(worker, pieces);
            let cause = match &done {
                Err(Error::Server(error)) => Some(error),
                Err(Error::Object { source, .. }) => Some(source.as_ref()),
                _ => None,
            };
            if !cause.is_some_and(server::Error::is_retryable) || tries == TRIES {
                break done?;
            }
            worker.session.execute("ROLLBACK")?;
            tries += 1;
        };
        if let Some(reader) = &mut worker.reader {
            self.verify_rows(reader, &done)?;
        }
        Ok(done)
    }

    /// Reads back the chunks of a task right after loading, while they are in memory and other sessions wait
    /// for each other or the disk. A chunk that differs is read again in the end, and judged then.
    fn verify_rows(&self, reader: &mut Session, done: &[(usize, Chunk)]) -> Result<(), Error> {
        for (table, chunk) in done {
            let entry = &self.load.manifest.tables[*table];
            let part = ChunkOf { entry, chunk, condition: None };
            let sum = verify::sum(self.load.context, reader, &part, &mut |_, _, _| {})?;
            if sum == chunk.sum {
                self.is_verified(*table, chunk);
            }
        }
        Ok(())
    }

    fn is_verified(&self, table: usize, chunk: &Chunk) {
        let name = self.load.manifest.tables[table].table.name.clone();
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert((name, chunk.number));
    }

    fn transaction(
        &self,
        worker: &mut Worker,
        pieces: &[(usize, Chunk)],
    ) -> Result<Vec<(usize, Chunk)>, Error> {
        let tables = &self.load.manifest.tables;
        let session = &mut worker.session;
        let whole =
            pieces.first().map(|(table, _)| *table).filter(|at| !tables[*at].table.is_transactional());
        if let Some(table) = whole {
            empty(session, &tables[table])?;
        }
        session.execute("START TRANSACTION")?;
        let mut done = Vec::new();
        for (table, chunk) in pieces {
            let entry = &tables[*table];
            let mut text = self.text(worker.source.as_ref(), *table, chunk);
            let (sent, rows) = self.send(session, entry, chunk, &mut text)?;
            if rows != sent.sum.rows {
                session.execute("ROLLBACK")?;
                return Err(Error::Different {
                    tables: 1,
                    differences: vec![format!(
                        "table {}, chunk {}: the server accepted {rows} of {}",
                        entry.table.name,
                        chunk.number,
                        count(sent.sum.rows, "row")
                    )],
                });
            }
            let Sent { sum, text_bytes } = sent;
            done.push((*table, Chunk { sum, text_bytes, ..chunk.clone() }));
        }
        let lines: Vec<(usize, i64)> = match whole {
            Some(table) => vec![(tables[table].place, WHOLE)],
            None => pieces.iter().map(|(at, chunk)| (tables[*at].place, i64::from(chunk.number))).collect(),
        };
        self.load.ledger.add_all(session, &lines)?;
        session.execute("COMMIT")?;
        done.iter().for_each(|(table, chunk)| self.committed(*table, chunk));
        Ok(done)
    }

    /// Records a chunk that is committed.
    fn committed(&self, table: usize, chunk: &Chunk) {
        let rows = chunk.sum.rows;
        self.rows.fetch_add(rows, Ordering::Relaxed);
        if matches!(self.load.origin, Origin::Server(_)) {
            return;
        }
        let progress = &*self.load.context.progress;
        if self.tallies[table].add(progress, rows, 0, 0) == self.load.manifest.tables[table].sum.rows {
            self.tallies[table].end(progress);
        }
    }
}

pub(super) fn tally(entry: &TableEntry) -> TableProgress {
    let bytes = if entry.chunks.is_empty() { entry.table.bytes } else { entry.text_bytes() };
    TableProgress::new(&entry.table.name, bytes)
}
