//! Server-wide settings that are relaxed for speed, and put back whatever happens.
//!
//! The old values are written down in the server itself, in a table that is committed before anything is
//! changed: the next run from any machine finds them, also when this one dies.

use server::{Session, TableName, quote_name};

use crate::Error;
use progress::Progress;

/// What is relaxed, and to what: commits no longer wait for the disk. A crash of the server can lose
/// the last chunks then, each with its line in the ledger, so that `--resume` loads them again.
const SETTINGS: [(&str, &str); 2] = [("innodb_flush_log_at_trx_commit", "0"), ("sync_binlog", "0")];

/// The table with the old values.
const TABLE: &str = "_remora_undo";

/// Held while settings are relaxed, so that nobody puts them back under a running import.
const LOCK: &str = "remora.relax";

/// Relaxed settings; they stay so until [`Relaxed::restore`], or until somebody calls [`undo`] after the
/// session is gone.
pub(crate) struct Relaxed {
    session: Session,
    table: TableName,
}

impl Relaxed {
    /// Writes down what is set, then relaxes it. `None` when another import has done so already.
    pub(crate) fn apply(
        mut session: Session,
        schema: &str,
        progress: &dyn Progress,
    ) -> Result<Option<Relaxed>, Error> {
        if !session.lock(LOCK, 0)? {
            progress.warn("another import has relaxed the server's durability; it is left to that one");
            return Ok(None);
        }
        let table = TableName { schema: schema.to_owned(), table: TABLE.to_owned() };
        // What this server was set to is nothing for its replicas.
        session.execute("SET SESSION sql_log_bin = 0")?;
        session.execute(&format!(
            "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, value VARCHAR(255) NOT NULL) \
             ENGINE=InnoDB COMMENT='server settings that remora changed; remora undo puts them back'"
        ))?;
        for (name, relaxed) in SETTINGS {
            let Some(old) = session.value(&format!("SELECT @@GLOBAL.{name}"))? else { continue };
            if old == relaxed {
                continue;
            }
            // A value written down by a run that died is the true old one, so it is kept.
            session
                .execute(&format!("INSERT IGNORE INTO {table} VALUES ('{name}', {})", session.quote(&old)))?;
            progress.note(&format!("{name} is {relaxed} while loading, {old} again afterwards"));
        }
        for (name, relaxed) in SETTINGS {
            session.execute(&format!("SET GLOBAL {name} = {relaxed}"))?;
        }
        Ok(Some(Relaxed { session, table }))
    }

    /// Puts everything back and makes what was loaded durable.
    pub(crate) fn restore(mut self) -> Result<(), Error> {
        put_back(&mut self.session, &self.table)?;
        self.session.unlock(LOCK)?;
        Ok(())
    }
}

/// What [`undo`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// A line for each setting that was put back.
    pub lines: Vec<String>,
    /// The connection of an import that is running and needs the settings as they are; it puts them back
    /// itself.
    pub needed_by: Option<String>,
}

/// Puts back the settings that a run left relaxed which did not end as it should.
///
/// # Errors
/// What the server reports, a missing privilege above all.
pub fn undo(session: &mut Session) -> Result<Undone, Error> {
    let schemas = session.strings(&format!(
        "SELECT table_schema FROM information_schema.tables WHERE table_name = '{TABLE}'"
    ))?;
    let mut done = Undone::default();
    if schemas.is_empty() {
        return Ok(done);
    }
    if !session.lock(LOCK, 0)? {
        done.needed_by = Some(session.lock_holder(LOCK)?.unwrap_or_default());
        return Ok(done);
    }
    session.execute("SET SESSION sql_log_bin = 0")?;
    for schema in schemas.into_iter().flatten().flatten() {
        let table = TableName { schema, table: TABLE.to_owned() };
        done.lines.extend(put_back(session, &table)?);
    }
    session.execute("SET SESSION sql_log_bin = 1")?;
    session.unlock(LOCK)?;
    Ok(done)
}

/// Fails where the account may not relax settings, before any work is done.
pub(crate) fn check(session: &mut Session) -> Result<(), Error> {
    for (name, _) in SETTINGS {
        session.execute(&format!("SET GLOBAL {name} = @@GLOBAL.{name}"))?;
    }
    session.execute("SET SESSION sql_log_bin = @@SESSION.sql_log_bin")?;
    Ok(())
}

fn put_back(session: &mut Session, table: &TableName) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for row in session.strings(&format!("SELECT name, value FROM {table}"))? {
        let mut cells = row.into_iter().flatten();
        let (Some(name), Some(value)) = (cells.next(), cells.next()) else { continue };
        // A number is set as a number; a word as a string.
        let literal = if value.parse::<i64>().is_ok() { value.clone() } else { session.quote(&value) };
        session.execute(&format!("SET GLOBAL {} = {literal}", quote_name(&name)))?;
        done.push(format!("{name} is {value} again"));
    }
    // Commits made while nothing waited for the disk are made to last now.
    session.execute("FLUSH ENGINE LOGS")?;
    session.execute(&format!("DROP TABLE {table}"))?;
    Ok(done)
}
