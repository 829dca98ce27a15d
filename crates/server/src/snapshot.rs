//! A consistent snapshot that several sessions share.
//!
//! Some servers tell each session the binary log position of its snapshot (MariaDB's `Binlog_snapshot_file`
//! and `_position`). There snapshots are begun until all have the same position, which needs no lock and no
//! privilege. On other servers commits are blocked for the moment that it takes to begin the snapshots.

use std::time::{Duration, Instant};

use crate::{Attempt, Error, Flavour, Hold, HoldMode, Position, Session, TableName, Target, settings};

/// How often snapshots are begun until they agree. On a server with a thousand commits per second one of a
/// few attempts succeeds.
const TRIES: u32 = 200;

/// A request for a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// How many sessions must see the same state.
    pub sessions: usize,
    /// How long to wait for a lock.
    pub lock_wait: Duration,
    /// Kill statements that block a lock for longer than that.
    pub kill_long_queries: bool,
    /// Tables that no snapshot covers: they are locked against writing until the session of
    /// [`Snapshot::take_locks`] is dropped.
    pub unversioned: Vec<TableName>,
    /// All tables; they are locked for a moment if nothing else is allowed.
    pub tables: Vec<TableName>,
}

/// How the snapshots of all sessions were made consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotMethod {
    /// Their positions in the binary log were compared.
    Compared,
    /// `BACKUP STAGE BLOCK_COMMIT`.
    BackupStage,
    /// `FLUSH TABLES WITH READ LOCK`.
    GlobalLock,
    /// `LOCK TABLES`.
    TableLocks,
    /// None was needed: the files of a server that was stopped were read.
    Stopped,
}

impl SnapshotMethod {
    /// In words, for a message.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            SnapshotMethod::Compared => "no lock, binary log positions compared",
            SnapshotMethod::BackupStage => "commits held off (BACKUP STAGE)",
            SnapshotMethod::GlobalLock => "writes held off (FLUSH TABLES WITH READ LOCK)",
            SnapshotMethod::TableLocks => "tables locked (LOCK TABLES)",
            SnapshotMethod::Stopped => "files of a stopped server",
        }
    }
}

/// Sessions in transactions that see the same state.
#[derive(Debug)]
pub struct Snapshot {
    /// The sessions. They are read-only by convention only: nothing keeps them from writing.
    pub sessions: Vec<Session>,
    /// The position of that state in the server's binary log.
    pub position: Option<Position>,
    /// How the snapshots were made consistent.
    pub method: SnapshotMethod,
    /// The longest time for which other sessions may have been blocked.
    pub held: Duration,
    locks: Option<Hold>,
}

impl Snapshot {
    /// Begins snapshots.
    ///
    /// # Errors
    /// [`Error::LockWait`] names the query that blocks; [`Error::Privilege`] when this account is allowed
    /// none of the ways.
    pub fn begin(target: &Target, request: &SnapshotRequest) -> Result<Snapshot, Error> {
        let mut sessions = (0..request.sessions).map(|_| connect(target)).collect::<Result<Vec<_>, _>>()?;
        let wait = format!("SET SESSION lock_wait_timeout = {}", request.lock_wait.as_secs().max(1));
        sessions.iter_mut().try_for_each(|session| session.execute(&wait).map(drop))?;
        let mut first = connect(target)?;
        if is_comparable(&mut first, sessions.len())? {
            let locks = lock_unversioned(target, request)?;
            if let Some(position) = agreed(&mut sessions, &mut first)? {
                let position = Some(position);
                return Ok(Snapshot {
                    sessions,
                    position,
                    method: SnapshotMethod::Compared,
                    held: Duration::ZERO,
                    locks,
                });
            }
            // The next statements would wait for these locks.
            drop(locks);
        }
        let (mut hold, method) = hold(first, target, request)?;
        let began = Instant::now();
        let started = lock_unversioned(target, request).and_then(|locks| {
            sessions.iter_mut().try_for_each(start)?;
            Ok((locks, hold.position()?))
        });
        let released = hold.release();
        let held = began.elapsed();
        let (locks, position) = started?;
        released?;
        Ok(Snapshot { sessions, position, method, held, locks })
    }

    /// Takes the locks on tables that no snapshot covers: they are released when the result is dropped.
    pub fn take_locks(&mut self) -> Option<Hold> {
        self.locks.take()
    }
}

/// A session that reads data and definitions unchanged (`settings::EXACT`).
///
/// # Errors
/// Errors of connecting.
pub fn connect(target: &Target) -> Result<Session, Error> {
    let target = Target { database: None, ..target.clone() };
    let mut session = target.connect()?;
    session.set_where_known(settings::EXACT)?;
    Ok(session)
}

/// Begins a snapshot only to make the server keep old row versions, and returns its session. `None` if that
/// would not help.
///
/// MariaDB visits every committed row once more, to reset its transaction id, and begins as soon as the first
/// transaction is over: when all cores are busy filling tables, this takes a fifth of the time. Old row
/// versions must not be kept for long, so the server itself ends the snapshot after `seconds`.
///
/// # Errors
/// Errors of the server.
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

/// What is logged so that all commits before it are over. It changes nothing: there is no such table.
const MARK: &str = "DROP TABLE IF EXISTS _remora.marker";

/// Begins a snapshot without any lock, and says between which positions of the binary log it is: everything
/// up to the first is in it, and nothing behind the second. `other` is another session on the same server.
///
/// MariaDB says where its snapshot is (without a GTID), so both are the same. Elsewhere something is logged
/// first: commits are in the order of the log (`binlog_order_commits`), so whatever is before it is visible.
///
/// # Errors
/// Those of the server; [`Error::Protocol`] if it has no log, or does not keep this order.
pub fn begin_between(session: &mut Session, other: &mut Session) -> Result<(Position, Position), Error> {
    if is_comparable(other, 1)? {
        start(session)?;
        if let Some((file, offset)) = snapshot_status(session)?
            && let Ok(offset) = offset.parse()
        {
            let position = Position { file, offset, gtid: String::new() };
            return Ok((position.clone(), position));
        }
        session.execute("ROLLBACK")?;
    }
    if session.about.flavour == Flavour::MySql
        && other.value("SELECT @@GLOBAL.binlog_order_commits")?.as_deref() == Some("0")
    {
        return Err(Error::Protocol { what: "binlog_order_commits is off".to_owned() });
    }
    let before = end(other)?;
    other.execute(MARK)?;
    start(session)?;
    Ok((before, end(other)?))
}

/// Where the binary log ends.
fn end(session: &mut Session) -> Result<Position, Error> {
    let none = || Error::Protocol { what: "the server has no binary log".to_owned() };
    session.position()?.ok_or_else(none)
}

fn start(session: &mut Session) -> Result<(), Error> {
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    Ok(())
}

/// Locks the tables that no snapshot covers, in a separate session.
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

/// Begins snapshots until all have the same position; `None` when they never do.
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

/// A replica that does not log what it applies changes data without moving its position.
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

/// The same for an account that may not look at replicas: judges from what everybody may see.
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

/// Keeps everybody from committing or, if that is not allowed, from writing to the requested tables.
fn hold(
    session: Session,
    target: &Target,
    request: &SnapshotRequest,
) -> Result<(Hold, SnapshotMethod), Error> {
    let mode = HoldMode::against_commits(&session);
    let method =
        if mode == HoldMode::BackupStage { SnapshotMethod::BackupStage } else { SnapshotMethod::GlobalLock };
    let denied = match insist(session, &mode, request) {
        Err(error @ Error::Privilege { .. }) if !request.tables.is_empty() => error,
        other => return other.map(|hold| (hold, method)),
    };
    match insist(connect(target)?, &HoldMode::Tables(request.tables.clone()), request) {
        Err(Error::Privilege { .. }) => Err(denied),
        other => other.map(|hold| (hold, SnapshotMethod::TableLocks)),
    }
}

/// Takes a lock. After a timeout, reports who blocks it, or kills the blockers and tries once more.
fn insist(session: Session, mode: &HoldMode, request: &SnapshotRequest) -> Result<Hold, Error> {
    let mut session = match Hold::attempt(session, mode, request.lock_wait)? {
        Attempt::Held(hold) => return Ok(hold),
        Attempt::Waited(session) => session,
    };
    let seconds = request.lock_wait.as_secs();
    // Whoever came before us has been running for longer than we have waited, apart from rounding.
    let running = session.blockers(seconds.saturating_sub(1))?;
    if request.kill_long_queries && !running.is_empty() {
        for blocker in &running {
            match session.execute(&format!("KILL {}", blocker.id)) {
                // The statement has ended by itself.
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
