//! Tables and sequences, and the names of views.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Catalogue, Column, Depth, Kind, KnownTables, Object, OnProgress, Origin, Partition, Settings, Table,
    Wanted, cell, has_column, list,
};
use crate::definition::primary_key;
use crate::{Error, Flavour, Session, TableName, error_code};

/// What `information_schema.TABLES` lists, beside tables and sequences.
#[derive(Default)]
pub(super) struct TableList {
    pub(super) views: Vec<TableName>,
    /// How to ask `information_schema` for the wanted tables.
    pub(super) tables: Tables,
}

/// The tables to ask `information_schema` for: all of some databases, or each one alone. To tell about a
/// table the server must open it; if few of many are wanted, only these are opened.
#[derive(Default)]
pub(super) struct Tables {
    within: String,
    each: Option<Vec<TableName>>,
}

/// If there are this many times more tables in the databases than are wanted, each is asked for alone.
const FEW_OF: usize = 8;

impl Tables {
    /// The conditions, each for a query of its own, where the columns with the names of database and table
    /// are these.
    pub(super) fn conditions(&self, session: &Session, schema: &str, table: &str) -> Vec<String> {
        let one = |name: &TableName| {
            let (own, its) = (session.quote(&name.schema), session.quote(&name.table));
            format!("{schema} = {own} AND {table} = {its}")
        };
        match &self.each {
            None => vec![format!("{schema} IN ({})", self.within)],
            Some(names) => names.iter().map(one).collect(),
        }
    }
}

type Row = Vec<Option<String>>;

/// How many tables are described before `information_schema` is asked about all of them in one statement. The
/// server still has them open then.
const GROUP: usize = 100;

/// Which tables are read, and what of them.
pub(super) struct TableRequest<'a> {
    pub(super) schemas: &'a BTreeSet<String>,
    pub(super) wanted: &'a dyn Wanted,
    pub(super) depth: Depth<'a>,
    pub(super) on_progress: OnProgress<'a>,
}

/// Reads everything that has rows or looks like it. Questions for which the server must open a table are
/// asked for a few tables at a time, all of them in a row. When they are asked for all tables at once, it
/// opens each table again for every question, which takes minutes for tens of thousands of tables.
pub(super) fn read(
    session: &mut Session,
    request: TableRequest<'_>,
    catalogue: &mut Catalogue,
) -> Result<TableList, Error> {
    let TableRequest { schemas, wanted, depth, on_progress } = request;
    let mut found = TableList { tables: listed(session, schemas, wanted)?, ..TableList::default() };
    let mut columns = match depth {
        Depth::All => columns(session, &found.tables)?,
        Depth::Definitions(_) => BTreeMap::new(),
    };
    let mut rows = Vec::new();
    for one in found.tables.conditions(session, "TABLE_SCHEMA", "TABLE_NAME") {
        rows.extend(session.strings(&format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE \
             FROM information_schema.TABLES WHERE {one} ORDER BY 1, 2"
        ))?);
    }
    rows.retain(|row| wanted.table(&text(row, 0), &text(row, 1)));
    let mut bare = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        on_progress(at, rows.len());
        let name = name_of(row);
        match text(row, 2).as_str() {
            "VIEW" => found.views.push(name),
            "SEQUENCE" => {
                let made = catalogue.one(session, (Kind::Sequence, &name.to_string()), &mut |session| {
                    sequence(session, &name)
                })?;
                catalogue.objects.extend(made);
            }
            kind @ ("BASE TABLE" | "SYSTEM VERSIONED") => {
                let columns = columns.remove(&name).unwrap_or_default();
                bare.push(undescribed((name, text(row, 3)), columns, kind == "SYSTEM VERSIONED"));
            }
            _ => {}
        }
        if bare.len() >= GROUP || at + 1 == rows.len() {
            describe(session, std::mem::take(&mut bare), depth, catalogue)?;
        }
    }
    Ok(found)
}

/// A table of which only this is known.
fn undescribed((name, engine): (TableName, String), columns: Vec<Column>, versioned: bool) -> Table {
    Table {
        name,
        engine,
        definition: String::new(),
        created: String::new(),
        rows: 0,
        bytes: 0,
        columns,
        key: Vec::new(),
        key_name: String::new(),
        partitions: Vec::new(),
        versioned,
    }
}

/// Completes the descriptions of some tables and adds these to the catalogue.
fn describe(
    session: &mut Session,
    mut tables: Vec<Table>,
    depth: Depth<'_>,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    if let Depth::Definitions(known) = depth {
        let unchanged = unchanged(session, &tables, known)?;
        for (mut table, definition) in tables.into_iter().zip(unchanged) {
            let title = (Kind::Table, &*table.name.to_string());
            let read = match definition {
                Some(definition) => Some(definition),
                None => catalogue.one(session, title, &mut |session| session.definition(&table.name))?,
            };
            catalogue.tables.extend(read.map(|definition| {
                table.definition = definition;
                table
            }));
        }
        return Ok(());
    }
    let mut described = Vec::new();
    for mut table in tables.drain(..) {
        let title = (Kind::Table, &*table.name.to_string());
        let read = catalogue.one(session, title, &mut |session| session.definition(&table.name))?;
        described.extend(read.map(|definition| {
            table.definition = definition;
            table
        }));
    }
    let names: Vec<&TableName> = described.iter().map(|table| &table.name).collect();
    let statuses = statuses(session, &names)?;
    for (mut table, status) in described.into_iter().zip(statuses) {
        (table.created, table.rows, table.bytes) = (status.created, status.rows, status.bytes);
        let title = (Kind::Table, &*table.name.to_string());
        let read = catalogue.one(session, title, &mut |session| with_key(session, table.clone()))?;
        catalogue.tables.extend(read);
    }
    Ok(())
}

/// The definitions of those tables that have not been altered since they were read before.
fn unchanged(
    session: &mut Session,
    tables: &[Table],
    known: &KnownTables<'_>,
) -> Result<Vec<Option<String>>, Error> {
    let places: Vec<usize> = (0..tables.len()).filter(|at| known.0.contains_key(&tables[*at].name)).collect();
    let names: Vec<&TableName> = places.iter().map(|at| &tables[*at].name).collect();
    let statuses = statuses(session, &names)?;
    let mut definitions = vec![None; tables.len()];
    for (at, status) in places.into_iter().zip(statuses) {
        let before = known.0.get(&tables[at].name).filter(|before| before.created == status.created);
        definitions[at] = before.map(|before| before.definition.clone());
    }
    Ok(definitions)
}

/// What `information_schema` says about a table.
#[derive(Clone, Debug, Default)]
pub struct TableStatus {
    /// When it was last created or emptied; empty if the server does not know.
    pub created: String,
    /// Its next AUTO_INCREMENT value.
    pub counter: Option<u64>,
    /// Rows, estimated.
    pub(super) rows: u64,
    /// Bytes of data, estimated.
    pub(super) bytes: u64,
}

/// Asks `information_schema` about some tables, in one statement. The status of a table that is gone, or that
/// the server can't open, is empty.
///
/// # Errors
/// Errors of the server that have nothing to do with a single table.
pub fn statuses(session: &mut Session, tables: &[&TableName]) -> Result<Vec<TableStatus>, Error> {
    let mut found = vec![TableStatus::default(); tables.len()];
    if tables.is_empty() {
        return Ok(found);
    }
    let one = |(at, name): (usize, &&TableName)| {
        format!(
            "SELECT {at}, CREATE_TIME, AUTO_INCREMENT, TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES WHERE {}",
            only(session, name)
        )
    };
    let query: Vec<String> = tables.iter().enumerate().map(one).collect();
    match session.strings(&query.join(" UNION ALL ")) {
        Ok(rows) => {
            for row in rows {
                if let Some(status) = usize::try_from(number(&row, 0)).ok().and_then(|at| found.get_mut(at)) {
                    *status = TableStatus {
                        created: text(&row, 1),
                        counter: row.get(2).cloned().flatten().and_then(|text| text.parse().ok()),
                        rows: number(&row, 3),
                        bytes: number(&row, 4),
                    };
                }
            }
        }
        Err(Error::Sql { code, .. }) if !error_code::is_passing(code) => {
            // One of them makes it fail. That one tells the reason when its rows are read.
            if tables.len() > 1 {
                for (status, name) in found.iter_mut().zip(tables) {
                    *status = statuses(session, &[name])?.remove(0);
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// The time before which a table must have been created for [`Table::created`] to tell of every later ALTER:
/// the server knows that time in whole seconds. `None` where an ALTER may leave the time as it was.
///
/// # Errors
/// Errors of the server.
pub fn settled_before(session: &mut Session) -> Result<Option<String>, Error> {
    // MariaDB's InnoDB gives the time of the definition's file, which every ALTER replaces.
    if session.about.flavour != Flavour::MariaDb {
        return Ok(None);
    }
    session.value("SELECT NOW() - INTERVAL 2 SECOND")
}

/// Lists the names of what is wanted, for which the server opens no table.
fn listed(session: &mut Session, schemas: &BTreeSet<String>, wanted: &dyn Wanted) -> Result<Tables, Error> {
    let within = list(session, schemas);
    let rows = session.strings(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ({within})"
    ))?;
    let all = rows.len();
    let mut names: Vec<TableName> = rows.iter().map(name_of).collect();
    names.retain(|name| wanted.table(&name.schema, &name.table));
    names.sort();
    let few = names.len().saturating_mul(FEW_OF) < all;
    Ok(Tables { within, each: few.then_some(names) })
}

/// Adds what is known of a table's key and partitions.
fn with_key(session: &mut Session, mut table: Table) -> Result<Table, Error> {
    let one = only(session, &table.name);
    if let Some(columns) = primary_key(&table.definition).filter(|_| table.is_innodb()) {
        (table.key_name, table.key) = ("PRIMARY".to_owned(), columns);
    } else if ["PRIMARY KEY", "UNIQUE KEY"].iter().any(|word| table.definition.contains(word)) {
        (table.key_name, table.key) = key(session, &one)?.unwrap_or_default();
    }
    if table.definition.contains("PARTITION BY") {
        table.partitions = partitions(session, &one)?;
    }
    complete(&mut table);
    if table.engine.eq_ignore_ascii_case("QUEUE") {
        let filled = filled_columns(&table.definition);
        for column in table.columns.iter_mut().filter(|column| filled.contains(&column.name.to_lowercase())) {
            column.origin = Origin::Generated;
        }
    }
    Ok(table)
}

/// The columns that a queue with this CREATE TABLE fills when a row is read, and ignores when it is inserted,
/// in lower case. The server prints an engine's options behind everything else, and their names as they were
/// written.
#[must_use]
pub fn filled_columns(definition: &str) -> Vec<String> {
    ["failed", "why", "token"].iter().filter_map(|option| filled_column(definition, option)).collect()
}

/// As [`filled_columns`], the one that this option names, in lower case.
#[must_use]
pub fn filled_column(definition: &str, option: &str) -> Option<String> {
    engine_option(definition.lines().last()?, option).map(|value| value.to_lowercase())
}

/// The value of an engine's option, in the last line of a definition or in
/// `information_schema.tables.create_options`. `option` is in lower case.
#[must_use]
pub fn engine_option(options: &str, option: &str) -> Option<String> {
    let lower = options.to_ascii_lowercase();
    let start = format!("`{option}`='");
    let value = options.get(lower.rfind(&start)? + start.len()..)?;
    // A quote in it is doubled.
    let value = value.replace("''", "\0");
    Some(value.split_once('\'')?.0.replace('\0', "'"))
}

/// The condition that selects one table in `information_schema`; servers then open no other table.
fn only(session: &Session, name: &TableName) -> String {
    let (schema, table) = (session.quote(&name.schema), session.quote(&name.table));
    format!("TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}")
}

/// Adds row times to a versioned table that does not name them: it has them, but nothing shows them.
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

fn columns(session: &mut Session, tables: &Tables) -> Result<BTreeMap<TableName, Vec<Column>>, Error> {
    let expression = if has_column(session, "COLUMNS", "GENERATION_EXPRESSION")? {
        "GENERATION_EXPRESSION"
    } else {
        "NULL"
    };
    let mut found: BTreeMap<TableName, Vec<Column>> = BTreeMap::new();
    let mut rows = Vec::new();
    for one in tables.conditions(session, "TABLE_SCHEMA", "TABLE_NAME") {
        rows.extend(session.strings(&format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, EXTRA, {expression} \
             FROM information_schema.COLUMNS WHERE {one} ORDER BY 1, 2, ORDINAL_POSITION"
        ))?);
    }
    for row in rows {
        let extra = text(&row, 6).to_ascii_uppercase();
        let data_type = text(&row, 3);
        let origin = match text(&row, 7).to_ascii_uppercase().as_str() {
            "ROW START" | "ROW END" if data_type == "bigint" => Origin::RowTransaction,
            "ROW START" | "ROW END" => Origin::RowTime,
            // MySQL says DEFAULT_GENERATED for a default that is an expression.
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

/// The best key for reading a table in order: the primary key, or else the first unique key that contains
/// every row.
fn key(session: &mut Session, one: &str) -> Result<Option<(String, Vec<String>)>, Error> {
    let mut keys: Vec<(String, Vec<String>, bool)> = Vec::new();
    for row in session.strings(&format!(
        "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART, NULLABLE, INDEX_TYPE \
         FROM information_schema.STATISTICS WHERE {one} AND NON_UNIQUE = 0 \
         ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX"
    ))? {
        let name = text(&row, 0);
        if keys.last().is_none_or(|(last, ..)| *last != name) {
            keys.push((name, Vec::new(), true));
        }
        let column = row.get(1).cloned().flatten();
        let usable = column.is_some()
            && text(&row, 2).is_empty()
            && text(&row, 3) != "YES"
            && text(&row, 4) == "BTREE";
        if let Some((_, columns, all_usable)) = keys.last_mut() {
            columns.push(column.unwrap_or_default());
            *all_usable &= usable;
        }
    }
    Ok(keys.into_iter().find(|(_, _, usable)| *usable).map(|(name, columns, _)| (name, columns)))
}

fn partitions(session: &mut Session, one: &str) -> Result<Vec<Partition>, Error> {
    let mut partitions: Vec<Partition> = Vec::new();
    for row in session.strings(&format!(
        "SELECT PARTITION_NAME, TABLE_ROWS, DATA_LENGTH FROM information_schema.PARTITIONS \
         WHERE {one} AND PARTITION_NAME IS NOT NULL ORDER BY PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION"
    ))? {
        let name = text(&row, 0);
        // Subpartitions are summed.
        match partitions.last_mut().filter(|last| last.name == name) {
            Some(last) => {
                last.rows += number(&row, 1);
                last.bytes += number(&row, 2);
            }
            None => partitions.push(Partition { name, rows: number(&row, 1), bytes: number(&row, 2) }),
        }
    }
    Ok(partitions)
}

/// A sequence with its position: its next value, and how many cycles it has made.
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

#[cfg(test)]
mod tests {
    use super::filled_columns;

    #[test]
    fn columns_that_a_queue_fills_are_named_by_its_options() {
        let definition = "CREATE TABLE `t` (\n  `id` int(11) DEFAULT NULL COMMENT '`token`=''id'''\n) \
                          ENGINE=QUEUE COMMENT='it''s `WHY`=''no''' `TRIES`='5' `Why`='Wh''y' `token`='tk'";
        assert_eq!(filled_columns(definition), ["wh'y", "tk"]);
        assert!(filled_columns("CREATE TABLE `t` (\n  `why` text\n) ENGINE=QUEUE").is_empty());
    }
}
