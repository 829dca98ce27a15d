//! From events to transactions on the target.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use binlog::event::query::Query;
use binlog::event::rows::Rows;
use binlog::event::{Body, Change as RowChange, Event, Kind};
use binlog::group::{EventRole, GroupId, Grouping};
use binlog::reader::Reader;
use binlog::row;
use binlog::tables::Tables;
use progress::count;
use transactions::is_frame;
use transactions::names::{self, number};

use crate::apply::Applier;
use crate::ddl::Ddl;
use crate::scope::{Meaning, Scope, shown};
use crate::shared::Shared;
use crate::touched::Place;
use crate::window::{Change, Window};
use crate::{Error, Reached, Summary};

/// A window is applied when it has so many transactions, or bytes of SQL.
const TRANSACTIONS_MAX: u64 = 2000;
const BYTES_MAX: usize = 8 << 20;
/// The longest time for which transactions gather while others come.
const WINDOW_MAX: Duration = Duration::from_millis(250);
/// How often a position is noted behind which no rows came.
const NOTE: Duration = Duration::from_secs(1);

/// A transaction of the source whose end has not come.
#[derive(Default)]
struct Open {
    /// Where it begins.
    place: String,
    begins: Place,
    name: Option<String>,
    changes: Vec<Change>,
    bytes: usize,
    /// Whether it is so large that a part of it is on the target already, not committed.
    is_spilled: bool,
    has_changes: bool,
}

/// Takes events, and applies them.
pub(crate) struct Follower<'a> {
    scope: Scope<'a>,
    applier: Applier<'a>,
    shared: &'a Shared<'a>,
    summary: &'a mut Summary,
    tables: Tables,
    grouping: Grouping,
    open: Option<Open>,
    window: Window,
    /// Transactions and changes that are not committed, and since when there is a transaction.
    gathered: u64,
    changes: u64,
    since: Option<Instant>,
    /// The file that is read.
    file: String,
    /// Up to there all events are in the window or applied.
    reached: Reached,
    /// Up to there all is applied, and when that was noted.
    noted: (Reached, Instant),
    /// When the last transaction was committed on the source, in seconds since 1970.
    latest_s: u64,
    /// Transactions that are prepared and change nothing that is followed.
    prepared: BTreeSet<String>,
    /// Whether DDL is executed on the target, too.
    applies_ddl: bool,
    /// DDL that is to be executed now. Everything before it is applied.
    ddl: Option<Ddl>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(
        scope: Scope<'a>,
        applier: Applier<'a>,
        reached: Reached,
        (shared, summary): (&'a Shared<'a>, &'a mut Summary),
    ) -> Follower<'a> {
        let follower = Follower {
            scope,
            applier,
            shared,
            summary,
            tables: Tables::default(),
            grouping: Grouping::default(),
            open: None,
            window: Window::default(),
            gathered: 0,
            changes: 0,
            since: None,
            file: reached.position.file.clone(),
            noted: (reached.clone(), Instant::now()),
            reached,
            latest_s: 0,
            prepared: BTreeSet::new(),
            applies_ddl: false,
            ddl: None,
        };
        shared.touched.receive(&follower.reached.position);
        shared.touched.apply(&follower.reached.position);
        follower.summary.reached = follower.reached.position.to_string();
        follower
    }

    /// A file of the log begins; what follows its format begins at this offset.
    pub(crate) fn begin_file(&mut self, file: String, (begun, offset): (u32, u64)) -> Result<(), Error> {
        // No transaction goes over two files. A server that was killed has left one without an end, which it
        // has rolled back.
        if self.open.take().is_some_and(|open| open.is_spilled) {
            return Err(Error::Again("the source has rolled back the last transaction of a file"));
        }
        self.grouping.abandon();
        self.tables.forget();
        let position = &mut self.reached.position;
        (position.file, position.offset) = (file.clone(), offset);
        (self.file, self.reached.begun) = (file, begun);
        self.shared.touched.receive(&self.reached.position);
        Ok(())
    }

    /// Has DDL executed on the target, too.
    pub(crate) fn apply_ddl(&mut self) {
        self.applies_ddl = true;
    }

    /// DDL that is to be executed before anything else. Afterwards another follower continues.
    pub(crate) fn take_ddl(&mut self) -> Option<Ddl> {
        self.ddl.take()
    }

    /// Whether transactions wait for others.
    pub(crate) fn is_waiting(&self) -> bool {
        self.gathered > 0
    }

    /// Whether what has gathered is to be applied, although more comes.
    pub(crate) fn is_due(&self) -> bool {
        self.gathered >= TRANSACTIONS_MAX
            || self.window.bytes >= BYTES_MAX
            || self.since.is_some_and(|since| since.elapsed() >= WINDOW_MAX)
            || self.noted.1.elapsed() >= NOTE && !self.is_settled()
    }

    /// Whether everything that has come is applied.
    pub(crate) fn is_settled(&self) -> bool {
        self.reached == self.noted.0
    }

    /// Whether everything up to this place of the log is applied or waits to be.
    pub(crate) fn has_reached(&self, (file, offset): &(String, u64)) -> bool {
        (number(&self.reached.position.file), self.reached.position.offset) >= (number(file), *offset)
    }

    /// Applies what has gathered. While a transaction comes that is applied in parts, the position does not
    /// change, and nothing is committed.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        if self.is_settled() || self.shared.is_cut_over() {
            return Ok(());
        }
        let place = self.reached.position.to_string();
        self.applier.rows(&mut self.window).map_err(|failed| failed.at(&place))?;
        self.commit()
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.applier.commit(&self.reached)?;
        self.noted = (self.reached.clone(), Instant::now());
        self.shared.touched.apply(&self.reached.position);
        self.summary.transactions += self.gathered;
        self.summary.changes += std::mem::take(&mut self.changes);
        self.summary.reached = self.reached.position.to_string();
        (self.gathered, self.since) = (0, None);
        Ok(())
    }

    /// The user stopped it.
    pub(crate) fn stopped(&mut self) {
        self.summary.is_stopped = true;
    }

    /// Tells that all is applied that the source has.
    pub(crate) fn caught_up(&self) {
        self.shared.catch_up();
        let (transactions, changes) = (self.summary.transactions, self.summary.changes);
        self.shared.report.note(&format!(
            "caught up: {}; {} of {} applied",
            self.reached.position,
            count(changes, "change"),
            count(transactions, "transaction")
        ));
    }

    /// Shows by how much the target is behind, by the time on the source.
    pub(crate) fn tell_behind(&self, now_s: u64, is_at_end: bool) {
        let behind = if is_at_end { 0 } else { now_s.saturating_sub(self.latest_s) };
        if is_at_end || self.latest_s > 0 {
            self.shared.report.state(&format!("{behind} s behind{}", self.shared.words()));
        }
    }

    /// Takes an event; `bytes` are all of it.
    pub(crate) fn event(&mut self, event: &Event<'_>, bytes: &[u8]) -> Result<(), Error> {
        self.shared.report.read(bytes.len() as u64);
        if event.header.kind != Kind::TRANSACTION_PAYLOAD {
            return self.single(event);
        }
        let corrupt = |file: &str, error: binlog::Error| match error {
            binlog::Error::Corrupt(source) => Error::Corrupt { file: file.to_owned(), source },
            error => Error::Refused(error.to_string()),
        };
        let mut reader = Reader::at(bytes, event.at, event.format.clone()).unpacking();
        while let Some(event) = reader.next().map_err(|error| corrupt(&self.file, error))? {
            self.single(&event)?;
        }
        Ok(())
    }

    fn single(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let mut unreadable = Ok(());
        let table = self.tables.take(event, |table| unreadable = self.scope.complete(table));
        let table = table.map_err(|source| self.corrupt(source))?;
        unreadable.map_err(|what| self.unapplied(event, what))?;
        let body = table.map_or_else(|| event.parse(), |table| Ok(Body::Table(table)));
        let body = body.map_err(|source| self.corrupt(source))?;
        let (role, is_cut) = self.grouping.take(event, &body);
        if is_cut {
            return Err(self.unapplied(event, "the transaction before it has no end".to_owned()));
        }
        if matches!(role, EventRole::First | EventRole::Whole) {
            let name = names::gtid(self.grouping.open().unwrap_or(GroupId::None));
            let place = format!("{}:{}", self.file, event.at);
            let begins = (number(&self.file).unwrap_or_default(), event.at);
            self.open = Some(Open { place, begins, name, ..Open::default() });
        }
        match &body {
            Body::Query(query) if self.applies_ddl && role != EventRole::Outside => {
                let is_alone = matches!(role, EventRole::Whole | EventRole::Last);
                if !self.define(query, event, is_alone)? {
                    self.inside(event, &body)?;
                }
            }
            _ if role != EventRole::Outside => self.inside(event, &body)?,
            _ => {}
        }
        match role {
            EventRole::Last | EventRole::Whole => self.ended(event),
            // Such as the end of a file, behind the last transaction.
            EventRole::Outside if self.open.is_none() => {
                self.reach(event, None);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn reach(&mut self, event: &Event<'_>, name: Option<String>) {
        let position = &mut self.reached.position;
        position.file.clone_from(&self.file);
        position.offset = event.end();
        if let Some(name) = name {
            position.gtid = name;
        }
        self.shared.touched.receive(&self.reached.position);
    }

    /// An event of a transaction.
    fn inside(&mut self, event: &Event<'_>, body: &Body<'_>) -> Result<(), Error> {
        match body {
            Body::Rows(rows) => self.rows(rows, event),
            Body::Query(query) => self.statement(query, event),
            Body::ExecuteLoad(load) => self.statement(&load.query, event),
            Body::XaPrepare(prepare) if !prepare.one_phase => {
                if self.open.as_ref().is_some_and(|open| open.has_changes) {
                    let what =
                        "an XA transaction is prepared that changes rows of a followed table".to_owned();
                    return Err(self.unapplied(event, what));
                }
                let digits =
                    |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
                let xid = prepare.xid;
                self.prepared.insert(format!(
                    "X'{}',X'{}',{}",
                    digits(xid.global),
                    digits(xid.branch),
                    xid.format
                ));
                Ok(())
            }
            Body::Incident(_, message) => {
                let message = String::from_utf8_lossy(message);
                Err(self.unapplied(event, format!("the source lost events of its log ({message})")))
            }
            Body::Unknown if !event.is_ignorable() => Err(self.unapplied(
                event,
                format!("an event of a kind that is not known ({})", event.header.kind.name()),
            )),
            _ => Ok(()),
        }
    }

    fn statement(&mut self, query: &Query<'_>, event: &Event<'_>) -> Result<(), Error> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (schema, sql) = (text(query.schema), text(&query.sql));
        let upper = sql.to_uppercase();
        // ROLLBACK, and ROLLBACK TO a savepoint: the log has rows that were taken back.
        if upper.starts_with("ROLLBACK") && self.open.as_ref().is_some_and(|open| open.has_changes) {
            let what = format!("a transaction that is rolled back in part: {}", shown(&sql));
            return Err(self.unapplied(event, what));
        }
        if let Some(xid) = upper.strip_prefix("XA COMMIT ") {
            if self.prepared.remove(&xid.replace(' ', "")) {
                return Ok(());
            }
            let what = format!("an XA transaction that was prepared before is committed: {}", shown(&sql));
            return Err(self.unapplied(event, what));
        }
        if is_frame(query.sql.as_ref()) {
            return Ok(());
        }
        match self.scope.meaning(&schema, &sql) {
            Meaning::Nothing => Ok(()),
            Meaning::Later => {
                self.shared.change_programs();
                Ok(())
            }
            meaning @ (Meaning::Definition | Meaning::Unapplied(_)) => {
                let what = match meaning {
                    Meaning::Unapplied(what) => what,
                    _ => format!("DDL: {}", shown(&sql)),
                };
                if self.shared.is_cut_over() {
                    self.late(event, &what);
                    return Ok(());
                }
                Err(self.unapplied(event, what))
            }
            Meaning::Missed => {
                let line = format!("not on the target: {}", shown(&sql));
                if !self.summary.omitted.contains(&line) {
                    self.shared.report.warn(&line);
                    self.summary.omitted.push(line);
                }
                Ok(())
            }
        }
    }

    /// Prepares DDL to be executed on the target. Returns whether the statement is such.
    fn define(&mut self, query: &Query<'_>, event: &Event<'_>, is_alone: bool) -> Result<bool, Error> {
        if is_frame(query.sql.as_ref()) || self.shared.is_cut_over() {
            return Ok(false);
        }
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (schema, sql) = (text(query.schema), text(&query.sql));
        let refused = |why: &str| format!("DDL: {}: {why}", shown(&sql));
        let defined =
            self.scope.defines(&schema, &sql).map_err(|why| self.unapplied(event, refused(&why)))?;
        let Some(defined) = defined else { return Ok(false) };
        if !is_alone || self.open.as_ref().is_some_and(|open| open.has_changes) {
            return Err(self.unapplied(event, refused("it makes rows, too")));
        }
        self.settle()?;
        let after = self.reached.clone();
        let place = format!("{}:{}", self.file, event.at);
        let ddl = Ddl::new(query, event.header.timestamp, (place, &defined), after);
        self.ddl = Some(ddl.map_err(|why| self.unapplied(event, refused(&why)))?);
        Ok(true)
    }

    fn rows(&mut self, rows: &Rows<'_>, event: &Event<'_>) -> Result<(), Error> {
        if rows.data.is_empty() && rows.columns == 0 {
            // Only the end of a statement.
            return Ok(());
        }
        let Some(table) = self.tables.get(rows.table_id) else {
            let what = format!("no table {} was described before it", rows.table_id);
            return Err(self.corrupt(binlog::Corrupt { what, place: event.place() }));
        };
        let form = self.scope.form(&table).map_err(|what| self.unapplied(event, what))?;
        if let Some(form) = form.as_ref().filter(|_| self.shared.is_cut_over()) {
            self.late(event, &format!("rows of table {}", form.source));
        } else if let Some(form) = form {
            let may_cascade = rows.change != RowChange::Insert && !rows.logs_cascades();
            let found = row::rows(rows, &table, event.place()).map_err(|source| self.corrupt(source))?;
            for row in found {
                let row = row.map_err(|source| self.corrupt(source))?;
                let is_in_order = may_cascade && form.cascades(&row);
                let change = match is_in_order {
                    true => Change::in_order(&form, &row, rows.is_unchecked()),
                    false => Change::folded(&form, &row),
                };
                let change = change.map_err(|what| self.unapplied(event, what))?;
                self.add(change)?;
            }
        }
        if rows.ends_statement() {
            self.tables.end_statement();
        }
        Ok(())
    }

    /// Adds a change to the open transaction.
    fn add(&mut self, change: Change) -> Result<(), Error> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.bytes += change.bytes();
        open.has_changes = true;
        open.changes.push(change);
        if open.bytes < BYTES_MAX {
            return Ok(());
        }
        // It is applied as it comes. The transactions before it are whole, and are committed first.
        if !open.is_spilled {
            self.settle()?;
        }
        if let Some(open) = &mut self.open {
            (open.is_spilled, open.bytes) = (true, 0);
        }
        self.apply()?;
        let place = self.reached.position.to_string();
        self.applier.rows(&mut self.window).map_err(|failed| failed.at(&place))
    }

    /// Folds the changes of the open transaction into the window.
    fn apply(&mut self) -> Result<(), Error> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (place, begins) = (open.place.clone(), open.begins);
        for change in std::mem::take(&mut open.changes) {
            if self.shared.is_watched {
                let (form, keys) = change.keys();
                self.shared.touched.add(&form.target, &keys, begins);
            }
            self.changes += 1;
            self.shared.report.done(1, change.bytes() as u64);
            match change {
                Change::Folded { form, removed, added } => self.window.fold(&form, removed, added),
                Change::InOrder(statement) => {
                    self.shared.touched.cascade(begins);
                    // What was before it must be there.
                    self.applier.rows(&mut self.window).map_err(|failed| failed.at(&place))?;
                    self.applier.in_order(&statement).map_err(|failed| failed.at(&place))?;
                }
            }
        }
        Ok(())
    }

    /// The open transaction is whole.
    fn ended(&mut self, event: &Event<'_>) -> Result<(), Error> {
        self.apply()?;
        let open = self.open.take().unwrap_or_default();
        self.reach(event, open.name);
        self.gathered += 1;
        self.latest_s = event.header.timestamp.into();
        self.since.get_or_insert_with(Instant::now);
        if let Some(ddl) = &mut self.ddl {
            ddl.after = self.reached.clone();
        }
        if open.is_spilled { self.settle() } else { Ok(()) }
    }

    /// Something was written to the source after the target had taken over.
    fn late(&self, event: &Event<'_>, what: &str) {
        let line = format!("{}:{}: {what}", self.file, event.at);
        self.shared
            .report
            .warn(&format!("written to the source after the cut-over, and not on the target: {line}"));
        self.shared.late(line);
    }

    fn unapplied(&self, event: &Event<'_>, what: String) -> Error {
        Error::Unapplied { place: format!("{}:{}", self.file, event.at), what }
    }

    fn corrupt(&self, source: binlog::Corrupt) -> Error {
        Error::Corrupt { file: self.file.clone(), source }
    }
}
