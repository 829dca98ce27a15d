//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder can't be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file differs from what a server writes, or is of an unsupported kind.
    #[error("{}: {source}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and on which page.
        source: innodb::Error,
    },
    /// The same, before the file is known.
    #[error(transparent)]
    Bytes(#[from] innodb::Error),
    /// The rows could not be written.
    #[error("the output: {0}")]
    Output(#[source] io::Error),
    /// There is nothing to read, or something necessary is missing.
    #[error("{0}")]
    Missing(String),
    /// The redo log of a running server can't be copied; what happened, and what to do.
    #[error("{}: {what}", .path.display())]
    Log {
        /// Its path.
        path: PathBuf,
        /// What happened, and what to do.
        what: String,
    },
    /// A file has changed since it was opened.
    #[error("{} changed while it was read: a server is running on it", .0.display())]
    Changed(PathBuf),
    /// The server or the table does not qualify; the reason. Nothing was changed.
    #[error("the table's file can't be written: {0}")]
    Refused(String),
    /// The server did not import the file, or its table differs from what was written.
    #[error("{0}")]
    Rejected(String),
    /// Somebody else has written to the target. It has only their rows, and ours must not be added in another
    /// way.
    #[error("{0}")]
    Taken(String),
    /// Rows were said to be in the order of the primary key, and are not in that of its collation.
    #[error("{0}")]
    Unsorted(String),
    /// The server reports an error.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// The rows could not be read.
    #[error(transparent)]
    Input(Box<dyn std::error::Error + Send + Sync>),
    /// A row that the table can't have.
    #[error("{source}")]
    Row {
        /// The position of the row in the input.
        place: u64,
        /// The position of the earlier row with the same key, if there is one.
        earlier: Option<u64>,
        /// Why.
        source: innodb::Error,
    },
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// A definition that is not understood is a refusal: nothing was changed.
    pub(crate) fn refusal(self) -> Error {
        match self {
            Error::Bytes(error) => Error::Refused(error.to_string()),
            other => other,
        }
    }

    /// The reason why rows must be sent to the server instead of being written into a file.
    ///
    /// # Errors
    /// The error itself if sending rows to the server would fail as well.
    pub fn into_reason(self) -> Result<String, Error> {
        match self {
            Error::Refused(why) | Error::Rejected(why) | Error::Unsorted(why) => Ok(why),
            Error::Row { .. } | Error::Bytes(_) | Error::Server(server::Error::Privilege { .. }) => {
                Ok(self.to_string())
            }
            other => Err(other),
        }
    }

    /// Adds the file that the bytes come from.
    pub(crate) fn of(self, path: &Path) -> Error {
        match self {
            Error::Bytes(source) => Error::File { path: path.to_owned(), source },
            other => other,
        }
    }

    /// Whether the cause is that rows were assumed to be sorted and are not.
    #[must_use]
    pub fn is_of_order(&self) -> bool {
        let is_of_order = |source: &innodb::Error| matches!(source, innodb::Error::Unsorted { .. });
        matches!(self, Error::Unsorted(_)) || matches!(self, Error::Row { source, .. } if is_of_order(source))
    }

    /// Whether bytes are damaged, as opposed to unreadable or of another kind.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Error::File { source, .. } | Error::Bytes(source) => {
                matches!(source, innodb::Error::Corrupt { .. })
            }
            // So says a file in a backup whose blocks are not what was backed up.
            Error::Io { source, .. } => source.kind() == io::ErrorKind::InvalidData,
            _ => false,
        }
    }
}

/// Adds the file that an error of the operating system concerns.
pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Io { path, source }
}
