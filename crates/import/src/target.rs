//! The table that rows go into.

use rows::ValueForm;
use server::definition::{quoted, without_counter};
use server::{Flavour, Grants, Scope, Session, TableName, Version, quote_name};

use crate::Error;

/// A table as the catalogue describes it.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Storage engine.
    pub engine: String,
    /// Whether the engine can roll back.
    pub transactional: bool,
    /// Whether it keeps the history of its rows (MariaDB's system versioning).
    pub versioned: bool,
    /// Its definition as the server prints it, without its name and its counter.
    pub definition: String,
    /// Names of its triggers.
    pub triggers: Vec<String>,
    /// Whether the account can't see if it has triggers.
    pub triggers_hidden: bool,
    /// Whether somebody has named CHECK constraints of it, and no copy of it keeps the names (MySQL).
    pub checks_named: bool,
    /// Its own foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// Tables whose foreign keys reference it.
    pub referenced_by: Vec<String>,
    /// Those of them whose rows are deleted or changed with the row that they reference: ON DELETE CASCADE or
    /// SET NULL.
    pub followed_by: Vec<String>,
    /// Whether it has no rows.
    pub empty: bool,
    /// The next AUTO_INCREMENT value, if it has one.
    pub auto_increment: Option<u64>,
}

/// Since then a column of MySQL may have a spatial reference system.
const WITH_SRID: Version = Version { major: 8, minor: 0, patch: 3 };

/// Types of columns with shapes.
const SPATIAL: [&str; 9] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
];

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Name.
    pub name: String,
    /// Type without length or attributes, in lower case: `int`, `varchar`.
    pub data_type: String,
    /// Type with length and attributes, as SQL.
    pub column_type: String,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether the server computes it, so that it can't be given a value.
    pub generated: bool,
    /// Whether it is left out of `SELECT *`, and of any import that does not name it.
    pub invisible: bool,
    /// The spatial reference system that all its values have, if MySQL knows one: `SRID 4326`.
    pub srid: Option<u32>,
}

/// A foreign key.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    /// Its name.
    pub name: String,
    /// The table it belongs to.
    pub child: TableName,
    /// The table that it references.
    pub parent: TableName,
    /// Pairs of own column and column of the parent.
    pub columns: Vec<(String, String)>,
}

impl ForeignKey {
    /// The query for a row of the child that has no parent.
    pub(crate) fn orphan(&self) -> String {
        let each = |text: &dyn Fn(&str, &str) -> String, between: &str| {
            let texts = self.columns.iter().map(|(own, far)| text(&quote_name(own), &quote_name(far)));
            texts.collect::<Vec<_>>().join(between)
        };
        format!(
            "SELECT CONCAT_WS(', ', {}) FROM {} c WHERE {} AND NOT EXISTS (SELECT 1 FROM {} p WHERE {}) LIMIT 1",
            each(&|own, _| format!("c.{own}"), ", "),
            self.child,
            each(&|own, _| format!("c.{own} IS NOT NULL"), " AND "),
            self.parent,
            each(&|own, far| format!("c.{own} = p.{far}"), " AND ")
        )
    }
}

impl Column {
    /// A column of a table that will be created, from its name and its type as SQL: `decimal(10,2) NOT NULL`.
    pub(crate) fn declared(name: &str, declared: &str) -> Column {
        let sql = declared.to_ascii_lowercase();
        let word: String =
            sql.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let compact = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        Column {
            name: name.to_owned(),
            data_type: word,
            column_type: declared.to_owned(),
            nullable: !(compact.contains("not null") || compact.contains("primary key")),
            generated: false,
            invisible: false,
            srid: compact.split_once("srid ").and_then(|(_, rest)| {
                rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|number| number.parse().ok())
            }),
        }
    }

    /// Whether it holds text or bytes, for which an empty value is a value.
    #[must_use]
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self.data_type.as_str(),
            "char"
                | "varchar"
                | "tinytext"
                | "text"
                | "mediumtext"
                | "longtext"
                | "binary"
                | "varbinary"
                | "tinyblob"
                | "blob"
                | "mediumblob"
                | "longblob"
                | "enum"
                | "set"
        )
    }

    /// The expression that turns the text in a variable into a value of this column, when LOAD DATA alone
    /// would take the text for the bytes of the value. `binary`: the text has no character set.
    #[must_use]
    pub(crate) fn conversion(&self, variable: &str, binary: bool, form: ValueForm) -> Option<String> {
        if matches!(form, ValueForm::Hexadecimal | ValueForm::Shape) {
            return Some(self.of_bytes(&format!("UNHEX({variable})"), form));
        }
        match self.data_type.as_str() {
            "uuid" | "inet6" | "inet4" if binary => Some(format!("CONVERT({variable} USING utf8mb4)")),
            "bit" => Some(format!("CAST({variable} AS UNSIGNED)")),
            kind if SPATIAL.contains(&kind) => {
                let srid = self.srid.map(|srid| format!(", {srid}")).unwrap_or_default();
                Some(or_refused(&format!("ST_GeomFromText({variable}{srid})"), variable))
            }
            // MariaDB reads the first comment alone, MySQL the second one.
            "vector" => Some(format!(
                "/*M!110701 VEC_FromText({variable}) */ /*!90000 STRING_TO_VECTOR({variable}) */"
            )),
            _ => None,
        }
    }

    /// The expression that turns bytes into a value of this column.
    fn of_bytes(&self, bytes: &str, form: ValueForm) -> String {
        match self.data_type.as_str() {
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "uuid" | "inet6"
            | "inet4" | "vector" => bytes.to_owned(),
            "bit" => format!("CAST(CONV(HEX({bytes}), 16, 10) AS UNSIGNED)"),
            kind if SPATIAL.contains(&kind) => {
                let srid = self.srid.map(|srid| format!(", {srid}")).unwrap_or_default();
                or_refused(&format!("ST_GeomFromWKB({bytes}{srid})"), bytes)
            }
            _ if form == ValueForm::Shape => format!("ST_AsText(ST_GeomFromWKB({bytes}))"),
            // Old programs write text without saying that it is some.
            _ => format!("CONVERT({bytes} USING utf8mb4)"),
        }
    }
}

/// A shape, or what no spatial column takes: MariaDB makes NULL of what is none, without a warning.
fn or_refused(shape: &str, value: &str) -> String {
    format!("COALESCE({shape}, IF({value} IS NULL, NULL, 'not a shape'))")
}

/// Looks a table up; `None` when it does not exist.
///
/// # Errors
/// When it is a view or a sequence; errors of the server.
pub(crate) fn describe(session: &mut Session, name: &TableName) -> Result<Option<Table>, Error> {
    let place = place(session, name);
    let tables = session.strings(&format!(
        "SELECT table_type, engine, auto_increment FROM information_schema.tables WHERE {place}"
    ))?;
    let Some(row) = tables.first() else { return Ok(None) };
    let text = |at: usize| row.get(at).cloned().flatten();
    let kind = text(0).unwrap_or_default();
    if !matches!(kind.as_str(), "BASE TABLE" | "SYSTEM VERSIONED") {
        return Err(Error::Target(format!("{name} is a {}, not a table", kind.to_lowercase())));
    }
    // This comes first, so that a later ALTER is noticed before the swap.
    let definition = definition(session, name)?;
    let engine = text(1).unwrap_or_default();
    let transactions = session.value(&format!(
        "SELECT transactions FROM information_schema.engines WHERE engine = {}",
        session.quote(&engine)
    ))?;
    let (followed_by, referenced_by): (Vec<_>, Vec<_>) = {
        let tables = referenced_by(session, name)?;
        let followed = tables.iter().filter(|(_, follows)| *follows).map(|(table, _)| table.clone());
        (followed.collect(), tables.iter().map(|(table, _)| table.clone()).collect())
    };
    Ok(Some(Table {
        columns: columns(session, &place)?,
        transactional: transactions.as_deref() == Some("YES"),
        engine,
        checks_named: session.about.flavour == Flavour::MySql && has_named_checks(&definition, &name.table),
        versioned: kind == "SYSTEM VERSIONED",
        definition,
        triggers: triggers(session, name)?,
        triggers_hidden: !Grants::of(session)?.has("TRIGGER", Scope::Table(name)),
        foreign_keys: foreign_keys(session, &place)?,
        referenced_by,
        followed_by,
        empty: session.value(&format!("SELECT 1 FROM {name} LIMIT 1"))?.is_none(),
        auto_increment: text(2).and_then(|next| next.parse().ok()),
    }))
}

/// A table's definition as the server prints it, without its name and without the counter, which changes with
/// the rows.
pub(crate) fn definition(session: &mut Session, name: &TableName) -> Result<String, Error> {
    let text = session.definition(name)?;
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    Ok(without_counter(body))
}

/// The name of the CHECK constraint in a line of a definition.
pub(crate) fn check_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("  CONSTRAINT ")?;
    let name = quoted(rest)?;
    rest[name.len()..].starts_with(" CHECK ").then_some(name)
}

/// Whether somebody has named a CHECK constraint. MySQL calls them after the table, and again when that gets
/// another name.
pub(crate) fn has_named_checks(definition: &str, table: &str) -> bool {
    let own = format!("{table}_chk_");
    definition.lines().filter_map(check_name).any(|name| !name.trim_matches('`').starts_with(&own))
}

/// The condition that selects a table in `information_schema`.
fn place(session: &Session, name: &TableName) -> String {
    let (schema, table) = (session.quote(&name.schema), session.quote(&name.table));
    format!("table_schema = {schema} AND table_name = {table}")
}

fn columns(session: &mut Session, place: &str) -> Result<Vec<Column>, Error> {
    let rows = session.strings(&format!(
        "SELECT column_name, data_type, is_nullable, extra, column_type FROM information_schema.columns \
         WHERE {place} ORDER BY ordinal_position"
    ))?;
    let columns = rows.into_iter().map(|row| {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || row.next().unwrap_or_default();
        let (name, data_type, nullable, extra) = (next(), next(), next(), next().to_ascii_uppercase());
        Column {
            name,
            data_type: data_type.to_ascii_lowercase(),
            column_type: next(),
            nullable: nullable == "YES",
            generated: ["GENERATED", "VIRTUAL", "PERSISTENT"].iter().any(|word| {
                // MySQL 8 marks an expression default with DEFAULT_GENERATED, which can be given a value.
                extra.replace("DEFAULT_GENERATED", "").contains(word)
            }),
            invisible: extra.contains("INVISIBLE"),
            srid: None,
        }
    });
    let mut columns: Vec<Column> = columns.collect();
    if session.about.flavour == Flavour::MySql && session.about.version >= WITH_SRID {
        let rows = session.strings(&format!(
            "SELECT column_name, srs_id FROM information_schema.st_geometry_columns WHERE {place} AND srs_id IS NOT NULL"
        ))?;
        for row in rows {
            let [Some(name), Some(srid)] = row.as_slice() else { continue };
            let column = columns.iter_mut().find(|column| column.name == *name);
            column.into_iter().for_each(|column| column.srid = srid.parse().ok());
        }
    }
    Ok(columns)
}

pub(crate) fn triggers(session: &mut Session, name: &TableName) -> Result<Vec<String>, Error> {
    let (schema, table) = (session.quote(&name.schema), session.quote(&name.table));
    let rows = session.strings(&format!(
        "SELECT trigger_name FROM information_schema.triggers \
         WHERE event_object_schema = {schema} AND event_object_table = {table}"
    ))?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

/// The foreign keys of a table.
fn foreign_keys(session: &mut Session, place: &str) -> Result<Vec<ForeignKey>, Error> {
    keys(session, &format!("{place} AND referenced_table_name IS NOT NULL"))
}

/// The foreign keys that reference a table, including its own.
pub(crate) fn keys_to(session: &mut Session, name: &TableName) -> Result<Vec<ForeignKey>, Error> {
    let (schema, table) = (session.quote(&name.schema), session.quote(&name.table));
    keys(session, &format!("referenced_table_schema = {schema} AND referenced_table_name = {table}"))
}

fn keys(session: &mut Session, condition: &str) -> Result<Vec<ForeignKey>, Error> {
    let rows = session.strings(&format!(
        "SELECT constraint_name, table_schema, table_name, referenced_table_schema, referenced_table_name, \
         column_name, referenced_column_name FROM information_schema.key_column_usage \
         WHERE {condition} ORDER BY table_schema, table_name, constraint_name, ordinal_position"
    ))?;
    let mut keys: Vec<ForeignKey> = Vec::new();
    for row in rows {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || row.next().unwrap_or_default();
        let name = next();
        let mut table = || TableName { schema: next(), table: next() };
        let (child, parent) = (table(), table());
        let columns = (next(), next());
        match keys.last_mut().filter(|key| key.name == name && key.child == child) {
            Some(key) => key.columns.push(columns),
            None => keys.push(ForeignKey { name, child, parent, columns: vec![columns] }),
        }
    }
    Ok(keys)
}

/// The tables that reference a table, and whether their rows follow its rows.
fn referenced_by(session: &mut Session, name: &TableName) -> Result<Vec<(String, bool)>, Error> {
    let (schema, table) = (session.quote(&name.schema), session.quote(&name.table));
    let rows = session.strings(&format!(
        "SELECT CONCAT(constraint_schema, '.', table_name), MAX(delete_rule NOT IN ('RESTRICT', 'NO ACTION')) \
         FROM information_schema.referential_constraints \
         WHERE unique_constraint_schema = {schema} AND referenced_table_name = {table} GROUP BY 1"
    ))?;
    let tables = rows.into_iter().map(|row| {
        let mut row = row.into_iter().flatten();
        (row.next().unwrap_or_default(), row.next().as_deref() == Some("1"))
    });
    Ok(tables.collect())
}
