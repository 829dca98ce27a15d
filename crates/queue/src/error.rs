//! Errors, one kind for each that callers handle differently.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why an operation on a queue failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder has no queue.
    #[error("{}: there is no queue here", folder.display())]
    Missing {
        /// Where it was expected.
        folder: PathBuf,
    },

    /// The folder already has a queue.
    #[error("{}: there is a queue here already", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },

    /// The queue was dropped while it was in use.
    #[error("the queue was dropped")]
    Dropped,

    /// The files are damaged.
    #[error("{}: {what} at byte {offset}; restore this queue from a backup, or drop it to give up its rows", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
        /// Byte offset.
        offset: u64,
    },

    /// The files were written by a newer version.
    #[error("{}: {what}; open it with the version that wrote it, or a later one", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// What this version does not know.
        what: String,
    },

    /// A read failed, or a file operation whose failure leaves the queue as it was.
    #[error("{}: {source}", file.display())]
    Disk {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },

    /// A failure, such as a failed sync, has put the queue out of service: nothing can be read or written
    /// until the server is restarted.
    #[error("the queue is out of service after a failure ({why}); repair the disk and restart the server")]
    Failed {
        /// What failed first.
        why: Arc<str>,
    },

    /// A prepared transaction has rows in the queue, so it can't be emptied, dropped or replaced.
    #[error(
        "the queue has rows of prepared transactions ({transactions}); end each that XA RECOVER lists with XA COMMIT or XA ROLLBACK. If it lists none, see the server's error log"
    )]
    Prepared {
        /// How many there are.
        transactions: usize,
    },

    /// The queue has no prepared transaction with this XID.
    #[error("the queue has no prepared transaction with this XID")]
    UnknownTransaction,

    /// The queue already has a prepared transaction with this XID.
    #[error("the queue already has a prepared transaction with this XID; end that one first")]
    KnownTransaction,

    /// The queue does not take part in transactions.
    #[error("the queue was created without TRANSACTIONAL=1 and does not take part in transactions")]
    NotTransactional,

    /// The dead letter queue can't take the rows.
    #[error(
        "{}: can't be the dead letter queue: it has other columns, or is the same queue; DEAD needs another queue with the same columns in the same order", folder.display()
    )]
    DeadLetterQueue {
        /// Where it is.
        folder: PathBuf,
    },

    /// A column has the wrong type for an option.
    #[error(
        "column {column} can't be used: DUE needs an integer, a TIMESTAMP or a DATETIME, PRIORITY an integer, FIFO, DEDUPE and RATE_KEY a column of the table",
        column = column + 1
    )]
    Column {
        /// Its number, counted from 0.
        column: u32,
    },

    /// No reader was named for a queue with readers, or the queue has no such reader.
    #[error("{}", no_reader(name, readers))]
    Reader {
        /// The name; empty when there was none.
        name: String,
        /// The names that there are.
        readers: String,
    },

    /// Readers can't lease rows.
    #[error("readers can't lease rows: a lease is for a whole row; use queue_wait()")]
    ReaderLease,

    /// Readers own rows, so that the queue can't be copied.
    #[error(
        "readers own {rows} rows; end them or give them back first, and let no reader take more meanwhile"
    )]
    ReadersActive {
        /// How many.
        rows: usize,
    },

    /// Rows of the queue have no keys.
    #[error("the queue was created without FIFO and RATE_KEY, so its rows have no keys")]
    NoKeys,

    /// Keys are paused, and would be others in a copy of the queue.
    #[error("{keys} keys of the queue are paused, and the column of their values changes; resume them first")]
    KeysPaused {
        /// How many.
        keys: usize,
    },

    /// The queue does not keep acknowledged rows.
    #[error(
        "the queue was created without KEEP, so acknowledged rows are gone; ALTER TABLE ... KEEP=seconds keeps those acknowledged from then on"
    )]
    NotKept,

    /// The queue is being copied, so that no transaction can be prepared and no row replayed.
    #[error("ALTER TABLE is copying the queue; try again afterwards")]
    Copied,

    /// A backup copies queues one after the other, so that no row may move from one to another.
    #[error("a backup of the server is running; try again afterwards")]
    Backup,

    /// The rows of one statement or transaction are too large for one batch of the log.
    #[error(
        "{bytes} bytes in one statement or transaction exceed the limit of {limit}; insert fewer rows at a time"
    )]
    TooLarge {
        /// What was given.
        bytes: usize,
        /// What is possible.
        limit: usize,
    },
}

fn no_reader(name: &str, readers: &str) -> String {
    match (name, readers) {
        (_, "") => format!("the queue has no reader '{name}': it was created without READERS"),
        ("", readers) => format!("the queue has readers: name one after an @ ({readers})"),
        (name, readers) => format!("the queue has no reader '{name}'; it has {readers}"),
    }
}

impl Error {
    /// For `map_err` after a file operation.
    pub(crate) fn disk(file: &std::path::Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Disk { file: file.to_owned(), source: Arc::new(source) }
    }
}
