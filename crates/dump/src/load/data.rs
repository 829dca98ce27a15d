//! Rows into tables: several sessions, each chunk a transaction with its ledger line.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use server::{Flavour, Session, Source, Version};

use super::ledger::WHOLE;
use super::{Load, connect};
use crate::manifest::{Chunk, TableEntry};
use crate::{Error, Format, file, select};

/// Times a chunk is tried again after a deadlock with another.
const TRIES: u32 = 20;

/// What one session does at a time.
struct Task<'a> {
    table: usize,
    entry: &'a TableEntry,
    /// One chunk, or all where the engine can't roll back.
    chunks: &'a [Chunk],
}

/// What the sessions share.
struct Shared<'a> {
    load: &'a Load<'a>,
    tasks: Vec<Task<'a>>,
    next: AtomicUsize,
    local_infile: bool,
    rows: AtomicU64,
    error: Mutex<Option<Error>>,
    failed: AtomicBool,
}

impl Load<'_> {
    /// Loads everything that is not in yet.
    pub(super) fn load_rows(&mut self, session: &mut Session) -> Result<(), Error> {
        let done = self.ledger.read(session)?;
        let local_infile = session.about.local_infile;
        if !local_infile {
            self.world.progress.warn("the server allows no LOAD DATA LOCAL (local_infile is off): rows go in by INSERT, which is slower");
        }
        let total =
            self.manifest.tables.iter().flat_map(|entry| &entry.chunks).map(|chunk| chunk.text_bytes).sum();
        self.world.progress.phase("loading", Some(total));
        let (tasks, earlier) = self.tasks(&done);
        let shared = Shared {
            load: self,
            tasks,
            next: AtomicUsize::new(0),
            local_infile,
            rows: AtomicU64::new(earlier),
            error: Mutex::new(None),
            failed: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for _ in 0..self.request.sessions.clamp(1, shared.tasks.len().max(1)) {
                scope.spawn(|| shared.run());
            }
        });
        let rows = shared.rows.into_inner();
        if let Some(error) = shared.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(if error.is_passing() {
                Error::Interrupted { rows, source: Box::new(error) }
            } else {
                error
            });
        }
        self.summary.rows = rows;
        self.summary.text_bytes = total;
        Ok(())
    }

    /// What is left to do, largest tables first, and the rows that are in.
    fn tasks(&self, done: &BTreeSet<(usize, i64)>) -> (Vec<Task<'_>>, u64) {
        let mut tasks = Vec::new();
        let mut earlier = 0;
        let mut order: Vec<usize> = (0..self.manifest.tables.len()).collect();
        let bytes = |entry: &TableEntry| entry.chunks.iter().map(|chunk| chunk.text_bytes).sum::<u64>();
        order.sort_by_key(|at| std::cmp::Reverse(bytes(&self.manifest.tables[*at])));
        for table in order {
            let entry = &self.manifest.tables[table];
            if !entry.table.is_transactional() {
                if done.contains(&(table, WHOLE)) {
                    earlier += entry.sum.rows;
                } else if !entry.chunks.is_empty() {
                    tasks.push(Task { table, entry, chunks: &entry.chunks });
                }
                continue;
            }
            for chunk in &entry.chunks {
                if done.contains(&(table, i64::from(chunk.number))) {
                    earlier += chunk.sum.rows;
                } else if chunk.sum.rows > 0 {
                    tasks.push(Task { table, entry, chunks: std::slice::from_ref(chunk) });
                }
            }
        }
        (tasks, earlier)
    }
}

impl Shared<'_> {
    fn run(&self) {
        if let Err(error) = self.work() {
            self.failed.store(true, Ordering::Relaxed);
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn work(&self) -> Result<(), Error> {
        let mut session = connect(self.load.target, self.load.request)?;
        while let Some(task) = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.load.world.is_stopped() {
                return Err(Error::Stopped("start again with --resume"));
            }
            if self.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut tries = 0;
            loop {
                let done = self.task(&mut session, task);
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
        }
        Ok(())
    }

    fn task(&self, session: &mut Session, task: &Task<'_>) -> Result<(), Error> {
        let entry = task.entry;
        // Into an empty table without unique checks, MariaDB sorts and builds whole pages, for one session alone.
        let alone = entry.chunks.len() == 1 && bulk_is_sound(session);
        session.execute(&format!("SET SESSION unique_checks = {}", u8::from(!alone)))?;
        if !entry.table.is_transactional() {
            session.execute(&format!("TRUNCATE TABLE {}", entry.table.name))?;
        }
        session.execute("START TRANSACTION")?;
        for chunk in task.chunks {
            let rows = self.chunk(session, entry, chunk)?;
            if rows != chunk.sum.rows {
                session.execute("ROLLBACK")?;
                return Err(Error::Different {
                    tables: 1,
                    differences: vec![format!(
                        "table {}, chunk {}: the server took {rows} of {} rows",
                        entry.table.name, chunk.number, chunk.sum.rows
                    )],
                });
            }
        }
        let line = match task.chunks {
            [chunk] if entry.table.is_transactional() => i64::from(chunk.number),
            _ => WHOLE,
        };
        self.load.ledger.add(session, task.table, line)?;
        session.execute("COMMIT")?;
        self.rows.fetch_add(task.chunks.iter().map(|chunk| chunk.sum.rows).sum(), Ordering::Relaxed);
        Ok(())
    }

    /// Sends a chunk; returns the rows that the server took.
    fn chunk(&self, session: &mut Session, entry: &TableEntry, chunk: &Chunk) -> Result<u64, Error> {
        let path = self.load.manifest.path(&self.load.request.folder, entry, chunk.number);
        let name = &entry.table.name;
        let told = |source: server::Error| match source {
            server::Error::Source(source) if self.load.world.is_stopped() => {
                drop(source);
                Error::Stopped("start again with --resume")
            }
            server::Error::Source(source) => Error::File { name: path.clone(), source },
            source => Error::Object {
                object: format!("table {name}, chunk {}", chunk.number),
                source: Box::new(source),
            },
        };
        let flavour = session.about.flavour;
        let statement = select::load_data(entry, name, self.load.manifest.data_format, flavour);
        let Some(statement) = statement.filter(|_| self.local_infile) else {
            return self.insert(session, entry, chunk);
        };
        let report = session.load(&statement, self.source(entry, chunk)).map_err(told)?;
        if report.warnings > 0 {
            let first = session.warnings()?.into_iter().next();
            let words = first.map(|warning| warning.message).unwrap_or_default();
            // Not a failure by itself: the rows are compared. A warning of a kept value, as of the empty ENUM, is none.
            self.load.world.progress.note(&format!(
                "table {name}, chunk {}: {} warnings, the first: {words}",
                chunk.number, report.warnings
            ));
        }
        Ok(report.records.saturating_sub(report.skipped).saturating_sub(report.deleted))
    }

    /// The text of a chunk's file, as LOAD DATA takes it.
    fn source(&self, entry: &TableEntry, chunk: &Chunk) -> Source {
        let load = self.load;
        let path = load.manifest.path(&load.request.folder, entry, chunk.number);
        let (disk, stop, progress) =
            (Arc::clone(&load.world.disk), Arc::clone(&load.world.stop), Arc::clone(&load.world.progress));
        let (chunk, compressed) = (chunk.clone(), load.manifest.is_compressed());
        let plain = load.manifest.data_format == Format::Tsv;
        let each_row = chunk.text_bytes / chunk.sum.rows.max(1);
        Box::new(move |to: &mut dyn Write| {
            let mut text = 0;
            file::read(&*disk, &path, &chunk, compressed, &mut |piece| {
                text += piece.len() as u64;
                if stop.load(Ordering::Relaxed) {
                    return Err(io::Error::other("stopped"));
                }
                if plain && text > chunk.text_bytes {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "it holds more than the manifest says",
                    ));
                }
                progress.read(piece.len() as u64);
                progress.done(piece.len() as u64 / each_row.max(1), piece.len() as u64);
                to.write_all(piece)
            })
        })
    }

    /// The way without LOAD DATA LOCAL.
    fn insert(&self, session: &mut Session, entry: &TableEntry, chunk: &Chunk) -> Result<u64, Error> {
        let load = self.load;
        let path = load.manifest.path(&load.request.folder, entry, chunk.number);
        let columns = select::literals(entry);
        let mut encoder = crate::format::hexadecimal(&entry.table.name, &columns);
        let mut text = Vec::new();
        let mut rows = 0;
        let mut failed = None;
        let mut send = |text: &mut Vec<u8>, rest: bool| -> io::Result<()> {
            while let Some(end) = memchr::memchr(b'\n', text) {
                let statement = String::from_utf8_lossy(&text[..end]).into_owned();
                text.drain(..=end);
                match session.execute(statement.trim_end_matches(';')) {
                    Ok(done) => rows += done.affected,
                    Err(error) => {
                        failed = Some(error);
                        return Err(io::Error::other("the server refused a statement"));
                    }
                }
            }
            if rest && !text.is_empty() { Err(io::Error::other("a statement without end")) } else { Ok(()) }
        };
        let read = file::read(&*load.world.disk, &path, chunk, load.manifest.is_compressed(), &mut |piece| {
            encoder.encode(piece, &mut text);
            load.world.progress.read(piece.len() as u64);
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
        sent.map_err(Error::file(&path))?;
        Ok(rows)
    }
}

/// From these versions on bulk insert into an empty table loses no row that is not a duplicate (MDEV-34703).
fn bulk_is_sound(session: &Session) -> bool {
    let version = session.about.version;
    let at_least = |major, minor, patch| version >= Version { major, minor, patch };
    session.about.flavour == Flavour::MariaDb
        && match (version.major, version.minor) {
            (10, 11) => at_least(10, 11, 11),
            (11, 4) => at_least(11, 4, 5),
            _ => at_least(11, 7, 2),
        }
}
