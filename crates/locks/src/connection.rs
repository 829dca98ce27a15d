//! Connections, as the process list has them.

use serde::{Deserialize, Serialize};
use server::{Error, Flavour, Session};

use crate::view::{Row, number, text};

/// A connection of the process list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Its number, for `KILL`.
    pub id: u64,
    /// The account's name, without its host.
    pub user: String,
    /// Where it comes from, mostly with a port.
    pub host: String,
    /// Its default database; empty for none.
    pub database: String,
    /// What kind of work it does, such as `Query` or `Sleep`.
    pub command: String,
    /// What it does just now, in the server's words.
    pub state: String,
    /// For how many seconds it has been running its statement or been idle.
    pub seconds: u64,
    /// The whole statement; empty if it runs none.
    pub statement: String,
    /// MariaDB's number of the statement, which no other statement gets.
    pub query_id: Option<u64>,
    /// Its last statement, if it is idle and the server keeps that.
    pub last_statement: Option<String>,
}

/// Whose work a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// That of a client.
    Client,
    /// Replication: a thread that receives or applies, or a replica that reads the binary log.
    Replication,
    /// The server's own.
    System,
}

impl Connection {
    /// `user@host`.
    #[must_use]
    pub fn account(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }

    /// Whether it waits for its client.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // MariaDB shows a connection as killed until its next statement.
        self.command == "Sleep" || (self.command == "Killed" && self.statement.is_empty())
    }

    /// Whose work it does.
    #[must_use]
    pub fn role(&self) -> Role {
        match (self.command.as_str(), self.user.as_str()) {
            ("Daemon", _) => Role::System,
            (_, "system user") => Role::Replication,
            (command, _) if command.starts_with("Binlog Dump") || command.starts_with("Slave_") => {
                Role::Replication
            }
            _ => Role::Client,
        }
    }

    /// Whether the server says that it waits for a lock. For a lock on a row it does not say so.
    #[must_use]
    pub fn waits_for_lock(&self) -> bool {
        is_lock_wait(&self.state)
    }
}

/// Whether a connection in this state waits for a lock. For a lock on a row the server does not say so.
#[must_use]
pub fn is_lock_wait(state: &str) -> bool {
    let waits = state.strip_prefix("Waiting for ");
    state == "User lock" || waits.is_some_and(|what| what.ends_with(" lock") || what == "table flush")
}

/// What kind of statement it is, `UPDATE ...`: all else may be data of the application.
#[must_use]
pub fn statement_kind(statement: &str) -> String {
    let word: String = statement.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    match statement.trim() {
        "" => String::new(),
        _ => format!("{} ...", word.to_uppercase()).trim_start().to_owned(),
    }
}

/// All connections that this account may see: with PROCESS all of them, else its own.
pub(crate) fn all(session: &mut Session) -> Result<Vec<Connection>, Error> {
    those(session, "")
}

/// One of them, as it is now.
///
/// # Errors
///
/// Those of the question.
pub fn one(session: &mut Session, id: u64) -> Result<Option<Connection>, Error> {
    Ok(those(session, &format!("WHERE id = {id}"))?.pop())
}

/// Those with these numbers, as they are now.
pub(crate) fn some(session: &mut Session, ids: &[u64]) -> Result<Vec<Connection>, Error> {
    let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
    if list.is_empty() {
        Ok(Vec::new())
    } else {
        those(session, &format!("WHERE id IN ({})", list.join(", ")))
    }
}

fn those(session: &mut Session, condition: &str) -> Result<Vec<Connection>, Error> {
    let query_id = if session.about.flavour == Flavour::MariaDb { ", query_id" } else { "" };
    let sql = format!(
        "SELECT id, user, host, db, command, state, time, info{query_id} FROM information_schema.processlist \
         {condition}"
    );
    Ok(session.strings(&sql)?.iter().map(connection).collect())
}

fn connection(row: &Row) -> Connection {
    Connection {
        id: number(row, 0).unwrap_or(0),
        user: text(row, 1),
        host: text(row, 2),
        database: text(row, 3),
        command: text(row, 4),
        state: text(row, 5),
        // MariaDB has seconds below 0 when the clock was set.
        seconds: number(row, 6).unwrap_or(0),
        statement: text(row, 7),
        query_id: number(row, 8),
        last_statement: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(command: &str, user: &str, state: &str) -> Connection {
        let [command, user, state] = [command, user, state].map(str::to_owned);
        Connection { command, user, state, ..Connection::default() }
    }

    #[test]
    fn the_role_follows_from_user_and_command() {
        assert_eq!(with("Query", "app", "").role(), Role::Client);
        assert_eq!(with("Connect", "system user", "").role(), Role::Replication);
        assert_eq!(with("Slave_SQL", "", "").role(), Role::Replication);
        assert_eq!(with("Binlog Dump GTID", "repl", "").role(), Role::Replication);
        assert_eq!(with("Daemon", "event_scheduler", "").role(), Role::System);
        assert_eq!(with("Daemon", "system user", "").role(), Role::System);
    }

    #[test]
    fn only_some_waits_are_for_locks() {
        let waits = |state: &str| with("Query", "app", state).waits_for_lock();
        for lock in ["User lock", "Waiting for table metadata lock", "Waiting for table flush"] {
            assert!(waits(lock), "{lock}");
        }
        for other in ["", "Updating", "Waiting for work from SQL thread", "Waiting for GTID to be committed"]
        {
            assert!(!waits(other), "{other}");
        }
    }
}
