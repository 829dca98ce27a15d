//! Refuses what would fail halfway before anything is changed.

use std::collections::{BTreeMap, BTreeSet};

use server::catalogue::{Kind, Object, Wanted, database};
use server::{Flavour, SchemaPrivileges, Session, Version, quote_name};

use super::account::is_role;
use super::{Ledger, LoadRequest, WriteRequest, conditional};
use crate::context::Context;
use crate::definer::definer_of;
use crate::manifest::{Manifest, TableEntry};
use crate::{Error, Format};

/// Removes what is not selected from the manifest.
pub(crate) fn select(manifest: &mut Manifest, selection: &dyn Wanted) -> Result<(), Error> {
    manifest.tables.iter_mut().enumerate().for_each(|(at, entry)| entry.place = at);
    let count = manifest.tables.len() + manifest.objects.len();
    manifest.tables.retain(|entry| selection.table(&entry.table.name.schema, &entry.table.name.table));
    let wanted = |object: &Object| match object.kind {
        Kind::Database => selection.programs(&object.name),
        Kind::View | Kind::Sequence => selection.table(&object.schema, &object.name),
        Kind::Trigger => object.table.as_ref().is_none_or(|table| selection.table(&object.schema, table)),
        Kind::Role | Kind::User | Kind::Grant => selection.accounts(),
        _ => selection.programs(&object.schema),
    };
    let used: BTreeSet<String> = (manifest.tables.iter().map(|entry| &entry.table.name.schema))
        .chain(manifest.objects.iter().filter(|object| wanted(object)).map(|object| &object.schema))
        .cloned()
        .collect();
    manifest
        .objects
        .retain(|object| wanted(object) || (object.kind == Kind::Database && used.contains(&object.name)));
    if count > 0 && manifest.tables.is_empty() && manifest.objects.is_empty() {
        return Err(Error::Mismatch(
            "nothing in the dump matches the selection; 'remora dump --list' shows its contents".to_owned(),
        ));
    }
    Ok(())
}

/// Checks that every data file exists and is as long as the manifest says.
pub(super) fn files(context: &Context, request: &LoadRequest, manifest: &Manifest) -> Result<(), Error> {
    let mut last = None;
    for entry in manifest.tables.iter().filter(|entry| entry.data && request.write.data) {
        for chunk in &entry.chunks {
            for file in manifest.data_file(&request.folder, entry, chunk).files() {
                // Many chunks may share a file.
                let len = match &last {
                    Some((path, len)) if *path == file.path => *len,
                    _ => context.disk.stat(&file.path).map_err(Error::file(&file.path))?.len,
                };
                if let Some(what) = file.wrong_length(len) {
                    return Err(Error::Corrupt { what, place: file.path.display().to_string() });
                }
                last = Some((file.path.clone(), len));
            }
        }
    }
    Ok(())
}

/// Checks that the target can hold everything, and has none of it yet.
pub(super) fn target(
    session: &mut Session,
    request: &WriteRequest,
    manifest: &Manifest,
    ledger: &Ledger,
) -> Result<(), Error> {
    format(session, request, manifest)?;
    roles(session, manifest)?;
    let lacking = lacking(session, manifest)?;
    if !lacking.is_empty() {
        return Err(Error::Mismatch(format!(
            "{} cannot hold {}; leave them out with --exclude",
            session.about.version_text,
            lacking.join("; ")
        )));
    }
    let begun = ledger.exists(session)?;
    match (begun, request.resume) {
        (true, false) => {
            return Err(Error::Mismatch(format!(
                "a {} into this server was stopped; --resume continues it. To start over, drop what it made and the \
                 database `_remora` ({})",
                ledger.of(),
                ledger.lock_name()
            )));
        }
        (false, true) => {
            return Err(Error::Mismatch(format!(
                "--resume, but there is no stopped {} on this server",
                ledger.of()
            )));
        }
        (true, true) => return Ok(()),
        (false, false) => {}
    }
    databases(session, manifest)?;
    let rows = session.strings("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES")?;
    let there: BTreeSet<(String, String)> = rows
        .into_iter()
        .filter_map(|row| {
            let mut cells = row.into_iter().flatten();
            Some((cells.next()?, cells.next()?))
        })
        .collect();
    let lower = session.about.lower_case_table_names != 0;
    let fold = |name: &str| if lower { name.to_lowercase() } else { name.to_owned() };
    let mut seen = BTreeSet::new();
    for entry in &manifest.tables {
        let name = &entry.table.name;
        let folded = (fold(&name.schema), fold(&name.table));
        if there.contains(&folded) || there.contains(&(name.schema.clone(), name.table.clone())) {
            return Err(Error::Mismatch(format!(
                "table {name} exists on the target; drop it, or exclude it with --exclude"
            )));
        }
        if !seen.insert(folded) {
            return Err(Error::Mismatch(format!(
                "the name of table {name} differs from another only in case, which this server ignores"
            )));
        }
    }
    Ok(())
}

/// Checks that every role which is a definer is on the target, or comes with the dump: the server would take
/// its name for that of a user.
fn roles(session: &mut Session, manifest: &Manifest) -> Result<(), Error> {
    let objects = || manifest.objects.iter();
    let mut open: BTreeMap<&str, &Object> = BTreeMap::new();
    for object in objects().filter(|object| object.kind < Kind::Role) {
        let statements = object.statements.iter();
        let definers = statements.filter_map(|text| definer_of(text).map(|(from, to)| &text[from..to]));
        open.extend(definers.filter(|name| is_role(name)).map(|name| (name, object)));
    }
    open.retain(|name, _| !objects().any(|object| object.kind == Kind::Role && object.name == *name));
    if open.is_empty() || session.about.flavour != Flavour::MariaDb {
        return Ok(());
    }
    let rows = match session.strings("SELECT User FROM mysql.user WHERE is_role = 'Y'") {
        // This account may not be allowed to see them; the verification at the end will show.
        Err(error) if error.code().is_some() => return Ok(()),
        rows => rows?,
    };
    let there: BTreeSet<String> =
        rows.into_iter().flatten().flatten().map(|name| quote_name(&name)).collect();
    match open.into_iter().find(|(name, _)| !there.contains(*name)) {
        None => Ok(()),
        Some((name, object)) => Err(Error::Mismatch(format!(
            "{} has the role {name} as its definer, and there is no such role: CREATE ROLE {name}, or give --definer",
            object.title()
        ))),
    }
}

/// Checks, before the first step, that the account may do everything that this load will ask of the server.
pub(super) fn rights(
    session: &mut Session,
    request: &WriteRequest,
    manifest: &Manifest,
) -> Result<(), Error> {
    let mut wanted: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for entry in &manifest.tables {
        let own = wanted.entry(entry.table.name.schema.clone()).or_default();
        own.insert("CREATE");
        // What is still to be read has no chunks yet.
        if request.data && entry.data && (entry.sum.rows > 0 || entry.chunks.is_empty()) {
            own.extend(["INSERT", "SELECT"]);
        }
    }
    for object in &manifest.objects {
        let privileges: &[&str] = match object.kind {
            Kind::Library | Kind::Function | Kind::Procedure | Kind::Package | Kind::PackageBody => {
                &["CREATE ROUTINE"]
            }
            // The load looks at what it has created in the end.
            Kind::View => &["CREATE VIEW", "SHOW VIEW"],
            Kind::Trigger => &["TRIGGER"],
            Kind::Event => &["EVENT"],
            Kind::Sequence => &["CREATE"],
            _ => continue,
        };
        wanted.entry(object.schema.clone()).or_default().extend(privileges);
    }
    wanted.values().for_each(|own| all.extend(own.iter().copied()));
    if !manifest.tables.is_empty() {
        wanted.insert("_remora".to_owned(), ["CREATE", "DROP", "INSERT", "SELECT"].into());
    }
    if session.about.release() != manifest.source.release() {
        // Definitions are tried there; in GRANT the name is a pattern.
        all.extend(["CREATE", "DROP"]);
        wanted.insert("_remora_trial_%".to_owned(), all);
    }
    let wanted: Vec<(String, Vec<&str>)> =
        wanted.into_iter().map(|(schema, own)| (schema, own.into_iter().collect())).collect();
    SchemaPrivileges::read(session)?.missing(&wanted).map_or(Ok(()), |error| Err(Error::Server(error)))
}

/// Checks that databases which already exist are like those of the dump.
fn databases(session: &mut Session, manifest: &Manifest) -> Result<(), Error> {
    let exact = session.about.release() == manifest.source.release();
    let rows = session.strings("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")?;
    let there: BTreeSet<String> = rows.into_iter().flatten().flatten().collect();
    for object in manifest.objects.iter().filter(|object| object.kind == Kind::Database) {
        if !there.contains(&object.name) {
            continue;
        }
        let name = quote_name(&object.name);
        let found = database(session, &object.name)?;
        if !super::same(object, &found, exact) {
            let wanted = object.statements.join("; ");
            return Err(Error::Mismatch(format!(
                "database {name} already exists and differs: {}. The source has: {wanted}. ALTER DATABASE makes it the \
                 same, DROP DATABASE makes room",
                found.statements.join("; ")
            )));
        }
    }
    Ok(())
}

/// Checks that the format of the data files can be sent to this server.
fn format(session: &Session, request: &WriteRequest, manifest: &Manifest) -> Result<(), Error> {
    let refusal = match manifest.data_format {
        Format::Sql => {
            "data files of INSERT statements are for other clients: give them to mariadb or mysql, behind \
             schema/1-tables.sql; remora load takes tsv, csv and parquet"
        }
        Format::Csv if !session.about.local_infile => {
            "the server does not allow LOAD DATA LOCAL, which csv files need; an administrator can run: \
             SET GLOBAL local_infile = 1"
        }
        Format::Csv | Format::Tsv | Format::Parquet => return Ok(()),
    };
    if request.data { Err(Error::Mismatch(refusal.to_owned())) } else { Ok(()) }
}

/// What this server can't hold.
fn lacking(session: &mut Session, manifest: &Manifest) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    let rows = session
        .strings("SELECT ENGINE FROM information_schema.ENGINES WHERE SUPPORT IN ('YES', 'DEFAULT')")?;
    let engines: BTreeSet<String> =
        rows.into_iter().flatten().flatten().map(|name| name.to_ascii_lowercase()).collect();
    let (mariadb, version) = (session.about.flavour == Flavour::MariaDb, session.about.version);
    let before = |major, minor| version < Version { major, minor, patch: 0 };
    lines.extend(reference_systems(session, manifest)?);
    for entry in &manifest.tables {
        let (table, name) = (&entry.table, &entry.table.name);
        if !engines.contains(&table.engine.to_ascii_lowercase()) {
            lines.push(format!("table {name}: no engine {}", table.engine));
        }
        if table.versioned && (!mariadb || (entry.history && before(10, 11))) {
            lines.push(format!("table {name}: history of system versioning"));
        }
        for column in &table.columns {
            let unknown = match column.data_type.as_str() {
                "uuid" => !mariadb || before(10, 7),
                "inet6" => !mariadb || before(10, 5),
                "inet4" => !mariadb || before(10, 10),
                "vector" => (mariadb && before(11, 7)) || (!mariadb && before(9, 0)),
                "json" => !mariadb && before(5, 8) && before(5, 7),
                _ => false,
            };
            let computed = column.origin == server::catalogue::Origin::Generated && !mariadb && before(5, 7);
            if unknown || computed {
                let what = if computed { "a computed column" } else { "type" };
                lines.push(format!("table {name}, column {}: {what} {}", column.name, column.column_type));
            }
        }
    }
    for object in &manifest.objects {
        let unknown = match object.kind {
            Kind::Sequence | Kind::Package | Kind::PackageBody => !mariadb,
            Kind::Library => mariadb || before(9, 2),
            Kind::Role => !mariadb && before(8, 0),
            _ => false,
        };
        if unknown {
            lines.push(object.title());
        }
    }
    Ok(lines)
}

/// Columns with a spatial reference system that the server does not have. These are not dumped.
fn reference_systems(session: &mut Session, manifest: &Manifest) -> Result<Vec<String>, Error> {
    let numbers = |entry: &TableEntry| conditional::reference_systems(&entry.table.definition).into_iter();
    let used = manifest.tables.iter().flat_map(|entry| numbers(entry).map(|id| (id, &entry.table.name)));
    let used: Vec<_> = used.collect();
    if used.is_empty() || session.about.flavour != Flavour::MySql {
        return Ok(Vec::new());
    }
    let known = session.strings("SELECT SRS_ID FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS")?;
    let known: BTreeSet<u32> =
        known.into_iter().flatten().flatten().filter_map(|id| id.parse().ok()).collect();
    let lacking = used.into_iter().filter(|(id, _)| !known.contains(id));
    Ok(lacking.map(|(id, name)| format!("table {name}: the spatial reference system {id}")).collect())
}
