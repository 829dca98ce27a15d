//! Holding a server still for a moment, so that a snapshot of its files or of its rows is one state.

use std::borrow::Cow;
use std::time::Duration;

use crate::{Error, Flavour, Position, Session, TableName, Version};

/// How a server is held still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldMode {
    /// `BACKUP STAGE` up to `BLOCK_COMMIT`: MariaDB from 10.4.1. Commits, DDL and writes to tables without
    /// transactions wait.
    BackupStage,
    /// `LOCK INSTANCE FOR BACKUP`: MySQL from 8.0. Only DDL waits.
    Instance,
    /// `FLUSH TABLES WITH READ LOCK`: everywhere. All writes wait.
    Global,
    /// `LOCK TABLES`: writes to these tables wait.
    Tables(Vec<TableName>),
}

impl HoldMode {
    /// As it is written on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            HoldMode::BackupStage => "backup-stage",
            HoldMode::Instance => "instance",
            HoldMode::Global => "global",
            HoldMode::Tables(_) => "tables",
        }
    }

    /// The gentlest mode that makes a snapshot of all tables' files consistent on this server.
    ///
    /// # Errors
    /// What asking for the tables' engines reports.
    pub fn best(session: &mut Session) -> Result<HoldMode, Error> {
        let about = &session.about;
        if about.flavour == Flavour::MariaDb || about.version < (Version { major: 8, minor: 0, patch: 0 }) {
            return Ok(HoldMode::against_commits(session));
        }
        let others = session.value(
            "SELECT COUNT(*) FROM information_schema.tables WHERE engine NOT IN ('InnoDB', 'PERFORMANCE_SCHEMA', \
             'MEMORY') AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')",
        )?;
        Ok(if others.as_deref() == Some("0") { HoldMode::Instance } else { HoldMode::Global })
    }

    /// The gentlest mode that keeps everybody from committing on this server.
    #[must_use]
    pub fn against_commits(session: &Session) -> HoldMode {
        let about = &session.about;
        let stages = Version { major: 10, minor: 4, patch: 1 };
        if about.flavour == Flavour::MariaDb && about.version >= stages {
            HoldMode::BackupStage
        } else {
            HoldMode::Global
        }
    }

    /// What takes the lock, and what lets go of it.
    fn statements(&self) -> (Vec<Cow<'static, str>>, &'static str) {
        let fixed = |statements: &[&'static str]| statements.iter().copied().map(Cow::Borrowed).collect();
        match self {
            HoldMode::BackupStage => (
                fixed(&[
                    "BACKUP STAGE START",
                    "BACKUP STAGE FLUSH",
                    "BACKUP STAGE BLOCK_DDL",
                    "BACKUP STAGE BLOCK_COMMIT",
                ]),
                "BACKUP STAGE END",
            ),
            HoldMode::Instance => (fixed(&["LOCK INSTANCE FOR BACKUP"]), "UNLOCK INSTANCE"),
            HoldMode::Global => (fixed(&["FLUSH LOCAL TABLES WITH READ LOCK"]), "UNLOCK TABLES"),
            HoldMode::Tables(tables) => {
                let list: Vec<_> = tables.iter().map(|table| format!("{table} READ")).collect();
                (vec![Cow::Owned(format!("LOCK TABLES {}", list.join(", ")))], "UNLOCK TABLES")
            }
        }
    }
}

/// A server that is held still, until [`Hold::release`] or the end of the session.
#[derive(Debug)]
pub struct Hold {
    session: Session,
    release: &'static str,
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
    pub fn attempt(mut session: Session, mode: &HoldMode, wait: Duration) -> Result<Attempt, Error> {
        session.execute(&format!("SET SESSION lock_wait_timeout = {}", wait.as_secs().max(1)))?;
        // Whoever works meanwhile may take long, and our own silence must not end the session.
        session.execute("SET SESSION wait_timeout = 2592000")?;
        let (take, release) = mode.statements();
        for (number, statement) in take.iter().enumerate() {
            match session.execute(statement) {
                Ok(_) => {}
                Err(error) if error.is_retryable() => {
                    if number > 0 {
                        session.execute(release)?;
                    }
                    return Ok(Attempt::Waited(session));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Attempt::Held(Hold { session, release }))
    }

    /// Where the server stands while it is held.
    ///
    /// # Errors
    /// As [`Session::position`].
    pub fn position(&mut self) -> Result<Option<Position>, Error> {
        self.session.position()
    }

    /// How far a replica has applied its source's log while it is held.
    ///
    /// # Errors
    /// As [`Session::source_position`].
    pub fn source_position(&mut self) -> Result<Vec<(String, String)>, Error> {
        self.session.source_position()
    }

    /// Writes out what engines have logged and keep in memory. Without it the last transaction may stand in
    /// the files as one about which the binary log decides, and several may be missing where a commit does
    /// not wait for the disk.
    ///
    /// # Errors
    /// What the server reports.
    pub fn flush_logs(&mut self) -> Result<(), Error> {
        self.session.execute("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS").map(drop)
    }

    /// Lets go. Fails when the lock was lost meanwhile: then nothing that was done under it can be relied on.
    ///
    /// # Errors
    /// [`Error::LostConnection`], or what the server reports.
    pub fn release(mut self) -> Result<Session, Error> {
        self.session.execute(self.release)?;
        Ok(self.session)
    }
}
