//! What a server must not do while it is copied: the stages of `BACKUP STAGE`.

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;
use server::{HoldMode, Session};

use crate::exit::Held;
use crate::hold;

/// A backup that the server knows of. If the session ends, the server ends the backup.
pub(super) struct Stages {
    session: Session,
    wait: Duration,
    /// When DDL was stopped, and when commits were.
    stopped: [Option<Instant>; 2],
}

/// How long others had to wait.
pub(super) struct Waited {
    pub(super) ddl: Duration,
    pub(super) commits: Duration,
}

impl Stages {
    /// Tells the server that a backup begins; from now on it keeps a list of DDL.
    pub(super) fn start(mut session: Session, wait: Duration) -> io::Result<Stages> {
        let seconds = wait.as_secs().max(1);
        session.execute(&format!("SET SESSION lock_wait_timeout = {seconds}")).map_err(io::Error::other)?;
        // Reading may take long, and the idle session must not be ended meanwhile.
        session.execute("SET SESSION wait_timeout = 2592000").map_err(io::Error::other)?;
        let mut stages = Stages { session, wait, stopped: [None; 2] };
        stages.go("BACKUP STAGE START")?;
        Ok(stages)
    }

    /// Stops DDL, and writes to tables without transactions.
    pub(super) fn block_ddl(&mut self) -> io::Result<()> {
        self.stopped[0] = Some(Instant::now());
        self.go("BACKUP STAGE FLUSH")?;
        self.go("BACKUP STAGE BLOCK_DDL")
    }

    /// Stops everything that changes tables or the binary log.
    pub(super) fn block_commit(&mut self) -> io::Result<()> {
        self.stopped[1] = Some(Instant::now());
        self.go("BACKUP STAGE BLOCK_COMMIT")
    }

    /// The server's position, and the end of its redo log, which is on the disk then.
    pub(super) fn position(&mut self) -> io::Result<(Value, u64)> {
        let position = self.session.position().map_err(io::Error::other)?;
        let source = self.session.source_position().map_err(io::Error::other)?;
        // Without this the last transaction may be one that only the binary log has.
        self.session.execute("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS").map_err(io::Error::other)?;
        let log = physical::position::Position::read(&mut self.session).map_err(io::Error::other)?;
        Ok((hold::noted(position, source), log.flushed))
    }

    /// The files of the binary log with their lengths.
    pub(super) fn binary_logs(&mut self) -> io::Result<Vec<(String, u64)>> {
        if !self.session.about.log_bin {
            return Ok(Vec::new());
        }
        let rows = self.session.strings("SHOW BINARY LOGS").map_err(io::Error::other)?;
        let of = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter().flatten();
            Some((cells.next()?, cells.next()?.parse().ok()?))
        };
        Ok(rows.into_iter().filter_map(of).collect())
    }

    /// Ends the backup. Fails if it had ended before: then nothing was stopped, and the copy is of no use.
    pub(super) fn end(mut self) -> io::Result<Waited> {
        self.session.execute("BACKUP STAGE END").map_err(|error| {
            io::Error::other(format!("the server's locks were lost while it was copied: {error}"))
        })?;
        let [ddl, commits] =
            self.stopped.map(|stopped| stopped.map_or(Duration::ZERO, |stopped| stopped.elapsed()));
        Ok(Waited { ddl, commits })
    }

    fn go(&mut self, stage: &str) -> io::Result<()> {
        let Err(error) = self.session.execute(stage) else { return Ok(()) };
        if !error.is_retryable() {
            return Err(io::Error::other(error));
        }
        let blocked = self.session.obstacle(&HoldMode::BackupStage).map_err(io::Error::other)?;
        let seconds = self.wait.as_secs();
        // A backup that only has begun holds nothing that the server tells of.
        let line = match !blocked.is_seen() && stage.ends_with("START") {
            true => {
                format!("another backup of the server did not end within {seconds} s; --wait waits longer")
            }
            false => format!(
                "the server did not come to {stage} within {seconds} s, blocked by {blocked}; --wait waits longer"
            ),
        };
        Err(io::Error::other(Held(line)))
    }
}
