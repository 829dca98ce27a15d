//! Errors of this crate.

use std::io;

/// Bytes that differ from what a server writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({place})")]
pub struct Corrupt {
    /// What is wrong with them.
    pub what: String,
    /// Where they are: an event and its offset in the log.
    pub place: String,
}

/// Why a log can't be read further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its bytes are not what a server writes.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// It is no binary log.
    #[error("{0}")]
    Foreign(&'static str),
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What is wrong with bytes whose place the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flaw(pub(crate) &'static str);

impl Flaw {
    pub(crate) fn at(self, place: impl Into<String>) -> Corrupt {
        Corrupt { what: self.0.to_owned(), place: place.into() }
    }
}
