//! One state of the data, seen by several sessions.
//!
//! Where the server tells each session the position in the binary log that its snapshot stands at (MariaDB's
//! `Binlog_snapshot_file` and `_position`), snapshots are begun until all of them stand at the same one: no lock and no
//! privilege are needed. Elsewhere commits are held off for the moment it takes to begin them.

use std::time::{Duration, Instant};

use crate::{Error, Flavour, Session, TableName, Target, Version};

/// How often snapshots are begun anew until they agree. On a server with a thousand commits a second one of a few tries
/// succeeds.
const TRIES: u32 = 200;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// Sessions that are to see the same state.
    pub sessions: usize,
    /// How long to wait for a lock.
    pub lock_wait: Duration,
    /// End queries that hold a lock up for longer than that.
    pub kill_long_queries: bool,
    /// Tables that no snapshot covers: they are locked against writing until the session
    /// of [`Snapshot::take_locks`] is dropped.
    pub unversioned: Vec<TableName>,
    /// All tables, which are locked for a moment where nothing else is allowed.
    pub tables: Vec<TableName>,
}

/// A place in the binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// File of the binary log.
    pub file: String,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// The same as a GTID (MariaDB) or a set of them (MySQL); empty where the server has none.
    pub gtid: String,
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
    locks: Option<Session>,
}

impl Snapshot {
    /// Begins snapshots.
    ///
    /// # Errors
    /// [`Error::LockWait`] names the query that stands in the way; [`Error::Privilege`] when no way is allowed to this
    /// account.
    pub fn begin(target: &Target, request: &SnapshotRequest) -> Result<Snapshot, Error> {
        let connect = || connect(target);
        let mut sessions = (0..request.sessions).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
        sessions.iter_mut().try_for_each(|session| wait_at_most(session, request.lock_wait))?;
        let mut locker = connect()?;
        wait_at_most(&mut locker, request.lock_wait)?;
        if is_comparable(&mut locker, sessions.len())? {
            let locks = lock_unversioned(target, &mut locker, request)?;
            if let Some(position) = agreed(&mut sessions, &mut locker)? {
                let position = Some(position);
                return Ok(Snapshot { sessions, position, way: Way::Compared, held: Duration::ZERO, locks });
            }
            // What follows would wait for these locks.
            drop(locks);
        }
        let mut helper = connect()?;
        let (way, undo) = hold(&mut locker, target, request)?;
        let began = Instant::now();
        let started = lock_unversioned(target, &mut helper, request).and_then(|locks| {
            sessions.iter_mut().try_for_each(start)?;
            Ok((locks, position(&mut locker)?))
        });
        let undone = locker.execute(undo);
        let held = began.elapsed();
        let (locks, position) = started?;
        undone?;
        Ok(Snapshot { sessions, position, way, held, locks })
    }

    /// The session that locks the tables that no snapshot covers: they are let go of when it is dropped.
    pub fn take_locks(&mut self) -> Option<Session> {
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
        "sql_select_limit = DEFAULT",
        // Also to look at a table takes a lock, which somebody's DDL may hold for ever.
        "lock_wait_timeout = 60",
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

fn start(session: &mut Session) -> Result<(), Error> {
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    Ok(())
}

fn wait_at_most(session: &mut Session, wait: Duration) -> Result<(), Error> {
    session.execute(&format!("SET SESSION lock_wait_timeout = {}", wait.as_secs().max(1)))?;
    Ok(())
}

/// Locks the tables that no snapshot covers, in a session of its own.
fn lock_unversioned(
    target: &Target,
    helper: &mut Session,
    request: &SnapshotRequest,
) -> Result<Option<Session>, Error> {
    if request.unversioned.is_empty() {
        return Ok(None);
    }
    let mut session = connect(target)?;
    wait_at_most(&mut session, request.lock_wait)?;
    lock_tables(&mut session, helper, &request.unversioned, request)?;
    Ok(Some(session))
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
            return full_position(locker, file, &offset).map(Some);
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
        // Not allowed to see it: then it may be one.
        Err(error) if error.code().is_some() => Ok(true),
        Err(error) => Err(error),
    }
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

fn full_position(session: &mut Session, file: String, offset: &str) -> Result<Position, Error> {
    let quoted = session.quote(&file);
    let gtid = session.value(&format!("SELECT BINLOG_GTID_POS({quoted}, {offset})"))?.unwrap_or_default();
    Ok(Position { file, offset: offset.parse().unwrap_or(0), gtid })
}

/// The position while nothing is committed.
fn position(session: &mut Session) -> Result<Option<Position>, Error> {
    let rows = match session.strings("SHOW MASTER STATUS") {
        Ok(rows) => rows,
        // MySQL 8.4 has another word; an account may lack the privilege.
        Err(error) if error.code() == Some(1064) => session.strings("SHOW BINARY LOG STATUS")?,
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let (file, offset) = (cell(0), cell(1));
    if session.about.flavour == Flavour::MariaDb {
        return full_position(session, file, &offset).map(Some);
    }
    Ok(Some(Position { file, offset: offset.parse().unwrap_or(0), gtid: cell(4).replace('\n', "") }))
}

/// Holds commits off; returns how, and the statement that lets them go on.
fn hold(
    locker: &mut Session,
    target: &Target,
    request: &SnapshotRequest,
) -> Result<(Way, &'static str), Error> {
    let about = &locker.about;
    let stages =
        about.flavour == Flavour::MariaDb && about.version >= Version { major: 10, minor: 4, patch: 1 };
    let denied = if stages {
        let held = guarded(locker, target, request, "BACKUP STAGE START")
            .and_then(|()| guarded(locker, target, request, "BACKUP STAGE BLOCK_COMMIT"));
        match held {
            Ok(()) => return Ok((Way::BackupStage, "BACKUP STAGE END")),
            Err(error @ Error::Privilege { .. }) => error,
            Err(error) => return Err(error),
        }
    } else {
        match guarded(locker, target, request, "FLUSH TABLES WITH READ LOCK") {
            Ok(()) => return Ok((Way::GlobalLock, "UNLOCK TABLES")),
            Err(error @ Error::Privilege { .. }) => error,
            Err(error) => return Err(error),
        }
    };
    if request.tables.is_empty() {
        return Err(denied);
    }
    let mut helper = connect(target)?;
    match lock_tables(locker, &mut helper, &request.tables, request) {
        Ok(()) => Ok((Way::TableLocks, "UNLOCK TABLES")),
        Err(Error::Privilege { .. }) => Err(denied),
        Err(error) => Err(error),
    }
}

fn guarded(locker: &mut Session, target: &Target, request: &SnapshotRequest, sql: &str) -> Result<(), Error> {
    attempt(locker, request, sql, &|| connect(target))
}

fn lock_tables(
    session: &mut Session,
    helper: &mut Session,
    tables: &[TableName],
    request: &SnapshotRequest,
) -> Result<(), Error> {
    let list: Vec<_> = tables.iter().map(|table| format!("{table} READ")).collect();
    let sql = format!("LOCK TABLES {}", list.join(", "));
    match session.execute(&sql) {
        Err(error) if error.code() == Some(1205) => {
            let blocker = blocker(helper, session.connection_id())?;
            end(helper, request, blocker.as_ref(), &sql)?;
            session.execute(&sql).map(drop)
        }
        other => other.map(drop),
    }
}

/// Runs a statement that waits for others; when that takes too long, says who, or ends them and tries once more.
fn attempt(
    locker: &mut Session,
    request: &SnapshotRequest,
    sql: &str,
    helper: &dyn Fn() -> Result<Session, Error>,
) -> Result<(), Error> {
    match locker.execute(sql) {
        Err(error) if error.code() == Some(1205) => {
            let mut helper = helper()?;
            let blocker = blocker(&mut helper, locker.connection_id())?;
            end(&mut helper, request, blocker.as_ref(), sql)?;
            locker.execute(sql).map(drop)
        }
        other => other.map(drop),
    }
}

/// A query that has been running for a while.
struct Blocker {
    id: String,
    words: String,
}

/// The query that has run for longest, but for those that wait themselves.
fn blocker(session: &mut Session, own: u32) -> Result<Option<Blocker>, Error> {
    let rows = session.strings(&format!(
        "SELECT ID, USER, TIME, COALESCE(INFO, CONCAT('(idle in a transaction, command ', COMMAND, ')')) \
         FROM information_schema.PROCESSLIST WHERE ID NOT IN ({own}, CONNECTION_ID()) \
         AND USER NOT IN ('system user', 'event_scheduler') AND COMMAND NOT IN ('Binlog Dump', 'Daemon') \
         AND (STATE IS NULL OR STATE NOT LIKE 'Waiting for%') \
         ORDER BY COMMAND = 'Sleep', TIME DESC LIMIT 1"
    ))?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let query: String = cell(3).chars().take(200).collect();
    let words = format!("connection {} of {}, for {} s: {query}", cell(0), cell(1), cell(2));
    Ok(Some(Blocker { id: cell(0), words }))
}

/// Ends the query in the way, or says which it is.
fn end(
    session: &mut Session,
    request: &SnapshotRequest,
    blocker: Option<&Blocker>,
    sql: &str,
) -> Result<(), Error> {
    let lock: String = sql.chars().take(60).collect();
    match blocker {
        Some(blocker) if request.kill_long_queries => {
            match session.execute(&format!("KILL {}", blocker.id)) {
                // It has ended by itself.
                Err(error) if error.code() == Some(1094) => Ok(()),
                other => other.map(drop),
            }
        }
        blocker => Err(Error::LockWait {
            lock,
            seconds: request.lock_wait.as_secs(),
            blocker: blocker
                .map_or_else(|| "nobody that can be seen".to_owned(), |found| found.words.clone()),
        }),
    }
}
