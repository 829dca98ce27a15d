//! Reads a log and keeps all that is said of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Result;
use binlog::event::table::Table;
use dump::Selection;
use failure::Completeness;
use progress::Progress;
use transactions::{Again, Asked, Filter, Known, LogFile, Take, Transaction, Walk, Xa, names};

/// A log that a server wrote.
pub(crate) fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/cases").join(format!("{name}.binlog"))
}

/// Makes a file of a test.
#[expect(clippy::disallowed_methods, reason = "a test's own throw-away file")]
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

/// Asks for everything.
pub(crate) fn all() -> Filter {
    Filter {
        since: None,
        until: None,
        gtid: Vec::new(),
        tables: Selection::default(),
        conditions: Vec::new(),
        statement: None,
    }
}

/// Keeps what is reported.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) lines: Mutex<Vec<String>>,
    bytes: Mutex<Vec<u64>>,
}

impl Progress for Report {
    fn phase(&self, _: &str, _: Option<u64>) {}

    fn read(&self, bytes: u64) {
        self.bytes.lock().unwrap().push(bytes);
    }

    fn done(&self, _: u64, _: u64) {}

    fn note(&self, text: &str) {
        self.lines.lock().unwrap().push(format!("note: {text}"));
    }

    fn warn(&self, text: &str) {
        self.lines.lock().unwrap().push(format!("warning: {text}"));
    }
}

/// What a walk finds, as text.
struct Found<'a> {
    again: Again<'a>,
    tables: Vec<String>,
    shown: Vec<String>,
    others: Vec<(String, Asked)>,
}

impl Take for Found<'_> {
    fn table(&mut self, table: &Table) -> Result<()> {
        self.tables.push(format!("{}.{}", table.schema, table.name));
        Ok(())
    }

    fn transaction(&mut self, whole: &Transaction, asked: Asked) -> Result<()> {
        if asked == Asked::Yes {
            let text = self.text(whole)?;
            self.shown.push(text);
        } else {
            let name = names::gtid(whole.name).unwrap_or_else(|| whole.start.at.to_string());
            self.others.push((name, asked));
        }
        Ok(())
    }
}

impl Found<'_> {
    /// A line for the transaction, and one for each part of it that is not as usual.
    fn text(&mut self, whole: &Transaction) -> Result<String> {
        let name = names::gtid(whole.name).unwrap_or_else(|| "-".to_owned());
        let Transaction { start, end, time, server_id, bytes, .. } = whole;
        let thread = whole.thread_id.map_or_else(String::new, |thread| format!(" thread {thread}"));
        let mut out =
            format!("{name} {}..{} {bytes} bytes at {time} server {server_id}{thread}\n", start.at, end.at);
        if whole.xa != Xa::No {
            writeln!(out, "  {:?}", whole.xa)?;
        }
        for (is, word) in [
            (whole.is_rolled_back, "rolled back"),
            (whole.logs_cascades, "cascades are logged"),
            (whole.is_unchecked, "foreign keys are not checked"),
        ] {
            if is {
                writeln!(out, "  {word}")?;
            }
        }
        for one in &whole.statements {
            let sql: String = one.sql.chars().take(40).collect();
            let temporary = if one.has_temporary { ", temporary" } else { "" };
            writeln!(
                out,
                "  [{}] {sql} (thread {}, error {}{temporary})",
                one.schema, one.thread_id, one.error
            )?;
        }
        for table in &whole.tables {
            let statement: String = table.statement.as_deref().unwrap_or("?").chars().take(30).collect();
            writeln!(out, "  {}.{}: {} ({statement})", table.schema, table.name, table.shown())?;
        }
        for table in &whole.others {
            writeln!(out, "  not {}.{}", table.schema, table.name)?;
        }
        for (kind, at) in &whole.unknown {
            writeln!(out, "  unknown {kind:?} at {at}")?;
        }
        let mut rows = 0;
        self.again.rows(whole, |_| {
            rows += 1;
            Ok(())
        })?;
        assert_eq!(rows, whole.rows(), "{name}: the rows are there when it is read again");
        Ok(out)
    }
}

/// What a walk says.
pub(crate) struct Said {
    /// What is asked for, a text for each transaction.
    pub(crate) shown: Vec<String>,
    /// What is not, by name.
    pub(crate) others: Vec<(String, Asked)>,
    /// Tables, in the order in which they are described.
    pub(crate) tables: Vec<String>,
    /// Notes and warnings.
    pub(crate) reported: Vec<String>,
    /// Bytes that are reported as read, by each report.
    pub(crate) bytes: Vec<u64>,
    pub(crate) completeness: Completeness,
    /// What is asked for and is not there.
    pub(crate) missing: Vec<String>,
    pub(crate) is_nameless: bool,
    pub(crate) lacks_columns: bool,
}

impl Said {
    /// The names of what is asked for.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.shown.iter().filter_map(|text| text.split(' ').next()).collect()
    }
}

pub(crate) fn walk(files: &[LogFile], filter: &Filter) -> Said {
    walk_with(files, filter, &Known::default()).unwrap()
}

pub(crate) fn walk_with(files: &[LogFile], filter: &Filter, known: &Known) -> Result<Said> {
    let report = Report::default();
    let again = Again::new(files, filter, known);
    let mut found = Found { again, tables: Vec::new(), shown: Vec::new(), others: Vec::new() };
    let mut walk = Walk::new(files, filter, known, &mut found, &report);
    let completeness = walk.all()?;
    let (missing, is_nameless, lacks_columns) = (walk.missing(), walk.is_nameless(), walk.lacks_columns());
    let Found { tables, shown, others, .. } = found;
    let Report { lines, bytes } = report;
    let (reported, bytes) = (lines.into_inner().unwrap(), bytes.into_inner().unwrap());
    Ok(Said { shown, others, tables, reported, bytes, completeness, missing, is_nameless, lacks_columns })
}
