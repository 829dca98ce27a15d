//! Holding a server still for a moment, so that its files can be snapshotted.

use std::time::Duration;

use crate::{Error, Flavour, Session, Version};

/// How a server is held still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldMode {
    /// `BACKUP STAGE` up to `BLOCK_COMMIT`: MariaDB from 10.4.1. Commits, DDL and writes to tables without
    /// transactions wait.
    BackupStage,
    /// `LOCK INSTANCE FOR BACKUP`: MySQL from 8.0. Only DDL waits.
    Instance,
    /// `FLUSH TABLES WITH READ LOCK`: everywhere. All writes wait.
    Global,
}

impl HoldMode {
    /// As it is written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HoldMode::BackupStage => "backup-stage",
            HoldMode::Instance => "instance",
            HoldMode::Global => "global",
        }
    }

    /// The gentlest mode that makes a snapshot of all tables consistent on this server.
    ///
    /// # Errors
    /// What asking for the tables' engines reports.
    pub fn best(session: &mut Session) -> Result<HoldMode, Error> {
        let about = &session.about;
        let at_least = |major, minor, patch| about.version >= Version { major, minor, patch };
        if about.flavour == Flavour::MariaDb {
            return Ok(if at_least(10, 4, 1) { HoldMode::BackupStage } else { HoldMode::Global });
        }
        if !at_least(8, 0, 0) {
            return Ok(HoldMode::Global);
        }
        let others = session.value(
            "SELECT COUNT(*) FROM information_schema.tables WHERE engine NOT IN ('InnoDB', 'PERFORMANCE_SCHEMA', \
             'MEMORY') AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')",
        )?;
        Ok(if others.as_deref() == Some("0") { HoldMode::Instance } else { HoldMode::Global })
    }

    fn statements(self) -> (&'static [&'static str], &'static str) {
        match self {
            HoldMode::BackupStage => (
                &[
                    "BACKUP STAGE START",
                    "BACKUP STAGE FLUSH",
                    "BACKUP STAGE BLOCK_DDL",
                    "BACKUP STAGE BLOCK_COMMIT",
                ],
                "BACKUP STAGE END",
            ),
            HoldMode::Instance => (&["LOCK INSTANCE FOR BACKUP"], "UNLOCK INSTANCE"),
            HoldMode::Global => (&["FLUSH LOCAL TABLES WITH READ LOCK"], "UNLOCK TABLES"),
        }
    }
}

/// A statement that stands in the way of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The connection's number, for `KILL`.
    pub id: String,
    /// Whose it is, as `user@host`.
    pub account: String,
    /// How long it has been running, in seconds.
    pub seconds: u64,
    /// What it is, shortened.
    pub statement: String,
}

/// Where a server stands in its own log and in its source's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// File of the binary log; empty without one.
    pub file: String,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// The same as a GTID (MariaDB) or a set of them (MySQL).
    pub gtid: String,
    /// Of a replica: host, file and offset of its source up to which it has applied; else empty.
    pub source: String,
}

/// A server that is held still, until [`Hold::release`] or the end of the session.
#[derive(Debug)]
pub struct Hold {
    session: Session,
    mode: HoldMode,
}

/// What came of an attempt to hold a server.
#[derive(Debug)]
pub enum Attempt {
    /// It is held.
    Held(Hold),
    /// It could not be within the time; here is the session for another try.
    Waited(Session),
}

impl Hold {
    /// Takes the lock, or gives up after about `wait`, during which others may have to wait behind us.
    ///
    /// # Errors
    /// What the server reports, a missing privilege for one; a time that is up is no error.
    pub fn attempt(mut session: Session, mode: HoldMode, wait: Duration) -> Result<Attempt, Error> {
        session.execute(&format!("SET SESSION lock_wait_timeout = {}", wait.as_secs().max(1)))?;
        // Whoever works meanwhile may take long, and our own silence must not end the session.
        session.execute("SET SESSION wait_timeout = 2592000")?;
        let (take, undo) = mode.statements();
        for (number, statement) in take.iter().enumerate() {
            match session.execute(statement) {
                Ok(_) => {}
                Err(error) if error.is_retryable() => {
                    if number > 0 {
                        session.execute(undo)?;
                    }
                    return Ok(Attempt::Waited(session));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Attempt::Held(Hold { session, mode }))
    }

    /// Where the server stands while it is held.
    ///
    /// # Errors
    /// What the server reports, except that an account may not be allowed to see it: that is empty.
    pub fn coordinates(&mut self) -> Result<Coordinates, Error> {
        let session = &mut self.session;
        let mut found = Coordinates::default();
        // MySQL 8.4 knows the second name only.
        if let Some(row) = first_row(session, &["SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"])? {
            found.file = row.first().cloned().flatten().unwrap_or_default();
            found.offset = row.get(1).cloned().flatten().and_then(|text| text.parse().ok()).unwrap_or(0);
        }
        let gtid = match session.about.flavour {
            Flavour::MariaDb => "SELECT @@GLOBAL.gtid_binlog_pos",
            Flavour::MySql => "SELECT @@GLOBAL.gtid_executed",
        };
        if let Some(row) = first_row(session, &[gtid])? {
            found.gtid = row.first().cloned().flatten().unwrap_or_default().replace('\n', "");
        }
        // Columns of both: 1 host, 9 file and 21 offset of what was applied.
        if let Some(row) = first_row(session, &["SHOW SLAVE STATUS", "SHOW REPLICA STATUS"])? {
            let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            found.source = format!("{} {} {}", cell(1), cell(9), cell(21));
        }
        Ok(found)
    }

    /// Lets go. Fails when the lock was lost meanwhile: then nothing that was done under it can be relied on.
    ///
    /// # Errors
    /// [`Error::LostConnection`], or what the server reports.
    pub fn release(mut self) -> Result<Session, Error> {
        self.session.execute(self.mode.statements().1)?;
        Ok(self.session)
    }
}

/// The first row of the first statement that this server knows and this account may run.
fn first_row(session: &mut Session, statements: &[&str]) -> Result<Option<Vec<Option<String>>>, Error> {
    for statement in statements {
        match session.strings(statement) {
            Ok(rows) => return Ok(rows.into_iter().next()),
            Err(error) if error.code().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

impl Session {
    /// Statements that have been running for at least `seconds` and that a global lock would wait for, the
    /// longest first. On MariaDB reading statements are not among them: it does not wait for those.
    ///
    /// # Errors
    /// What the server reports.
    pub fn blockers(&mut self, seconds: u64) -> Result<Vec<Blocker>, Error> {
        let reading = match self.about.flavour {
            Flavour::MariaDb => "AND info NOT LIKE 'SELECT%' AND info NOT LIKE 'SHOW%'",
            Flavour::MySql => "",
        };
        let rows = self.strings(&format!(
            "SELECT id, CONCAT(user, '@', host), time, LEFT(info, 120) FROM information_schema.processlist \
             WHERE command = 'Query' AND info IS NOT NULL AND id <> CONNECTION_ID() AND time >= {seconds} {reading} \
             ORDER BY time DESC"
        ))?;
        let text = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten().unwrap_or_default();
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
