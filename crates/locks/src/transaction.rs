//! Transactions, as InnoDB has them.

use serde::{Deserialize, Serialize};

use crate::graph::Party;
use crate::view::{Row, number, text};

/// An open transaction of InnoDB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// InnoDB's number; MariaDB has 0 for all that have changed nothing.
    pub id: String,
    /// Its connection; 0 for a prepared XA transaction whose client is gone.
    pub connection: u64,
    /// Seconds since it began.
    pub seconds: u64,
    /// `RUNNING`, `LOCK WAIT`, `ROLLING BACK` or `COMMITTING`.
    pub state: String,
    /// For how many seconds it has been waiting for a row.
    pub waits_s: Option<u64>,
    /// The lock that it waits for.
    pub requested_lock: Option<String>,
    /// Locks on rows, about.
    pub rows_locked: u64,
    /// Rows that it changed and that a rollback brings back.
    pub rows_modified: u64,
    /// Whether its isolation level lets it keep a snapshot until its end.
    pub keeps_snapshot: bool,
}

impl Transaction {
    /// Who has it.
    #[must_use]
    pub fn party(&self) -> Party {
        match self.connection {
            0 => Party::Prepared(self.id.clone()),
            id => Party::Connection(id),
        }
    }

    /// Whether it waits for a row.
    #[must_use]
    pub fn waits_for_row(&self) -> bool {
        self.requested_lock.is_some()
    }
}

/// All transactions. Their times are in the system's time zone, and the session's is UTC.
pub(crate) const ALL: &str = "SELECT trx_id, trx_mysql_thread_id, \
     TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(NOW(), '+00:00', 'SYSTEM')), trx_state, \
     TIMESTAMPDIFF(SECOND, trx_wait_started, CONVERT_TZ(NOW(), '+00:00', 'SYSTEM')), trx_requested_lock_id, \
     trx_rows_locked, trx_rows_modified, trx_isolation_level FROM information_schema.innodb_trx";

pub(crate) fn transaction(row: &Row) -> Transaction {
    Transaction {
        id: text(row, 0),
        connection: number(row, 1).unwrap_or(0),
        seconds: number(row, 2).unwrap_or(0),
        state: text(row, 3),
        waits_s: number(row, 4),
        requested_lock: row.get(5).cloned().flatten(),
        rows_locked: number(row, 6).unwrap_or(0),
        rows_modified: number(row, 7).unwrap_or(0),
        keeps_snapshot: matches!(text(row, 8).as_str(), "REPEATABLE READ" | "SERIALIZABLE"),
    }
}
