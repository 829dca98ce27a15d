//! Errors, as many kinds as callers treat differently.

use progress::count;
use std::io;
use std::path::{Path, PathBuf};

/// Why a dump, a load or a comparison did not happen, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read or written.
    #[error("{}: {source}", name.display())]
    File {
        /// The file.
        name: PathBuf,
        /// What the operating system or the decoder said.
        source: io::Error,
    },

    /// The folder of a dump contradicts its manifest, or the manifest is not valid.
    #[error("{place}: {what}")]
    Corrupt {
        /// What is wrong.
        what: String,
        /// The file, and where in it.
        place: String,
    },

    /// The request can't be carried out as it was made.
    #[error("{0}")]
    Mismatch(String),

    /// A table was altered, emptied or dropped while its rows were read.
    #[error(
        "table {table} was changed by DDL while it was read ({what}), so the snapshot can't read it any more; when the DDL is done, --resume continues with what is incomplete"
    )]
    Altered {
        /// The table.
        table: String,
        /// What was observed.
        what: String,
    },

    /// The rows on the server differ from those of the dump.
    #[error("{} in {}: {}", count(differences.len(), "difference"), count(*tables, "table"), differences.join("; "))]
    Different {
        /// Tables that were compared.
        tables: usize,
        /// A line for each table that differs.
        differences: Vec<String>,
    },

    /// Another load of the same dump, or another dump into the same folder, is running.
    #[error("{0} is running; wait until it has ended")]
    Busy(String),

    /// The user stopped it.
    #[error("stopped by a signal; {0}")]
    Stopped(&'static str),

    /// A load was cut off; its committed rows are safe.
    #[error("{source}; start again with --resume: committed rows are kept{}", committed(*rows))]
    Interrupted {
        /// Committed rows as far as this run has counted them; 0 if it did not come to that.
        rows: u64,
        /// What happened.
        source: Box<Error>,
    },

    /// The server refused something.
    #[error(transparent)]
    Server(#[from] server::Error),

    /// The server refused to make an object or to take a table's rows.
    #[error("{object}: {source}")]
    Object {
        /// What was being made or filled.
        object: String,
        /// What the server said.
        source: Box<server::Error>,
    },
}

/// The number of committed rows in brackets; nothing if none were counted.
fn committed(rows: u64) -> String {
    if rows == 0 { String::new() } else { format!(" ({})", count(rows, "row")) }
}

impl Error {
    /// An error of the operating system.
    pub(crate) fn file(name: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |source| Error::File { name: name.to_owned(), source }
    }

    /// Whether the load may well continue later, so that its rows should stay for `--resume`.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Stopped(_) | Error::Interrupted { .. } => true,
            Error::Server(error) => error.is_passing(),
            Error::Object { source, .. } => source.is_passing(),
            _ => false,
        }
    }
}
