//! Walks over the files, event by event, and shows the transactions that are asked for.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use binlog::event::format::Format;
use binlog::event::query::Query;
use binlog::event::rows::Rows;
use binlog::event::table::Table;
use binlog::event::{Body, Event};
use binlog::group::{EventRole, Grouping};
use binlog::reader::{End, Reader};
use binlog::tables::Tables;
use binlog::{Error, row};
use failure::Completeness;
use progress::Progress;

use crate::definitions::Known;
use crate::end_time::{EndTime, Judged};
use crate::file::LogFile;
use crate::filter::{Choice, Choices, Filter, Range};
use crate::frame::{ended_xa, is_frame, is_head, named, starts};
use crate::names;
use crate::source::{FileSource, LogReader, PIECE_BYTES};
use crate::transaction::{Place, Statement, Transaction, Xa};

/// LOG_EVENT_THREAD_SPECIFIC_F: the statement uses temporary tables.
const THREAD_SPECIFIC: u16 = 4;

/// Whether a transaction is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is.
    Yes,
    /// It would be, but tables or rows are asked for and it has none of them. Its statements may change them:
    /// which tables a statement changes is not in the log.
    WithoutRows,
    /// It is not.
    No,
}

/// What becomes of what a walk finds.
pub trait Take {
    /// A table is described, for the first time or otherwise than before.
    fn table(&mut self, _table: &Table) -> Result<()> {
        Ok(())
    }

    /// A transaction whose end is there.
    fn transaction(&mut self, whole: &Transaction, asked: Asked) -> Result<()>;
}

/// The walk.
pub struct Walk<'a, T> {
    files: &'a [LogFile],
    filter: &'a Filter,
    choices: Choices<'a>,
    known: &'a Known,
    take: &'a mut T,
    report: &'a dyn Progress,
    /// How the events that are read now are written.
    format: Rc<Format>,
    grouping: Grouping,
    tables: Tables,
    open: Option<Transaction>,
    completeness: Completeness,
    /// What was told already.
    told: BTreeSet<String>,
    /// Whether a condition names a column that a table has not, or that the log says too little of.
    is_nameless: bool,
    /// Whether the log does not name the columns of such a table.
    is_unnamed: bool,
    /// Whether it says too little of a column.
    is_incomparable: bool,
    /// Whether the log has the names of columns of such a table.
    knows_names: bool,
    /// Whether a table has all columns that the conditions name.
    has_columns: bool,
    /// The transactions that are asked for by name and have not come yet.
    unseen: Vec<&'a Range>,
    /// What is in time or not, and says otherwise.
    judged: Judged,
    /// The end of the event that came last, and how many bytes of the file it took.
    seen: u64,
    fresh: u64,
}

impl<'a, T: Take> Walk<'a, T> {
    /// A walk over these files.
    pub fn new(
        files: &'a [LogFile],
        filter: &'a Filter,
        known: &'a Known,
        take: &'a mut T,
        report: &'a dyn Progress,
    ) -> Walk<'a, T> {
        Walk {
            files,
            filter,
            choices: Choices::new(filter),
            known,
            take,
            report,
            format: Rc::new(Format::without_sums()),
            grouping: Grouping::default(),
            tables: Tables::default(),
            open: None,
            completeness: Completeness::Complete,
            told: BTreeSet::new(),
            is_nameless: false,
            is_unnamed: false,
            is_incomparable: false,
            knows_names: false,
            has_columns: false,
            unseen: filter.gtid.iter().collect(),
            judged: Judged::default(),
            seen: 0,
            fresh: 0,
        }
    }

    /// Reads all files.
    pub fn all(&mut self) -> Result<Completeness> {
        for (number, path) in self.files.iter().enumerate() {
            self.file(Place { file: number, at: 0 }, path).with_context(|| path.display().to_string())?;
        }
        self.left_open(None);
        self.judged.tell(self.report);
        Ok(self.completeness)
    }

    /// Reads a file from a place on in which a transaction ends.
    pub fn one(&mut self, from: Place) -> Result<Completeness> {
        let Some(path) = self.files.get(from.file) else { return Ok(self.completeness) };
        self.file(from, path).with_context(|| path.display().to_string())?;
        self.left_open(None);
        Ok(self.completeness)
    }

    /// Whether rows may be missing because a condition names a column that a table has not, or that the log
    /// says too little of.
    pub fn is_nameless(&self) -> bool {
        self.is_nameless
    }

    /// Whether that is because the log says too little: of a column, or of the names in all of these tables.
    pub fn lacks_columns(&self) -> bool {
        self.is_incomparable || self.is_unnamed && !self.has_columns
    }

    /// What is asked for and is nowhere in the log, a line for each.
    pub fn missing(&self) -> Vec<String> {
        let unseen = self.unseen.iter().map(|range| format!("there is no transaction {range} in this log"));
        let columns = (self.knows_names && !self.has_columns)
            .then(|| "no table of these transactions has the columns that --where names".to_owned());
        unseen.chain(columns).collect()
    }

    fn file(&mut self, from: Place, path: &LogFile) -> Result<()> {
        let mut reader = match Reader::open(FileSource::open(path, 0)?) {
            Err(Error::Foreign(what)) => {
                return Err(failure::usage(what));
            }
            // Its first piece is not as it was written.
            Err(Error::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                self.damaged(path, &error.to_string());
                return Ok(());
            }
            reader => reader?.unpacking(),
        };
        self.seen = 0;
        let read = self.begin(&mut reader, from, path).and_then(|()| self.events(&mut reader, from.file));
        if let Err(error) = read {
            let corrupt = error.downcast::<binlog::Corrupt>()?;
            self.damaged(path, &corrupt.to_string());
            return Ok(());
        }
        let (is_in_use, is_relay) = (reader.is_in_use(), reader.is_relay());
        if self.ended(reader.end(), path, is_in_use) && !is_relay {
            self.left_open(Some((path, is_in_use)));
            self.tables.forget();
        }
        Ok(())
    }

    /// Continues with the event at this place, unless that is the first one. It says how a file is written.
    fn begin(&mut self, reader: &mut LogReader, from: Place, path: &LogFile) -> Result<()> {
        if from.at <= reader.position() {
            return Ok(());
        }
        if let Some(event) = reader.next()? {
            self.event(&event, from.file)?;
        }
        if from.at > reader.position() {
            reader.resume(FileSource::open(path, from.at)?, from.at);
            self.seen = from.at;
        }
        Ok(())
    }

    fn events(&mut self, reader: &mut Reader<impl Read>, number: usize) -> Result<()> {
        let mut unreported = 0;
        loop {
            let event = match reader.next() {
                Err(Error::Corrupt(corrupt)) => return Err(corrupt.into()),
                // A piece of it is not as it was written.
                Err(Error::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    let place = format!("at {}", reader.position());
                    return Err(binlog::Corrupt { what: error.to_string(), place }.into());
                }
                event => event?,
            };
            let Some(event) = event else { break };
            // Events that were compressed together are in the file once.
            self.fresh = event.end().saturating_sub(self.seen.max(event.at));
            self.seen = event.end();
            unreported += self.fresh;
            if unreported >= PIECE_BYTES as u64 {
                self.report.read(std::mem::take(&mut unreported));
            }
            self.event(&event, number)?;
        }
        self.report.read(unreported);
        Ok(())
    }

    /// Says how a file ended if that is not usual. Returns whether it was not cut.
    fn ended(&mut self, end: Option<&End>, path: &Path, is_in_use: bool) -> bool {
        let name = names::file(path);
        match end {
            Some(End::Torn { at, have, .. }) if is_in_use => self.report.note(&format!(
                "{name}: it ends within the event at {at}, of which {have} bytes are there: the server is writing it, or was \
                 killed"
            )),
            Some(End::Torn { at, have, need }) => {
                let need = need.map_or_else(String::new, |need| format!(" of {need}"));
                let what = format!(
                    "it ends within the event at {at}, of which {have}{need} bytes are there: the file was cut"
                );
                self.damaged(path, &what);
                return false;
            }
            Some(End::Encrypted { at: 0 }) => {
                self.report.warn(&format!(
                    "{name}: it is encrypted, as MySQL encrypts logs (binlog_encryption=ON), and only its server has the key: read it \
                     from the server, with mysqlbinlog --read-from-remote-server --raw {name}, and look into that copy"
                ));
                self.completeness = self.completeness.and_left_out();
            }
            Some(End::Encrypted { at }) => {
                self.report.warn(&format!(
                    "{name}: from {at} on it is encrypted, and only its server has the key: read it from the server, with \
                     mariadb-binlog --read-from-remote-server --raw {name}, and look into that copy"
                ));
                self.completeness = self.completeness.and_left_out();
            }
            _ => {}
        }
        true
    }

    /// Nothing behind the damage can be found any more.
    fn damaged(&mut self, path: &Path, what: &str) {
        let path = path.display();
        self.report.warn(&format!("{path}: {what}; what follows in this file is not read"));
        self.completeness = Completeness::Damaged;
        self.grouping.abandon();
        self.tables.forget();
        self.open = None;
    }

    /// A transaction whose end did not come.
    fn left_open(&mut self, file: Option<(&Path, bool)>) {
        self.grouping.abandon();
        let Some(open) = self.open.take() else { return };
        let place = self.place(open.start);
        let name = names::gtid(open.name).unwrap_or_else(|| place.clone());
        match file {
            Some((path, false)) => {
                self.report.warn(&format!(
                    "{}: the end of the transaction {name}, which begins at {place}, is not there; it is not shown",
                    path.display()
                ));
                self.completeness = Completeness::Damaged;
            }
            _ => self.report.note(&format!("the end of the transaction {name} at {place} is not there yet")),
        }
    }

    fn place(&self, place: Place) -> String {
        let name = self.files.get(place.file).map(|path| names::file(path)).unwrap_or_default();
        format!("{name}:{}", place.at)
    }

    fn event(&mut self, event: &Event<'_>, file: usize) -> Result<()> {
        let here = Place { file, at: event.at };
        self.known.at(here);
        let mut is_new = false;
        let table = self.tables.take(event, |table| {
            is_new = true;
            if let Some(why) = self.known.complete(table)
                && self.told.insert(why.clone())
            {
                self.report.warn(&why);
            }
        })?;
        if let Some(table) = table.as_ref().filter(|_| is_new) {
            self.take.table(table)?;
        }
        let body = table.map_or_else(|| event.parse(), |table| Ok(Body::Table(table)))?;
        let (part, is_cut) = self.grouping.take(event, &body);
        if is_cut && let Some(open) = self.open.take() {
            let text = format!("the transaction at {} has no end, another begins", self.place(open.start));
            self.report.warn(&text);
            self.completeness = Completeness::Damaged;
        }
        if matches!(body, Body::Format(_)) {
            // A transaction may go on in the next relay log, and its tables with it.
            if self.open.is_none() {
                self.tables.forget();
            }
            self.format = Rc::new(event.format.clone());
        }
        if matches!(part, EventRole::First | EventRole::Whole) {
            let name = self.grouping.open().unwrap_or(binlog::group::GroupId::None);
            let has_text = self.filter.statement.is_none();
            let mut open = Transaction::new(name, Rc::clone(&self.format), here, has_text);
            open.is_headless = !is_head(&body);
            self.open = Some(open);
        }
        if part == EventRole::Outside {
            return Ok(());
        }
        self.inside(event, &body, here)?;
        if matches!(part, EventRole::Last | EventRole::Whole)
            && let Some(mut whole) = self.open.take()
        {
            whole.end = Place { file, at: event.end() };
            whole.time = event.header.timestamp.into();
            whole.server_id = event.header.server_id;
            whole.ended = self.ended_at(&whole);
            self.finish(&whole)?;
        }
        Ok(())
    }

    /// When a transaction ended, by what it says and when it came.
    fn ended_at(&self, whole: &Transaction) -> EndTime {
        let Place { file, at } = whole.end;
        // Only in relay logs a transaction goes over files, and nothing is noted of these.
        let arrivals = self.files.get(file).filter(|_| whole.start.file == file).map(LogFile::arrivals);
        let span = arrivals.map_or((None, None), |arrivals| arrivals.span((whole.start.at, at)));
        EndTime::new(whole.time, span)
    }

    /// An event of the transaction that is open.
    fn inside(&mut self, event: &Event<'_>, body: &Body<'_>, here: Place) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.bytes += self.fresh;
        match body {
            Body::Gtid(gtid) => {
                open.thread_id = gtid.thread_id;
                // Unless what follows says otherwise.
                open.xa = gtid.xid.map_or(Xa::No, |xid| Xa::Committed(named(xid)));
            }
            Body::XaPrepare(prepare) if !prepare.one_phase => open.xa = Xa::Prepared(named(prepare.xid)),
            Body::Query(query) => {
                open.thread_id = Some(query.thread_id);
                open.is_rolled_back |= query.sql.eq_ignore_ascii_case(b"ROLLBACK");
                open.is_partly_undone |= starts(&query.sql, b"ROLLBACK TO ");
                open.xa = ended_xa(&query.sql, std::mem::replace(&mut open.xa, Xa::No));
                if !is_frame(&query.sql) {
                    self.statement(&mut open, query, event, here);
                }
            }
            Body::ExecuteLoad(load) => self.statement(&mut open, &load.query, event, here),
            Body::Annotate(sql) => {
                open.has_text = open.has_text || self.filter.has_statement(None, sql);
                open.annotate(sql);
            }
            Body::Rows(rows) => self.rows(&mut open, rows, event)?,
            // The server lost events at an incident.
            Body::Unknown | Body::Incident(..) => open.unknown.push((event.header.kind, event.at)),
            _ => {}
        }
        self.open = Some(open);
        Ok(())
    }

    fn statement(&self, open: &mut Transaction, query: &Query<'_>, event: &Event<'_>, here: Place) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (schema, sql, error) = (text(query.schema), text(&query.sql), query.error);
        open.has_text = open.has_text || self.filter.has_statement(Some(&schema), &query.sql);
        self.known.passes(here, &schema, &sql);
        let has_temporary = event.header.flags & THREAD_SPECIFIC != 0;
        let thread_id = query.thread_id;
        open.statements.push(Statement { schema, sql, error, thread_id, has_temporary });
    }

    fn rows(&mut self, open: &mut Transaction, rows: &Rows<'_>, event: &Event<'_>) -> Result<()> {
        if rows.ends_statement() && rows.data.is_empty() && rows.columns == 0 {
            // Only the end of a statement.
            return Ok(());
        }
        open.logs_cascades |= rows.logs_cascades();
        open.is_unchecked |= rows.ends_statement() && rows.is_unchecked();
        let Some(table) = self.tables.get(rows.table_id) else {
            let what = format!("no table {} was described before it", rows.table_id);
            return Err(binlog::Corrupt { what, place: event.place() }.into());
        };
        if self.filter.has_name(open.name) {
            match self.choices.of(&table) {
                Choice::Not => open.leave_out(&table),
                Choice::Nameless => self.tell_nameless(&table),
                Choice::Incomparable(why) => {
                    (self.has_columns, self.is_nameless, self.is_incomparable) = (true, true, true);
                    self.tell_once(format!("{}.{}: {why}", table.schema, table.name));
                }
                Choice::Columns(columns) => {
                    self.has_columns = true;
                    self.tell_zone(&table, &columns);
                    let count = self.count(rows, &table, &columns, event)?;
                    if count > 0 {
                        open.add(&table, rows, count);
                    }
                }
            }
        }
        if rows.ends_statement() {
            self.tables.end_statement();
        }
        Ok(())
    }

    /// The rows that are asked for.
    fn count(&self, rows: &Rows<'_>, table: &Table, columns: &[usize], event: &Event<'_>) -> Result<u64> {
        let mut count = 0;
        for row in row::rows(rows, table, event.place())? {
            count += u64::from(self.filter.has_row(&row?, columns)?);
        }
        Ok(count)
    }

    /// A condition names a column, and the log does not.
    fn tell_nameless(&mut self, table: &Table) {
        self.is_nameless = true;
        if table.columns.iter().any(|column| column.name.is_some()) {
            self.knows_names = true;
        } else {
            self.is_unnamed = true;
            self.tell_once(format!(
                "{}.{}: the names of its columns are not in the log: write @N=VALUE with the number of the column, or give its \
                 CREATE TABLE with --schema",
                table.schema, table.name
            ));
        }
    }

    /// A TIMESTAMP is in UTC in the log, and SELECT shows it in another zone.
    fn tell_zone(&mut self, table: &Table, columns: &[usize]) {
        if let Some(at) = self.filter.without_zone(table, columns) {
            self.tell_once(format!(
                "{}.{}: {} is a TIMESTAMP: the time is taken for UTC; with its zone it is '2026-11-22 19:05:17+01:00'",
                table.schema,
                table.name,
                table.column_name(at)
            ));
        }
    }

    fn tell_once(&mut self, text: String) {
        if !self.told.contains(&text) {
            self.report.warn(&text);
            self.told.insert(text);
        }
    }

    /// A transaction is whole.
    fn finish(&mut self, whole: &Transaction) -> Result<()> {
        let filter = self.filter;
        self.unseen.retain(|range| !range.has(whole.name));
        let is_in_time = filter.has_time(whole.ended);
        if is_in_time != filter.has_time(EndTime::Then(whole.time)) {
            let name = names::gtid(whole.name).unwrap_or_else(|| self.place(whole.start));
            self.judged.add(&name, whole.time, whole.ended);
        }
        let asked = match () {
            () if !is_in_time || !filter.has_name(whole.name) || !whole.has_text => Asked::No,
            () if filter.wants_rows() && whole.tables.is_empty() => Asked::WithoutRows,
            () => Asked::Yes,
        };
        self.take.transaction(whole, asked)
    }
}
