//! Keeps everybody from writing to the source: first by a lock that ends with its connection, whatever
//! happens to us, then for good.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use server::{Attempt, Flavour, Hold, HoldMode, Position, Session, Target, snapshot};

use crate::Error;

/// States of connections that wait for the lock, and would write when it is released.
const WAITING: &str = "'Waiting for global read lock', 'Waiting for commit lock', 'Waiting for backup lock'";
/// Connections that have written and not committed.
const OPEN: &str =
    "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0";
/// How long a connection that is killed may take to roll back.
const KILL_WAIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
/// InnoDB tells the same transactions again until nobody has asked for a tenth of a second.
const CACHED: Duration = Duration::from_millis(150);
/// A variable that was set so can't be set to anything else.
const DISABLED: &str = "DISABLED";
/// A server does not know such a variable.
const UNKNOWN_VARIABLE: u16 = 1193;
/// A connection is not there any more.
const NO_SUCH_CONNECTION: u16 = 1094;

/// The variables that keep a server from being written.
fn variables(session: &mut Session) -> Result<Vec<(String, String)>, Error> {
    let names: &[&str] = match session.about.flavour {
        Flavour::MariaDb => &["read_only", "event_scheduler"],
        Flavour::MySql => &["read_only", "super_read_only", "event_scheduler"],
    };
    let mut known = Vec::new();
    for name in names {
        match session.value(&format!("SELECT @@GLOBAL.{name}")) {
            Ok(Some(value)) => known.push(((*name).to_owned(), value)),
            Ok(None) => {}
            // MySQL 5.6 has no super_read_only.
            Err(error) if error.code() == Some(UNKNOWN_VARIABLE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(known)
}

/// Sets these variables.
pub(crate) fn set(session: &mut Session, variables: &[(String, String)]) -> Result<(), server::Error> {
    let mut can_be_set = variables.iter().filter(|(_, value)| value != DISABLED);
    can_be_set
        .try_for_each(|(name, value)| session.execute(&format!("SET GLOBAL {name} = {value}")).map(drop))
}

/// The variables that keep a server from being written, as they are. That they may be set is tried, and that
/// open transactions may be seen.
pub(crate) fn prepare(from: &Target) -> Result<Vec<(String, String)>, Error> {
    let mut session = from.connect()?;
    let variables = variables(&mut session)?;
    set(&mut session, &variables)?;
    session.strings(OPEN)?;
    Ok(variables)
}

/// Lets accounts with privileges write, although the server is read-only.
pub(crate) fn admit_privileged(session: &mut Session) -> Result<(), server::Error> {
    match session.execute("SET GLOBAL super_read_only = OFF") {
        // Only MySQL has it, from 5.7 on.
        Err(error) if error.code() == Some(UNKNOWN_VARIABLE) => Ok(()),
        other => other.map(drop),
    }
}

/// A source that is about to be closed: nobody can write to it.
pub(crate) struct SourceLock {
    hold: Hold,
    /// The variables as they were.
    pub(crate) variables: Vec<(String, String)>,
    /// Where its log ends.
    pub(crate) end: Position,
    /// Since when nobody writes.
    pub(crate) since: Instant,
}

impl SourceLock {
    /// Locks the source, or says who is in the way.
    pub(crate) fn take(
        from: &Target,
        variables: Vec<(String, String)>,
        within: Duration,
    ) -> Result<SourceLock, Error> {
        let session = snapshot::connect(from)?;
        let since = Instant::now();
        let mut hold = match Hold::attempt(session, &HoldMode::Global, within)? {
            Attempt::Held(hold) => hold,
            Attempt::Waited(mut session) => {
                let obstacle = session.obstacle(&HoldMode::Global)?;
                let seconds = within.as_secs();
                return Err(Error::NotCutOver(format!(
                    "the source could not be locked within {seconds} s: {obstacle}"
                )));
            }
        };
        // If the connection to us is cut, the server ends this session, and with it the lock.
        let idle_s = within.as_secs().saturating_mul(2).max(2);
        hold.session().execute(&format!("SET SESSION wait_timeout = {idle_s}"))?;
        let none = || Error::NotCutOver("the source has no binary log any more".to_owned());
        let end = hold.position()?.ok_or_else(none)?;
        Ok(SourceLock { hold, variables, end, since })
    }

    /// The session that holds the lock. What it reads is the last state.
    pub(crate) fn session(&mut self) -> &mut Session {
        self.hold.session()
    }

    /// Closes the source beyond the lock. That fails if the lock was lost: both have one session.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let closed = |name: &str| if name == "event_scheduler" { "OFF" } else { "ON" };
        let can_be_set = self.variables.iter().filter(|(_, value)| value != DISABLED);
        let closed: Vec<(String, String)> =
            can_be_set.map(|(name, _)| (name.clone(), closed(name).to_owned())).collect();
        Ok(set(self.hold.session(), &closed)?)
    }

    /// Checks that nothing was written, also if the lock was lost meanwhile.
    pub(crate) fn check(&mut self, from: &Target) -> Result<(), Error> {
        let place = |position: Option<Position>| position.map(|position| (position.file, position.offset));
        let mut other = None;
        let session = match self.hold.position() {
            Ok(_) => self.hold.session(),
            Err(_) => other.insert(from.connect()?),
        };
        let is_open = |(name, value): &(String, String)| name.ends_with("read_only") && value == "0";
        if variables(session)?.iter().any(is_open) {
            return Err(Error::NotCutOver("somebody else has made the source writable".to_owned()));
        }
        if place(session.position()?) == place(Some(self.end.clone())) {
            return Ok(());
        }
        Err(Error::NotCutOver("something was written to the source although it was locked".to_owned()))
    }

    /// Makes the source what it was.
    pub(crate) fn give_back(self, from: &Target) -> Result<(), Error> {
        let SourceLock { mut hold, variables, .. } = self;
        let own = set(hold.session(), &variables);
        let released = hold.release();
        if own.is_ok() && released.is_ok() {
            return Ok(());
        }
        Ok(set(&mut from.connect()?, &variables)?)
    }

    /// Ends connections that wait for the lock, or have written and not committed: some servers let accounts
    /// with privileges commit although the source is closed.
    pub(crate) fn end_writers(&mut self) -> Result<(), Error> {
        let session = self.hold.session();
        let waiting = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE STATE IN ({WAITING})");
        let own = session.connection_id();
        end_connections(
            session,
            &format!("{OPEN} AND trx_mysql_thread_id <> {own} UNION {waiting} AND ID <> {own}"),
        )
    }

    /// Ends the lock of a source that is closed.
    pub(crate) fn release(mut self) -> Result<(), Error> {
        pause(CACHED);
        let ended = self.end_writers();
        self.hold.release()?;
        ended
    }
}

/// A short time in which the server gets on.
fn pause(time: Duration) {
    progress::pause(time, &AtomicBool::new(false));
}

/// Ends connections that a query finds, and waits until they are gone.
pub(crate) fn end_connections(session: &mut Session, query: &str) -> Result<(), Error> {
    let end = Instant::now() + KILL_WAIT;
    loop {
        let rows = session.strings(query)?;
        let found: Vec<String> = rows.into_iter().flatten().flatten().filter(|id| id != "0").collect();
        if found.is_empty() {
            return Ok(());
        }
        for id in &found {
            match session.execute(&format!("KILL {id}")) {
                // It has ended by itself.
                Err(error) if error.code() == Some(NO_SUCH_CONNECTION) => {}
                other => drop(other?),
            }
        }
        let there =
            format!("SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN ({})", found.join(", "));
        while !session.strings(&there)?.is_empty() {
            if Instant::now() > end {
                return Err(Error::Refused(format!(
                    "connections that were killed do not end: {}",
                    found.join(", ")
                )));
            }
            pause(LOOK);
        }
        if Instant::now() > end {
            return Err(Error::Refused("others connect and write again and again".to_owned()));
        }
        pause(CACHED);
    }
}
