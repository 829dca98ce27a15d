//! One state of the data, seen by several sessions.
//!
//! Where the server tells each session the position in the binary log that its snapshot stands at (MariaDB's
//! `Binlog_snapshot_file` and `_position`), snapshots are begun until all of them stand at the same one: no
//! lock and no privilege are needed. Elsewhere commits are held off for the moment it takes to begin them.

use std::time::{Duration, Instant};

use crate::{Attempt, Error, Flavour, Hold, HoldMode, Position, Session, TableName, Target};

/// How often snapshots are begun anew until they agree. On a server with a thousand commits a second one of a
/// few tries succeeds.
const TRIES: u32 = 200;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// Sessions that are to see the same state.
    pub sessions: usize,
    /// How long to wait for a lock.
    pub lock_wait: Duration,
    /// End statements that hold a lock up for longer than that.
    pub kill_long_queries: bool,
    /// Tables that no snapshot covers: they are locked against writing until the session
    /// of [`Snapshot::take_locks`] is dropped.
    pub unversioned: Vec<TableName>,
    /// All tables, which are locked for a moment where nothing else is allowed.
    pub tables: Vec<TableName>,
}

/// How it was made sure that all sessions see the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Their positions in the binary log were compared.
    Compared,
    /// `BACKUP STAGE BLOCK_COMMIT`.
    BackupStage,
    /// `FLUSH TABLES WITH READ LOCK`.
    GlobalLock,
    /// `LOCK TABLES`.
    TableLocks,
}

impl Way {
    /// In words, for a message.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Way::Compared => "no lock, binary log positions compared",
            Way::BackupStage => "commits held off (BACKUP STAGE)",
            Way::GlobalLock => "writes held off (FLUSH TABLES WITH READ LOCK)",
            Way::TableLocks => "tables locked (LOCK TABLES)",
        }
    }
}

/// Sessions in transactions that see one state.
#[derive(Debug)]
pub struct Snapshot {
    /// They are read-only by habit: nothing keeps them from writing.
    pub sessions: Vec<Session>,
    /// Where that state stands in the server's binary log.
    pub position: Option<Position>,
    /// How they came to agree.
    pub way: Way,
    /// How long anybody may have been held up.
    pub held: Duration,
    locks: Option<Hold>,
}

impl Snapshot {
    /// Begins snapshots.
    ///
    /// # Errors
    /// [`Error::LockWait`] names the query that stands in the way; [`Error::Privilege`] when no way is
    /// allowed to this account.
    pub fn begin(target: &Target, request: &SnapshotRequest) -> Result<Snapshot, Error> {
        let mut sessions = (0..request.sessions).map(|_| connect(target)).collect::<Result<Vec<_>, _>>()?;
        let wait = format!("SET SESSION lock_wait_timeout = {}", request.lock_wait.as_secs().max(1));
        sessions.iter_mut().try_for_each(|session| session.execute(&wait).map(drop))?;
        let mut first = connect(target)?;
        if is_comparable(&mut first, sessions.len())? {
            let locks = lock_unversioned(target, request)?;
            if let Some(position) = agreed(&mut sessions, &mut first)? {
                let position = Some(position);
                return Ok(Snapshot { sessions, position, way: Way::Compared, held: Duration::ZERO, locks });
            }
            // What follows would wait for these locks.
            drop(locks);
        }
        let (mut hold, way) = hold(first, target, request)?;
        let began = Instant::now();
        let started = lock_unversioned(target, request).and_then(|locks| {
            sessions.iter_mut().try_for_each(start)?;
            Ok((locks, hold.position()?))
        });
        let released = hold.release();
        let held = began.elapsed();
        let (locks, position) = started?;
        released?;
        Ok(Snapshot { sessions, position, way, held, locks })
    }

    /// What locks the tables that no snapshot covers: they are let go of when it is dropped.
    pub fn take_locks(&mut self) -> Option<Hold> {
        self.locks.take()
    }
}

/// A session that reads data as it is: times in UTC, text in the bytes of its column, no limit on time.
///
/// # Errors
/// What connecting reports.
pub fn connect(target: &Target) -> Result<Session, Error> {
    let target = Target { database: None, ..target.clone() };
    let mut session = target.connect()?;
    for setting in [
        "sql_mode = ''",
        "time_zone = '+00:00'",
        "sql_quote_show_create = 1",
        "net_write_timeout = 31536000",
        "net_read_timeout = 31536000",
        "wait_timeout = 31536000",
        "max_statement_time = 0",
        "max_execution_time = 0",
        // Also to look at a table takes a lock, which somebody's DDL may hold for ever.
        "lock_wait_timeout = 60",
        // Rows of queues that somebody owns are data like all others.
        "queue_show_owned = ON",
        "TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    ] {
        match session.execute(&format!("SET SESSION {setting}")) {
            // A variable this server does not have.
            Err(error) if error.code() == Some(1193) => {}
            other => drop(other?),
        }
    }
    Ok(session)
}

/// Begins a snapshot for nothing but that the server keeps old row versions, and returns the session that has
/// it. `None` where it would not help.
///
/// MariaDB goes over every committed row once more, to reset the transaction id in it, and begins with the
/// first transaction that is over: with all cores busy with filling tables that is a fifth of the time.
/// Nobody's old row versions are to be kept for long, so the server itself ends the snapshot after `seconds`.
///
/// # Errors
/// What the server reports.
pub fn put_off_purge(mut session: Session, seconds: u32) -> Result<Option<Session>, Error> {
    if session.about.flavour != Flavour::MariaDb {
        return Ok(None);
    }
    session.execute(&format!(
        "SET SESSION tx_isolation = 'REPEATABLE-READ', idle_transaction_timeout = {seconds}"
    ))?;
    start(&mut session)?;
    tracing::info!("purge waits until the rows are in, {seconds} s at most");
    Ok(Some(session))
}

fn start(session: &mut Session) -> Result<(), Error> {
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    Ok(())
}

/// Locks the tables that no snapshot covers, in a session of its own.
fn lock_unversioned(target: &Target, request: &SnapshotRequest) -> Result<Option<Hold>, Error> {
    if request.unversioned.is_empty() {
        return Ok(None);
    }
    insist(connect(target)?, &HoldMode::Tables(request.unversioned.clone()), request).map(Some)
}

/// Whether equal positions in the binary log mean equal snapshots.
fn is_comparable(session: &mut Session, sessions: usize) -> Result<bool, Error> {
    let about = &session.about;
    let logged = about.flavour == Flavour::MariaDb && about.log_bin && !about.galera;
    Ok(logged && sessions > 0 && !writes_unseen(session)?)
}

/// Begins snapshots until all stand at the same position; `None` when they never do.
fn agreed(sessions: &mut [Session], locker: &mut Session) -> Result<Option<Position>, Error> {
    for _ in 0..TRIES {
        let mut first: Option<(String, String)> = None;
        let mut agree = true;
        for session in sessions.iter_mut() {
            start(session)?;
        }
        for session in sessions.iter_mut() {
            let Some(found) = snapshot_status(session)? else { return Ok(None) };
            agree &= first.get_or_insert_with(|| found.clone()) == &found;
        }
        if let (true, Some((file, offset))) = (agree, first) {
            return locker.position_at(file, &offset).map(Some);
        }
        for session in sessions.iter_mut() {
            session.execute("ROLLBACK")?;
        }
    }
    Ok(None)
}

/// A replica that does not log what it applies changes without moving the position.
fn writes_unseen(session: &mut Session) -> Result<bool, Error> {
    if session.value("SELECT @@GLOBAL.log_slave_updates")?.as_deref() == Some("1") {
        return Ok(false);
    }
    match session.strings("SHOW ALL SLAVES STATUS") {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(error) if error.code().is_some() => may_apply(session),
        Err(error) => Err(error),
    }
}

/// The same for who is not allowed to look at replicas: whether it may be one, by what everybody may see.
fn may_apply(session: &mut Session) -> Result<bool, Error> {
    let applied = session.value("SELECT @@GLOBAL.gtid_slave_pos")?.unwrap_or_default();
    let running = session.strings("SHOW GLOBAL STATUS LIKE 'Slaves_running'")?;
    let count = running.first().and_then(|row| row.get(1)).cloned().flatten();
    Ok(!applied.is_empty() || count.as_deref() != Some("0"))
}

fn snapshot_status(session: &mut Session) -> Result<Option<(String, String)>, Error> {
    let rows = session.strings("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")?;
    let of = |name: &str| {
        let row = rows
            .iter()
            .find(|row| row.first().cloned().flatten().is_some_and(|n| n.eq_ignore_ascii_case(name)))?;
        row.get(1).cloned().flatten().filter(|value| !value.is_empty())
    };
    Ok(of("Binlog_snapshot_file").zip(of("Binlog_snapshot_position")))
}

/// Keeps everybody from committing, or where that is not allowed from writing to the tables that are asked
/// for.
fn hold(session: Session, target: &Target, request: &SnapshotRequest) -> Result<(Hold, Way), Error> {
    let mode = HoldMode::against_commits(&session);
    let way = if mode == HoldMode::BackupStage { Way::BackupStage } else { Way::GlobalLock };
    let denied = match insist(session, &mode, request) {
        Err(error @ Error::Privilege { .. }) if !request.tables.is_empty() => error,
        other => return other.map(|hold| (hold, way)),
    };
    match insist(connect(target)?, &HoldMode::Tables(request.tables.clone()), request) {
        Err(Error::Privilege { .. }) => Err(denied),
        other => other.map(|hold| (hold, Way::TableLocks)),
    }
}

/// Takes a lock; when that takes too long, says who stands in the way, or ends them and tries once more.
fn insist(session: Session, mode: &HoldMode, request: &SnapshotRequest) -> Result<Hold, Error> {
    let mut session = match Hold::attempt(session, mode, request.lock_wait)? {
        Attempt::Held(hold) => return Ok(hold),
        Attempt::Waited(session) => session,
    };
    let seconds = request.lock_wait.as_secs();
    // Who was there before us has run for longer than we have waited, but for what rounding takes.
    let running = session.blockers(seconds.saturating_sub(1))?;
    if request.kill_long_queries && !running.is_empty() {
        for blocker in &running {
            match session.execute(&format!("KILL {}", blocker.id)) {
                // It has ended by itself.
                Err(error) if error.code() == Some(1094) => {}
                other => drop(other?),
            }
        }
        session = match Hold::attempt(session, mode, request.lock_wait)? {
            Attempt::Held(hold) => return Ok(hold),
            Attempt::Waited(session) => session,
        };
    }
    let blocker = session.obstacle(mode)?.to_string();
    Err(Error::LockWait { lock: mode.name(), seconds, blocker })
}
