//! What is known of a transaction: gathered event by event, in little memory.

use std::rc::Rc;

use binlog::event::format::Format;
use binlog::event::rows::Rows;
use binlog::event::table::Table;
use binlog::event::{Change, Kind};
use binlog::group::GroupId;
use server::XaName;

use crate::end_time::EndTime;

/// Where something is: which file, and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the file among those that are read.
    pub file: usize,
    /// Byte offset in it.
    pub at: u64,
}

/// What a transaction is to a distributed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Xa {
    /// Nothing.
    No,
    /// It ends with XA PREPARE: another one says whether it is committed.
    Prepared(XaName),
    /// XA COMMIT of what was prepared.
    Committed(XaName),
    /// XA ROLLBACK of what was prepared.
    RolledBack(XaName),
}

/// A transaction, or a statement that is none.
#[derive(Debug)]
pub struct Transaction {
    /// Its GTID.
    pub name: GroupId,
    /// How its first file is written from its first event on.
    pub format: Rc<Format>,
    /// Where its first event begins.
    pub start: Place,
    /// Behind its last event.
    pub end: Place,
    /// The time of its end, as it says it, in seconds since 1970.
    pub time: i64,
    /// The same, as far as it can be proven, once it is whole.
    pub ended: EndTime,
    /// The server that logged it first.
    pub server_id: u32,
    /// The connection that executed it.
    pub thread_id: Option<u32>,
    /// The bytes of its events.
    pub bytes: u64,
    /// The tables whose rows it changed.
    pub tables: Vec<Changed>,
    /// Statements that are logged as such.
    pub statements: Vec<Statement>,
    /// Events of kinds that are not known.
    pub unknown: Vec<(Kind, u64)>,
    /// What it is to a distributed transaction.
    pub xa: Xa,
    /// Tables whose rows are not asked for.
    pub others: Vec<Rc<Table>>,
    /// Whether a statement has the text that is looked for.
    pub has_text: bool,
    /// Whether it ends with ROLLBACK.
    pub is_rolled_back: bool,
    /// Whether it has ROLLBACK TO a savepoint: some of its rows were taken back.
    pub is_partly_undone: bool,
    /// Whether its first event is none with which a transaction begins: it was read from its middle on.
    pub is_headless: bool,
    /// Whether the log has the rows that foreign keys changed along with its own.
    pub logs_cascades: bool,
    /// Whether a statement did not check foreign keys.
    pub is_unchecked: bool,
    /// The statement that the next rows are of.
    annotated: Option<String>,
}

/// A statement that is logged as such.
#[derive(Debug)]
pub struct Statement {
    /// The database.
    pub schema: String,
    /// Its text.
    pub sql: String,
    /// The error that it ended with.
    pub error: u16,
    /// The connection that ran it.
    pub thread_id: u32,
    /// Whether it uses temporary tables of that connection.
    pub has_temporary: bool,
}

/// What was done to a table.
#[derive(Debug)]
pub struct Changed {
    /// The database.
    pub schema: String,
    /// The table.
    pub name: String,
    /// Rows inserted, updated, deleted.
    pub rows: [u64; 3],
    /// The first statement that did it, if it is known.
    pub statement: Option<String>,
}

impl Changed {
    /// All rows.
    pub fn sum(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// `insert 3, delete 1`
    pub fn shown(&self) -> String {
        let parts = ["insert", "update", "delete"].into_iter().zip(self.rows);
        let parts: Vec<String> =
            parts.filter(|(_, rows)| *rows > 0).map(|(word, rows)| format!("{word} {rows}")).collect();
        parts.join(", ")
    }
}

/// Which of the numbers a change counts in.
pub fn slot(change: Change) -> usize {
    match change {
        Change::Insert => 0,
        Change::Update => 1,
        Change::Delete => 2,
    }
}

impl Transaction {
    /// One that begins.
    pub(crate) fn new(name: GroupId, format: Rc<Format>, start: Place, has_text: bool) -> Transaction {
        Transaction {
            name,
            format,
            start,
            end: start,
            time: 0,
            ended: EndTime::Then(0),
            server_id: 0,
            thread_id: None,
            bytes: 0,
            tables: Vec::new(),
            statements: Vec::new(),
            unknown: Vec::new(),
            xa: Xa::No,
            others: Vec::new(),
            has_text,
            is_rolled_back: false,
            is_partly_undone: false,
            is_headless: false,
            logs_cascades: false,
            is_unchecked: false,
            annotated: None,
        }
    }

    /// Rows of a table that are not asked for.
    pub fn leave_out(&mut self, table: &Rc<Table>) {
        if !self.others.iter().any(|known| Rc::ptr_eq(known, table)) {
            self.others.push(Rc::clone(table));
        }
    }

    /// The next rows are of this statement.
    pub fn annotate(&mut self, sql: &[u8]) {
        self.annotated = Some(String::from_utf8_lossy(sql).into_owned());
    }

    /// Counts rows of a table.
    pub fn add(&mut self, table: &Table, rows: &Rows<'_>, count: u64) {
        let known =
            self.tables.iter().position(|known| known.name == table.name && known.schema == table.schema);
        let at = known.unwrap_or_else(|| {
            let (schema, name) = (table.schema.clone(), table.name.clone());
            let statement = self.annotated.clone();
            self.tables.push(Changed { schema, name, rows: [0; 3], statement });
            self.tables.len() - 1
        });
        if let Some(changed) = self.tables.get_mut(at) {
            changed.rows[slot(rows.change)] += count;
        }
    }

    /// The rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(Changed::sum).sum()
    }
}
