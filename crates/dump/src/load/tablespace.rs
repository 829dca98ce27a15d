//! Loads large tables by writing their tablespace files. What can't be loaded in that way is sent to the
//! server.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use innodb::write::Row;
use physical::write::{INCREMENTAL, Input, Piece, Request, RowSink};
use physical::{Table, write};
use rows::{Dialect, Nulls, RecordValues, Rewriter};
use server::{Session, snapshot};

use super::object::{build, defer, set_counter};
use super::rows::tally;
use super::{AGAIN, Load, Origin, VerifiedChunks, Verify, connect};
use crate::hash::{Adder, Sum};
use crate::manifest::TableEntry;
use crate::parallel::each;
use crate::{Error, Format, value_text};
use progress::{Progress, count};

/// For tables with less text the statements around a file cost more than it saves.
const FROM_BYTES: u64 = 8 << 20;
/// Bytes of text that a thread gets at once, and how many such pieces wait.
const PIECE_BYTES: usize = 4 << 20;
const PIECES: usize = 2;
/// How many bytes of rows and index entries of all tables are in memory while they are sorted.
const MEMORY: usize = 384 << 20;
/// The chunk number in the ledger's line of a table whose file is written. Without lines of its chunks the
/// table may have rows or not, and is emptied.
const FILLING: i64 = -2;

/// How a table was loaded.
enum FillOutcome {
    /// It has the dump's rows: that many, and if `is_verified`, these.
    Whole { is_verified: bool },
    /// It is as before; the reason.
    Refused(String),
}

/// Progress of several tables at once: the phases of each would only alternate on the screen.
struct GroupProgress<'a>(&'a dyn Progress);

impl Progress for GroupProgress<'_> {
    fn phase(&self, _: &str, _: Option<u64>) {}
    fn read(&self, _: u64) {}
    fn done(&self, _: u64, _: u64) {}
    fn note(&self, text: &str) {
        self.0.note(text);
    }
    fn warn(&self, text: &str) {
        self.0.warn(text);
    }
}

impl Load<'_> {
    /// Loads the large tables that are not loaded yet, if the server and the tables allow it. The server
    /// imports and checks a table with one processor, so several are filled at once.
    pub(super) fn fill(&mut self, session: &mut Session) -> Result<(), Error> {
        let Origin::Files(files) = &self.origin else { return Ok(()) };
        let physical = files.physical;
        let done = self.ledger.read(session)?;
        let mut large = Vec::new();
        for entry in &self.manifest.tables {
            // This comes first, also when no more files are written.
            if self.empty_again(session, entry, &done)? && physical && is_large(entry) {
                large.push(entry);
            }
        }
        large.retain(|entry| {
            let is_plain = matches!(self.manifest.data_format, Format::Tsv | Format::Parquet)
                && entry.version != value_text::PLAIN_VERSION
                && !entry.history;
            if !is_plain {
                self.refused(entry, "its files are not in the LOAD DATA format, or contain row history");
            }
            is_plain
        });
        let Some(first) = large.first() else { return Ok(()) };
        let (folder, progress) = (std::env::temp_dir(), &*self.context.progress);
        let cores = self.request.sessions.saturating_sub(1).max(1);
        let tables = cores.min(large.len());
        // While the server checks one table, the others have its processors.
        let threads = (2 * cores / tables).min(cores);
        let together = GroupProgress(progress);
        let told = if tables > 1 { &together } else { progress };
        let definition = session.definition(&first.table.name)?;
        let open = || snapshot::connect(self.target);
        let request = Request {
            target: &first.table.name,
            definition: &definition,
            sorted: true,
            threads,
            memory: MEMORY / tables,
            bytes: None,
            folder: &folder,
            unlogged: self.request.no_binlog,
            connect: &open,
            stop: &self.context.stop,
            progress: told,
        };
        if let Err(error) = write::trial(session, &*self.context.server, &request) {
            let why = error.into_reason().map_err(own)?;
            progress.note(&format!("all rows are sent to the server: {why}"));
            return Ok(());
        }
        large.sort_by_key(|entry| std::cmp::Reverse(entry.text_bytes()));
        progress.phase("writing tablespace files", Some(large.iter().map(|entry| entry.text_bytes()).sum()));
        let connect = || connect(self.target, self.request);
        let verified = Mutex::default();
        let is_any = AtomicBool::new(false);
        each(&large, tables, &connect, &|session, _, entry| {
            if self.fill_table(session, entry, request, &verified)? {
                is_any.store(true, Ordering::Relaxed);
            }
            Ok(())
        })?;
        if is_any.into_inner() {
            progress.note(INCREMENTAL);
        }
        self.verified.extend(verified.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Says that the rows of a table are loaded as usual, and why.
    fn refused(&self, entry: &TableEntry, why: &str) {
        self.context
            .progress
            .note(&format!("the rows of {} are sent to the server: {why}", entry.table.name));
    }

    /// Fills a table as the request says, which is made for another one. Returns whether that could be.
    fn fill_table(
        &self,
        session: &mut Session,
        entry: &TableEntry,
        request: Request<'_>,
        verified: &Mutex<VerifiedChunks>,
    ) -> Result<bool, Error> {
        if self.context.is_stopped() {
            return Err(Error::Stopped(AGAIN));
        }
        match self.table(session, entry, request)? {
            FillOutcome::Whole { is_verified } => {
                let lines: Vec<_> =
                    entry.chunks.iter().map(|chunk| (entry.place, i64::from(chunk.number))).collect();
                self.ledger.add_all(session, &lines)?;
                if is_verified {
                    // One chunk is read back through the server all the same, which must take the bytes for
                    // the values that they were made of: writing and reading them here may be wrong alike.
                    let asked = entry.chunks.len() / 2;
                    let others = entry.chunks.iter().enumerate().filter(|(at, _)| *at != asked);
                    let others = others.map(|(_, chunk)| (entry.table.name.clone(), chunk.number));
                    verified.lock().unwrap_or_else(PoisonError::into_inner).extend(others);
                }
                Ok(true)
            }
            FillOutcome::Refused(why) => {
                self.refused(entry, &why);
                Ok(false)
            }
        }
    }

    /// Empties a table whose file an earlier run may have put in place without a line of the ledger. Returns
    /// whether none of its chunks is loaded. Fails if the table has rows that are not the dump's.
    fn empty_again(
        &self,
        session: &mut Session,
        entry: &TableEntry,
        done: &BTreeSet<(usize, i64)>,
    ) -> Result<bool, Error> {
        if done.iter().any(|(place, chunk)| *place == entry.place && *chunk != FILLING) {
            return Ok(false);
        }
        if done.contains(&(entry.place, FILLING)) {
            let name = &entry.table.name;
            let found = session.value(&format!("SELECT COUNT(*) FROM {name}"))?;
            let found = found.and_then(|found| found.parse::<u64>().ok()).unwrap_or_default();
            // A file that was put in place has all rows. Others lose nothing that they wrote meanwhile.
            if found > 0 && found != entry.sum.rows {
                return Err(Error::Mismatch(format!(
                    "{name} has {}, and not the {} of the dump: somebody else has written to it since the load \
                     was stopped. Empty it, or leave it out with --exclude, and give --resume again",
                    count(found, "row"),
                    entry.sum.rows
                )));
            }
            if found > 0 {
                session.execute(&format!("TRUNCATE TABLE {name}"))?;
            }
            // Emptying it has set it to 1, whoever did it.
            set_counter(session, entry)?;
            write::remove_leftovers(
                session,
                &*self.context.server,
                &entry.table.name,
                &*self.context.progress,
            )
            .map_err(own)?;
        }
        Ok(true)
    }

    fn table(
        &self,
        session: &mut Session,
        entry: &TableEntry,
        request: Request<'_>,
    ) -> Result<FillOutcome, Error> {
        let target = &entry.table.name;
        let request = Request { target, bytes: Some(entry.text_bytes()), ..request };
        let definition = session.definition(target)?;
        if let Err(error) = write::check(session, &Request { definition: &definition, ..request }) {
            return refusal(error);
        }
        // All keys are made with the rows.
        build(session, entry)?;
        let definition = session.definition(target)?;
        let filled = self.in_any_order(session, entry, Request { definition: &definition, ..request })?;
        if let FillOutcome::Refused(_) = filled {
            defer(session, entry)?;
        }
        Ok(filled)
    }

    /// Loads a table that has all of its keys. Its lines are in the order of the primary key, unless the
    /// server gave them in another one.
    fn in_any_order(
        &self,
        session: &mut Session,
        entry: &TableEntry,
        request: Request<'_>,
    ) -> Result<FillOutcome, Error> {
        if !self.ledger.has(session, entry.place, FILLING)? {
            self.ledger.add(session, entry.place, FILLING)?;
        }
        let mut filled = self.write(session, entry, &request);
        if filled.as_ref().is_err_and(physical::Error::is_of_order) {
            filled = self.write(session, entry, &Request { sorted: false, ..request });
        }
        match filled {
            Ok((rows, found)) if rows == entry.sum.rows => {
                Ok(FillOutcome::Whole { is_verified: found == entry.sum })
            }
            Ok((rows, _)) => Err(Error::Different {
                tables: 1,
                differences: vec![format!(
                    "table {}: its data files have {} of {}",
                    entry.table.name,
                    count(rows, "row"),
                    entry.sum.rows
                )],
            }),
            Err(error) => refusal(error),
        }
    }

    /// Writes the file of a table from those of the dump; returns the number of rows, and the sum of those
    /// that were read back from it.
    fn write(
        &self,
        session: &mut Session,
        entry: &TableEntry,
        request: &Request<'_>,
    ) -> Result<(u64, Sum), physical::Error> {
        let tally = tally(entry);
        let mut adder = Adder::default();
        let written = std::thread::scope(|scope| {
            let (send, pieces) = sync_channel(PIECES);
            let reader = scope.spawn(move || self.cut(entry, &send));
            let rows = |table: &Table, text: Vec<u8>, before: u64, take: &mut RowSink<'_>| {
                lines(entry, table, (&text, before), take)?;
                let rows = newlines(&text);
                let bytes = text.len() as u64;
                self.context.progress.done(rows, bytes);
                tally.add(&*self.context.progress, rows, bytes, bytes);
                Ok(())
            };
            let mut next = next(pieces);
            let back = (self.request.verify == Verify::Rows).then_some(&mut adder as &mut (dyn Write + Send));
            let input = Input { next: &mut next, bytes: Some(entry.text_bytes()), rows: &rows, back };
            let written = write::write(session, &*self.context.server, request, input);
            // A reader whose pieces nobody takes any more ends too.
            drop(next);
            let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (written, read) {
                // What was wrong with a file comes first: the writer may only have seen the end of it.
                (_, Err(error)) => Err(physical::Error::Input(Box::new(error))),
                (written, Ok(())) => written.map(|outcome| outcome.rows),
            }
        });
        tally.end(&*self.context.progress);
        Ok((written?, adder.sum()))
    }

    /// Reads the files of a table and passes their text on in pieces of whole lines.
    fn cut(&self, entry: &TableEntry, send: &SyncSender<Result<Vec<u8>, ()>>) -> Result<(), Error> {
        let Origin::Files(files) = &self.origin else { return Ok(()) };
        for chunk in &entry.chunks {
            let file = self.manifest.data_file(files.folder, entry, chunk);
            let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
            let mut is_over = false;
            let read = file.read(&*self.context.disk, &mut |text| {
                if self.context.stop.load(Ordering::Relaxed) {
                    return Err(io::Error::other("stopped"));
                }
                self.context.progress.read(text.len() as u64);
                piece.extend_from_slice(text);
                if piece.len() >= PIECE_BYTES
                    && let Some(end) = memchr::memrchr(b'\n', &piece)
                {
                    let rest = piece.split_off(end + 1);
                    is_over = send.send(Ok(std::mem::replace(&mut piece, rest))).is_err();
                }
                if is_over { Err(io::Error::other("nobody takes it")) } else { Ok(()) }
            });
            if is_over || (read.is_ok() && !piece.is_empty() && send.send(Ok(piece)).is_err()) {
                // The writer has a reason of its own.
                return Ok(());
            }
            if let Err(error) = read {
                // The writer must not take this for the end.
                send.send(Err(())).ok();
                return Err(if self.context.is_stopped() {
                    Error::Stopped(AGAIN)
                } else {
                    Error::file(&file.path)(error)
                });
            }
        }
        Ok(())
    }
}

/// Gives the pieces of a reader.
fn next(
    pieces: Receiver<Result<Vec<u8>, ()>>,
) -> impl FnMut() -> Result<Option<Piece<Vec<u8>>>, physical::Error> {
    move || match pieces.recv() {
        Ok(Ok(text)) => {
            let (rows, bytes) = (newlines(&text), text.len() as u64);
            Ok(Some(Piece { input: text, rows, bytes }))
        }
        Ok(Err(())) => Err(physical::Error::Stopped),
        Err(_) => Ok(None),
    }
}

fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// Gives the rows of some lines of a dump.
fn lines(
    entry: &TableEntry,
    table: &Table,
    (text, before): (&[u8], u64),
    take: &mut RowSink<'_>,
) -> Result<(), physical::Error> {
    let columns = entry.columns();
    let place = |name: &str| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    let places: Vec<Option<usize>> = table.columns().iter().map(|column| place(&column.name)).collect();
    let mut rewriter = Rewriter::new(Dialect::LOAD_DATA, Nulls::default(), Vec::new(), columns.len());
    let mut values = rewriter.values(text);
    let (mut row, mut texts) = (Row::default(), RecordValues::new(columns.len()));
    for number in before.. {
        texts.clear();
        let Some((_, read)) = values.next(|field, value| texts.set(field, value)) else { break };
        read.map_err(|unfit| physical::Error::Refused(format!("row {}: {unfit}", number + 1)))?;
        row.clear();
        for (column, place) in table.columns().iter().zip(&places) {
            match place.and_then(|place| texts.get(place)) {
                None => row.push(None),
                Some(text) => row.push_text(column, text)?,
            }
        }
        take(&row, number)?;
    }
    Ok(())
}

fn is_large(entry: &TableEntry) -> bool {
    entry.data && entry.table.engine.eq_ignore_ascii_case("InnoDB") && entry.text_bytes() >= FROM_BYTES
}

/// Tells a reason to load the table as usual from an error.
fn refusal(error: physical::Error) -> Result<FillOutcome, Error> {
    error.into_reason().map(FillOutcome::Refused).map_err(own)
}

fn own(error: physical::Error) -> Error {
    match error {
        physical::Error::Stopped => Error::Stopped(AGAIN),
        physical::Error::Server(error) => Error::Server(error),
        physical::Error::Io { path, source } => Error::file(&path)(source),
        physical::Error::Input(source) => match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::Mismatch(other.to_string()),
        },
        other => Error::Mismatch(other.to_string()),
    }
}
