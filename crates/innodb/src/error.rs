//! Errors of this crate.

/// Why bytes or a text are not a table or a value, or not one that this crate supports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes differ from what InnoDB or the server writes.
    #[error("{what} ({place})")]
    Corrupt {
        /// What is wrong with them.
        what: String,
        /// Where they are: an offset in a file, a page, a column.
        place: String,
    },
    /// A definition in SQL that is not understood.
    #[error("line {line} of the definition: {what}")]
    Sql {
        /// Line in the text, from 1.
        line: usize,
        /// What was found, and what was expected.
        what: String,
    },
    /// The table is understood, but its files are of a kind that this crate does not read or write.
    #[error("{0}")]
    Unsupported(String),
    /// A text that the column can't hold exactly.
    #[error("column `{column}`: {what}: '{text}'")]
    Value {
        /// The column's name.
        column: String,
        /// Why not.
        what: &'static str,
        /// The text; if it is long, without its end.
        text: String,
    },
    /// Two rows with the same value of a unique key.
    #[error("duplicate entry {entry} for the key `{index}`")]
    Duplicate {
        /// The index.
        index: String,
        /// The values of the key's columns.
        entry: String,
    },
    /// A row that is not in key order.
    #[error("{entry} is out of order: rows are expected in the order of `{index}`")]
    Unsorted {
        /// The index.
        index: String,
        /// The values of the key's columns.
        entry: String,
    },
}

impl Error {
    /// The error for a temporal column in a format before MariaDB 10.1 (and MySQL 5.6).
    pub(crate) fn old_time(column: &str) -> Error {
        Error::Unsupported(format!(
            "column `{column}` has the format that TIME, DATETIME and TIMESTAMP had before MariaDB 10.1: rebuild \
             the table (ALTER TABLE ... FORCE)"
        ))
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Error {
        Error::Unsupported(what.into())
    }
}
