//! What is printed: results to standard output, messages to standard error, or all as lines of JSON.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

/// What became of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has the dump's rows now.
    Registered,
    /// It was registered before.
    Unchanged,
}

/// A table that was registered, now or before.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) table: String,
    pub(crate) state: State,
    pub(crate) rows: u64,
    pub(crate) files: usize,
    /// The snapshot that has the dump's rows.
    pub(crate) snapshot: i64,
    /// The columns that were added, dropped or widened.
    pub(crate) changes: Vec<String>,
    /// Whether another snapshot is the table's current one.
    pub(crate) is_superseded: bool,
}

/// Prints for people or for programs.
pub(crate) struct Report {
    json: bool,
}

impl Report {
    pub(crate) fn new(json: bool) -> Report {
        Report { json }
    }

    pub(crate) fn table(&self, outcome: &Outcome) {
        let Outcome { table, rows, files, snapshot, changes, .. } = outcome;
        if self.json {
            let state = if outcome.state == State::Unchanged { "unchanged" } else { "registered" };
            return line(&json!({
                "message_type": "table", "table": table, "state": state, "rows": rows, "files": files,
                "snapshot": snapshot, "changes": changes, "is_current": !outcome.is_superseded,
            }));
        }
        let count =
            format!("{} in {}", progress::count(*rows, "row"), progress::count(*files as u64, "file"));
        match outcome.state {
            State::Registered => text(&format!("{table}: {count}, snapshot {snapshot}")),
            State::Unchanged if outcome.is_superseded => text(&format!(
                "{table}: unchanged; the dump is its snapshot {snapshot}, and there are later ones"
            )),
            State::Unchanged => text(&format!("{table}: unchanged; the dump is its snapshot {snapshot}")),
        }
        changes.iter().for_each(|change| text(&format!("{table}: {change}")));
    }

    pub(crate) fn warning(&self, message: &str) {
        if self.json {
            return line(&json!({"message_type": "warning", "message": message}));
        }
        complain(&format!("warning: {message}"));
    }

    pub(crate) fn error(&self, message: &str, code: u8) {
        if self.json {
            return line(&json!({"message_type": "error", "message": message, "exit_code": code}));
        }
        complain(&format!("remora-iceberg: {message}"));
    }
}

/// A wrong command line, or help that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && is_json {
        let message = error.to_string();
        let message =
            message.split("\n\nUsage").next().unwrap_or_default().trim_start_matches("error: ").trim();
        Report::new(true).error(message, 2);
    } else if error.print().is_err() {
        // Nobody reads it.
        return ExitCode::FAILURE;
    }
    if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

fn line(value: &Value) {
    text(&value.to_string());
}

fn text(line: &str) {
    // Whoever closes the output wants no more of it; the tables are what counts.
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

fn complain(line: &str) {
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}
