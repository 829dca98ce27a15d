//! Transactions as lines or JSON.

use std::io::{BufWriter, IsTerminal, Write};

use anyhow::Result;
use humanize::{date_time, point_in_time, text};
use progress::{Progress, count};
use serde_json::json;
use transactions::{Changed, EndTime, LogFile, Transaction, names};

use crate::exit::{self, Stdout};
use crate::report::{self, Report};
use transactions::sums::Sums;

/// Bytes of output that are written at once.
const OUTPUT_BYTES: usize = 1 << 16;

/// Where transactions are shown.
pub(super) struct Show {
    out: BufWriter<Stdout>,
    /// Columns of the terminal, if lines are cut to them.
    width: Option<usize>,
    is_on_terminal: bool,
    is_json: bool,
    rows: bool,
    stat: bool,
    sums: Sums,
}

impl Show {
    pub(super) fn new(whole: bool, stat: bool, rows: bool, report: &Report) -> Result<Show> {
        let is_on_terminal = std::io::stdout().is_terminal();
        let size = is_on_terminal.then(ratatui::crossterm::terminal::size).transpose()?;
        let width = size.map(|(columns, _)| usize::from(columns)).filter(|columns| !whole && *columns > 0);
        let out = BufWriter::with_capacity(OUTPUT_BYTES, exit::stdout());
        let sums = Sums::default();
        Ok(Show { out, width, is_on_terminal, is_json: report.is_json(), rows, stat, sums })
    }

    /// Whether a progress line would get in the way.
    pub(super) fn is_on_terminal(&self) -> bool {
        self.is_on_terminal && !self.stat
    }

    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    pub(super) fn wants_rows(&self) -> bool {
        self.rows
    }

    /// Writes a line that is not cut.
    pub(super) fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{}", text::plain(text))?;
        Ok(())
    }

    pub(super) fn json(&mut self, line: &serde_json::Value) -> Result<()> {
        // In one write: what is flushed are whole lines, since others may come between.
        self.out.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }

    /// Shows a complete transaction.
    pub(super) fn transaction(&mut self, whole: &Transaction, files: &[LogFile]) -> Result<()> {
        self.sums.add(whole, &place(whole, files));
        if self.stat {
            return Ok(());
        }
        if self.is_json {
            return self.json(&object(whole, files));
        }
        let name = names::gtid(whole.name).unwrap_or_else(|| place(whole, files));
        let head = format!("{}  {name}", date_time::shown(whole.time));
        let end = if whole.is_rolled_back { " (rolled back)" } else { "" };
        let mut lines = Vec::new();
        for table in &whole.tables {
            lines.push((
                format!("{}.{}", table.schema, table.name),
                table.shown(),
                table.statement.as_deref(),
            ));
        }
        for statement in &whole.statements {
            let kind = match statement.error {
                0 => "statement".to_owned(),
                error => format!("statement, error {error}"),
            };
            let schema = if statement.schema.is_empty() { "-" } else { statement.schema.as_str() };
            lines.push((schema.to_owned(), kind, Some(statement.sql.as_str())));
        }
        for (kind, at) in &whole.unknown {
            lines.push(("-".to_owned(), format!("{} at {at}", kind.name()), None));
        }
        if lines.is_empty() {
            lines.push(("-".to_owned(), "nothing".to_owned(), None));
        }
        for (object, change, statement) in lines {
            let start = format!("{head}  {object}  {change}{end}");
            let text = match statement {
                None => start,
                Some(statement) => self.cut(format!("{start}   {}", one_line(statement))),
            };
            self.line(&text)?;
        }
        Ok(())
    }

    /// A line, cut to the width of the terminal.
    fn cut(&self, text: String) -> String {
        let Some(width) = self.width.filter(|width| text.chars().count() > *width) else { return text };
        text.chars().take(width.saturating_sub(3)).chain("...".chars()).collect()
    }

    /// The summary after all transactions.
    pub(super) fn end(&mut self, files: &[LogFile], report: &Report) -> Result<()> {
        if self.stat {
            for line in self.sums.lines(self.is_json) {
                writeln!(self.out, "{line}")?;
            }
        }
        self.out.flush()?;
        if self.is_json {
            return Ok(());
        }
        report.note(&format!(
            "{} in {}, {}, {}; times are those of {}",
            count(self.sums.transactions, "transaction"),
            count(files.len() as u64, "file"),
            report::rows(self.sums.rows),
            report::size(self.sums.bytes),
            point_in_time::zone()
        ));
        Ok(())
    }
}

/// A statement in one line.
fn one_line(statement: &str) -> String {
    statement.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn place(whole: &Transaction, files: &[LogFile]) -> String {
    let file = files.get(whole.start.file).map(|path| names::file(path)).unwrap_or_default();
    format!("{file}:{}", whole.start.at)
}

fn object(whole: &Transaction, files: &[LogFile]) -> serde_json::Value {
    let file = |number: usize| files.get(number).map(|path| names::file(path)).unwrap_or_default();
    let table = |table: &Changed| {
        let [inserted, updated, deleted] = table.rows;
        json!({
            "schema": table.schema, "table": table.name, "inserted": inserted, "updated": updated, "deleted": deleted,
            "statement": table.statement,
        })
    };
    let tables: Vec<_> = whole.tables.iter().map(table).collect();
    let statements: Vec<_> = whole
        .statements
        .iter()
        .map(|statement| json!({"schema": statement.schema, "sql": statement.sql, "error": statement.error}))
        .collect();
    let unknown: Vec<_> = whole.unknown.iter().map(|(kind, at)| json!({"kind": kind.0, "at": at})).collect();
    let ended = match whole.ended {
        EndTime::Then(_) => None,
        // A side that is not known has no limit.
        EndTime::Between(after, until) => {
            let known = |time| (time != i64::MIN && time != i64::MAX).then(|| date_time::machine(time));
            Some([known(after), known(until)])
        }
    };
    json!({
        "message_type": "transaction", "time": date_time::machine(whole.time), "gtid": names::gtid(whole.name),
        "file": file(whole.start.file), "position": whole.start.at, "end_file": file(whole.end.file),
        "end_position": whole.end.at, "bytes": whole.bytes, "server_id": whole.server_id,
        "thread_id": whole.thread_id, "ended": ended, "rolled_back": whole.is_rolled_back, "tables": tables,
        "statements": statements, "unknown_events": unknown,
    })
}
