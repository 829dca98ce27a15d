//! Batches, one after the other: what is written, and how far that is.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use disk::{Disk, Output};
use failure::{Completeness, Failure};
use progress::Progress;
use transactions::{Again, Asked, AskedRow, LogFile, Place, Take, Transaction, Xa, names};

use crate::batch::Batch;
use crate::cell;
use crate::position::{LogPosition, Prepared, State};
use crate::request::{Request, Summary};
use crate::sink::{Changed, Source};
use crate::statement::{self, Meaning};

/// A batch ends with the transaction in which it has so many files.
const BATCH_FILES: usize = 256;

/// Writes batches.
pub(crate) struct Writer<'a> {
    pub(crate) request: &'a Request<'a>,
    disk: &'a dyn Disk,
    pub(crate) state: State,
    /// What is prepared, at the end of what was read.
    prepared: Vec<Prepared>,
    pub(crate) batch: Option<Batch<'a>>,
    /// Behind the last transaction, when its file was begun, and the bytes of the log since the batch began.
    reached: LogPosition,
    begun: Option<u32>,
    bytes: u64,
    pub(crate) rows: u64,
    files: u64,
    pub(crate) completeness: Completeness,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(request: &'a Request<'a>, disk: &'a dyn Disk, state: State) -> Writer<'a> {
        Writer {
            request,
            disk,
            prepared: state.prepared.clone(),
            batch: None,
            reached: state.next.clone(),
            begun: state.begun,
            bytes: 0,
            rows: 0,
            files: 0,
            completeness: Completeness::Complete,
            state,
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        let Writer { rows, files, completeness, .. } = *self;
        Summary { rows, files, next: self.state.next.clone(), completeness }
    }

    fn batch(&mut self) -> &mut Batch<'a> {
        let request = self.request;
        let begin = || Batch::new(self.disk, &request.to, request.format, self.state.next.clone());
        self.batch.get_or_insert_with(begin)
    }

    /// A transaction was written. Ends the batch if it is large, or if one that was not ended ends here.
    fn passed(&mut self, end: LogPosition, bytes: u64) -> Result<()> {
        (self.reached, self.bytes) = (end, self.bytes + bytes);
        let is_full = self.bytes >= self.request.batch_bytes
            || self.batch.as_ref().is_some_and(|batch| batch.files() >= BATCH_FILES);
        let ends = match &self.state.until {
            Some(until) => *until == self.reached,
            None => is_full,
        };
        if ends { self.end_batch() } else { Ok(()) }
    }

    /// A file is read, which was begun then; 0 if its first event is not there yet.
    pub(crate) fn begin_file(&mut self, begun: u32) {
        self.begun = Some(begun).filter(|begun| *begun > 0);
    }

    /// A file was read to its end, or the log was. `next`: the beginning of the file behind it.
    pub(crate) fn end_file(&mut self, next: Option<LogPosition>) -> Result<()> {
        if let Some(next) = next {
            (self.reached, self.begun) = (next, None);
        }
        match &self.state.until {
            Some(until) if *until != self.reached => Ok(()),
            _ => self.end_batch(),
        }
    }

    /// Gives the files of the batch their names, and notes where the next one begins.
    fn end_batch(&mut self) -> Result<()> {
        let Writer { disk, request, .. } = *self;
        let batch = self.batch.take().filter(|batch| batch.files() > 0);
        let is_new = batch.is_some() || self.reached != self.state.next;
        if let Some(batch) = batch {
            (self.rows, self.files) = (self.rows + batch.rows, self.files + batch.files() as u64);
            let outputs = batch.complete()?;
            self.state.until = Some(self.reached.clone());
            self.state.write(disk, &request.to)?;
            outputs.into_iter().try_for_each(Output::finish)?;
        }
        self.state.next = self.reached.clone();
        self.state.begun = self.begun;
        self.state.until = None;
        self.state.prepared.clone_from(&self.prepared);
        self.bytes = 0;
        if is_new { self.state.write(disk, &request.to) } else { Ok(()) }
    }
}

/// Takes the transactions of the files that there are now.
pub(crate) struct Round<'r, 'a> {
    writer: &'r mut Writer<'a>,
    files: &'r [LogFile],
    again: Again<'r>,
    report: &'r dyn Progress,
    stop: &'r AtomicBool,
}

impl<'r, 'a> Round<'r, 'a> {
    pub(crate) fn new(
        writer: &'r mut Writer<'a>,
        files: &'r [LogFile],
        report: &'r dyn Progress,
        stop: &'r AtomicBool,
    ) -> Round<'r, 'a> {
        let again = Again::new(files, writer.request.filter, writer.request.known);
        Round { writer, files, again, report, stop }
    }

    fn position(&self, place: Place) -> LogPosition {
        let file = self.files.get(place.file);
        LogPosition {
            timeline: file.map_or(0, LogFile::timeline),
            file: file.map(|file| names::file(file)).unwrap_or_default(),
            at: place.at,
        }
    }

    /// Something is in no file.
    fn left_out(&mut self, what: &str) {
        self.report.warn(what);
        self.writer.completeness = self.writer.completeness.and_left_out();
    }

    /// The statements of a transaction.
    fn statements(&mut self, whole: &Transaction, position: &LogPosition) -> Result<()> {
        let request = self.writer.request;
        for statement in &whole.statements {
            match statement::meaning(statement, &request.filter.tables) {
                Meaning::Nothing => continue,
                Meaning::Definition => {}
                Meaning::Rows => self.left_out(&format!(
                    "the statement at {position} was logged instead of the rows that it changed (binlog_format of its \
                     session was not ROW): it is in _statements, and its changes are in no other file"
                )),
            }
            let line = statement::line(statement, whole, &request.name, position);
            self.writer.batch().statement(&line)?;
        }
        Ok(())
    }

    /// The rows of a transaction. `prepared`: where they are, if it only commits them.
    fn rows(
        &mut self,
        whole: &Transaction,
        prepared: Option<(Place, Place)>,
        position: &LogPosition,
    ) -> Result<()> {
        let Round { writer, again, .. } = self;
        let name = &writer.request.name;
        let (gtid, is_mariadb) = (names::gtid(whole.name), statement::is_mariadb(whole));
        let mut next = 0;
        let take = |AskedRow { row, table, change }: &AskedRow<'_>| -> Result<()> {
            let batch = writer.batch();
            let columns = batch.columns(table, position)?;
            let source = Source {
                name,
                schema: &table.schema,
                table: &table.name,
                time: whole.time,
                server_id: whole.server_id,
                thread_id: whole.thread_id,
                gtid: gtid.clone(),
                position: position.clone(),
                is_mariadb,
            };
            let values = |image: Option<_>| image.map(|image| cell::values(&columns, &image)).transpose();
            let read = || -> Result<Changed<'_>, String> {
                Ok(Changed {
                    change: *change,
                    before: values(row.before)?,
                    after: values(row.after)?,
                    row: next,
                })
            };
            let changed = read().map_err(|why| {
                anyhow::anyhow!(
                    "a row of {}.{}, in the transaction at {position}: {why}",
                    table.schema,
                    table.name
                )
            })?;
            next = batch.change(&source, &changed)?;
            Ok(())
        };
        match prepared {
            Some((start, end)) => again.between(start, end, take),
            None => again.rows(whole, take),
        }
    }

    /// A transaction that may be a part of a distributed one.
    fn changes(&mut self, whole: &Transaction, position: &LogPosition) -> Result<()> {
        match &whole.xa {
            Xa::No => self.rows(whole, None, position),
            Xa::Prepared(xid) => {
                let (xid, start, end) = (xid.clone(), position.clone(), whole.end.at);
                self.writer.prepared.push(Prepared { xid, start, end });
                Ok(())
            }
            Xa::Committed(xid) | Xa::RolledBack(xid) => {
                let known = self.writer.prepared.iter().position(|prepared| prepared.xid == *xid);
                let prepared = known.map(|known| self.writer.prepared.remove(known));
                match prepared {
                    _ if matches!(whole.xa, Xa::RolledBack(_)) => Ok(()),
                    Some(prepared) => self.prepared(whole, &prepared, position),
                    None => {
                        self.left_out(&format!(
                            "the transaction at {position} commits what was prepared before these changes begin: its rows \
                             are in no file"
                        ));
                        Ok(())
                    }
                }
            }
        }
    }

    /// The rows of what was prepared, which are committed now.
    fn prepared(&mut self, whole: &Transaction, prepared: &Prepared, position: &LogPosition) -> Result<()> {
        let start = &prepared.start;
        let is_its = |file: &LogFile| file.timeline() == start.timeline && names::file(file) == start.file;
        let Some(file) = self.files.iter().position(is_its) else {
            bail!(
                "the transaction at {position} was prepared at {start}, which the log does not have any more"
            );
        };
        let span = (Place { file, at: start.at }, Place { file, at: prepared.end });
        self.rows(whole, Some(span), position)
    }
}

impl Take for Round<'_, '_> {
    fn transaction(&mut self, whole: &Transaction, _: Asked) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped.into());
        }
        let (position, end) = (self.position(whole.start), self.position(whole.end));
        if whole.is_headless {
            bail!("{position} is in the middle of a transaction; --position must be between two");
        }
        if let Some((kind, at)) = whole.unknown.first() {
            self.left_out(&format!(
                "{} at {}:{at} is not understood, and what it changed is in no file",
                kind.name(),
                position.file
            ));
        }
        self.statements(whole, &position)?;
        let is_undone = whole.is_rolled_back && matches!(whole.xa, Xa::No) || whole.is_partly_undone;
        if is_undone && whole.rows() > 0 {
            self.left_out(&format!(
                "the transaction at {position} was rolled back, or a part of it: what it changed nevertheless, as in tables \
                 that can't roll back, is in no file"
            ));
        } else {
            self.changes(whole, &position)?;
        }
        self.writer.passed(end, whole.bytes)
    }
}
