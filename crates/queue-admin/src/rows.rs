//! The rows of a queue, as SELECT sees them.

use anyhow::{Context, Result, anyhow, bail};
use failure::usage;
use server::{Session, TableName};

/// Error codes of servers.
const NO_FUNCTION: u16 = 1305;
const WRONG_ARGUMENTS: u16 = 1210;

/// The end of a statement for the rows that a condition selects.
pub fn where_clause(condition: Option<&str>) -> String {
    condition.map_or_else(String::new, |condition| format!(" WHERE ({condition})"))
}

/// Sets whether SELECT and DELETE see rows that are due later, and SELECT also those that somebody owns.
pub fn see_hidden(session: &mut Session, hidden: bool) -> Result<()> {
    session.execute(&format!("SET SESSION queue_show_owned = {}", u8::from(hidden)))?;
    Ok(())
}

/// How many rows a SELECT would show.
pub fn count(session: &mut Session, table: &TableName, condition: Option<&str>) -> Result<u64> {
    // COUNT(*) without WHERE also counts what the session does not see.
    let counted =
        session.value(&format!("SELECT COALESCE(SUM(1), 0) FROM {table}{}", where_clause(condition)));
    let counted = counted.map_err(|error| match error {
        server::Error::Sql { message, .. } if condition.is_some() => usage(format!("--where: {message}")),
        other => other.into(),
    })?;
    Ok(counted.unwrap_or_default().parse()?)
}

/// How many rows wait, and how many somebody owns or are due later.
pub fn waiting_and_hidden(
    session: &mut Session,
    table: &TableName,
    condition: Option<&str>,
) -> Result<(u64, u64)> {
    see_hidden(session, false)?;
    let waiting = count(session, table, condition)?;
    see_hidden(session, true)?;
    let all = count(session, table, condition)?;
    Ok((waiting, all.saturating_sub(waiting)))
}

/// The call that makes a statement see the rows from a number on, also those that somebody owns.
pub fn peek(session: &Session, queue: &TableName, from: i64) -> String {
    format!("queue_peek({}, {from})", session.quote(&queue.to_string()))
}

/// Asks a function of sql/queue.sql.
pub fn ask(session: &mut Session, asked: &str) -> Result<Option<String>> {
    session.value(asked).map_err(|error| match error {
        server::Error::Sql { code: NO_FUNCTION, message, .. } => {
            anyhow!("{message}: install sql/queue.sql of this version there")
        }
        server::Error::Sql { code: WRONG_ARGUMENTS, message, .. } => usage(message),
        other => other.into(),
    })
}

/// The number that the next new row will have.
pub fn end(session: &mut Session, queue: &TableName) -> Result<i64> {
    let asked = format!("SELECT {}", peek(session, queue, i64::MAX));
    match ask(session, &asked)? {
        Some(number) => number.parse().context("no number"),
        None => {
            let why = session.warnings()?.into_iter().next().map(|warning| warning.message);
            bail!("{queue}: {}", why.unwrap_or_else(|| "no queue".to_owned()))
        }
    }
}
