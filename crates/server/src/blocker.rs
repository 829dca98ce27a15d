//! Who stands in the way of a lock.

use std::fmt;

use crate::{Error, Flavour, Session};

/// A connection that stands in the way of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The connection's number, for `KILL`.
    pub id: String,
    /// Whose it is, as `user@host`.
    pub account: String,
    /// How long it has been running its statement or been idle, in seconds.
    pub seconds: u64,
    /// What it runs, shortened; empty for one that is idle in a transaction.
    pub statement: String,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocker { id, account, seconds, statement } = self;
        match statement.as_str() {
            "" => write!(
                f,
                "connection {id} of {account}, idle for {seconds} s in a transaction that changed rows"
            ),
            _ => write!(
                f,
                "connection {id} of {account}, which has been running this for {seconds} s: {statement}"
            ),
        }
    }
}

impl Session {
    /// Statements that have been running for at least `seconds` and that a lock against writing would wait
    /// for, the longest first. On MariaDB reading statements are not among them: locks do not wait for those.
    ///
    /// # Errors
    /// What the server reports.
    pub fn blockers(&mut self, seconds: u64) -> Result<Vec<Blocker>, Error> {
        let reading = match self.about.flavour {
            Flavour::MariaDb => "AND info NOT LIKE 'SELECT%' AND info NOT LIKE 'SHOW%'",
            Flavour::MySql => "",
        };
        // Who waits for a lock waits for us, or for the one who is looked for.
        self.connections(&format!(
            "SELECT id, CONCAT(user, '@', host), time, LEFT(info, 120) FROM information_schema.processlist \
             WHERE command = 'Query' AND info IS NOT NULL AND id <> CONNECTION_ID() AND time >= {seconds} {reading} \
             AND COALESCE(state, '') NOT LIKE 'Waiting for%' ORDER BY time DESC"
        ))
    }

    /// Connections without a statement whose transaction has changed rows: a lock on one of the tables that
    /// they changed waits for their end. The longest idle first; none where this account may not see them
    /// (PROCESS).
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn idle_writers(&mut self) -> Result<Vec<Blocker>, Error> {
        let found = self.connections(
            "SELECT p.id, CONCAT(p.user, '@', p.host), p.time, '' FROM information_schema.processlist p \
             JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id \
             WHERE p.command = 'Sleep' AND t.trx_rows_modified > 0 ORDER BY p.time DESC",
        );
        match found {
            Err(error) if error.code().is_some() => Ok(Vec::new()),
            other => other,
        }
    }

    fn connections(&mut self, sql: &str) -> Result<Vec<Blocker>, Error> {
        let text = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        let rows = self.strings(sql)?;
        Ok(rows
            .iter()
            .map(|row| Blocker {
                id: text(row, 0),
                account: text(row, 1),
                seconds: text(row, 2).parse().unwrap_or(0),
                statement: text(row, 3).replace('\n', " "),
            })
            .collect())
    }
}
