//! What a copy would do: what can't go, what changes on the way, and how much it is.

use std::collections::BTreeMap;

use server::{Session, TableName};

use super::{CopyRequest, Prepared, Servers, followed, missing};
use crate::load;
use crate::manifest::TableEntry;
use crate::{Context, Error, reading};

/// What a copy would do.
#[derive(Clone, Debug, Default)]
pub struct CopyPlan {
    /// Tables.
    pub tables: usize,
    /// Other objects.
    pub objects: usize,
    /// Their rows, as the source estimates them.
    pub rows: u64,
    /// The bytes of these rows on the source, as it estimates them.
    pub row_bytes: u64,
    /// The bytes of rows and indexes on the source: about what the target needs.
    pub table_bytes: u64,
    /// Whether the target writes all rows to its binary log, too.
    pub is_logged: bool,
    /// What those who write on the source wait for, a line for each.
    pub waits: Vec<String>,
    /// What would be written differently, a line for each.
    pub rewrites: Vec<String>,
    /// What would be missing on the target, a line for each.
    pub omitted: Vec<String>,
    /// Why the copy would be refused, a line for each reason.
    pub refused: Vec<String>,
}

/// What those meet who write on the source when the copy takes over.
const CUT_OVER: &str = "at a cut-over, transactions that are open on A are rolled back and their connections ended; later writes \
                        on A fail (error 1290)";

/// Finds out what a copy would do. Nothing is locked on the source. On a target of another release
/// definitions are tried in temporary databases, which are removed.
///
/// # Errors
/// Errors of the servers. What the target can't take is no error, but in the plan.
pub fn plan(context: &Context, servers: Servers<'_>, request: &CopyRequest) -> Result<CopyPlan, Error> {
    let (read, write) = (&request.read, &request.write);
    let Prepared {
        mut session,
        mut target,
        before,
        tables,
        mut manifest,
        ledger,
        mut summary,
        postponed,
        ..
    } = Prepared::new(context, servers, request)?;
    let mut refused = Vec::new();
    refusal(load::fit(&mut target, &mut manifest, &write.definer, &mut summary), &mut refused)?;
    refusal(ledger.lock(&mut target), &mut refused)?;
    for check in load::CHECKS {
        refusal(check(&mut target, write, &manifest, &ledger), &mut refused)?;
    }
    refused.extend(followed::refused(&mut session, &tables, request.follow)?);
    let mut omitted = missing(&mut session, &before, (&tables, read))?;
    omitted.extend(summary.omitted);
    omitted.extend(postponed);
    let due: Vec<&TableEntry> = tables.iter().filter(|entry| entry.is_due()).collect();
    let sizes = sizes(&mut session)?;
    let mut waits: Vec<String> = reading::held_up(&reading::unversioned(&tables)).into_iter().collect();
    waits.extend(request.follow.filter(|_| !read.is_part()).map(|_| CUT_OVER.to_owned()));
    Ok(CopyPlan {
        tables: tables.len(),
        objects: manifest.objects.len(),
        rows: due.iter().map(|entry| entry.table.rows).sum(),
        row_bytes: due.iter().map(|entry| entry.table.bytes).sum(),
        table_bytes: due.iter().filter_map(|entry| sizes.get(&entry.table.name)).sum(),
        is_logged: target.about.log_bin && !write.no_binlog,
        waits,
        rewrites: summary.rewrites,
        omitted,
        refused,
    })
}

/// Takes down why something is refused. A lost connection stays an error.
fn refusal(checked: Result<(), Error>, refused: &mut Vec<String>) -> Result<(), Error> {
    match checked {
        Err(error) if !error.is_passing() => refused.push(error.to_string()),
        checked => checked?,
    }
    Ok(())
}

/// Bytes of rows and indexes of each table.
fn sizes(session: &mut Session) -> Result<BTreeMap<TableName, u64>, Error> {
    let rows = session.strings(
        "SELECT TABLE_SCHEMA, TABLE_NAME, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES \
         WHERE DATA_LENGTH IS NOT NULL",
    )?;
    let size = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().flatten();
        let name = TableName { schema: cells.next()?, table: cells.next()? };
        Some((name, cells.next()?.parse().ok()?))
    };
    Ok(rows.into_iter().filter_map(size).collect())
}
