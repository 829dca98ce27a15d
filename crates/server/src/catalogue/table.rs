//! Tables and sequences, and the names of views.

use std::collections::{BTreeMap, BTreeSet};

use super::{Column, Kind, Object, Origin, Partition, Settings, Table, Wanted, cell, has_column, list};
use crate::{Error, Session, TableName};

/// What `information_schema.TABLES` lists.
#[derive(Default)]
pub(super) struct Found {
    pub(super) tables: Vec<Table>,
    pub(super) sequences: Vec<Object>,
    pub(super) views: Vec<TableName>,
}

type Row = Vec<Option<String>>;

/// Everything that has rows or looks like it.
pub(super) fn read(
    session: &mut Session,
    schemas: &BTreeSet<String>,
    wanted: &dyn Wanted,
) -> Result<Found, Error> {
    let within = list(session, schemas);
    let mut columns = columns(session, &within)?;
    let mut keys = keys(session, &within)?;
    let mut partitions = partitions(session, &within)?;
    let mut found = Found::default();
    for row in session.strings(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, CREATE_TIME, TABLE_ROWS, DATA_LENGTH \
         FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ({within}) ORDER BY 1, 2"
    ))? {
        let name = name_of(&row);
        if !wanted.table(&name.schema, &name.table) {
            continue;
        }
        match text(&row, 2).as_str() {
            "VIEW" => found.views.push(name),
            "SEQUENCE" => found.sequences.push(sequence(session, &name)?),
            "BASE TABLE" | "SYSTEM VERSIONED" => {
                let rows = session.strings(&format!("SHOW CREATE TABLE {name}"))?;
                let (key_name, key) = keys.remove(&name).unwrap_or_default();
                let mut table = Table {
                    engine: text(&row, 3),
                    definition: cell(&rows, 1).unwrap_or_default(),
                    created: text(&row, 4),
                    rows: number(&row, 5),
                    bytes: number(&row, 6),
                    columns: columns.remove(&name).unwrap_or_default(),
                    key,
                    key_name,
                    partitions: partitions.remove(&name).unwrap_or_default(),
                    versioned: text(&row, 2) == "SYSTEM VERSIONED",
                    name,
                };
                complete(&mut table);
                found.tables.push(table);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// A versioned table that does not name its row times has them all the same, and shows them nowhere.
fn complete(table: &mut Table) {
    let named = |column: &Column| matches!(column.origin, Origin::RowTime | Origin::RowTransaction);
    if !table.versioned || table.columns.iter().any(named) {
        return;
    }
    for name in ["row_start", "row_end"] {
        table.columns.push(Column {
            name: name.to_owned(),
            data_type: "timestamp".to_owned(),
            column_type: "timestamp(6)".to_owned(),
            character_set: None,
            origin: Origin::RowTime,
        });
    }
}

fn columns(session: &mut Session, within: &str) -> Result<BTreeMap<TableName, Vec<Column>>, Error> {
    let expression = if has_column(session, "COLUMNS", "GENERATION_EXPRESSION")? {
        "GENERATION_EXPRESSION"
    } else {
        "NULL"
    };
    let mut found: BTreeMap<TableName, Vec<Column>> = BTreeMap::new();
    for row in session.strings(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, EXTRA, {expression} \
         FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN ({within}) ORDER BY 1, 2, ORDINAL_POSITION"
    ))? {
        let extra = text(&row, 6).to_ascii_uppercase();
        let data_type = text(&row, 3);
        let origin = match text(&row, 7).to_ascii_uppercase().as_str() {
            "ROW START" | "ROW END" if data_type == "bigint" => Origin::RowTransaction,
            "ROW START" | "ROW END" => Origin::RowTime,
            // DEFAULT_GENERATED is MySQL's word for a default that is an expression.
            _ if ["VIRTUAL", "STORED GENERATED", "PERSISTENT"].iter().any(|word| extra.contains(word)) => {
                Origin::Generated
            }
            _ => Origin::Stored,
        };
        found.entry(name_of(&row)).or_default().push(Column {
            name: text(&row, 2),
            data_type,
            column_type: text(&row, 4),
            character_set: row.get(5).cloned().flatten(),
            origin,
        });
    }
    Ok(found)
}

/// The best key of each table to walk along: the primary key, or else the first unique one that has every row.
fn keys(session: &mut Session, within: &str) -> Result<BTreeMap<TableName, (String, Vec<String>)>, Error> {
    let mut all: BTreeMap<TableName, Vec<(String, Vec<String>, bool)>> = BTreeMap::new();
    for row in session.strings(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART, NULLABLE, INDEX_TYPE \
         FROM information_schema.STATISTICS WHERE TABLE_SCHEMA IN ({within}) AND NON_UNIQUE = 0 \
         ORDER BY 1, 2, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX"
    ))? {
        let keys = all.entry(name_of(&row)).or_default();
        let name = text(&row, 2);
        if keys.last().is_none_or(|(last, ..)| *last != name) {
            keys.push((name, Vec::new(), true));
        }
        let column = row.get(3).cloned().flatten();
        let usable = column.is_some()
            && text(&row, 4).is_empty()
            && text(&row, 5) != "YES"
            && text(&row, 6) == "BTREE";
        if let Some((_, columns, all_usable)) = keys.last_mut() {
            columns.push(column.unwrap_or_default());
            *all_usable &= usable;
        }
    }
    let best = |keys: Vec<(String, Vec<String>, bool)>| {
        keys.into_iter().find(|(_, _, usable)| *usable).map(|(name, columns, _)| (name, columns))
    };
    Ok(all.into_iter().filter_map(|(name, keys)| Some((name, best(keys)?))).collect())
}

fn partitions(session: &mut Session, within: &str) -> Result<BTreeMap<TableName, Vec<Partition>>, Error> {
    let mut found: BTreeMap<TableName, Vec<Partition>> = BTreeMap::new();
    for row in session.strings(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, TABLE_ROWS, DATA_LENGTH FROM information_schema.PARTITIONS \
         WHERE TABLE_SCHEMA IN ({within}) AND PARTITION_NAME IS NOT NULL \
         ORDER BY 1, 2, PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION"
    ))? {
        let partitions = found.entry(name_of(&row)).or_default();
        let name = text(&row, 2);
        // Subpartitions are added up.
        match partitions.last_mut().filter(|last| last.name == name) {
            Some(last) => {
                last.rows += number(&row, 3);
                last.bytes += number(&row, 4);
            }
            None => partitions.push(Partition { name, rows: number(&row, 3), bytes: number(&row, 4) }),
        }
    }
    Ok(found)
}

/// A sequence with its place: what it would give next, and how often it went round.
fn sequence(session: &mut Session, name: &TableName) -> Result<Object, Error> {
    let rows = session.strings(&format!("SHOW CREATE SEQUENCE {name}"))?;
    let mut statements = vec![cell(&rows, 1).unwrap_or_default()];
    let state =
        session.strings(&format!("SELECT next_not_cached_value, start_value, cycle_count FROM {name}"))?;
    let at = |column| cell(&state, column).unwrap_or_default();
    let bare = crate::quote_name(&name.table);
    if at(0) != at(1) {
        statements.push(format!("ALTER SEQUENCE {bare} RESTART WITH {}", at(0)));
    }
    if at(2) != "0" {
        statements.push(format!("SELECT SETVAL({bare}, {}, 0, {})", at(0), at(2)));
    }
    Ok(Object {
        kind: Kind::Sequence,
        schema: name.schema.clone(),
        name: name.table.clone(),
        table: None,
        statements,
        settings: Settings::default(),
    })
}

fn name_of(row: &Row) -> TableName {
    TableName { schema: text(row, 0), table: text(row, 1) }
}

pub(super) fn text(row: &Row, at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

fn number(row: &Row, at: usize) -> u64 {
    text(row, at).parse().unwrap_or(0)
}
