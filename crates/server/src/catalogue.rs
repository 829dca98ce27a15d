//! Everything a server holds, as statements that make it again: databases, sequences, tables, routines,
//! packages, views, triggers, events, roles and users, each kind in an order in which they can be made.

mod account;
mod program;
mod table;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Error, Session, TableName, quote_name};

/// Databases that belong to the server.
pub const SYSTEM_SCHEMAS: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];

/// What kind of thing an [`Object`] is, in the order in which kinds are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A database.
    Database,
    /// A sequence of MariaDB's; its statement leaves it as it stood.
    Sequence,
    /// A base table.
    Table,
    /// A stored function.
    Function,
    /// A stored procedure.
    Procedure,
    /// The head of a package of MariaDB's Oracle mode.
    Package,
    /// Its body.
    PackageBody,
    /// A view.
    View,
    /// A trigger.
    Trigger,
    /// An event.
    Event,
    /// A role.
    Role,
    /// An account.
    User,
    /// What a role or an account may do.
    Grant,
}

impl Kind {
    /// The word for it, as in SQL but in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Database => "database",
            Kind::Sequence => "sequence",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Procedure => "procedure",
            Kind::Package => "package",
            Kind::PackageBody => "package body",
            Kind::View => "view",
            Kind::Trigger => "trigger",
            Kind::Event => "event",
            Kind::Role => "role",
            Kind::User => "user",
            Kind::Grant => "grants",
        }
    }
}

/// Something that is made by statements, with the session settings it was made under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `sql_mode`; `None` where it does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_mode: Option<String>,
    /// `character_set_client`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub character_set: Option<String>,
    /// `collation_connection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<String>,
    /// Default collation of its database when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_collation: Option<String>,
    /// `time_zone`, for events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// One object and how it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its database, which is to be the default one when the statements run; empty for roles and users.
    pub schema: String,
    /// Its name; for roles, users and grants the account, quoted.
    pub name: String,
    /// The table a trigger belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The statements that make it.
    pub statements: Vec<String>,
    /// The settings they need.
    #[serde(default)]
    pub settings: Settings,
}

impl Object {
    /// `view `shop`.`v``, for messages.
    #[must_use]
    pub fn title(&self) -> String {
        let word = self.kind.word();
        match self.kind {
            Kind::Database => format!("{word} {}", quote_name(&self.name)),
            Kind::Role | Kind::User | Kind::Grant => format!("{word} {}", self.name),
            _ => format!("{word} {}.{}", quote_name(&self.schema), quote_name(&self.name)),
        }
    }
}

/// How a column's values come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// They are given.
    Stored,
    /// They are computed from other columns.
    Generated,
    /// The start or end of a row's validity in a system-versioned table, as a time.
    RowTime,
    /// The same as a transaction number, which means nothing elsewhere.
    RowTransaction,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type without length: `varchar`.
    pub data_type: String,
    /// Its whole type: `varchar(10)`, `int(10) unsigned zerofill`.
    pub column_type: String,
    /// Its character set, for text.
    pub character_set: Option<String>,
    /// Where its values come from.
    pub origin: Origin,
}

/// A partition, with what the server estimates of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Rows, estimated.
    pub rows: u64,
    /// Bytes of data, estimated.
    pub bytes: u64,
}

/// A base table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: TableName,
    /// Its storage engine, as the server writes it.
    pub engine: String,
    /// `CREATE TABLE`, as the server prints it, without the database.
    pub definition: String,
    /// When it was made or emptied last, as far as the server knows.
    pub created: String,
    /// Rows, estimated.
    pub rows: u64,
    /// Bytes of data, estimated.
    pub bytes: u64,
    /// All columns in order, those of a versioned table's row times included.
    pub columns: Vec<Column>,
    /// The columns of a unique key without NULLs that rows can be found in order by; empty without one.
    pub key: Vec<String>,
    /// The name of that key.
    pub key_name: String,
    /// Its partitions; empty for a table that has none.
    pub partitions: Vec<Partition>,
    /// Whether it keeps old rows (`WITH SYSTEM VERSIONING`).
    pub versioned: bool,
}

impl Table {
    /// Whether a snapshot covers it.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        ["InnoDB", "ROCKSDB", "TokuDB"].iter().any(|engine| engine.eq_ignore_ascii_case(&self.engine))
    }

    /// Whether its rows are in this server: engines that show another's rows, and one that has none.
    #[must_use]
    pub fn holds_rows(&self) -> bool {
        const ELSEWHERE: [&str; 8] =
            ["FEDERATED", "CONNECT", "SPIDER", "MRG_MyISAM", "MERGE", "BLACKHOLE", "S3", "OQGRAPH"];
        !ELSEWHERE.iter().any(|engine| engine.eq_ignore_ascii_case(&self.engine))
    }
}

/// What a server holds.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Everything but tables, in an order in which it can be made.
    pub objects: Vec<Object>,
    /// Tables, by name.
    pub tables: Vec<Table>,
    /// What is there and can't be given as statements, a line for each.
    pub omitted: Vec<String>,
}

/// How much is asked about tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// What they are, and no more.
    Definitions,
    /// All there is to know to read their rows.
    All,
}

/// Which part of a catalogue is wanted.
pub trait Wanted {
    /// Whether anything of this database may be.
    fn schema(&self, schema: &str) -> bool;
    /// Whether this table, view or sequence is.
    fn table(&self, schema: &str, table: &str) -> bool;
    /// Whether what belongs to the database as a whole is: the database itself, routines and events.
    fn programs(&self, schema: &str) -> bool;
    /// Whether roles and users are.
    fn accounts(&self) -> bool;
}

impl Catalogue {
    /// Reads it. The session must have no default database: the server leaves its name out of views then.
    ///
    /// # Errors
    /// What the server reports; [`Error::Privilege`] when a definition is not shown to this account.
    pub fn read(session: &mut Session, wanted: &dyn Wanted) -> Result<Catalogue, Error> {
        Catalogue::read_to(session, wanted, Depth::All)
    }

    /// The same, but of tables the definition only: without columns, keys, partitions, times and sizes.
    ///
    /// # Errors
    /// As [`Catalogue::read`].
    pub fn definitions(session: &mut Session, wanted: &dyn Wanted) -> Result<Catalogue, Error> {
        Catalogue::read_to(session, wanted, Depth::Definitions)
    }

    fn read_to(session: &mut Session, wanted: &dyn Wanted, depth: Depth) -> Result<Catalogue, Error> {
        let mut catalogue = Catalogue::default();
        let schemas = schemas(session, wanted)?;
        for schema in &schemas {
            catalogue.objects.push(database(session, schema)?);
        }
        let found = table::read(session, &schemas, wanted, depth)?;
        catalogue.tables = found.tables;
        catalogue.objects.extend(found.sequences);
        program::routines(session, &schemas, wanted, &mut catalogue)?;
        program::views(session, &found.views, &mut catalogue)?;
        program::triggers(session, &schemas, wanted, &mut catalogue)?;
        program::events(session, &schemas, wanted, &mut catalogue)?;
        catalogue.leave_empty_out(wanted);
        if wanted.accounts() {
            account::read(session, &mut catalogue)?;
        }
        Ok(catalogue)
    }

    /// A database that was looked through for tables, and had none that are wanted, is not wanted itself.
    fn leave_empty_out(&mut self, wanted: &dyn Wanted) {
        let used: BTreeSet<String> = (self.tables.iter().map(|table| &table.name.schema))
            .chain(
                self.objects
                    .iter()
                    .filter(|object| object.kind != Kind::Database)
                    .map(|object| &object.schema),
            )
            .cloned()
            .collect();
        self.objects.retain(|object| {
            object.kind != Kind::Database || wanted.programs(&object.name) || used.contains(&object.name)
        });
    }
}

/// A database by itself.
///
/// # Errors
/// What the server reports.
pub fn database(session: &mut Session, name: &str) -> Result<Object, Error> {
    let rows = session.strings(&format!("SHOW CREATE DATABASE {}", quote_name(name)))?;
    let definition = cell(&rows, 1).unwrap_or_default();
    Ok(Object {
        kind: Kind::Database,
        schema: name.to_owned(),
        name: name.to_owned(),
        table: None,
        statements: vec![definition.replacen("CREATE DATABASE", "CREATE DATABASE IF NOT EXISTS", 1)],
        settings: Settings::default(),
    })
}

/// A table's definition and the time it was made, to be compared with what they were.
///
/// # Errors
/// What the server reports; error 1146 when it is gone.
pub fn table_state(session: &mut Session, name: &TableName) -> Result<(String, String), Error> {
    let rows = session.strings(&format!("SHOW CREATE TABLE {name}"))?;
    let definition = cell(&rows, 1).unwrap_or_default();
    let (schema, table) = (session.quote(&name.schema), session.quote(&name.table));
    let created = session.value(&format!(
        "SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}"
    ))?;
    Ok((definition, created.unwrap_or_default()))
}

fn schemas(session: &mut Session, wanted: &dyn Wanted) -> Result<BTreeSet<String>, Error> {
    let rows = session.strings("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")?;
    let names = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
    Ok(names.filter(|name| !is_system(name) && wanted.schema(name)).collect())
}

fn is_system(schema: &str) -> bool {
    // A folder the server can't decode, or lost+found, is shown with this prefix and can't be used.
    SYSTEM_SCHEMAS.iter().any(|system| system.eq_ignore_ascii_case(schema)) || schema.starts_with("#mysql50#")
}

/// A cell of the first row.
fn cell(rows: &[Vec<Option<String>>], at: usize) -> Option<String> {
    rows.first().and_then(|row| row.get(at)).cloned().flatten()
}

/// The list of names for `IN (...)`.
fn list(session: &Session, names: &BTreeSet<String>) -> String {
    let quoted: Vec<_> = names.iter().map(|name| session.quote(name)).collect();
    if quoted.is_empty() { "NULL".to_owned() } else { quoted.join(", ") }
}

/// Whether a table of `information_schema` has this column.
fn has_column(session: &mut Session, table: &str, column: &str) -> Result<bool, Error> {
    let found = session.value(&format!(
        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema' \
         AND TABLE_NAME = '{table}' AND COLUMN_NAME = '{column}'"
    ))?;
    Ok(found.as_deref() == Some("1"))
}
