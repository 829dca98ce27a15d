//! The parts of a sample other than status variables: replicas, queues, digests, processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::number::Number;

/// One source that a replica follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The connection's name (MariaDB) or channel (MySQL); often empty.
    pub channel: String,
    /// Where it reads from, `host:port`.
    pub source: String,
    /// The state of the thread that reads: Yes, No, Connecting.
    pub io: String,
    /// The state of the thread that applies.
    pub sql: String,
    /// Seconds behind the source; none while that is unknown, which is not zero.
    pub delay_s: Option<u64>,
    /// The last error; may be empty.
    pub error: String,
    /// Its number; none if there is no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<u32>,
    /// What the thread that reads does, in the server's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub io_state: String,
    /// What the thread that applies does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sql_state: String,
    /// By how many seconds it is delayed on purpose; none if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_delay_s: Option<u64>,
    /// Up to where it has read the source's log, `file:position`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read_to: String,
    /// Up to where it has applied it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_to: String,
    /// Transactions that are received and not applied, by their GTIDs; at most so many on MariaDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapplied: Option<u64>,
    /// When the source committed the transaction that was applied last, in milliseconds since 1970; only
    /// asked for a screen or a page, and of MySQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_ms: Option<i64>,
}

/// A queue (`ENGINE=QUEUE`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// `db.table`.
    pub name: String,
    /// Rows that nobody has taken.
    pub waiting: u64,
    /// Rows that somebody has taken.
    pub owned: u64,
    /// Rows written since the queue was opened.
    pub written: u64,
    /// Rows that ended since then.
    pub removed: u64,
}

/// Statements that differ only in their values, as performance_schema counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The database they ran in.
    pub schema: String,
    /// The server's hash.
    pub digest: String,
    /// The text, cut off by the server.
    pub text: String,
    /// How many were executed.
    pub count: u64,
    /// Their total time, in microseconds.
    pub time_us: u64,
    /// Rows they read.
    pub examined: u64,
    /// Rows they returned.
    pub sent: u64,
    /// How many failed.
    pub errors: u64,
}

/// Settings of a server to which its numbers are compared, by the name of the variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings(pub BTreeMap<String, String>);

impl Settings {
    /// The requested variables. A name that a server does not know is not an error.
    pub(crate) const NAMES: [&'static str; 11] = [
        "innodb_buffer_pool_size",
        "innodb_log_file_size",
        "innodb_log_files_in_group",
        "innodb_max_dirty_pages_pct",
        "innodb_max_purge_lag",
        "innodb_redo_log_capacity",
        "max_connections",
        "performance_schema",
        "server_id",
        "system_time_zone",
        "version",
    ];

    /// A setting as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<Number> {
        self.0.get(name).and_then(|text| Number::parse(text))
    }

    /// The capacity of the redo log in bytes.
    #[must_use]
    pub fn redo_capacity(&self) -> Option<f64> {
        // MariaDB has had one file since 10.6 and no longer tells how many.
        let files = self.number("innodb_log_files_in_group").map_or(1.0, Number::as_f64);
        let files = || self.number("innodb_log_file_size").map(|size| size.as_f64() * files);
        self.number("innodb_redo_log_capacity").map(Number::as_f64).or_else(files)
    }
}

/// A connection of a server and what it is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The connection's number, for KILL.
    pub id: u64,
    /// Its account, `user@host`.
    pub account: String,
    /// Its database.
    pub schema: String,
    /// Query, Sleep, Binlog Dump and the like.
    pub command: String,
    /// For how many seconds.
    pub seconds: u64,
    /// What it does or waits for, as the server says.
    pub state: String,
    /// The statement, up to 4096 characters of it.
    pub statement: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_the_redo_log_is_one_setting_or_two() {
        let room = |settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Settings(settings.collect()).redo_capacity()
        };
        assert_eq!(room(&[]), None);
        assert_eq!(room(&[("innodb_log_file_size", "100")]), Some(100.0));
        assert_eq!(room(&[("innodb_log_file_size", "100"), ("innodb_log_files_in_group", "3")]), Some(300.0));
        assert_eq!(room(&[("innodb_log_file_size", "100"), ("innodb_redo_log_capacity", "50")]), Some(50.0));
        assert_eq!(room(&[("innodb_log_file_size", "many")]), None);
    }
}
