//! Checks whether a server and a table qualify.

use innodb::key_order::KeyOrder;
use innodb::table::{Generated, KeyKind, RowFormat, Table, Type};
use innodb::write::RecordBuilder;
use server::{Flavour, Session, Version, definition, quote_name};

use super::{Request, template_table};
use crate::Error;

/// The first series whose file format is known.
const SERVER_MIN: Version = Version { major: 10, minor: 11, patch: 0 };
/// The first series that imports a table that it did not make; the table gets a number of its own.
const IMPORTS_NEW_TABLES: Version = Version { major: 11, minor: 2, patch: 0 };

/// How the server imports the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportMethod {
    /// DISCARD TABLESPACE, then IMPORT TABLESPACE. Until the next checkpoint a crash would lose what others
    /// commit to the table, because recovery takes its tablespace for the discarded one.
    Discard,
    /// IMPORT TABLESPACE of a table that the server does not know yet.
    NewTable,
}

impl ImportMethod {
    pub(super) fn of(session: &Session) -> ImportMethod {
        if session.about.version < IMPORTS_NEW_TABLES {
            ImportMethod::Discard
        } else {
            ImportMethod::NewTable
        }
    }
}

fn refused<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused(what.into()))
}

/// What is known of a target that qualifies.
pub(super) struct CheckedTarget {
    /// The meaning of [`RowFormat::Default`].
    pub(super) format: RowFormat,
    /// Whether the target exists.
    pub(super) is_there: bool,
}

/// Refuses a server or a table that does not qualify. Nothing is changed.
pub(super) fn all(session: &mut Session, request: &Request<'_>) -> Result<CheckedTarget, Error> {
    server(session, request)?;
    let format = row_format(session)?;
    let parsed = template_table::parse(session, request.definition).map_err(Error::refusal)?;
    table(&parsed, format, request).map_err(Error::refusal)?;
    Ok(CheckedTarget { format, is_there: target(session, request)? })
}

/// Refuses a server that does not import what is made here.
fn server(session: &mut Session, request: &Request<'_>) -> Result<(), Error> {
    let about = &session.about;
    if about.flavour != Flavour::MariaDb || about.version < SERVER_MIN {
        return refused(format!(
            "files are written for MariaDB {}.{} and later, not for {}",
            SERVER_MIN.major, SERVER_MIN.minor, about.version_text
        ));
    }
    if about.innodb_page_size != innodb::page::PAGE_BYTES as u64 {
        return refused(format!("the server's pages have {} bytes, not 16 KiB", about.innodb_page_size));
    }
    if about.galera {
        return refused("other members of the Galera cluster would not get the rows");
    }
    if about.log_bin && !request.unlogged {
        return refused(
            "the rows would not be in the binary log, and neither replicas nor a recovery would get them; --no-binlog accepts that",
        );
    }
    let method = ImportMethod::of(session);
    for (name, wanted, what) in [
        ("innodb_file_per_table", "1", "new tables have no file of their own (innodb_file_per_table)"),
        ("innodb_encrypt_tables", "OFF", "new tables are encrypted (innodb_encrypt_tables)"),
        ("innodb_compression_default", "0", "new tables are compressed (innodb_compression_default)"),
    ] {
        if session.value(&format!("SELECT @@GLOBAL.{name}"))?.is_some_and(|value| value != wanted) {
            return refused(what);
        }
    }
    if method == ImportMethod::Discard && !super::checkpoint_wait::is_there(session)? {
        return refused(format!(
            "{} has no innodb_log_checkpoint_now, without which a crash could lose changes that are made later",
            session.about.version_text
        ));
    }
    Ok(())
}

/// The meaning of [`RowFormat::Default`] on this server.
fn row_format(session: &mut Session) -> Result<RowFormat, Error> {
    match session.value("SELECT @@GLOBAL.innodb_default_row_format")?.as_deref() {
        Some("dynamic") => Ok(RowFormat::Dynamic),
        Some("compact") => Ok(RowFormat::Compact),
        other => refused(format!("innodb_default_row_format is {}", other.unwrap_or("not known"))),
    }
}

/// Refuses a target that can't be swapped with another table.
fn target(session: &mut Session, request: &Request<'_>) -> Result<bool, Error> {
    let schema = session.quote(&request.target.schema);
    let table = session.quote(&request.target.table);
    let kind = session.value(&format!(
        "SELECT table_type FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {table}"
    ))?;
    match kind.as_deref() {
        None => return Ok(false),
        Some("BASE TABLE") => {}
        Some(kind) => return refused(format!("{} is a {kind}", request.target)),
    }
    if session.value(&format!("SELECT 1 FROM {} LIMIT 1", request.target))?.is_some() {
        return Err(Error::Taken(format!("{} has rows that others have written", request.target)));
    }
    let definition = session.definition(request.target)?;
    let lines =
        |text: &str| Ok::<_, Error>(definition::sorted(&template_table::renamed(text, request.target)?));
    if lines(&definition)? != lines(request.definition)? {
        return refused(format!("{} has another definition", request.target));
    }
    for (what, query) in [
        (
            "triggers",
            format!(
                "SELECT 1 FROM information_schema.triggers WHERE event_object_schema = {schema} AND \
                 event_object_table = {table} LIMIT 1"
            ),
        ),
        (
            "foreign keys of other tables",
            format!(
                "SELECT 1 FROM information_schema.referential_constraints WHERE unique_constraint_schema = {schema} \
                 AND referenced_table_name = {table} LIMIT 1"
            ),
        ),
    ] {
        if session.value(&query)?.is_some() {
            return refused(format!("{} has {what}", request.target));
        }
    }
    Ok(true)
}

/// The keys that the server must build.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    pub(super) added: Vec<String>,
}

/// Refuses a table whose records can't be made here; returns which of its keys the server must build.
pub(super) fn table(table: &Table, format: RowFormat, request: &Request<'_>) -> Result<Keys, Error> {
    if request
        .definition
        .lines()
        .any(|line| line.starts_with("  CONSTRAINT ") && line.contains(" FOREIGN KEY "))
    {
        return refused("it has foreign keys, which the server would not check");
    }
    let is_unique = |line: &str| line.starts_with("  PRIMARY KEY ") || line.starts_with("  UNIQUE KEY ");
    if request.definition.lines().any(|line| is_unique(line) && line.contains(" WITHOUT OVERLAPS)")) {
        return refused(
            "it has a key WITHOUT OVERLAPS, and the server would not look for periods that overlap",
        );
    }
    let options = request.definition.rsplit_once("\n)").map_or("", |(_, options)| options);
    let options = options.split_once(" COMMENT='").map_or(options, |(before, _)| before);
    if options.contains(" DATA DIRECTORY=") {
        return refused("its file is elsewhere (DATA DIRECTORY)");
    }
    if options.contains(" SEQUENCE=1") {
        return refused("it is a sequence");
    }
    if !table.partitions().is_empty() {
        return refused("it is partitioned");
    }
    for column in table.columns() {
        match column.generated {
            Generated::Stored => return refused(format!("`{}` is computed by the server", column.name)),
            Generated::RowStart | Generated::RowEnd => return refused("it is system-versioned"),
            Generated::No | Generated::Virtual => {}
        }
        if column.auto_increment && !matches!(column.kind, Type::Int { .. }) {
            return refused(format!("the AUTO_INCREMENT column `{}` is not an integer", column.name));
        }
    }
    if table.keys().iter().any(|key| matches!(key.kind, KeyKind::Fulltext | KeyKind::Vector)) {
        return refused("it has a FULLTEXT or VECTOR key");
    }
    let clustered = table.clustered();
    RecordBuilder::new(table, clustered, format)?;
    if KeyOrder::by_weights(table, clustered).is_none() && !request.sorted {
        return refused("the order of its primary key is not known, and its rows are not sorted");
    }
    let mut keys = Keys::default();
    for index in table.indexes().iter().skip(1) {
        if KeyOrder::of(table, index).is_none() || RecordBuilder::new(table, index, format).is_err() {
            keys.added.push(index.name.clone());
        }
    }
    let counter = table.columns().iter().position(|column| column.auto_increment);
    let is_kept = |key: &&innodb::table::Key| !keys.added.contains(&key.name);
    let counts = |key: &innodb::table::Key| key.parts.first().map(|part| part.column) == counter;
    if counter.is_some() && !table.keys().iter().filter(is_kept).any(counts) {
        return refused("the key of its AUTO_INCREMENT column has to be built by the server");
    }
    Ok(keys)
}

/// The clause of a key in a definition.
pub(super) fn clause<'a>(definition: &'a str, key: &str) -> Option<&'a str> {
    let name = quote_name(key);
    definition.lines().find_map(|line| {
        let line = line.strip_prefix("  ")?;
        let kinds = ["KEY ", "UNIQUE KEY ", "SPATIAL KEY "];
        let is_it = kinds.iter().any(|kind| {
            line.strip_prefix(kind)
                .and_then(|rest| rest.strip_prefix(&name))
                .is_some_and(|rest| rest.starts_with(" ("))
        });
        is_it.then(|| line.strip_suffix(',').unwrap_or(line))
    })
}
