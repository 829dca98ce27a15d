//! What can go wrong, in as many kinds as callers treat differently.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a queue did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no queue in the folder.
    #[error("{}: there is no queue here", folder.display())]
    Missing {
        /// Where it was expected.
        folder: PathBuf,
    },

    /// There is a queue in the folder already.
    #[error("{}: there is a queue here already", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },

    /// The queue was dropped while it was in use.
    #[error("the queue was dropped")]
    Dropped,

    /// The files differ from what was written.
    #[error("{}: {what} at byte {offset}; restore this queue from a backup, or drop it to give up its rows", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
        /// Byte offset.
        offset: u64,
    },

    /// The files were written by a later version.
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

    /// A failure now or earlier, such as a failed sync, has put the queue out of service: it gives and takes
    /// nothing until the server is restarted.
    #[error(
        "the queue is out of service after an earlier failure ({why}); repair the disk and restart the server"
    )]
    Failed {
        /// What failed first.
        why: Arc<str>,
    },

    /// A prepared transaction has rows in the queue, so it can't be emptied, dropped or replaced.
    #[error(
        "the queue has rows of prepared transactions ({transactions}); XA RECOVER lists them: end each with XA COMMIT or XA ROLLBACK first. If it lists none, the server's error log does"
    )]
    Prepared {
        /// How many there are.
        transactions: usize,
    },

    /// No transaction with this name is prepared in the queue.
    #[error("the queue has no prepared transaction with this XID")]
    UnknownTransaction,

    /// A transaction with this name is prepared in the queue already.
    #[error("the queue has a prepared transaction with this XID already; end that one first")]
    KnownTransaction,

    /// The queue has no transactions.
    #[error("the queue was created without TRANSACTIONAL=1; only such a queue takes part in transactions")]
    NotTransactional,

    /// The queue for rows that have no tries left can't take them.
    #[error(
        "{}: a queue with other columns, or the same queue, can't take the rows that have no tries left; give DEAD a queue with the same columns in the same order", folder.display()
    )]
    DeadLetterQueue {
        /// Where it is.
        folder: PathBuf,
    },

    /// A column can't say what it should.
    #[error(
        "column {column} can't be used: DUE needs an integer, a TIMESTAMP or a DATETIME, PRIORITY an integer, FIFO and DEDUPE a column of the table",
        column = column + 1
    )]
    Column {
        /// Its number, counted from 0.
        column: u32,
    },

    /// A queue with readers was asked without the name of one, or with another name; or one without readers
    /// was asked for one.
    #[error("{}", no_reader(name, readers))]
    Reader {
        /// The name; empty when there was none.
        name: String,
        /// The names that there are.
        readers: String,
    },

    /// Leases are not for readers.
    #[error("a lease is of a row, and a reader's rows are not its own: take them with queue_wait()")]
    ReaderLease,

    /// Readers have rows, so that the queue can't be copied.
    #[error(
        "{rows} rows are with readers; end them or give them back first, and let no reader take more meanwhile"
    )]
    ReadersActive {
        /// How many.
        rows: usize,
    },

    /// The queue keeps no rows that were ended.
    #[error(
        "the queue was created without KEEP, so rows that were ended are gone; ALTER TABLE ... KEEP=seconds keeps those that are ended from then on"
    )]
    NotKept,

    /// The queue is being copied, so that no transaction can be prepared and no row given again.
    #[error("the queue is being copied by ALTER TABLE; try again when that is done")]
    Copied,

    /// A backup copies queues one after the other, so that no row may go from one to another.
    #[error("a backup of the server is being made; try again when that is done")]
    Backup,

    /// A row, or the rows of one statement or transaction, have more bytes than the log can take at once.
    #[error(
        "{bytes} bytes in one statement or transaction, and at most {limit} are possible; insert fewer rows at a time"
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
        ("", readers) => format!("the queue has readers: name one of them behind an @ ({readers})"),
        (name, readers) => format!("the queue has no reader '{name}'; it has {readers}"),
    }
}

impl Error {
    /// For `map_err` after a file operation.
    pub(crate) fn disk(file: &std::path::Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Disk { file: file.to_owned(), source: Arc::new(source) }
    }
}
