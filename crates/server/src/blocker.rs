//! Finds out which session blocks a lock.

use std::fmt;

use crate::{Error, Flavour, HoldMode, Session, TableName};

/// A connection that blocks a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The connection's number, for `KILL`.
    pub id: String,
    /// Its account, as `user@host`.
    pub account: String,
    /// For how many seconds it has been running its statement or been idle.
    pub seconds: u64,
    /// Its statement, shortened; empty if it is idle.
    pub statement: String,
    /// The lock that it holds; empty if the server does not tell.
    pub holds: String,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocker { id, account, seconds, statement, holds } = self;
        let holding = if holds.is_empty() { String::new() } else { format!(" and holds {holds}") };
        match statement.as_str() {
            "" => write!(f, "connection {id} of {account}, which has been idle for {seconds} s{holding}"),
            _ => write!(
                f,
                "connection {id} of {account}, which has been running this for {seconds} s{holding}: {statement}"
            ),
        }
    }
}

/// What blocks a lock, as far as the server tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacle {
    /// The connection that most likely blocks it.
    pub blocker: Option<Blocker>,
    /// Tables that are locked or in use, if nobody knows by whom.
    locked: Vec<String>,
    /// Connections that may have locked them: those that have been idle for longest.
    idle: Vec<Blocker>,
}

/// At most this many tables or connections are listed.
const NAMED: usize = 3;

impl Obstacle {
    /// Whether the server tells of somebody or something that may be in the way.
    #[must_use]
    pub fn is_seen(&self) -> bool {
        self.blocker.is_some() || !self.locked.is_empty()
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Obstacle { blocker, locked, idle } = self;
        match blocker {
            Some(blocker) => {
                let ends = if blocker.statement.is_empty() {
                    "have it UNLOCK TABLES or COMMIT"
                } else {
                    "wait for it"
                };
                write!(f, "{blocker}; {ends}, or KILL {}", blocker.id)
            }
            None if locked.is_empty() => write!(f, "nobody that can be seen"),
            None => {
                let one = |idle: &Blocker| format!("{} of {} for {} s", idle.id, idle.account, idle.seconds);
                let idle: Vec<String> = idle.iter().take(NAMED).map(one).collect();
                write!(f, "somebody who has locked {}; this server does not say who", listed(locked))?;
                if !idle.is_empty() {
                    write!(f, ", but these connections are idle: {}", idle.join(", "))?;
                }
                write!(
                    f,
                    " (it would with INSTALL SONAME 'metadata_lock_info' on MariaDB, or with performance_schema.metadata_locks)"
                )
            }
        }
    }
}

/// The first names, and how many there are.
fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// A lock that a connection has been given.
struct Granted {
    by: Blocker,
    /// What the lock is on: a table, the backup lock of MariaDB, or the server.
    kind: String,
    mode: String,
    table: (String, String),
}

impl Granted {
    fn is_in_the_way(&self, mode: &HoldMode) -> bool {
        let table = |name: &TableName| (&name.schema, &name.table) == (&self.table.0, &self.table.1);
        match mode {
            HoldMode::Tables(tables) => WRITING.contains(&&*self.mode) && tables.iter().any(table),
            _ => WHOLE.contains(&&*self.kind) || EXCLUSIVE.contains(&&*self.mode),
        }
    }

    fn is_on_table(&self) -> bool {
        !self.table.1.is_empty()
    }
}

/// Locks on more than a table, as both sources call them.
const WHOLE: [&str; 7] =
    ["BACKUP", "GLOBAL", "COMMIT", "BACKUP LOCK", "Backup lock", "Global read lock", "Commit lock"];
/// Locks of LOCK TABLES ... WRITE, and of DDL.
const EXCLUSIVE: [&str; 3] = ["SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"];
/// Locks that keep others from locking a table against writers.
const WRITING: [&str; 5] =
    ["SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"];
/// Who holds which lock: from MariaDB's plugin, then from the performance schema, if that records locks.
const GRANTED: [&str; 2] = [
    "SELECT p.id, CONCAT(p.user, '@', p.host), p.time, LEFT(p.info, 120), m.lock_type, \
     REPLACE(m.lock_mode, 'MDL_', ''), m.table_schema, m.table_name \
     FROM information_schema.metadata_lock_info m JOIN information_schema.processlist p ON p.id = m.thread_id \
     WHERE p.id <> CONNECTION_ID() AND COALESCE(p.state, '') NOT LIKE 'Waiting for%' ORDER BY p.time DESC, p.id",
    "SELECT t.processlist_id, CONCAT(t.processlist_user, '@', t.processlist_host), t.processlist_time, \
     LEFT(t.processlist_info, 120), l.object_type, l.lock_type, l.object_schema, l.object_name \
     FROM performance_schema.metadata_locks l JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id \
     WHERE l.lock_status = 'GRANTED' AND t.processlist_id <> CONNECTION_ID() \
     AND COALESCE(t.processlist_state, '') NOT LIKE 'Waiting for%' ORDER BY t.processlist_time DESC, t.processlist_id",
];

impl Session {
    /// Statements that have been running for at least `seconds` and that a lock against writing would wait
    /// for, the longest first. On MariaDB reading statements are left out, because locks do not wait for
    /// them.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn blockers(&mut self, seconds: u64) -> Result<Vec<Blocker>, Error> {
        let reading = match self.about.flavour {
            Flavour::MariaDb => "AND info NOT LIKE 'SELECT%' AND info NOT LIKE 'SHOW%'",
            Flavour::MySql => "",
        };
        // Whoever waits for a lock waits either for us or for the blocker.
        self.connections(&format!(
            "SELECT id, CONCAT(user, '@', host), time, LEFT(info, 120) FROM information_schema.processlist \
             WHERE command = 'Query' AND info IS NOT NULL AND id <> CONNECTION_ID() AND time >= {seconds} {reading} \
             AND COALESCE(state, '') NOT LIKE 'Waiting for%' ORDER BY time DESC"
        ))
    }

    /// Connections without a running statement whose transaction has changed rows: a lock on a table that
    /// they changed waits for the end of the transaction. The longest idle come first. The list is empty if
    /// this account may not see them (PROCESS).
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

    /// Finds out what blocks a lock: who holds another lock, if the server tells; else who runs a statement;
    /// else which tables are locked and who may have locked them.
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn obstacle(&mut self, mode: &HoldMode) -> Result<Obstacle, Error> {
        let mut found = self.holder(mode)?;
        if found.is_none() {
            found = self.blockers(0)?.into_iter().next();
        }
        if found.is_none() && matches!(mode, HoldMode::Tables(_)) {
            // They may have changed other tables, so they are named but never killed.
            found = self.idle_writers()?.into_iter().next();
            found.iter_mut().for_each(|writer| "rows that it has changed".clone_into(&mut writer.holds));
        }
        if found.is_some() {
            return Ok(Obstacle { blocker: found, ..Obstacle::default() });
        }
        let open = allowed(self.strings("SHOW OPEN TABLES WHERE In_use > 0"))?;
        let mut locked: Vec<String> =
            open.iter().map(|row| format!("{}.{}", text(row, 0), text(row, 1))).collect();
        locked.sort();
        let idle = self.connections(
            "SELECT id, CONCAT(user, '@', host), time, '' FROM information_schema.processlist \
             WHERE command = 'Sleep' AND id <> CONNECTION_ID() ORDER BY time DESC",
        );
        Ok(Obstacle { blocker: None, locked, idle: allowed(idle)? })
    }

    /// Who holds a blocking lock; none if the server does not tell, or does not tell us.
    fn holder(&mut self, mode: &HoldMode) -> Result<Option<Blocker>, Error> {
        for sql in GRANTED {
            let rows = allowed(self.strings(sql))?;
            let granted: Vec<Granted> = rows.iter().map(|row| granted(row)).collect();
            let Some(first) = granted.iter().find(|granted| granted.is_in_the_way(mode)) else { continue };
            let theirs = || granted.iter().filter(|granted| granted.by.id == first.by.id);
            let tables = theirs().filter(|one| one.is_on_table() && one.mode.starts_with("SHARED_NO_"));
            let name = |one: &Granted| format!("{}.{}", one.table.0, one.table.1);
            let mut tables: Vec<String> = tables.map(name).collect();
            tables.sort();
            let holds = match (tables.is_empty(), first.is_on_table()) {
                (false, _) => format!("a lock on {}", listed(&tables)),
                (true, true) => format!("a lock on {} ({})", name(first), first.mode),
                (true, false) => format!("the lock {}", first.mode),
            };
            return Ok(Some(Blocker { holds, ..first.by.clone() }));
        }
        Ok(None)
    }

    fn connections(&mut self, sql: &str) -> Result<Vec<Blocker>, Error> {
        Ok(self.strings(sql)?.iter().map(|row| connection(row)).collect())
    }
}

/// An empty result if the server lacks the table or does not let us read it.
fn allowed<T: Default>(found: Result<T, Error>) -> Result<T, Error> {
    match found {
        Err(error) if error.code().is_some() => Ok(T::default()),
        other => other,
    }
}

fn text(row: &[Option<String>], at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

/// Number, account, seconds and statement of a connection.
fn connection(row: &[Option<String>]) -> Blocker {
    Blocker {
        id: text(row, 0),
        account: text(row, 1),
        seconds: text(row, 2).parse().unwrap_or(0),
        statement: text(row, 3).replace('\n', " "),
        holds: String::new(),
    }
}

fn granted(row: &[Option<String>]) -> Granted {
    Granted {
        by: connection(row),
        kind: text(row, 4),
        mode: text(row, 5),
        table: (text(row, 6), text(row, 7)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstacle_says_who_and_what_to_do() {
        let by = Blocker {
            id: "8".into(),
            account: "app@web1".into(),
            seconds: 30,
            statement: String::new(),
            holds: "a lock on d.t".into(),
        };
        let said = Obstacle { blocker: Some(by.clone()), ..Obstacle::default() }.to_string();
        assert_eq!(
            said,
            "connection 8 of app@web1, which has been idle for 30 s and holds a lock on d.t; have it UNLOCK TABLES \
             or COMMIT, or KILL 8"
        );
        let locked = ["d.a", "d.b", "d.c", "d.d"].map(str::to_owned).to_vec();
        let said = Obstacle { blocker: None, locked, idle: vec![by.clone()] }.to_string();
        assert!(
            said.starts_with(
                "somebody who has locked d.a, d.b, d.c and 1 more; this server does not say who"
            )
        );
        assert!(said.contains("but these connections are idle: 8 of app@web1 for 30 s"), "{said}");
        assert_eq!(Obstacle::default().to_string(), "nobody that can be seen");
    }

    #[test]
    fn a_lock_is_in_the_way_of_what_it_excludes() {
        let row = |kind: &str, mode: &str, table: &str| {
            let cells = ["8", "app@web1", "30", "", kind, mode, "d", table];
            granted(&cells.map(|cell| Some(cell.to_owned())))
        };
        let tables = HoldMode::Tables(vec![TableName { schema: "d".into(), table: "t".into() }]);
        let wrote = row("TABLE", "SHARED_WRITE", "t");
        assert!(wrote.is_in_the_way(&tables) && !wrote.is_in_the_way(&HoldMode::Global));
        assert!(!row("TABLE", "SHARED_WRITE", "other").is_in_the_way(&tables));
        assert!(!row("TABLE", "SHARED_READ", "t").is_in_the_way(&tables));
        assert!(row("Backup lock", "BACKUP_DDL", "").is_in_the_way(&HoldMode::BackupStage));
        assert!(row("TABLE", "SHARED_NO_READ_WRITE", "t").is_in_the_way(&HoldMode::Global));
    }
}
