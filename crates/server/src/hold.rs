//! Locks a server for a moment, so that a snapshot of its files or rows is consistent.

use std::borrow::Cow;
use std::time::Duration;

use crate::{Error, Flavour, Position, Session, TableName, Version};

/// Which lock keeps a server unchanged.
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

    /// The mildest mode on this server that makes a snapshot of all tables' files consistent.
    ///
    /// # Errors
    /// Errors of the query for the tables' engines.
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

    /// The mildest mode on this server that keeps everybody from committing.
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

    /// The statements that take the lock, and the one that releases it.
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

/// A held lock, until [`Hold::release`] or the end of the session.
#[derive(Debug)]
pub struct Hold {
    session: Session,
    release: &'static str,
}

/// The result of an attempt to lock a server.
#[derive(Debug)]
pub enum Attempt {
    /// The lock is held.
    Held(Hold),
    /// Timeout; here is the session for another attempt.
    Waited(Session),
}

impl Hold {
    /// Takes the lock, or gives up after about `wait`; meanwhile others may have to wait behind us.
    ///
    /// # Errors
    /// Errors of the server, for example a missing privilege; a timeout is not an error.
    pub fn attempt(mut session: Session, mode: &HoldMode, wait: Duration) -> Result<Attempt, Error> {
        session.execute(&format!("SET SESSION lock_wait_timeout = {}", wait.as_secs().max(1)))?;
        // The work under the lock may take long, and the idle session must not be ended meanwhile.
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

    /// The server's position while it is held.
    ///
    /// # Errors
    /// Those of [`Session::position`].
    pub fn position(&mut self) -> Result<Option<Position>, Error> {
        self.session.position()
    }

    /// The session that holds it.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// How far a replica has applied its source's log while it is held.
    ///
    /// # Errors
    /// Those of [`Session::source_position`].
    pub fn source_position(&mut self) -> Result<Vec<(String, String)>, Error> {
        self.session.source_position()
    }

    /// Makes engines write out logs that they keep in memory. Without this the last transaction in the files
    /// may be one that the binary log decides about, and several may be missing if a commit does not wait for
    /// the disk.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn flush_logs(&mut self) -> Result<(), Error> {
        self.session.execute("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS").map(drop)
    }

    /// Releases the lock. Fails if the lock was lost meanwhile: then nothing that was done under it can be
    /// trusted.
    ///
    /// # Errors
    /// [`Error::LostConnection`], or another error of the server.
    pub fn release(mut self) -> Result<Session, Error> {
        self.session.execute(self.release)?;
        Ok(self.session)
    }
}
