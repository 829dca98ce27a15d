//! Errors of connections, sessions and statements.

use std::io;
use std::path::PathBuf;

use crate::error_code;

/// An error of this crate. No variant ever carries a password, neither in `Display` nor in `Debug`.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option file is not valid. `line` counts from 1; 0 means the file as a whole.
    #[error("{}{}: {why}", file.display(), at_line(*line))]
    OptionFile {
        /// The file as it was opened.
        file: PathBuf,
        /// Line number, from 1; 0 for the file as a whole.
        line: u32,
        /// What is wrong with it and what to write instead.
        why: String,
    },

    /// A connection URL is not valid. The URL itself is not repeated, because it may contain a password.
    #[error("connection URL: {why}")]
    BadUrl {
        /// What is wrong and what is expected.
        why: String,
    },

    /// A connection option has an unusable value, or contradicts another option.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option, as on the command line or the name of the environment variable.
        option: String,
        /// What is wrong and what is expected.
        why: String,
    },

    /// A table name was not of the form `db.table`.
    #[error("{name:?} is not a table: write db.table, or `db`.`table` where a name contains a dot")]
    BadTableName {
        /// What was given.
        name: String,
    },

    /// Nothing answered.
    #[error("cannot reach {target}: {why}; {hint}")]
    Unreachable {
        /// The account and the server that we tried.
        target: String,
        /// No such socket, connection refused, name not found, timeout...
        why: String,
        /// What to check next.
        hint: String,
    },

    /// A server answered and refused the connection before the session began.
    #[error("{target} refused the connection: {why}; {hint}")]
    Refused {
        /// The account and the server that we tried.
        target: String,
        /// The account the server looked for, as `user@host`.
        account: String,
        /// The server's error code, for example 1045, 1130 or 1698.
        code: u16,
        /// The server's words.
        why: String,
        /// What to check or type next.
        hint: String,
    },

    /// The account lacks a privilege.
    #[error("{what}; let an administrator run: {grant}")]
    Privilege {
        /// The missing privilege, and the object it is for.
        what: String,
        /// The statement that grants it, without a semicolon.
        grant: String,
        /// The server's error code.
        code: u16,
    },

    /// A lock was not granted in time.
    #[error(
        "no lock ({lock}) within {seconds} s; blocked by {blocker}. --lock-wait waits longer, --kill-long-queries ends statements"
    )]
    LockWait {
        /// The lock's name, from [`HoldMode::name`](crate::HoldMode::name).
        lock: &'static str,
        /// How long it waited.
        seconds: u64,
        /// Who most likely blocks it, and what to do.
        blocker: String,
    },

    /// The server rejected a statement.
    #[error("{message} (error {code}, SQLSTATE {state}) in: {statement}")]
    Sql {
        /// The server's error code.
        code: u16,
        /// Five characters of SQLSTATE.
        state: String,
        /// The server's message, without secrets.
        message: String,
        /// The statement, shortened and without secrets.
        statement: String,
    },

    /// The server accepts no changes.
    #[error(
        "{target} is read-only, as replicas are: write to its primary, or let an administrator run \
         SET GLOBAL read_only = OFF"
    )]
    ReadOnly {
        /// The account and the server.
        target: String,
        /// The server's error code; 0 when the server was not asked.
        code: u16,
    },

    /// A statement or a row does not fit into one packet.
    #[error("{what} of {size_bytes} bytes exceeds max_allowed_packet of {limit_bytes} bytes; {hint}")]
    PacketTooLarge {
        /// What was too large.
        what: String,
        /// Its size; 0 when the server did not say.
        size_bytes: u64,
        /// The limit that it exceeds.
        limit_bytes: u64,
        /// What to type next.
        hint: String,
    },

    /// The connection broke, or was broken, in the middle of a session.
    #[error("lost the connection to {target} ({why}) in: {statement}")]
    LostConnection {
        /// The account and the server.
        target: String,
        /// What the operating system or the server said about it.
        why: String,
        /// The statement, shortened and without secrets.
        statement: String,
    },

    /// The server asked for a file other than the stream that this program opened. It got nothing and the
    /// connection was closed: in this way a hostile server, or a proxy in between, reads a client's files.
    #[error("the server asked for the local file {name:?}, which was not offered; the connection was closed")]
    ForeignFile {
        /// The name that the server asked for.
        name: String,
    },

    /// The source of a LOAD failed; the statement was rolled back with its connection.
    #[error("reading the data to load")]
    Source(#[source] io::Error),

    /// The receiver of a query's rows failed; the connection was closed.
    #[error("taking the rows of a query")]
    Sink(#[source] io::Error),

    /// TLS could not be set up as requested.
    #[error("TLS with {target}: {why}; {hint}")]
    Tls {
        /// The account and the server that we tried.
        target: String,
        /// What failed.
        why: String,
        /// What to check next.
        hint: String,
    },

    /// Another client has our `server_id`. A server sends its binary log only to the newest client with each.
    #[error(
        "{target}: {who} server_id {server_id}. A server sends its binary log to only one client with each server_id: \
         choose another with --server-id"
    )]
    SameNumber {
        /// The account and the server.
        target: String,
        /// Our `server_id`.
        server_id: u32,
        /// Who else has it, with the verb.
        who: String,
    },

    /// The server sent something that the protocol does not allow or this program does not understand.
    #[error("unexpected answer: {what}")]
    Protocol {
        /// What was expected, and what arrived.
        what: String,
    },
}

fn at_line(line: u32) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

impl Error {
    /// The server's error code, if a server sent one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Sql { code, .. }
            | Error::Refused { code, .. }
            | Error::Privilege { code, .. }
            | Error::ReadOnly { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the same transaction may well succeed if it is repeated: deadlock (1213) or lock wait timeout
    /// (1205).
    pub fn is_retryable(&self) -> bool {
        self.code().is_some_and(error_code::is_retryable)
    }

    /// Whether the error says nothing about the statement or its rows, so that it may well succeed later:
    /// lost connections, locks, full disks, shutdowns, KILL.
    pub fn is_passing(&self) -> bool {
        self.is_connection_lost()
            || matches!(self, Error::Unreachable { .. })
            || self.code().is_some_and(error_code::is_passing)
    }

    /// Whether the session is gone and a new one is needed.
    pub fn is_connection_lost(&self) -> bool {
        matches!(
            self,
            Error::LostConnection { .. } | Error::ForeignFile { .. } | Error::Source(_) | Error::Sink(_)
        )
    }
}
