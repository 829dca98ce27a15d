//! What keeps a source from being followed, found before anything is copied.

use std::collections::{BTreeMap, BTreeSet};

use dump::ReadTable;
use innodb::table::collation::Collation;
use server::catalogue::{Column, Origin, Table};
use server::{Error, Session, TableName, prepared_xa, quote_name, xa_literal};

use crate::row_condition::RowCondition;

/// Why these tables can't be followed, a line for each reason.
///
/// # Errors
/// Those of the server.
pub fn refusals(session: &mut Session, tables: &[ReadTable<'_>]) -> Result<Vec<String>, Error> {
    let mut why = log(session)?;
    why.extend(tables.iter().filter_map(|read| table_refusal(read.table)));
    why.extend(tables.iter().filter_map(rules_refusal));
    let names: BTreeSet<&TableName> = tables.iter().map(|read| &read.table.name).collect();
    let partial: BTreeSet<&TableName> =
        tables.iter().filter(|read| read.condition.is_some()).map(|read| &read.table.name).collect();
    for Cascade { key, child, parent, .. } in cascades(session)? {
        if let Some(table) = [&child, &parent].into_iter().find(|name| partial.contains(name)) {
            why.push(format!(
                "table {table}: it has a condition, and foreign key {key} changes rows of {child} along with those of \
                 {parent}, which the binary log may not have"
            ));
        }
        if names.contains(&child) && !names.contains(&parent) {
            why.push(format!(
                "table {child}: its foreign key {key} changes rows along with those of {parent}, which is not copied, \
                 and the binary log may not have that"
            ));
        }
    }
    why.dedup();
    Ok(why)
}

/// The columns to which foreign keys refer that change rows (CASCADE, SET NULL), by table.
pub(crate) fn cascading(session: &mut Session) -> Result<BTreeMap<TableName, BTreeSet<String>>, Error> {
    let mut columns: BTreeMap<TableName, BTreeSet<String>> = BTreeMap::new();
    for cascade in cascades(session)? {
        columns.entry(cascade.parent).or_default().insert(cascade.column);
    }
    Ok(columns)
}

/// The tables whose rows foreign keys change (CASCADE, SET NULL).
pub(crate) fn children(session: &mut Session) -> Result<BTreeSet<TableName>, Error> {
    Ok(cascades(session)?.into_iter().map(|cascade| cascade.child).collect())
}

/// Why a table can't be followed.
pub(crate) fn table_refusal(table: &Table) -> Option<String> {
    let in_key = || table.columns.iter().filter(|column| table.key.contains(&column.name));
    // FLOAT(5,2) is compared with a number that is rounded, and stored as another one.
    let is_rounded = |column: &Column| {
        ["float", "double"].contains(&&*column.data_type) && column.column_type.contains('(')
    };
    let why = if table.key.is_empty() {
        "it has no primary key, so that the rows that change can't be found"
    } else if table.versioned {
        "it is system-versioned"
    } else if !table.is_transactional() {
        "its engine can't roll back"
    } else if in_key().any(|column| column.origin != Origin::Stored) {
        "its key has a generated column"
    } else if in_key().any(is_rounded) {
        "its key has a FLOAT or DOUBLE with digits, whose values can't be found exactly"
    } else {
        return None;
    };
    Some(format!("table {}: {why}", table.name))
}

/// Why the rows of a table can't be told or masked as those of the log.
fn rules_refusal(read: &ReadTable<'_>) -> Option<String> {
    let ReadTable { table, condition, masked } = read;
    if let Some(column) = table.key.iter().find(|column| masked.contains(&column.as_str())) {
        let column = quote_name(column);
        return Some(format!("table {}: column {column} of its key is masked", table.name));
    }
    let is_unknown = |column: &&Column| {
        let set = column.character_set.as_deref();
        masked.contains(&column.name.as_str()) && set.is_some_and(|set| Collation::of_charset(set).is_none())
    };
    if let Some(column) = table.columns.iter().find(is_unknown) {
        let column = quote_name(&column.name);
        return Some(format!(
            "table {}: the character set of masked column {column} is not known here",
            table.name
        ));
    }
    let why = condition.and_then(|text| RowCondition::new(text, table).err())?;
    Some(format!("table {}: {why}", table.name))
}

/// What is wrong with the log.
pub(crate) fn log(session: &mut Session) -> Result<Vec<String>, Error> {
    if !session.about.log_bin {
        return Ok(vec!["the source has no binary log (log_bin)".to_owned()]);
    }
    let mut why = Vec::new();
    for (name, good, what) in [
        ("binlog_format", &["ROW"][..], "statements can't be applied exactly"),
        ("binlog_row_image", &["FULL", "FULL_NODUP"], "rows must be logged whole"),
    ] {
        let value = session.value(&format!("SELECT @@GLOBAL.{name}"))?.unwrap_or_default();
        if !good.contains(&value.as_str()) {
            let wanted = good.first().copied().unwrap_or_default();
            why.push(format!("{name} of the source is {value}: {what}. SET GLOBAL {name} = '{wanted}' changes that for new sessions"));
        }
    }
    let row = session.binary_log_status()?.into_iter().next().unwrap_or_default();
    if row.iter().skip(2).take(2).flatten().any(|databases| !databases.is_empty()) {
        why.push("the source does not log every database (binlog_do_db, binlog_ignore_db)".to_owned());
    }
    let updates = session.value("SELECT @@GLOBAL.log_slave_updates")?;
    if updates.is_some_and(|value| value == "0") && !session.replica_status()?.is_empty() {
        why.push(
            "the source is a replica and does not log what it replicates (log_slave_updates)".to_owned(),
        );
    }
    match prepared_xa(session) {
        Ok(prepared) => why.extend(prepared.iter().map(|name| {
            format!(
                "an XA transaction is prepared, and its rows are in no snapshot: end {}",
                xa_literal(name)
            )
        })),
        // MySQL hides them without XA_RECOVER_ADMIN. Their commit would end following.
        Err(error) if error.code().is_some() => {}
        Err(error) => return Err(error),
    }
    Ok(why)
}

/// A column of a foreign key that changes rows.
struct Cascade {
    key: String,
    child: TableName,
    parent: TableName,
    /// Of the parent.
    column: String,
}

fn cascades(session: &mut Session) -> Result<Vec<Cascade>, Error> {
    let rows = session.strings(
        "SELECT K.CONSTRAINT_NAME, K.TABLE_SCHEMA, K.TABLE_NAME, K.REFERENCED_TABLE_SCHEMA, K.REFERENCED_TABLE_NAME, \
         K.REFERENCED_COLUMN_NAME \
         FROM information_schema.REFERENTIAL_CONSTRAINTS R JOIN information_schema.KEY_COLUMN_USAGE K \
         ON K.CONSTRAINT_SCHEMA = R.CONSTRAINT_SCHEMA AND K.CONSTRAINT_NAME = R.CONSTRAINT_NAME AND K.TABLE_NAME = R.TABLE_NAME \
         WHERE R.DELETE_RULE IN ('CASCADE', 'SET NULL') OR R.UPDATE_RULE IN ('CASCADE', 'SET NULL')",
    )?;
    let cascade = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().flatten();
        let mut next = || cells.next();
        let key = next()?;
        let child = TableName { schema: next()?, table: next()? };
        let parent = TableName { schema: next()?, table: next()? };
        Some(Cascade { key, child, parent, column: next()? })
    };
    Ok(rows.into_iter().filter_map(cascade).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_masked_or_decided_for_the_log_is_named() {
        let column = |name: &str, set: Option<&str>| Column {
            name: name.to_owned(),
            data_type: "varchar".to_owned(),
            column_type: "varchar(40)".to_owned(),
            character_set: set.map(str::to_owned),
            origin: Origin::Stored,
        };
        let table = Table {
            name: TableName { schema: "d".to_owned(), table: "t".to_owned() },
            engine: "InnoDB".to_owned(),
            definition: "CREATE TABLE `t` (`id` varchar(40), PRIMARY KEY (`id`)) CHARSET=latin1".to_owned(),
            created: String::new(),
            rows: 0,
            bytes: 0,
            columns: vec![
                column("id", Some("latin1")),
                column("a", Some("gb18030")),
                column("b", Some("utf8")),
                column("c", None),
            ],
            key: vec!["id".to_owned()],
            key_name: "PRIMARY".to_owned(),
            partitions: Vec::new(),
            versioned: false,
        };
        for (condition, masked, why) in [
            (None, vec![], None),
            (None, vec!["b", "c"], None),
            (None, vec!["c", "id"], Some("column `id` of its key is masked")),
            (None, vec!["a"], Some("the character set of masked column `a` is not known")),
            (Some("id = 'a'"), vec!["b"], Some("its collation is latin1_swedish_ci")),
        ] {
            let found = rules_refusal(&ReadTable { table: &table, condition, masked });
            match (&found, why) {
                (Some(found), Some(why)) => assert!(found.contains(why), "{found}"),
                _ => assert_eq!(found.as_deref(), why),
            }
        }
    }
}
