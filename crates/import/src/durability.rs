//! Server-wide durability settings that are relaxed during an import, and always restored.
//!
//! The old values are recorded on the server itself, in a table that is committed before anything is changed.
//! If this run dies, the next run from any machine finds them.

use server::{Session, TableName, quote_name};

use crate::Error;
use progress::Progress;

/// The relaxed settings: commits no longer wait for the disk. A crash of the server can then lose the last
/// chunks, each together with its ledger line, so that `--resume` loads them again.
const SETTINGS: [(&str, &str); 2] = [("innodb_flush_log_at_trx_commit", "0"), ("sync_binlog", "0")];

/// The table with the old values.
const TABLE: &str = "_remora_undo";

/// Held while settings are relaxed, so that nobody restores them under a running import.
const LOCK: &str = "remora.relax";

/// Relaxed settings. They stay relaxed until [`RelaxedDurability::restore`], or until somebody
/// calls [`undo`] after the session has ended.
pub(crate) struct RelaxedDurability {
    session: Session,
    table: TableName,
}

impl RelaxedDurability {
    /// Records the current values, then relaxes the settings. `None` when another import has already done so.
    pub(crate) fn apply(
        mut session: Session,
        schema: &str,
        progress: &dyn Progress,
    ) -> Result<Option<RelaxedDurability>, Error> {
        if !session.lock(LOCK, 0)? {
            progress
                .warn("another import has relaxed the server's durability settings, and will restore them");
            return Ok(None);
        }
        let table = TableName { schema: schema.to_owned(), table: TABLE.to_owned() };
        // The settings of this server do not concern its replicas.
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
            // A value that a dead run recorded is the true old one, so it is kept.
            session
                .execute(&format!("INSERT IGNORE INTO {table} VALUES ('{name}', {})", session.quote(&old)))?;
            progress.note(&format!("{name} is set to {relaxed} while loading and back to {old} afterwards"));
        }
        for (name, relaxed) in SETTINGS {
            session.execute(&format!("SET GLOBAL {name} = {relaxed}"))?;
        }
        Ok(Some(RelaxedDurability { session, table }))
    }

    /// Restores everything and makes the loaded rows durable.
    pub(crate) fn restore(mut self) -> Result<(), Error> {
        restore_values(&mut self.session, &self.table)?;
        self.session.unlock(LOCK)?;
        Ok(())
    }
}

/// The result of [`undo`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredSettings {
    /// A line for each restored setting.
    pub lines: Vec<String>,
    /// The connection of a running import that needs the settings relaxed; it restores them itself.
    pub needed_by: Option<String>,
}

/// Restores the settings that a run left relaxed because it did not end normally.
///
/// # Errors
/// Errors of the server, above all a missing privilege.
pub fn undo(session: &mut Session) -> Result<RestoredSettings, Error> {
    let schemas = session.strings(&format!(
        "SELECT table_schema FROM information_schema.tables WHERE table_name = '{TABLE}'"
    ))?;
    let mut done = RestoredSettings::default();
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
        done.lines.extend(restore_values(session, &table)?);
    }
    session.execute("SET SESSION sql_log_bin = 1")?;
    session.unlock(LOCK)?;
    Ok(done)
}

/// Fails, before any work is done, if the account may not relax settings.
pub(crate) fn check(session: &mut Session) -> Result<(), Error> {
    for (name, _) in SETTINGS {
        session.execute(&format!("SET GLOBAL {name} = @@GLOBAL.{name}"))?;
    }
    session.execute("SET SESSION sql_log_bin = @@SESSION.sql_log_bin")?;
    Ok(())
}

fn restore_values(session: &mut Session, table: &TableName) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for row in session.strings(&format!("SELECT name, value FROM {table}"))? {
        let mut cells = row.into_iter().flatten();
        let (Some(name), Some(value)) = (cells.next(), cells.next()) else { continue };
        // A number is set as a number, a word as a string.
        let literal = if value.parse::<i64>().is_ok() { value.clone() } else { session.quote(&value) };
        session.execute(&format!("SET GLOBAL {} = {literal}", quote_name(&name)))?;
        done.push(format!("{name} is {value} again"));
    }
    // Makes the commits durable that did not wait for the disk.
    session.execute("FLUSH ENGINE LOGS")?;
    session.execute(&format!("DROP TABLE {table}"))?;
    Ok(done)
}
