//! Errors, as many kinds as callers treat differently.

use std::io;

use crate::Reject;
use progress::count;

/// Why an import did not happen, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read.
    #[error("{name}: {source}")]
    Read {
        /// The file's name.
        name: String,
        /// What the operating system or the decoder said.
        source: io::Error,
    },

    /// A file's bytes are not valid in its encoding.
    #[error("{name}:{line}: {what}; name the encoding with --encoding")]
    Encoding {
        /// The file's name.
        name: String,
        /// Line, from 1.
        line: u64,
        /// The bytes and where they are.
        what: String,
    },

    /// A file can't be cut into records.
    #[error("{name}:{line}: {what}")]
    Record {
        /// The file's name.
        name: String,
        /// Line where the record begins, from 1.
        line: u64,
        /// What is wrong and what to do.
        what: String,
    },

    /// A file was written to while it was read.
    #[error("{name} changed while it was read; import it again when nothing writes to it")]
    Changed {
        /// The file's name.
        name: String,
    },

    /// The request does not fit the files or the table.
    #[error("{0}")]
    Mismatch(String),

    /// The table's state does not allow the mode of the import.
    #[error("{0}")]
    Target(String),

    /// Another import into the same table is running.
    #[error("another import into {table} is running; wait until it has ended")]
    Busy {
        /// The table.
        table: String,
    },

    /// An import that was stopped is waiting to be continued.
    #[error(
        "an import into {table} was stopped after {}; \
         --resume continues it, --restart discards what it loaded",
        count(*rows, "row")
    )]
    Unfinished {
        /// The table.
        table: String,
        /// Rows that are committed.
        rows: u64,
    },

    /// `--resume`, but the files are not the ones that were being imported.
    #[error("{name}: {what}; it is not the file that the stopped import read. --restart starts over")]
    Different {
        /// The file's name.
        name: String,
        /// What differs.
        what: String,
    },

    /// More bad rows than allowed.
    #[error("{}", too_many(rejects, *limit))]
    Rejects {
        /// The first ones, in the order of the files.
        rejects: Vec<Reject>,
        /// How many were allowed.
        limit: u64,
    },

    /// Bad rows that were not sent to the server, so it can't judge them.
    #[error(
        "{}\nnothing was imported; with --physical=auto such rows are sent to the server",
        named(rejects)
    )]
    Unjudged {
        /// The first ones.
        rejects: Vec<Reject>,
    },

    /// The user stopped the import.
    #[error("stopped by a signal; --resume continues where it stopped, --restart starts over")]
    Stopped,

    /// The user stopped an import that keeps nothing for another run.
    #[error("stopped by a signal; nothing was imported")]
    Ended,

    /// The connection broke in the middle; committed rows are safe.
    #[error("{}; start again with --resume: committed rows are kept ({})", cause(source), count(*rows, "row"))]
    Interrupted {
        /// Rows that are committed.
        rows: u64,
        /// What happened.
        source: Box<Error>,
    },

    /// A file for rejects or for standard input can't be written.
    #[error("{name}: {source}")]
    Write {
        /// The file's name.
        name: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// The server refused something.
    #[error(transparent)]
    Server(#[from] server::Error),

    /// The ledger of a stopped import can't be read.
    #[error("the ledger {table} can't be read: {what}; --restart discards it")]
    Ledger {
        /// The ledger's table.
        table: String,
        /// What is wrong with it.
        what: String,
    },
}

/// How servers begin to say that a key is there already, in English.
const DUPLICATE: &str = "Duplicate entry";

/// How many bad rows are listed; the others are only counted.
const NAMED_MAX: usize = 20;

fn too_many(rejects: &[Reject], limit: u64) -> String {
    let named = named(rejects);
    match limit {
        0 => format!(
            "{named}\nnothing was imported; --max-rejects N writes up to N bad rows to a reject file{}",
            hint(rejects)
        ),
        _ => format!("{named}\nmore than {}; nothing was imported", count(limit, "bad row")),
    }
}

/// A hint about the first bad row, judged by what is wrong with it, where it is and how it begins.
fn hint(rejects: &[Reject]) -> &'static str {
    match rejects.iter().find(|reject| reject.column.is_none()) {
        Some(reject) if reject.reason.starts_with(DUPLICATE) => {
            ", --on-duplicate decides what happens to a row whose key already exists"
        }
        Some(reject) if reject.record.starts_with(b"#") => ", --comment '#' skips lines that begin with #",
        Some(reject) if reject.line == 1 => ", --skip-lines N skips lines before the first row",
        _ => "",
    }
}

/// A line for each bad row, or only for the first ones if there are many.
fn named(rejects: &[Reject]) -> String {
    let mut lines: Vec<String> = rejects.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    if rejects.len() > NAMED_MAX {
        lines.push(format!("and {}", count(rejects.len() - NAMED_MAX, "more bad row")));
    }
    lines.join("\n")
}

/// What ended an import whose rows stay.
fn cause(error: &Error) -> String {
    match error {
        Error::Rejects { rejects, limit: 0 } => named(rejects),
        Error::Rejects { rejects, limit } => {
            format!("{}\nmore than {}", named(rejects), count(*limit, "bad row"))
        }
        other => other.to_string(),
    }
}

impl Error {
    /// True when the import may well continue later with the right files, so that its rows should stay for
    /// `--resume`.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Stopped | Error::Interrupted { .. } | Error::Different { .. } => true,
            Error::Server(error) => error.is_passing(),
            _ => false,
        }
    }
}
