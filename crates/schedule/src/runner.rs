//! Delivering ticks: the table is read, and what has come is put into its queues.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::Error;
use crate::message::{Target, quoted, time};
use crate::spec::{Missed, Schedule};

/// The table of schedules.
pub const TABLE: &str = "mysql.queue_schedule";

/// How long at most until the table is read again. A new schedule takes effect within that time.
const POLL: Duration = Duration::from_secs(1);

/// How many different texts are remembered, so that each is told once.
const SAID_MAX: usize = 1000;

/// Errors of the server that end when another connection is done: a lock, a deadlock, a server that is
/// read-only.
const PASSING: [u32; 4] = [1205, 1213, 1290, 1317];

/// The server has no such table, or no such database.
const NO_TABLE: [u32; 2] = [1146, 1049];

/// The columns of [`TABLE`] that a tick depends on.
const COLUMNS: &str = "name, spec, zone, target, body, missed, grace, since, \
                       GREATEST(since, COALESCE(last_tick, since)), overlap, COALESCE(last_row, '')";

/// What is shown of a schedule whose last tick was left out.
const LEFT_OUT: &str = "the last tick was left out, because the message before it waits or somebody has it";

/// A connection to the server that the engine runs in.
pub trait Session {
    /// Runs a statement and returns its rows, values as text.
    ///
    /// # Errors
    /// What the server says.
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failed>;

    /// The first row that the last COMMIT put into a queue, as [`Session::has_row`] takes it; says so once.
    fn committed_row(&mut self) -> Option<String>;

    /// Whether that row still waits in the queue, or somebody has it.
    ///
    /// # Errors
    /// When the queue can't be read.
    fn has_row(&mut self, target: &Target, row: &str) -> Result<bool, Failed>;
}

/// A statement failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    /// The server's number of the error.
    pub code: u32,
    /// Its text.
    pub text: String,
}

/// What a pass has done.
#[derive(Debug, PartialEq, Eq)]
pub struct Pass {
    /// When the next pass is due.
    pub sleep: Duration,
    /// What an administrator should know, for the error log. The same is said once.
    pub told: Vec<String>,
    /// How many messages were put into queues.
    pub delivered: usize,
}

/// Delivers ticks, pass by pass.
#[derive(Debug, Default)]
pub struct Runner {
    /// The next tick of each schedule, so that an expression is evaluated when it comes and not at each pass.
    known: BTreeMap<String, Known>,
    /// The message of the last tick of each schedule that is to leave ticks out. The table has it too, but it
    /// can't be written there in the same transaction.
    rows: BTreeMap<String, TickRow>,
    said: BTreeSet<String>,
}

/// The row that a tick became.
#[derive(Debug, Clone)]
struct TickRow {
    tick: Timestamp,
    row: String,
}

#[derive(Debug)]
struct Known {
    row: Row,
    next: Result<Timestamp, Error>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    name: String,
    spec: String,
    zone: String,
    target: String,
    body: String,
    missed: String,
    grace_s: u32,
    since: String,
    /// The tick that was delivered last, or `since` if that is later.
    after: Timestamp,
    overlap: String,
    /// The message of the last tick that is known; empty if there is none.
    last_row: String,
}

/// Why a tick was not delivered.
enum Undelivered {
    /// The schedule is wrong; what the server says of its message is told in the same way.
    Wrong(String),
    /// The server could not; the next pass tries again.
    Server(Failed),
}

impl From<Failed> for Undelivered {
    fn from(error: Failed) -> Undelivered {
        Undelivered::Server(error)
    }
}

impl From<Error> for Undelivered {
    fn from(error: Error) -> Undelivered {
        Undelivered::Wrong(error.to_string())
    }
}

impl Runner {
    /// Reads the table and delivers what has come until `now`.
    pub fn pass(&mut self, session: &mut dyn Session, now: Timestamp) -> Pass {
        let mut pass = Pass { sleep: POLL, told: Vec::new(), delivered: 0 };
        match self.deliver(session, now, &mut pass) {
            Ok(()) => {}
            // Without the table nobody uses schedules on this server.
            Err(error) if NO_TABLE.contains(&error.code) || PASSING.contains(&error.code) => {}
            Err(error) => self.tell(&mut pass, format!("{TABLE} can't be read: {error}")),
        }
        pass
    }

    fn tell(&mut self, pass: &mut Pass, text: String) {
        // Errors may name values, and so be another one each time.
        if self.said.len() >= SAID_MAX {
            self.said.clear();
        }
        if self.said.insert(text.clone()) {
            pass.told.push(text);
        }
    }

    fn deliver(&mut self, session: &mut dyn Session, now: Timestamp, pass: &mut Pass) -> Result<(), Failed> {
        // Autocommit, so that the rows below are those of now.
        session.query(
            "SET NAMES utf8mb4, sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00', sql_log_bin = 1, \
             autocommit = 1, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
        )?;
        let rows =
            session.query(&format!("SELECT {COLUMNS}, next_tick, error FROM {TABLE} WHERE enabled"))?;
        let (mut known, mut is_able) = (BTreeMap::new(), false);
        for mut values in rows {
            let (error, next) = (values.pop().flatten(), values.pop().flatten());
            let Some(row) = Row::read(values) else { continue };
            let mut shown = Shown { next, error };
            let entry = self.known.remove(&row.name).filter(|known| known.row == row);
            let entry = match entry {
                Some(entry) if entry.is_idle(now) => entry,
                entry => {
                    // Asked when there is something to do only: most passes find nothing.
                    is_able = is_able || self.may_write(session, pass)?;
                    if !is_able {
                        continue;
                    }
                    let entry = entry.map_or_else(|| Known::new(row, session, &mut shown), Ok)?;
                    match entry.attempt(session, now, (&mut shown, &mut self.rows))? {
                        Ok(delivered) => pass.delivered += delivered,
                        Err(why) => self.tell(pass, format!("schedule '{}': {why}", entry.row.name)),
                    }
                    entry
                }
            };
            if let Ok(next) = entry.next {
                let until = Duration::try_from(next.duration_since(now)).unwrap_or_default();
                // One that was tried a moment ago is tried again at the next pass, and not at once.
                pass.sleep = if until.is_zero() { pass.sleep } else { pass.sleep.min(until) };
            }
            known.insert(entry.row.name.clone(), entry);
        }
        self.rows.retain(|name, _| known.contains_key(name));
        self.known = known;
        Ok(())
    }

    /// Whether ticks are for this server to deliver.
    fn may_write(&mut self, session: &mut dyn Session, pass: &mut Pass) -> Result<bool, Failed> {
        if setting(session, "read_only")? != "0" {
            return Ok(false);
        }
        // A cluster's nodes would each deliver, and the internal connection writes on its own node only.
        if setting(session, "wsrep_on").is_ok_and(|value| value != "0") {
            self.tell(pass, "schedules are not run on a node of a Galera cluster".to_owned());
            return Ok(false);
        }
        Ok(true)
    }
}

fn setting(session: &mut dyn Session, name: &str) -> Result<String, Failed> {
    let rows = session.query(&format!("SELECT @@GLOBAL.{name}"))?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
}

/// The first tick of a row.
fn first(row: &Row) -> Result<Timestamp, Error> {
    Target::parse(&row.target)?;
    let schedule = Schedule::parse(&row.spec, &row.zone)?;
    schedule.next(row.after).ok_or_else(|| Error::Never(row.spec.clone()))
}

/// What the table shows of a schedule besides what decides.
struct Shown {
    next: Option<String>,
    error: Option<String>,
}

impl Shown {
    /// Shows why a schedule can't be delivered.
    fn set_error(&mut self, session: &mut dyn Session, name: &str, why: &str) -> Result<(), Failed> {
        let why: String = why.chars().take(1000).collect();
        if self.error.as_ref() == Some(&why) {
            return Ok(());
        }
        let sql = format!("UPDATE {TABLE} SET error = {} WHERE name = {}", quoted(&why), quoted(name));
        self.error = Some(why);
        show(session, &sql)
    }

    fn set_next(
        &mut self,
        session: &mut dyn Session,
        name: &str,
        next: Option<String>,
    ) -> Result<(), Failed> {
        if self.next == next {
            return Ok(());
        }
        let value = next.as_deref().map_or_else(|| "NULL".to_owned(), quoted);
        self.next = next;
        let sql = format!("UPDATE {TABLE} SET next_tick = {value} WHERE name = {}", quoted(name));
        show(session, &sql)
    }
}

/// Writes what is only shown. Whoever has locked one schedule does not keep the others from being delivered.
fn show(session: &mut dyn Session, sql: &str) -> Result<(), Failed> {
    match session.query(sql) {
        Err(error) if !PASSING.contains(&error.code) => Err(error),
        _ => Ok(()),
    }
}

impl Row {
    /// Whether a tick is left out while the message of the one before is there.
    fn skips(&self) -> bool {
        self.overlap == "skip"
    }

    /// None if a value is NULL, or a time that is none.
    fn read(values: Vec<Option<String>>) -> Option<Row> {
        let mut values = values.into_iter();
        let mut next = || values.next().flatten();
        Some(Row {
            name: next()?,
            spec: next()?,
            zone: next()?,
            target: next()?,
            body: next()?,
            missed: next()?,
            grace_s: next()?.parse().ok()?,
            since: next()?,
            after: next()?.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(),
            overlap: next()?,
            last_row: next()?,
        })
    }
}

impl Known {
    /// Whether there is nothing to do: its time has not come, or it is wrong and that is shown.
    fn is_idle(&self, now: Timestamp) -> bool {
        self.next.as_ref().map_or(true, |next| *next > now)
    }

    /// A row that was not known so. What is wrong with its queue is shown before its first tick.
    fn new(row: Row, session: &mut dyn Session, shown: &mut Shown) -> Result<Known, Failed> {
        let next = first(&row);
        shown.set_next(session, &row.name, next.as_ref().ok().map(|next| time(*next)))?;
        if let (Ok(_), Ok(target)) = (&next, Target::parse(&row.target)) {
            match check_target(session, &target, &row.target) {
                Ok(()) => {}
                Err(Undelivered::Wrong(why)) => shown.set_error(session, &row.name, &why)?,
                Err(Undelivered::Server(error)) => return Err(error),
            }
        }
        Ok(Known { row, next })
    }

    /// Delivers what has come: how many messages that were, or why not, which is shown.
    fn attempt(
        &self,
        session: &mut dyn Session,
        now: Timestamp,
        (shown, rows): (&mut Shown, &mut BTreeMap<String, TickRow>),
    ) -> Result<Result<usize, String>, Failed> {
        let why = match self.take(session, now, rows) {
            Ok(delivered) => return Ok(Ok(delivered)),
            Err(Undelivered::Wrong(why)) => why,
            Err(Undelivered::Server(error)) if PASSING.contains(&error.code) => return Ok(Ok(0)),
            Err(Undelivered::Server(error)) => error.to_string(),
        };
        shown.set_error(session, &self.row.name, &why)?;
        Ok(Err(why))
    }

    /// Delivers what has come, in one transaction. How many messages that were.
    fn take(
        &self,
        session: &mut dyn Session,
        now: Timestamp,
        rows: &mut BTreeMap<String, TickRow>,
    ) -> Result<usize, Undelivered> {
        if *self.next.as_ref().map_err(Error::clone)? > now {
            return Ok(0);
        }
        let row = &self.row;
        let missed = Missed::named(&row.missed).unwrap_or(Missed::Once);
        let schedule = Schedule::parse(&row.spec, &row.zone)?;
        let grace = SignedDuration::from_secs(i64::from(row.grace_s));
        let Some(mut due) = schedule.due(row.after, now, missed, grace) else { return Ok(0) };
        let target = Target::parse(&row.target)?;
        check_target(session, &target, &row.target)?;
        let is_left_out = row.skips() && !due.ticks.is_empty() && self.is_there(session, &target, rows)?;
        if row.skips() {
            // Of several, the message of the first waits when the others come.
            due.ticks.truncate(usize::from(!is_left_out));
        }
        let insert = if due.ticks.is_empty() { None } else { Some(target.insert(&row.body, &due.ticks)?) };
        let next = schedule.next(due.last).map_or_else(|| "NULL".to_owned(), |next| quoted(&time(next)));
        let error = if is_left_out { quoted(LEFT_OUT) } else { "NULL".to_owned() };
        let update = format!(
            "UPDATE {TABLE} SET last_tick = {}, next_tick = {next}, error = {error} WHERE name = {}",
            quoted(&time(due.last)),
            quoted(&row.name)
        );
        let delivers = insert.is_some();
        let result = self.commit(session, insert, &update);
        if result.is_err() {
            session.query("ROLLBACK")?;
        }
        let committed = session.committed_row();
        if !result? {
            return Ok(0);
        }
        if row.skips() {
            self.note_row(session, due.last, (committed.filter(|_| delivers), delivers), rows)?;
        }
        Ok(due.ticks.len())
    }

    /// Whether the message of the tick before waits or somebody has it.
    fn is_there(
        &self,
        session: &mut dyn Session,
        target: &Target,
        rows: &BTreeMap<String, TickRow>,
    ) -> Result<bool, Failed> {
        let noted = rows.get(&self.row.name).filter(|noted| noted.tick == self.row.after);
        let row = noted.map_or(&self.row.last_row, |noted| &noted.row);
        if row.is_empty() { Ok(false) } else { session.has_row(target, row) }
    }

    /// Notes the message of a tick that was delivered. If the server dies before it is in the table, the next
    /// tick does not know it.
    fn note_row(
        &self,
        session: &mut dyn Session,
        tick: Timestamp,
        (row, is_new): (Option<String>, bool),
        rows: &mut BTreeMap<String, TickRow>,
    ) -> Result<(), Failed> {
        let name = &self.row.name;
        if !is_new {
            // That of the tick before is still the one that counts.
            rows.get_mut(name).into_iter().for_each(|noted| noted.tick = tick);
            return Ok(());
        }
        let Some(row) = row else {
            rows.remove(name);
            return Ok(());
        };
        let sql = format!(
            "UPDATE {TABLE} SET last_row = {} WHERE name = {} AND last_tick = {}",
            quoted(&row),
            quoted(name),
            quoted(&time(tick))
        );
        rows.insert(name.clone(), TickRow { tick, row });
        show(session, &sql)
    }

    /// Writes the messages and the time of the tick together; false if somebody changed the schedule
    /// meanwhile.
    fn commit(
        &self,
        session: &mut dyn Session,
        insert: Option<String>,
        update: &str,
    ) -> Result<bool, Undelivered> {
        let name = quoted(&self.row.name);
        session.query("START TRANSACTION")?;
        let now = session
            .query(&format!("SELECT {COLUMNS} FROM {TABLE} WHERE enabled AND name = {name} FOR UPDATE"))?;
        if now.into_iter().next().and_then(Row::read).as_ref() != Some(&self.row) {
            // Somebody changed it meanwhile; the next pass reads it.
            session.query("ROLLBACK")?;
            return Ok(false);
        }
        if let Some(insert) = insert {
            session.query(&insert)?;
        }
        session.query(update)?;
        // A server that was made read-only meanwhile is about to hand over to another one.
        if setting(session, "read_only")? != "0" {
            session.query("ROLLBACK")?;
            return Ok(false);
        }
        session.query("COMMIT")?;
        Ok(true)
    }
}

/// Only a queue that takes part in transactions gets the message and the time of the tick in one of them.
fn check_target(session: &mut dyn Session, target: &Target, named: &str) -> Result<(), Undelivered> {
    let (database, table) = (quoted(&target.database), quoted(&target.table));
    let rows = session.query(&format!(
        "SELECT engine, create_options FROM information_schema.tables \
         WHERE table_schema = {database} AND table_name = {table}"
    ))?;
    let Some(row) = rows.first() else {
        return Err(Undelivered::Wrong(format!("there is no table {named}")));
    };
    let word = |at: usize| row.get(at).cloned().flatten().unwrap_or_default().to_ascii_uppercase();
    let options = word(1).replace(['`', '\'', ' '], "");
    if word(0) != "QUEUE" {
        return Err(Undelivered::Wrong(format!("{named} is not a queue; its engine is {}", word(0))));
    }
    if !options.contains("TRANSACTIONAL=1") && !options.contains("TRANSACTIONAL=YES") {
        let why = format!("{named} takes no part in transactions; ALTER TABLE {named} TRANSACTIONAL=1");
        return Err(Undelivered::Wrong(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
