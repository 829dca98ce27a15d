//! Creates databases, tables and programs.

use std::sync::{Mutex, PoisonError};

use server::catalogue::{Kind, Object, Settings};
use server::definition::{counter, plain_indexes};
use server::{Session, TableName, error_code, quote_name};

use super::ledger::{PROGRAMS, mark};
use super::rows::TRIES;
use super::{AGAIN, Load, Origin, connect};
use crate::manifest::TableEntry;
use crate::{Error, parallel};

/// For tables of at least this size plain indexes are built after the rows are loaded; for smaller ones that
/// costs more than it saves.
const DEFER_FROM_BYTES: u64 = 4 << 20;

/// The SQL mode under which tables are created.
const SQL_MODE: &str = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";

/// Something that a view needs is missing: database, table, function, or part of it.
const LACKS: [u16; 4] = [1049, 1146, 1305, 1356];

/// Something of that name exists already: database, table, trigger, routine, event, account, package,
/// sequence.
const EXISTS: [u16; 7] = [1007, 1050, 1359, 1304, 1537, 1396, 4127];

impl Load<'_> {
    /// Creates the objects of some kinds. An object that needs another one is tried again after it: views on
    /// views, triggers that precede others.
    pub(super) fn make(&mut self, session: &mut Session, wanted: fn(Kind) -> bool) -> Result<(), Error> {
        let objects = std::mem::take(&mut self.manifest.objects);
        let mut open: Vec<&Object> = objects.iter().filter(|object| wanted(object.kind)).collect();
        let mut made = Ok(());
        while !open.is_empty() && made.is_ok() {
            let before = open.len();
            let mut first = None;
            let mut again = Vec::new();
            for object in open {
                match self.one(session, object) {
                    Ok(()) => self.summary.objects += 1,
                    Err(error) if error.code().is_some() => {
                        first.get_or_insert((object, error));
                        again.push(object);
                    }
                    Err(error) => made = made.and(Err(Error::Server(error))),
                }
            }
            open = again;
            if open.len() < before {
                continue;
            }
            if let Some((object, source)) = first {
                // A dump of a part of a server may have views that need things outside of it.
                let lacks =
                    object.kind == Kind::View && source.code().is_some_and(|code| LACKS.contains(&code));
                let may_lack = |open: &&Object| open.kind >= Kind::Role || (lacks && open.kind == Kind::View);
                if !open.iter().all(may_lack) {
                    made = made.and(Err(Error::Object { object: object.title(), source: Box::new(source) }));
                } else {
                    self.leave_out(session, &open);
                }
                break;
            }
        }
        if wanted(Kind::Grant) && made.is_ok() {
            made = self.give_roles_back(session, &objects);
        }
        self.manifest.objects = objects;
        made
    }

    /// Lists what this server does not accept: accounts with authentication that it lacks, views without
    /// their tables.
    fn leave_out(&mut self, session: &mut Session, open: &[&Object]) {
        for object in open {
            let why = self.one(session, object).err().map(|error| error.to_string()).unwrap_or_default();
            self.summary.omitted.push(format!("{}: {why}", object.title()));
        }
    }

    fn one(&mut self, session: &mut Session, object: &Object) -> Result<(), server::Error> {
        if object.kind >= Kind::Role {
            return self.account(session, object);
        }
        let is_program = object.kind > Kind::Table;
        let number = mark(&object.title());
        // What a stopped run has made is made again: meanwhile there may be what it lacked.
        let again = self.request.resume && is_program && self.ledger.has(session, PROGRAMS, number)?;
        let collation = enter(session, object)?;
        let mut make = || -> Result<bool, server::Error> {
            if again {
                // For packages this is a statement only in their own mode.
                session.execute(&drop_statement(object))?;
            }
            object.statements.iter().try_fold(true, |all, statement| match session.execute(statement) {
                Err(error)
                    if self.request.resume && error.code().is_some_and(|code| EXISTS.contains(&code)) =>
                {
                    Ok(false)
                }
                other => other.map(|_| all),
            })
        };
        let made = make();
        let left = leave(session, object, collation.as_deref());
        let made = made?;
        left?;
        // If a run is killed before this, the next one takes the program as it is.
        if made && is_program && !self.ledger.has(session, PROGRAMS, number)? {
            self.ledger.add(session, PROGRAMS, number)?;
        }
        Ok(())
    }

    /// Creates the tables, without the indexes that are built later.
    pub(super) fn make_tables(&self) -> Result<(), Error> {
        let entries: Vec<&TableEntry> = self.manifest.tables.iter().collect();
        let connect = || connect(self.target, self.request);
        parallel::each(&entries, self.request.sessions, &connect, &|session, _, entry| {
            if self.context.is_stopped() {
                return Err(Error::Stopped(AGAIN));
            }
            if self.kept.contains(&entry.place) { Ok(()) } else { self.make_table(session, entry) }
        })
    }

    fn make_table(&self, session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
        let name = &entry.table.name;
        let in_table = |source| Error::Object { object: format!("table {name}"), source: Box::new(source) };
        session.execute(&format!("USE {}", quote_name(&name.schema))).map_err(in_table)?;
        if matches!(self.origin, Origin::Server(_)) {
            self.ledger.mark_table(session, entry)?;
        }
        match retried(session, &entry.table.definition) {
            Err(error) if self.request.resume && error.code() == Some(1050) => return Ok(()),
            other => other.map_err(in_table)?,
        };
        let worthwhile = self.request.data && may_be_deferred(entry, !self.origin.is_whole());
        if worthwhile && entry.table.is_transactional() { defer(session, entry) } else { Ok(()) }
    }

    /// Builds the indexes that tables lack, for several tables at a time.
    pub(super) fn build_indexes(&self) -> Result<(), Error> {
        self.context.progress.phase("building indexes", None);
        let mut entries: Vec<&TableEntry> = self.manifest.tables.iter().collect();
        entries.retain(|entry| {
            let left_out = may_be_deferred(entry, false) || may_be_deferred(entry, true);
            left_out && !plain_indexes(&entry.table.definition).is_empty()
        });
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.sum.rows));
        let connect = || connect(self.target, self.request);
        parallel::each(&entries, self.request.sessions, &connect, &|session, _, entry| {
            if self.context.is_stopped() {
                return Err(Error::Stopped(AGAIN));
            }
            build(session, entry)
        })
    }

    /// Restores the AUTO_INCREMENT counters that loading has moved: MyISAM sets the counter after the largest
    /// value.
    pub(super) fn set_counters(&self, session: &mut Session) -> Result<(), Error> {
        let mut moved = self.manifest.tables.iter().filter(|entry| !entry.table.is_transactional());
        moved.try_for_each(|entry| set_counter(session, entry))
    }
}

/// The statement that drops a view or program, if it is there.
pub(crate) fn drop_statement(object: &Object) -> String {
    let name = TableName { schema: object.schema.clone(), table: object.name.clone() };
    format!("DROP {} IF EXISTS {name}", object.kind.word().to_ascii_uppercase())
}

/// Statements that are tried again come one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a statement that makes or alters a table. MySQL 8 and later lock the tables at the other ends of its
/// foreign keys too, so sessions that make tables of one family may deadlock; then nothing was changed. Those
/// that gave way no longer meet each other, so each succeeds in the end.
fn retried(session: &mut Session, sql: &str) -> Result<(), server::Error> {
    let is_deadlock = |error: &server::Error| error.code() == Some(error_code::DEADLOCK);
    match session.execute(sql) {
        Err(error) if is_deadlock(&error) => {}
        done => return done.map(drop),
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tries = 1;
    loop {
        match session.execute(sql) {
            Err(error) if is_deadlock(&error) && tries < TRIES => tries += 1,
            done => return done.map(drop),
        }
    }
}

/// Sets the AUTO_INCREMENT counter of a table to what it was.
pub(super) fn set_counter(session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
    let name = &entry.table.name;
    let Some(counter) = counter(&entry.table.definition) else { return Ok(()) };
    let set = session.execute(&format!("ALTER TABLE {name} AUTO_INCREMENT = {counter}"));
    let in_table = |source| Error::Object { object: format!("table {name}"), source: Box::new(source) };
    set.map(drop).map_err(in_table)
}

/// Drops the indexes of a table that are built when its rows are in.
pub(super) fn defer(session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
    let indexes = plain_indexes(&entry.table.definition);
    if indexes.is_empty() {
        return Ok(());
    }
    let name = &entry.table.name;
    let drops: Vec<_> = indexes.iter().map(|index| format!("DROP KEY {}", index.name)).collect();
    // A foreign key of another table may need one of the indexes; then they stay.
    match retried(session, &format!("ALTER TABLE {name} {}", drops.join(", "))) {
        Err(source) if source.code().is_none() => {
            Err(Error::Object { object: format!("table {name}"), source: Box::new(source) })
        }
        _ => Ok(()),
    }
}

/// Builds the indexes that a table lacks.
pub(super) fn build(session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
    let name = &entry.table.name;
    let in_table = |source| Error::Object { object: format!("table {name}"), source: Box::new(source) };
    let now = session.definition(name).map_err(in_table)?;
    let there: Vec<_> = plain_indexes(&now).iter().map(|index| index.name.to_owned()).collect();
    let adds: Vec<_> = plain_indexes(&entry.table.definition)
        .into_iter()
        .filter(|index| !there.iter().any(|known| known == index.name))
        .map(|index| format!("ADD {}", index.clause))
        .collect();
    if !adds.is_empty() {
        retried(session, &format!("ALTER TABLE {name} {}", adds.join(", "))).map_err(in_table)?;
    }
    Ok(())
}

/// Whether a table is large enough for its plain indexes to be built after its rows are loaded. A table that
/// is still being dumped has no chunks yet, and is judged by the estimate of the source server.
fn may_be_deferred(entry: &TableEntry, followed: bool) -> bool {
    if followed {
        return entry.table.bytes >= DEFER_FROM_BYTES;
    }
    entry.text_bytes() >= DEFER_FROM_BYTES
}

/// Sets the session as an object needs it. Returns the collation that its database must get back.
pub(crate) fn enter(session: &mut Session, object: &Object) -> Result<Option<String>, server::Error> {
    if !matches!(object.kind, Kind::Database | Kind::Role) {
        session.execute(&format!("USE {}", quote_name(&object.schema)))?;
    }
    let Settings { sql_mode, character_set, collation, database_collation, time_zone } = &object.settings;
    let mut set = Vec::new();
    if let Some(mode) = sql_mode {
        set.push(format!("sql_mode = {}", session.quote(mode)));
    }
    if let Some(zone) = time_zone {
        set.push(format!("time_zone = {}", session.quote(zone)));
    }
    if let Some(set_name) = character_set {
        set.push(format!("character_set_client = {set_name}"));
    }
    if let Some(collation) = collation {
        set.push(format!("collation_connection = {collation}"));
    }
    let old = match database_collation {
        Some(wanted) => alter_database(session, &object.schema, wanted)?,
        None => None,
    };
    if !set.is_empty() {
        session.execute(&format!("SET SESSION {}", set.join(", ")))?;
    }
    Ok(old)
}

/// Restores the settings.
pub(crate) fn leave(
    session: &mut Session,
    object: &Object,
    database_collation: Option<&str>,
) -> Result<(), server::Error> {
    if let Some(collation) = database_collation {
        alter_database(session, &object.schema, collation)?;
    }
    if object.settings == Settings::default() {
        return Ok(());
    }
    session.execute("SET NAMES utf8mb4, character_set_results = NULL")?;
    session.execute(&format!("SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'"))?;
    Ok(())
}

/// A program records its database's collation. If that was another one when the program was created, the
/// database gets it for a moment.
fn alter_database(
    session: &mut Session,
    schema: &str,
    wanted: &str,
) -> Result<Option<String>, server::Error> {
    let now = session.value("SELECT @@collation_database")?.unwrap_or_default();
    if now == wanted {
        return Ok(None);
    }
    session.execute(&format!("ALTER DATABASE {} COLLATE {wanted}", quote_name(schema)))?;
    Ok(Some(now))
}
