//! What a server must not do while it is copied: the stages of `BACKUP STAGE`.

use std::io;
use std::time::{Duration, Instant};

use failure::Failure;
use physical::RedoPosition;
use serde_json::Value;
use server::{HoldMode, Session};
use snapshot::server_lock;

/// How long the session may be idle while nobody waits for it, in seconds: pages may be read slowly, and
/// their repository may stand still.
pub(crate) const IDLE_S: u64 = 3600;
/// The same while others wait.
const IDLE_AND_HELD_S: u64 = 60;
/// How long commits wait for the server to flush its redo log. It does so once a second if not told
/// otherwise.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// How often to look whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A backup that the server knows of. If the session ends, the server ends the backup.
pub(crate) struct Stages {
    session: Session,
    wait: Duration,
    /// When the server was last asked something.
    asked: Instant,
    /// When DDL was stopped, and when commits were.
    stopped: [Option<Instant>; 2],
    /// How long the server was waited for since then.
    waited: Duration,
}

/// How long others had to wait.
pub(crate) struct Waited {
    pub ddl: Duration,
    pub commits: Duration,
}

impl Stages {
    /// Tells the server that a backup begins; from now on it keeps a list of DDL.
    pub(crate) fn start(session: Session, wait: Duration) -> io::Result<Stages> {
        let mut stages =
            Stages { session, wait, asked: Instant::now(), stopped: [None; 2], waited: Duration::ZERO };
        // Asked again while nobody can commit. Whoever may not is told now, not after all pages were read.
        stages.session.position().map_err(io::Error::other)?;
        stages.session.source_position().map_err(io::Error::other)?;
        stages.binary_logs()?;
        stages.end_idle(IDLE_S)?;
        stages.go("BACKUP STAGE START")?;
        Ok(stages)
    }

    /// If this machine vanishes, the server ends the session after this time, and with it the backup.
    fn end_idle(&mut self, seconds: u64) -> io::Result<()> {
        let sql = format!("SET SESSION wait_timeout = {seconds}");
        self.session.execute(&sql).map(drop).map_err(io::Error::other)
    }

    /// Keeps the session from being ended while it is idle. To be called often.
    pub(crate) fn stay(&mut self) -> io::Result<()> {
        if self.asked.elapsed().as_secs() >= IDLE_AND_HELD_S / 6 {
            self.session.execute("DO 1").map_err(io::Error::other)?;
            self.asked = Instant::now();
        }
        Ok(())
    }

    /// The session in which the stages are.
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Stops DDL, and writes to tables without transactions.
    pub(crate) fn block_ddl(&mut self) -> io::Result<()> {
        self.end_idle(IDLE_AND_HELD_S)?;
        self.stopped[0] = Some(Instant::now());
        self.go("BACKUP STAGE FLUSH")?;
        self.go("BACKUP STAGE BLOCK_DDL")
    }

    /// Stops everything that changes tables or the binary log.
    pub(crate) fn block_commit(&mut self) -> io::Result<()> {
        self.stopped[1] = Some(Instant::now());
        self.go("BACKUP STAGE BLOCK_COMMIT")
    }

    /// The server's position, and the end of its redo log, which is on the disk then.
    pub(crate) fn position(&mut self) -> io::Result<(Value, u64)> {
        let position = self.session.position().map_err(io::Error::other)?;
        let source = self.session.source_position().map_err(io::Error::other)?;
        let committed = RedoPosition::read(&mut self.session).map_err(io::Error::other)?.current;
        // Without this the last transaction may be one that only the binary log has.
        self.session.execute("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS").map_err(io::Error::other)?;
        Ok((server_lock::noted(position, source), self.flushed(committed)?))
    }

    /// The end of the redo log on the disk, once that is at or after this LSN. With
    /// `innodb_flush_log_at_trx_commit` 0 or 2, `FLUSH ENGINE LOGS` does not bring the log to the disk: the
    /// server does so by itself, once in `innodb_flush_log_at_timeout` seconds.
    fn flushed(&mut self, lsn: u64) -> io::Result<u64> {
        let began = Instant::now();
        loop {
            let log = RedoPosition::read(&mut self.session).map_err(io::Error::other)?;
            if log.flushed >= lsn {
                return Ok(log.flushed);
            }
            if began.elapsed() > FLUSH_MAX {
                return Err(io::Error::other(format!(
                    "the server did not flush its redo log up to LSN {lsn} within {} s; set \
                     innodb_flush_log_at_trx_commit=1 while it is copied",
                    FLUSH_MAX.as_secs()
                )));
            }
            // Nobody sends on this channel: it is a wait that ends by itself.
            crossbeam_channel::never::<()>().recv_timeout(LOOK_AGAIN).ok();
        }
    }

    /// The files of the binary log with their lengths.
    pub(crate) fn binary_logs(&mut self) -> io::Result<Vec<(String, u64)>> {
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
    pub(crate) fn end(mut self) -> io::Result<Waited> {
        self.session.execute("BACKUP STAGE END").map_err(|error| {
            io::Error::other(format!("the server's locks were lost while it was copied: {error}"))
        })?;
        let [ddl, commits] =
            self.stopped.map(|stopped| stopped.map_or(Duration::ZERO, |stopped| stopped.elapsed()));
        Ok(Waited { ddl, commits })
    }

    fn go(&mut self, stage: &str) -> io::Result<()> {
        // All that stops others together gets the time of one. What is read meanwhile is no waiting.
        let left = self.wait.saturating_sub(self.waited);
        let limit = format!("SET SESSION lock_wait_timeout = {}", left.as_secs().max(1));
        self.session.execute(&limit).map_err(io::Error::other)?;
        self.asked = Instant::now();
        let done = self.session.execute(stage);
        if self.stopped[0].is_some() {
            self.waited += self.asked.elapsed();
        }
        let Err(error) = done else { return Ok(()) };
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
        Err(io::Error::other(Failure::Busy(line)))
    }
}
