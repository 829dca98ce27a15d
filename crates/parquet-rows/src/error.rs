//! What can go wrong.

use std::io;

/// Why rows could not be written as Parquet, or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The library that reads and writes the format says why.
    #[error("Parquet: {0}")]
    Parquet(String),
    /// A file is not what [`Writer`](crate::Writer) makes of these columns.
    #[error("{0}")]
    Corrupt(String),
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Error {
        match error {
            // What the library's own reader or writer met.
            parquet::errors::ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(error) => Error::Io(*error),
                Err(source) => Error::Parquet(source.to_string()),
            },
            parquet::errors::ParquetError::General(what) => Error::Parquet(what),
            error => Error::Parquet(error.to_string()),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io(error) => error,
            error => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
        }
    }
}
