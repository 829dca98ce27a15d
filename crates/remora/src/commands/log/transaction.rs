//! What is known of a transaction: gathered event by event, in little memory.

use std::rc::Rc;

use binlog::event::format::Format;
use binlog::event::rows::Rows;
use binlog::event::table::Table;
use binlog::event::{Change, Kind};
use binlog::group::Name;

/// Where something is: which file, and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) at: u64,
}

/// A transaction, or a statement that is none.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) name: Name,
    /// How its first file is written from its first event on.
    pub(super) format: Rc<Format>,
    pub(super) start: Place,
    pub(super) end: Place,
    /// The time of its end, seconds since 1970.
    pub(super) time: i64,
    pub(super) server_id: u32,
    pub(super) thread_id: Option<u32>,
    /// The bytes of its events.
    pub(super) bytes: u64,
    pub(super) tables: Vec<Changed>,
    /// Statements that are logged as such.
    pub(super) statements: Vec<Statement>,
    /// Events of kinds that are not known.
    pub(super) unknown: Vec<(Kind, u64)>,
    /// Whether a statement has the text that is looked for.
    pub(super) has_text: bool,
    pub(super) is_rolled_back: bool,
    /// The statement that the next rows are of.
    annotated: Option<String>,
}

/// A statement that is logged as such.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) schema: String,
    pub(super) sql: String,
    /// The error that it ended with.
    pub(super) error: u16,
}

/// What was done to a table.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) schema: String,
    pub(super) name: String,
    /// Rows inserted, updated, deleted.
    pub(super) rows: [u64; 3],
    /// The first statement that did it, if it is known.
    pub(super) statement: Option<String>,
}

impl Changed {
    /// All rows.
    pub(super) fn sum(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// `insert 3, delete 1`
    pub(super) fn shown(&self) -> String {
        let parts = ["insert", "update", "delete"].into_iter().zip(self.rows);
        let parts: Vec<String> =
            parts.filter(|(_, rows)| *rows > 0).map(|(word, rows)| format!("{word} {rows}")).collect();
        parts.join(", ")
    }
}

/// Which of the numbers a change counts in.
pub(super) fn slot(change: Change) -> usize {
    match change {
        Change::Insert => 0,
        Change::Update => 1,
        Change::Delete => 2,
    }
}

impl Transaction {
    pub(super) fn new(name: Name, format: Rc<Format>, start: Place, has_text: bool) -> Transaction {
        Transaction {
            name,
            format,
            start,
            end: start,
            time: 0,
            server_id: 0,
            thread_id: None,
            bytes: 0,
            tables: Vec::new(),
            statements: Vec::new(),
            unknown: Vec::new(),
            has_text,
            is_rolled_back: false,
            annotated: None,
        }
    }

    /// The next rows are of this statement.
    pub(super) fn annotate(&mut self, sql: &[u8]) {
        self.annotated = Some(String::from_utf8_lossy(sql).into_owned());
    }

    /// Counts rows of a table.
    pub(super) fn add(&mut self, table: &Table, rows: &Rows<'_>, count: u64) {
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
    pub(super) fn rows(&self) -> u64 {
        self.tables.iter().map(Changed::sum).sum()
    }
}
