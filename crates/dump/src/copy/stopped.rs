//! What a stopped copy has made on the target, and what of it stays.

use std::collections::{BTreeMap, BTreeSet};

use server::catalogue::{Catalogue, OWN_SCHEMA, Only, Table};
use server::{Session, TableName, quote_name};

use crate::load::{Ledger, Lines, drop_statement, fold_of, leftover};
use crate::manifest::{Manifest, TableEntry};
use crate::selection::Selection;
use crate::{Context, Error};
use progress::count;

/// Decides which tables of a stopped copy stay. All others that it has made are dropped: those whose
/// definition has changed or that are gone on the source, and those whose parts can't be compared one by one.
/// Their triggers are dropped in any case, because they would fire while rows are written.
///
/// Returns the numbers of the tables that stay.
pub(super) fn adopt(
    context: &Context,
    session: &mut Session,
    (ledger, selection): (&Ledger, &Selection),
    manifest: &Manifest,
) -> Result<BTreeSet<usize>, Error> {
    // This waits for a chunk of the stopped run that the server may still be committing.
    let lines = ledger.read(session)?;
    let folds = fold_of(session);
    let wanted: BTreeMap<(String, String), &TableEntry> =
        manifest.tables.iter().map(|entry| (folds.table(&entry.table.name), entry)).collect();
    let is_other = session.about.release() != manifest.source.release();
    let mut kept = Vec::new();
    let mut stale = Vec::new();
    let mut made: Vec<TableName> = wanted.values().map(|entry| entry.table.name.clone()).collect();
    made.retain(|name| Ledger::is_marked(&lines, name));
    for name in tables(session)? {
        let entry = wanted.get(&folds.table(&name)).copied();
        let own = entry.map_or(&name, |entry| &entry.table.name);
        if !Ledger::is_marked(&lines, own) {
            if entry.is_some() {
                return Err(Error::Mismatch(format!(
                    "table {name} exists on the target, and is not of the stopped copy; drop it, or exclude it with \
                     --exclude"
                )));
            }
            continue;
        }
        let continued =
            entry.filter(|entry| Ledger::is_defined(&lines, entry) && is_comparable(entry, is_other));
        match continued {
            Some(entry) if leftover::opens(session, &name)? => {
                made.retain(|made| *made != entry.table.name);
                kept.push(entry);
            }
            _ if is_strange(session, &lines, &name, (own, entry))? => {
                return Err(Error::Mismatch(format!(
                    "table {name} on the target has columns that neither the stopped copy nor the source has; drop \
                     it, or exclude it with --exclude"
                )));
            }
            _ => stale.push(name),
        }
    }
    // Nothing is changed before all of them are known to be of the copy.
    for name in &stale {
        session.execute(&format!("DROP TABLE IF EXISTS {name}"))?;
    }
    if !leftover::is_impossible(session) {
        made.iter().try_for_each(|name| leftover::remove(session, name))?;
    }
    drop_triggers(session, &kept)?;
    drop_programs(session, (&lines, selection), manifest)?;
    ledger.begin_again(session, &kept)?;
    if !stale.is_empty() {
        context.progress.note(&format!(
            "{} of the stopped copy can't be continued, and is copied again",
            count(stale.len(), "table")
        ));
    }
    Ok(kept.iter().map(|entry| entry.place).collect())
}

/// Whether a table has neither columns that the stopped copy has made under that name, nor those of the
/// source now: then somebody has replaced it. One of which a crash has left a part has no columns.
fn is_strange(
    session: &mut Session,
    lines: &Lines,
    name: &TableName,
    (own, entry): (&TableName, Option<&TableEntry>),
) -> Result<bool, Error> {
    if !leftover::opens(session, name)? {
        return Ok(false);
    }
    let only = Only(std::slice::from_ref(name));
    let found = Catalogue::read(session, &only, &mut |_, _| {})?.tables.pop();
    let Some(found) = found.map(|table| Table { name: own.clone(), ..table }) else { return Ok(false) };
    let is_wanted = entry.is_some_and(|entry| Ledger::are_columns_equal(&entry.table, &found));
    Ok(!is_wanted && !Ledger::has_columns(lines, &found))
}

/// Drops views and programs of the stopped copy that are gone on the source. All others are made again.
fn drop_programs(
    session: &mut Session,
    (lines, selection): (&Lines, &Selection),
    manifest: &Manifest,
) -> Result<(), Error> {
    let folds = fold_of(session);
    let wanted: BTreeSet<_> = manifest.objects.iter().map(|object| folds.key(object)).collect();
    let there = Catalogue::definitions(session, selection)?;
    for object in there.objects.iter().filter(|object| !wanted.contains(&folds.key(object))) {
        if Ledger::is_program(lines, object) {
            session.execute(&drop_statement(object))?;
        }
    }
    Ok(())
}

/// All tables on the target, but not those of the server itself.
fn tables(session: &mut Session) -> Result<Vec<TableName>, Error> {
    let rows = session.strings(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN \
         ('mysql', 'sys', 'performance_schema', 'information_schema', '{OWN_SCHEMA}') \
         AND TABLE_TYPE NOT IN ('VIEW', 'SEQUENCE', 'SYSTEM VIEW')"
    ))?;
    let name = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().flatten();
        Some(TableName { schema: cells.next()?, table: cells.next()? })
    };
    Ok(rows.into_iter().filter_map(name).collect())
}

/// Whether the chunks of a table can be compared and replaced one by one. Where the target sorts texts in
/// another order, the rows between two keys are not those of the source.
fn is_comparable(entry: &TableEntry, is_other_release: bool) -> bool {
    let table = &entry.table;
    let mut key = table.columns.iter().filter(|column| table.key.contains(&column.name));
    let is_by_text = key.any(|column| column.character_set.is_some());
    table.is_transactional() && !table.versioned && !(is_by_text && is_other_release)
}

/// Drops the triggers of these tables.
fn drop_triggers(session: &mut Session, tables: &[&TableEntry]) -> Result<(), Error> {
    let folds = fold_of(session);
    let own: BTreeSet<_> = tables.iter().map(|entry| folds.table(&entry.table.name)).collect();
    let rows = session.strings(
        "SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_SCHEMA, TRIGGER_NAME \
         FROM information_schema.TRIGGERS",
    )?;
    for row in rows {
        let [Some(schema), Some(table), Some(place), Some(name)] = row.as_slice() else { continue };
        let on = TableName { schema: schema.clone(), table: table.clone() };
        if own.contains(&folds.table(&on)) {
            session.execute(&format!("DROP TRIGGER {}.{}", quote_name(place), quote_name(name)))?;
        }
    }
    Ok(())
}
