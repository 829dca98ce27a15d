//! What can be wrong with a file that somebody else wrote.

use std::io;

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system could not read it.
    #[error(transparent)]
    Read(#[from] io::Error),

    /// Its bytes contradict the format.
    #[error("the {format} file is damaged: {what}")]
    Damaged {
        /// The format that its first bytes name.
        format: &'static str,
        /// What was found.
        what: String,
    },

    /// It is encrypted, or some of its columns are.
    #[error("the Parquet file is encrypted, and there is no way to give its keys; decrypt it first")]
    Encrypted,

    /// A column has no counterpart, or needs an option.
    #[error("column {column}: {what}")]
    Column {
        /// The column's name.
        column: String,
        /// What is wrong with it, and what to do.
        what: String,
    },

    /// The file asks for more memory or text than a file of its length can need.
    #[error("{0}")]
    TooLarge(String),
}

impl Error {
    /// An error about one column.
    pub(crate) fn column(column: &str, what: impl Into<String>) -> Error {
        Error::Column { column: column.to_owned(), what: what.into() }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Read(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}
