//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder can't be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is not what a server writes, or of a kind that is not read.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and on which page.
        source: innodb::Error,
    },
    /// The same, before it is known in which file.
    #[error(transparent)]
    Bytes(#[from] innodb::Error),
    /// The rows could not be written.
    #[error("the output: {0}")]
    Output(#[source] io::Error),
    /// There is nothing to read, or not all that is needed.
    #[error("{0}")]
    Missing(String),
    /// A file is not what it was when it was opened.
    #[error("{} changed while it was read: a server is running on it", .0.display())]
    Changed(PathBuf),
    /// A server or a table whose files are not written here; why. Nothing was changed.
    #[error("its file can't be written: {0}")]
    Refused(String),
    /// The server did not take a file as it should, or has something else than was written.
    #[error("{0}")]
    Rejected(String),
    /// The server reports an error.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Rows could not be had.
    #[error(transparent)]
    Input(Box<dyn std::error::Error + Send + Sync>),
    /// Somebody asked for the end.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Names the file that bytes were of.
    pub(crate) fn of(self, path: &Path) -> Error {
        match self {
            Error::Bytes(source) => Error::File { path: path.to_owned(), source },
            other => other,
        }
    }

    /// Whether bytes are damaged, rather than out of reach or of another kind.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        let source = match self {
            Error::File { source, .. } | Error::Bytes(source) => source,
            _ => return false,
        };
        matches!(source, innodb::Error::Corrupt { .. })
    }
}

/// Names the file that an error of the operating system is about.
pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Io { path, source }
}
