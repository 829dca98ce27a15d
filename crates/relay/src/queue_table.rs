//! Whether a table is a queue.

use anyhow::{Result, bail};
use server::{Session, TableName};

/// The engine of a table; the inner `None` is for a view, or for a table that the server can't open.
pub fn table_engine(session: &mut Session, table: &TableName) -> Result<Option<Option<String>>> {
    let (schema, name) = (session.quote(&table.schema), session.quote(&table.table));
    let found = session.strings(&format!(
        "SELECT engine FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {name}"
    ))?;
    Ok(found.into_iter().next().map(|row| row.into_iter().next().flatten()))
}

/// Whether rows of a queue wait that nobody is given because it is paused or keys of it are, as far as this
/// account sees it: with PROCESS.
pub fn is_paused(session: &mut Session, table: &TableName) -> Result<bool> {
    let paused = session.value(&format!(
        "SELECT paused OR (keys_paused AND behind) FROM information_schema.queues WHERE table_schema = {} AND table_name = {}",
        session.quote(&table.schema),
        session.quote(&table.table)
    ))?;
    Ok(paused.as_deref() == Some("1"))
}

/// Refuses what is no queue: it has other rules, or none, for who owns a row.
pub fn must_be_queue(session: &mut Session, table: &TableName) -> Result<()> {
    match table_engine(session, table)? {
        Some(Some(name)) if name == "QUEUE" => Ok(()),
        Some(Some(name)) => bail!("{table} is no queue (ENGINE={name})"),
        Some(None) => bail!("{table} is no queue: a view, or a table that cannot be opened"),
        None => bail!("{table}: no such table, or no privilege to see it"),
    }
}
