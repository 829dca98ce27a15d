//! Everything on a server, as statements that recreate it: databases, sequences, tables, routines, packages,
//! views, triggers, events, roles and users, each kind in an order in which its objects can be created.

mod account;
mod mysql;
mod program;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use account::without_default_roles;
pub use table::{TableStatus, engine_option, filled_column, filled_columns, settled_before, statuses};

use crate::{Error, Session, TableName, error_code, quote_name};

/// The database in which remora notes how far its loads are: it is about this server, and stays on it.
pub const OWN_SCHEMA: &str = "_remora";

/// Databases that belong to the server.
pub const SYSTEM_SCHEMAS: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];

/// The kind of an [`Object`], in the order in which the kinds are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A database.
    Database,
    /// A MariaDB sequence; its statement restores its current position.
    Sequence,
    /// A base table.
    Table,
    /// A library of functions in JavaScript (MySQL 9.2 and later).
    Library,
    /// A stored function.
    Function,
    /// A stored procedure.
    Procedure,
    /// The head of a package in MariaDB's Oracle mode.
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
    /// The privileges of a role or an account.
    Grant,
}

impl Kind {
    /// The SQL word for it, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Database => "database",
            Kind::Sequence => "sequence",
            Kind::Table => "table",
            Kind::Library => "library",
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

    /// Whether a server says with this error that there is no such thing.
    fn is_gone(self, code: u16) -> bool {
        match self {
            Kind::Database => code == 1049,
            Kind::Sequence | Kind::Table | Kind::View => matches!(code, 1049 | 1146 | 4091),
            Kind::Library | Kind::Function | Kind::Procedure | Kind::Package | Kind::PackageBody => {
                code == 1305
            }
            Kind::Trigger => code == 1360,
            Kind::Event => code == 1539,
            Kind::Role | Kind::User | Kind::Grant => matches!(code, 1133 | 1141 | 1269 | 1959),
        }
    }
}

/// The session settings under which an object was created.
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
    /// The default collation of its database when it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_collation: Option<String>,
    /// `time_zone`, for events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// An object and how to create it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its database, which must be the default database when the statements run; empty for roles and users.
    pub schema: String,
    /// Its name; for roles, users and grants the quoted account.
    pub name: String,
    /// The table that a trigger belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The statements that create it.
    pub statements: Vec<String>,
    /// The settings that they need.
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

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// They are stored as given.
    Stored,
    /// They are computed from other columns.
    Generated,
    /// The start or end of a row's validity in a system-versioned table, as a time.
    RowTime,
    /// The same as a transaction number, which has no meaning elsewhere.
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

/// A partition, with the server's estimates.
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
    /// Its storage engine, as the server calls it.
    pub engine: String,
    /// `CREATE TABLE`, as the server prints it, without the database.
    pub definition: String,
    /// When it was last created or emptied, as far as the server knows.
    pub created: String,
    /// Rows, estimated.
    pub rows: u64,
    /// Bytes of data, estimated.
    pub bytes: u64,
    /// All columns in order, including the row times of a versioned table.
    pub columns: Vec<Column>,
    /// The columns of a unique key without NULLs, by which rows can be read in order; empty if there is none.
    pub key: Vec<String>,
    /// The name of that key.
    pub key_name: String,
    /// Its partitions; empty for a table without partitions.
    pub partitions: Vec<Partition>,
    /// Whether it keeps historical rows (`WITH SYSTEM VERSIONING`).
    pub versioned: bool,
}

impl Table {
    /// Whether its engine is InnoDB.
    #[must_use]
    pub fn is_innodb(&self) -> bool {
        self.engine.eq_ignore_ascii_case("InnoDB")
    }

    /// Whether an ALTER since the table was read would show in its time of creation, given
    /// [`settled_before`] of before it was read.
    #[must_use]
    pub fn shows_alter(&self, settled: &str) -> bool {
        self.is_innodb()
            && self.partitions.is_empty()
            && !self.created.is_empty()
            && self.created.as_str() < settled
    }

    /// Whether a snapshot covers its rows.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        ["InnoDB", "ROCKSDB", "TokuDB"].iter().any(|engine| engine.eq_ignore_ascii_case(&self.engine))
    }

    /// Whether its rows are on this server: some engines show the rows of another server, and one has none.
    #[must_use]
    pub fn holds_rows(&self) -> bool {
        const ELSEWHERE: [&str; 8] =
            ["FEDERATED", "CONNECT", "SPIDER", "MRG_MyISAM", "MERGE", "BLACKHOLE", "S3", "OQGRAPH"];
        !ELSEWHERE.iter().any(|engine| engine.eq_ignore_ascii_case(&self.engine))
    }
}

/// The contents of a server.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Everything but tables, in an order in which it can be created.
    pub objects: Vec<Object>,
    /// Tables, by name.
    pub tables: Vec<Table>,
    /// What exists but can't be given as statements, a line for each.
    pub omitted: Vec<String>,
    /// What remora itself has added to the server, and how it comes to another one, a line for each library.
    pub own: Vec<String>,
}

/// Tables that were read before.
#[derive(Debug, Default)]
pub struct KnownTables<'a>(BTreeMap<&'a TableName, &'a Table>);

impl<'a> KnownTables<'a> {
    /// Those of the tables whose time of creation shows whether they were altered since. They were read after
    /// that call of [`settled_before`].
    pub fn new(tables: impl Iterator<Item = &'a Table>, settled: Option<&str>) -> KnownTables<'a> {
        let known = tables.filter(|table| settled.is_some_and(|settled| table.shows_alter(settled)));
        KnownTables(known.map(|table| (&table.name, table)).collect())
    }
}

/// How much to ask about tables.
#[derive(Clone, Copy, Debug)]
enum Depth<'a> {
    /// Only their definitions, which unaltered tables still have.
    Definitions(&'a KnownTables<'a>),
    /// Everything that is needed to read their rows.
    All,
}

/// Which part of a catalogue is wanted.
pub trait Wanted {
    /// Whether anything in this database may be wanted.
    fn schema(&self, schema: &str) -> bool;
    /// Whether this table, view or sequence is wanted.
    fn table(&self, schema: &str, table: &str) -> bool;
    /// Whether the things that belong to the database as a whole are wanted: the database itself, routines
    /// and events.
    fn programs(&self, schema: &str) -> bool;
    /// Whether this routine or event is wanted, in a database of which [`Wanted::programs`] are.
    fn program(&self, _schema: &str, _name: &str) -> bool {
        true
    }
    /// Whether roles and users are wanted.
    fn accounts(&self) -> bool;
}

/// Only these tables, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Only<'a>(pub &'a [TableName]);

impl Wanted for Only<'_> {
    fn schema(&self, schema: &str) -> bool {
        self.0.iter().any(|name| name.schema == schema)
    }

    fn table(&self, schema: &str, table: &str) -> bool {
        self.0.iter().any(|name| name.schema == schema && name.table == table)
    }

    fn programs(&self, _: &str) -> bool {
        false
    }

    fn accounts(&self) -> bool {
        false
    }
}

/// Called with the number of tables, views and sequences read so far, and the number of all.
pub type OnProgress<'a> = &'a mut dyn FnMut(usize, usize);

impl Catalogue {
    /// Reads the catalogue. The session must be one of [`crate::snapshot::connect`]: with a default database
    /// the server would leave its name out of views, and programs are given in the bytes of the client that
    /// made them. What is gone when it is asked about is left out; what can't be read is listed in
    /// `omitted`.
    ///
    /// # Errors
    /// Errors of the server; [`Error::Privilege`] when a definition is hidden from this account.
    pub fn read(
        session: &mut Session,
        wanted: &dyn Wanted,
        on_progress: OnProgress<'_>,
    ) -> Result<Catalogue, Error> {
        Catalogue::read_to(session, wanted, Depth::All, on_progress)
    }

    /// The same, but tables have only their definitions: no columns, keys, partitions, times and sizes.
    ///
    /// # Errors
    /// Those of [`Catalogue::read`].
    pub fn definitions(session: &mut Session, wanted: &dyn Wanted) -> Result<Catalogue, Error> {
        Catalogue::definitions_since(session, wanted, &KnownTables::default())
    }

    /// The same, without reading again what is known and has not been altered.
    ///
    /// # Errors
    /// Those of [`Catalogue::read`].
    pub fn definitions_since(
        session: &mut Session,
        wanted: &dyn Wanted,
        known: &KnownTables<'_>,
    ) -> Result<Catalogue, Error> {
        Catalogue::read_to(session, wanted, Depth::Definitions(known), &mut |_, _| {})
    }

    fn read_to(
        session: &mut Session,
        wanted: &dyn Wanted,
        depth: Depth<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<Catalogue, Error> {
        let mut catalogue = Catalogue::default();
        let schemas = schemas(session, wanted)?;
        for schema in &schemas {
            let name = quote_name(schema);
            let found =
                catalogue.one(session, (Kind::Database, &name), &mut |session| database(session, schema))?;
            catalogue.objects.extend(found);
        }
        let found = table::read(
            session,
            table::TableRequest { schemas: &schemas, wanted, depth, on_progress },
            &mut catalogue,
        )?;
        mysql::libraries(session, &schemas, wanted, &mut catalogue)?;
        program::routines(session, &schemas, wanted, &mut catalogue)?;
        program::views(session, &found.views, &mut catalogue)?;
        program::triggers(session, &found.tables, wanted, &mut catalogue)?;
        program::events(session, &schemas, wanted, &mut catalogue)?;
        mysql::name_the_rest(session, &schemas, wanted, &mut catalogue)?;
        catalogue.leave_empty_out(wanted);
        if wanted.accounts() {
            account::read(session, &mut catalogue)?;
        }
        Ok(catalogue)
    }

    /// Asks about one thing. `None`: it was dropped since it was listed, or the server can't tell about it,
    /// which is then listed among what is omitted. Everything else continues.
    fn one<T>(
        &mut self,
        session: &mut Session,
        (kind, name): (Kind, &str),
        ask: &mut dyn FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match ask(session) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code().is_some_and(|code| kind.is_gone(code)) => Ok(None),
            Err(Error::Sql { code, message, .. }) if !error_code::is_passing(code) => {
                let word = kind.word();
                self.omitted
                    .push(format!("{word} {name}: the server can't read it ({message}, error {code})"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a database that was searched for tables but has no wanted one.
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

/// The database alone, without its contents.
///
/// # Errors
/// Errors of the server.
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

fn schemas(session: &mut Session, wanted: &dyn Wanted) -> Result<BTreeSet<String>, Error> {
    let rows = session.strings("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")?;
    let names = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
    Ok(names.filter(|name| !is_system(name) && wanted.schema(name)).collect())
}

fn is_system(schema: &str) -> bool {
    // A folder that the server can't decode, or lost+found, is listed with this prefix and can't be used.
    SYSTEM_SCHEMAS.iter().any(|system| system.eq_ignore_ascii_case(schema))
        || schema.starts_with("#mysql50#")
        || schema == OWN_SCHEMA
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
