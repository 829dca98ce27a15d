//! Loads rows into tables: several sessions, each chunk in one transaction with its ledger line.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use disk::Disk;
use server::{Session, Source, TableName, quote_name, snapshot};

use super::ledger::WHOLE;
use super::{Load, VerifiedChunks, Verify, connect};
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::parallel::Failure;
use crate::table_progress::TableProgress;
use crate::verify::{self, ChunkOf};
use crate::{Context, Error, select};
use progress::count;

/// What to do after the load was stopped by a signal.
pub(super) const AGAIN: &str = "start again with --resume";
/// The engine of a table does not have this.
const NOT_BY_ENGINE: u16 = 1031;
/// How often something is tried again after a deadlock with another session.
pub(super) const TRIES: u32 = 20;

/// This many small tables are committed at once.
const SMALL_TABLES_MAX: usize = 50;

/// What one session does at a time, by the numbers of tables: a chunk, all chunks of a table whose engine
/// can't roll back, or some small tables that share a file.
pub(super) struct Task {
    pieces: Vec<(usize, Chunk)>,
}

/// What the sessions share.
struct Shared<'a> {
    load: &'a Load<'a>,
    local_infile: bool,
    rows: AtomicU64,
    tallies: Vec<Arc<TableProgress>>,
    verified: Mutex<VerifiedChunks>,
    /// What the server warned about, by table.
    warnings: Mutex<Vec<(TableName, String)>>,
    failure: Failure,
}

/// Hands tasks to the sessions.
pub(super) struct TaskSource<'a> {
    load: &'a Load<'a>,
    done: BTreeSet<(usize, i64)>,
    send: Sender<Task>,
    shared: &'a Shared<'a>,
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
        let total = || -> u64 {
            let chunks = self.manifest.tables.iter().flat_map(|entry| &entry.chunks);
            let ways = if self.request.verify == Verify::Rows { 2 } else { 1 };
            chunks.map(|chunk| chunk.text_bytes * ways).sum()
        };
        self.context.progress.phase("loading", follow.is_none().then(total));
        let shared = Shared {
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
            shared.failure.guard(|| match &mut follow {
                Some(follow) => follow.feed(&feed),
                None => feed.send_all(),
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
        self.verified.extend(verified);
        self.summary.text_bytes = self.manifest.tables.iter().map(TableEntry::text_bytes).sum();
        Ok(())
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
        if pieces.is_empty() { Ok(()) } else { self.send(Task { pieces }) }
    }

    /// Hands on a chunk of a table whose engine can roll back.
    pub(super) fn send_chunk(&self, table: usize, chunk: Chunk) -> Result<(), Error> {
        if self.done.contains(&(self.place(table), i64::from(chunk.number))) {
            self.shared.committed(table, &chunk);
        } else if chunk.sum.rows > 0 {
            self.send(Task { pieces: vec![(table, chunk)] })?;
        }
        Ok(())
    }

    /// Hands on all chunks of a table whose engine can't roll back.
    pub(super) fn send_table(&self, table: usize, chunks: Vec<Chunk>) -> Result<(), Error> {
        if self.done.contains(&(self.place(table), WHOLE)) {
            chunks.iter().for_each(|chunk| self.shared.committed(table, chunk));
        } else if !chunks.is_empty() {
            self.send(Task { pieces: chunks.into_iter().map(|chunk| (table, chunk)).collect() })?;
        }
        Ok(())
    }

    /// The number of a table in the ledger.
    fn place(&self, table: usize) -> usize {
        self.load.manifest.tables[table].place
    }

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

impl Shared<'_> {
    fn work(&self, tasks: &Receiver<Task>) -> Result<(), Error> {
        let mut session = connect(self.load.target, self.load.request)?;
        let verifies = self.load.request.verify == Verify::Rows;
        let mut reader = verifies.then(|| snapshot::connect(self.load.target)).transpose()?;
        for task in tasks {
            if self.load.context.is_stopped() {
                return Err(Error::Stopped(AGAIN));
            }
            if self.failure.is_there() {
                return Ok(());
            }
            let mut tries = 0;
            loop {
                let done = self.task(&mut session, &task);
                let cause = match &done {
                    Err(Error::Server(error)) => Some(error),
                    Err(Error::Object { source, .. }) => Some(source.as_ref()),
                    _ => None,
                };
                if !cause.is_some_and(server::Error::is_retryable) || tries == TRIES {
                    break done?;
                }
                session.execute("ROLLBACK")?;
                tries += 1;
            }
            if let Some(reader) = &mut reader {
                self.verify_rows(reader, &task)?;
            }
        }
        Ok(())
    }

    /// Reads back the chunks of a task right after loading, while they are in memory and other sessions wait
    /// for each other or the disk. A chunk that differs is read again in the end, and judged then.
    fn verify_rows(&self, reader: &mut Session, task: &Task) -> Result<(), Error> {
        for (table, chunk) in &task.pieces {
            let entry = &self.load.manifest.tables[*table];
            let part = ChunkOf { entry, chunk, condition: None };
            let sum = verify::sum(self.load.context, reader, &part, &mut |_, _, _| {})?;
            if sum == chunk.sum {
                let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
                verified.insert((entry.table.name.clone(), chunk.number));
            }
        }
        Ok(())
    }

    fn task(&self, session: &mut Session, task: &Task) -> Result<(), Error> {
        let tables = &self.load.manifest.tables;
        let whole =
            task.pieces.first().map(|(table, _)| *table).filter(|at| !tables[*at].table.is_transactional());
        if let Some(table) = whole {
            empty(session, &tables[table])?;
        }
        session.execute("START TRANSACTION")?;
        for (table, chunk) in &task.pieces {
            let entry = &tables[*table];
            let rows = self.chunk(session, (*table, entry), chunk)?;
            if rows != chunk.sum.rows {
                session.execute("ROLLBACK")?;
                return Err(Error::Different {
                    tables: 1,
                    differences: vec![format!(
                        "table {}, chunk {}: the server accepted {rows} of {}",
                        entry.table.name,
                        chunk.number,
                        count(chunk.sum.rows, "row")
                    )],
                });
            }
        }
        let lines: Vec<(usize, i64)> = match whole {
            Some(table) => vec![(tables[table].place, WHOLE)],
            None => {
                task.pieces.iter().map(|(at, chunk)| (tables[*at].place, i64::from(chunk.number))).collect()
            }
        };
        self.load.ledger.add_all(session, &lines)?;
        session.execute("COMMIT")?;
        task.pieces.iter().for_each(|(table, chunk)| self.committed(*table, chunk));
        Ok(())
    }

    /// Records a chunk that is committed.
    fn committed(&self, table: usize, chunk: &Chunk) {
        let rows = chunk.sum.rows;
        self.rows.fetch_add(rows, Ordering::Relaxed);
        let progress = &*self.load.context.progress;
        if self.tallies[table].add(progress, rows, 0, 0) == self.load.manifest.tables[table].sum.rows {
            self.tallies[table].end(progress);
        }
    }

    /// Sends a chunk. Returns the number of rows that the server accepted.
    fn chunk(
        &self,
        session: &mut Session,
        (at, entry): (usize, &TableEntry),
        chunk: &Chunk,
    ) -> Result<u64, Error> {
        let path = self.load.manifest.path(&self.load.request.folder, entry, chunk);
        let name = &entry.table.name;
        let in_chunk = |source: server::Error| match source {
            server::Error::Source(source) if self.load.context.is_stopped() => {
                drop(source);
                Error::Stopped(AGAIN)
            }
            server::Error::Source(source) => Error::File { name: path.clone(), source },
            source => Error::Object {
                object: format!("table {name}, chunk {}", chunk.number),
                source: Box::new(source),
            },
        };
        let statement = select::load_data(entry, name, self.load.manifest.data_format);
        let Some(statement) = statement.filter(|_| self.local_infile) else {
            return self.insert(session, entry, chunk);
        };
        let report = session.load(&statement, self.source((at, entry), chunk)).map_err(in_chunk)?;
        if report.warnings > 0 {
            let first = session.warnings()?.into_iter().next();
            let words = first.map(|warning| warning.message).unwrap_or_default();
            self.warned(
                name,
                format!(
                    "table {name}, chunk {}: {}, the first: {words}",
                    chunk.number,
                    count(report.warnings, "warning")
                ),
            );
        }
        Ok(report.records.saturating_sub(report.skipped).saturating_sub(report.deleted))
    }

    /// The server warned about rows. That is no failure in itself: it also warns about values that it stores
    /// unchanged, like the empty ENUM. So if the rows are read back, that decides whether it is shown.
    fn warned(&self, table: &TableName, text: String) {
        if self.load.request.verify == Verify::Rows {
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.push((table.clone(), text));
        } else {
            self.load.context.progress.note(&text);
        }
    }

    /// The text of a chunk's file, in the form that LOAD DATA takes.
    fn source(&self, (at, entry): (usize, &TableEntry), chunk: &Chunk) -> Source {
        let context = &self.load.context;
        let (disk, stop, progress) =
            (Arc::clone(&context.disk), Arc::clone(&context.stop), Arc::clone(&context.progress));
        let file = self.load.manifest.data_file(&self.load.request.folder, entry, chunk);
        let tally = Arc::clone(&self.tallies[at]);
        let each_row = (chunk.text_bytes / chunk.sum.rows.max(1)).max(1);
        Box::new(move |to: &mut dyn Write| {
            file.read(&*disk, &mut |piece| {
                if stop.load(Ordering::Relaxed) {
                    return Err(io::Error::other("stopped"));
                }
                progress.read(piece.len() as u64);
                progress.done(piece.len() as u64 / each_row, piece.len() as u64);
                let bytes = piece.len() as u64;
                tally.add(&*progress, 0, bytes, bytes);
                to.write_all(piece)
            })
        })
    }

    /// Loads without LOAD DATA LOCAL.
    fn insert(&self, session: &mut Session, entry: &TableEntry, chunk: &Chunk) -> Result<u64, Error> {
        let load = self.load;
        let file = load.manifest.data_file(&load.request.folder, entry, chunk);
        let columns = select::literals(entry);
        let mut encoder = crate::format::hexadecimal(&entry.table.name, &columns);
        let mut text = Vec::new();
        let mut rows = 0;
        let mut failed = None;
        let mut send = |text: &mut Vec<u8>, rest: bool| -> io::Result<()> {
            while let Some(end) = memchr::memchr(b'\n', text) {
                let rest = text.split_off(end + 1);
                // The encoder writes ASCII, and names.
                let statement = server::text::text(std::mem::replace(text, rest));
                match session.execute(statement.trim_end_matches(['\n', ';'])) {
                    Ok(done) => rows += done.affected,
                    Err(error) => {
                        failed = Some(error);
                        return Err(io::Error::other("the server refused a statement"));
                    }
                }
            }
            if rest && !text.is_empty() { Err(io::Error::other("a statement without end")) } else { Ok(()) }
        };
        let read = file.read(&*load.context.disk, &mut |piece| {
            encoder.encode(piece, &mut text);
            load.context.progress.read(piece.len() as u64);
            send(&mut text, false)
        });
        let sent = read.and_then(|()| {
            encoder.finish(&mut text);
            send(&mut text, true)
        });
        if let Some(source) = failed {
            return Err(Error::Object {
                object: format!("table {}, chunk {}", entry.table.name, chunk.number),
                source: Box::new(source),
            });
        }
        sent.map_err(Error::file(&file.path))?;
        Ok(rows)
    }
}

pub(super) fn tally(entry: &TableEntry) -> TableProgress {
    TableProgress::new(&entry.table.name, entry.text_bytes())
}
