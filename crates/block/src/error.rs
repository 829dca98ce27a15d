//! Errors, in as many variants as callers treat differently.

use std::io;

/// Why a backup, restore, verification or prune failed or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of the repository differ from what was written.
    #[error("{place}: {what}")]
    Corrupt {
        /// What is wrong.
        what: String,
        /// File and byte offset.
        place: String,
    },

    /// The source can't be read.
    #[error("{name}: {source}; no backup was made, and earlier generations are unchanged")]
    Source {
        /// The source and the byte where it happened.
        name: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// The source changed while it was read.
    #[error(
        "{name} changed while it was read; back up a snapshot of it, or use --live if such a copy is good enough"
    )]
    Changed {
        /// The source.
        name: String,
    },

    /// A block has changed although it was listed as unchanged.
    #[error("{name} has changed at byte {at}, although it should not have changed there")]
    Untracked {
        /// The source.
        name: String,
        /// Its offset in the source.
        at: u64,
    },

    /// The target of a restore can't be read or written.
    #[error("{name}: {source}")]
    Target {
        /// The target.
        name: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// A file of the repository can't be reached.
    #[error("{}", with_name(name, source))]
    Store {
        /// The file.
        name: String,
        /// What the operating system said.
        source: io::Error,
    },

    /// Another run holds the lock.
    #[error("{0} is in use by another run; try again when it has ended")]
    Busy(String),

    /// The generation does not exist.
    #[error("{0}")]
    Missing(String),

    /// The target is not suitable.
    #[error("{0}")]
    Unfit(String),

    /// A key is missing, or does not open the repository.
    #[error("{0}")]
    Key(String),

    /// The user stopped it. No generation has changed.
    #[error("stopped by a signal")]
    Stopped,

    /// A thread ended unexpectedly.
    #[error("a worker ended early; this is a bug in remora")]
    Worker,
}

impl Error {
    /// Whether the error means that bytes of the repository are damaged or missing.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Store { .. }) && !self.is_away()
    }

    /// Whether a file can't be accessed: the store does not answer, or denies access. Then nothing is known
    /// about its bytes.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Error::Store { source, .. } if !tells_of_damage(source))
    }

    /// Whether there is no room left.
    pub(crate) fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Error::Store { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    pub(crate) fn corrupt(place: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Corrupt { what: what.into(), place: place.into() }
    }

    pub(crate) fn store(name: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let name = name.into();
        |source| Error::Store { name, source }
    }
}

/// An error of a store with the file's name. Some stores add it themselves.
fn with_name(name: &str, error: &io::Error) -> String {
    let text = error.to_string();
    if text.starts_with(name) { text } else { format!("{name}: {text}") }
}

/// Whether an error says something about the bytes of a file, and not about permissions or the connection.
fn tells_of_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | InvalidData | UnexpectedEof) || disk::is_lost(error)
}
