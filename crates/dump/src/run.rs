//! A dump from beginning to end.

mod altered;
mod check;
mod chunk_size;
mod read;
mod read_units;
mod resume;
mod shared;
mod table_ids;
mod throttle;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use codec::Codec;
use disk::Disk;
use server::catalogue::{Catalogue, Kind, KnownTables, Object, Origin, Table, Wanted, settled_before};
use server::definition::without_counter;
use server::snapshot::{self, Snapshot, SnapshotMethod, SnapshotRequest};
use server::{Flavour, SchemaPrivileges, Session, TableName, Target, Version};

pub use throttle::Limits;
pub(crate) use throttle::pause;

use shared::Job;
use table_ids::TableIds;

use crate::context::Context;
use crate::definer::{self, Definer};
use crate::hash::Sum;
use crate::journal::{self, Journal, Step};
use crate::manifest::{Manifest, Source, TableEntry};
use crate::selection::{Conditions, Selection};
use crate::{Error, Format, folder_name, manifest, plan, schema};

/// A request for a dump.
#[derive(Clone, Debug)]
pub struct DumpRequest {
    /// What to dump.
    pub selection: Selection,
    /// The folder to make.
    pub folder: PathBuf,
    /// Sessions that read at the same time.
    pub sessions: usize,
    /// Format of the data files.
    pub format: Format,
    /// Their compression, and its level.
    pub codec: (Codec, u32),
    /// Which rows are dumped.
    pub conditions: Conditions,
    /// Whether rows are dumped at all.
    pub data: bool,
    /// Whether historical rows of system-versioned tables are dumped.
    pub history: bool,
    /// Resume a stopped dump in this folder: its complete tables are kept.
    pub resume: bool,
    /// The definer of views, routines, triggers and events.
    pub definer: Definer,
    /// The approximate size of a chunk in bytes; `None` for the amount that is read in two seconds, within
    /// limits.
    pub chunk_bytes: Option<u64>,
    /// Limits on the load that the dump puts on the server.
    pub limits: Limits,
    /// How long to wait for a lock.
    pub lock_wait: Duration,
    /// Block DDL on all tables until their rows are read.
    pub block_ddl: bool,
    /// Kill queries that block a lock for longer than that.
    pub kill_long_queries: bool,
}

/// What was dumped.
#[derive(Clone, Debug)]
pub struct DumpSummary {
    /// The manifest that was written.
    pub manifest: Manifest,
    /// What is missing from the dump or changed while it ran, a line for each.
    pub omitted: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of data files.
    pub file_bytes: u64,
}

/// Dumps a server into a new folder, or resumes a dump that was stopped.
///
/// # Errors
/// [`Error::Altered`] when DDL interfered, [`Error::Mismatch`] when the folder exists; otherwise errors of
/// the server or the operating system. An unfinished dump stays in the folder, without a manifest.
pub fn dump(context: &Context, target: &Target, request: &DumpRequest) -> Result<DumpSummary, Error> {
    let (disk, folder) = (&*context.disk, &request.folder);
    let mut session = snapshot::connect(target)?;
    session.execute(&format!("SET SESSION lock_wait_timeout = {}", request.lock_wait.as_secs().max(1)))?;
    context.progress.phase("reading the catalogue", None);
    let settled = settled_before(&mut session)?;
    let mut told = |done, total| context.progress.step(done, total, "table");
    let before = Catalogue::read(&mut session, &request.selection, &mut told)?;
    request.selection.check(&before)?;
    check_conditions(&mut session, &before, request)?;
    if request.resume {
        // Before locking, which would leave a file.
        resume::check_folder(disk, folder)?;
    } else {
        make_folder(disk, folder)?;
    }
    let lock = journal::lock(disk, folder)?;
    let left = if request.resume { resume::find(disk, folder)? } else { None };
    let mut tables: Vec<TableEntry> = before.tables.iter().map(|table| entry(table, request)).collect();
    let earlier = match left {
        Some(left) => {
            left.check(request, &session)?;
            left.keep(context, request, &mut tables)?.earlier
        }
        None => Vec::new(),
    };
    let identities = TableIds::read(&mut session)?;
    let held = block_ddl(target, &tables, request.block_ddl)?;
    let mut snapshot = begin(context, target, request, &tables)?;
    let mut manifest = describe(&mut session, &mut snapshot, request)?;
    manifest.tables = tables;
    manifest.set_earlier(earlier);
    manifest.objects = before.objects.clone();
    definer::tell(context, &definer::apply(&mut manifest, &request.definer));
    before.own.iter().for_each(|line| context.progress.note(line));
    let journal = Journal::begin(disk, folder, &manifest)?;
    let run = || -> Result<Vec<String>, Error> {
        make_folders(disk, folder, &manifest)?;
        let job = Job { context, request, journal: &journal, settled: settled.as_deref() };
        let damaged = worker::run(job, &mut snapshot, &identities, &mut manifest)?;
        // Whoever waits to alter one of them can continue.
        drop(held);
        context.progress.phase("looking for what changed meanwhile", None);
        let known = KnownTables::new(before.tables.iter(), settled.as_deref());
        let after = Catalogue::definitions_since(&mut session, &request.selection, &known)?;
        let mut omitted = damaged;
        omitted.extend(missing_at_start(&before, &manifest, request));
        omitted.extend(hidden_objects(&mut session, &before, request)?);
        omitted.extend(changes_during_dump((&manifest, &before), &after));
        manifest.omitted = omitted.clone();
        schema::write(disk, folder, &manifest)?;
        manifest.write(disk, folder)?;
        Ok(omitted)
    };
    let omitted = run().inspect_err(|error| {
        // A follower then need not wait until the lock is released.
        journal.add(&Step::Failed(error.to_string())).ok();
    })?;
    journal.remove(disk, folder)?;
    drop(lock);
    let chunks = || manifest.tables.iter().flat_map(|table| &table.chunks);
    Ok(DumpSummary {
        rows: chunks().map(|chunk| chunk.sum.rows).sum(),
        text_bytes: chunks().map(|chunk| chunk.text_bytes).sum(),
        file_bytes: chunks().map(|chunk| chunk.file_bytes).sum(),
        omitted,
        manifest,
    })
}

/// Creates a folder for each table with files of its own, and one for tables that share files.
fn make_folders(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    let due = (0..manifest.tables.len()).filter(|at| manifest.tables[*at].is_due()).collect();
    let (small, large) = read_units::split(manifest, due);
    let shared = (!small.is_empty()).then(|| manifest::SMALL_TABLES_FOLDER.to_owned());
    for name in large.into_iter().map(|at| manifest.tables[at].folder.clone()).chain(shared) {
        let path = folder.join(name);
        match disk.create_folder(&path) {
            // It contains files of tables from a stopped dump.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other.map_err(Error::file(&path))?,
        }
    }
    Ok(())
}

fn make_folder(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    match disk.create_folder(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(Error::Mismatch(format!(
            "{}: it already exists; give a new folder, remove this one, or resume a stopped dump with --resume",
            folder.display()
        ))),
        other => other.map_err(Error::file(folder)),
    }
}

/// Checks that the server understands the condition for each table: it resolves names without reading rows.
fn check_conditions(
    session: &mut Session,
    catalogue: &Catalogue,
    request: &DumpRequest,
) -> Result<(), Error> {
    for table in catalogue.tables.iter().filter(|table| request.data && table.holds_rows()) {
        let Some(condition) = request.conditions.of(&table.name) else { continue };
        let query = format!("SELECT 1 FROM {} WHERE ({condition})", table.name);
        match session.execute(&format!("PREPARE remora FROM {}", session.quote(&query))) {
            Err(server::Error::Sql { message, .. }) => {
                return Err(Error::Mismatch(format!(
                    "--where {condition:?} is not a valid condition for table {}: {message}",
                    table.name
                )));
            }
            prepared => drop(prepared?),
        }
        session.execute("DEALLOCATE PREPARE remora")?;
    }
    let unused = request.conditions.unused(catalogue);
    match unused {
        Some(pattern) => {
            Err(Error::Mismatch(format!("--where {pattern}: there is no such table in the dump")))
        }
        None => Ok(()),
    }
}

/// A session that holds up DDL on tables where it would go unnoticed. No snapshot notices that a partition
/// changed places with another table, and no definition shows it; the same is true of TRUNCATE before MySQL
/// 8.
fn block_ddl(target: &Target, tables: &[TableEntry], every: bool) -> Result<Option<Session>, Error> {
    let mut session = snapshot::connect(target)?;
    let about = &session.about;
    let unseen = about.flavour == Flavour::MySql && about.version < Version { major: 8, minor: 0, patch: 0 };
    let all = every || unseen;
    // The other tables are locked against writing, and a lock to read them would wait for writers.
    let held = |entry: &&TableEntry| {
        entry.is_due() && entry.table.is_transactional() && (all || !entry.table.partitions.is_empty())
    };
    let names: Vec<&TableName> = tables.iter().filter(held).map(|entry| &entry.table.name).collect();
    if names.is_empty() {
        return Ok(None);
    }
    session.execute("START TRANSACTION")?;
    for name in names {
        session.execute(&format!("SELECT 1 FROM {name} LIMIT 0"))?;
    }
    Ok(Some(session))
}

/// Instead of a position.
const UNSEEN: &str = "where that is in the binary log this account may not see (it lacks BINLOG MONITOR, which MySQL calls \
     REPLICATION CLIENT, on *.*), so that no replica can start from this dump";

fn begin(
    context: &Context,
    target: &Target,
    request: &DumpRequest,
    tables: &[TableEntry],
) -> Result<Snapshot, Error> {
    context.progress.phase("beginning one snapshot", None);
    let with_rows = || tables.iter().filter(|entry| entry.is_due()).map(|entry| &entry.table);
    let unversioned: Vec<TableName> =
        with_rows().filter(|table| !table.is_transactional()).map(|table| table.name.clone()).collect();
    if !unversioned.is_empty() {
        context.progress.note(&format!(
            "{} are not transactional: writes to them wait until they are dumped",
            unversioned.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ));
    }
    let mut snapshot = Snapshot::begin(
        target,
        &SnapshotRequest {
            // One more session plans.
            sessions: request.sessions + 1,
            lock_wait: request.lock_wait,
            kill_long_queries: request.kill_long_queries,
            unversioned,
            tables: with_rows().map(|table| table.name.clone()).collect(),
        },
    )?;
    let log_bin = snapshot.sessions.first().is_some_and(|session| session.about.log_bin);
    let place = snapshot.position.as_ref().map_or_else(
        || if log_bin { UNSEEN } else { "the server keeps no binary log" }.to_owned(),
        |position| format!("at {}:{} {}", position.file, position.offset, position.gtid),
    );
    let held = match snapshot.held.as_millis() {
        0 => String::new(),
        held => format!(" for {held} ms"),
    };
    context.progress.note(&format!(
        "one snapshot for all sessions: {}{held}; {}",
        snapshot.method.words(),
        place.trim_end()
    ));
    if snapshot.method == SnapshotMethod::TableLocks {
        context.progress.note(
            "all tables had to be locked, because this account lacks RELOAD: GRANT RELOAD ON *.* TO it avoids that",
        );
    }
    for session in &mut snapshot.sessions {
        // From here on metadata locks last for one chunk.
        session.execute(plan::SET_SAVEPOINT)?;
    }
    Ok(snapshot)
}

fn describe(
    session: &mut Session,
    snapshot: &mut Snapshot,
    request: &DumpRequest,
) -> Result<Manifest, Error> {
    let mut replica_of = session.source_position()?;
    if let Some(first) = snapshot.sessions.first_mut().filter(|_| !replica_of.is_empty()) {
        // The position in the source's log may have advanced since the snapshot began; this one has not.
        let applied = first.applied()?;
        first.execute(plan::RELEASE_LOCKS)?;
        replica_of.extend((!applied.is_empty()).then(|| ("gtid_slave_pos".to_owned(), applied)));
    }
    let id = session.value("SELECT REPLACE(UUID(), '-', '')")?.unwrap_or_default();
    let about = &session.about;
    let source = Source {
        flavour: if about.flavour == Flavour::MariaDb { "mariadb" } else { "mysql" }.to_owned(),
        server_version: about.version_text.clone(),
        host: about.hostname.clone(),
        server_id: about.server_id,
        lower_case_table_names: about.lower_case_table_names,
        snapshot: snapshot.method,
        position: snapshot.position.clone(),
        replica_of,
    };
    let mut manifest = Manifest::new(id, source, request.format, request.codec.0);
    manifest.condition = request.conditions.all.clone();
    manifest.selection = Some(request.selection.clone());
    Ok(manifest)
}

fn entry(table: &Table, request: &DumpRequest) -> TableEntry {
    let times = |origin| table.columns.iter().any(|column| column.origin == origin);
    TableEntry {
        place: 0,
        version: manifest::VERSION,
        folder: folder_name::folder(&table.name),
        condition: request.conditions.of(&table.name).map(str::to_owned),
        history: table.versioned && request.history && times(Origin::RowTime),
        data: request.data && table.holds_rows(),
        earlier: None,
        chunks: Vec::new(),
        sum: Sum::default(),
        table: table.clone(),
    }
}

/// What is known from the start to be missing from the dump.
fn missing_at_start(catalogue: &Catalogue, manifest: &Manifest, request: &DumpRequest) -> Vec<String> {
    let mut lines = catalogue.omitted.clone();
    for entry in &manifest.tables {
        let name = &entry.table.name;
        if request.data && !entry.table.holds_rows() && entry.table.engine != "BLACKHOLE" {
            lines.push(format!("rows of table {name}: engine {} stores them elsewhere", entry.table.engine));
        }
        if entry.data && entry.table.versioned && !entry.history && request.history {
            lines.push(format!(
                "row history of table {name}: it is versioned by transaction IDs, which are meaningless on another server"
            ));
        }
    }
    lines
}

/// What this account would not see if it existed, because the server then hides it silently.
fn hidden_objects(
    session: &mut Session,
    catalogue: &Catalogue,
    request: &DumpRequest,
) -> Result<Vec<String>, Error> {
    let rights = SchemaPrivileges::read(session)?;
    let mut lines = Vec::new();
    for object in catalogue.objects.iter().filter(|object| object.kind == Kind::Database) {
        let has_tables = catalogue.tables.iter().any(|table| table.name.schema == object.name);
        let programs = request.selection.programs(&object.name);
        for (privilege, what, counts) in [("TRIGGER", "triggers", has_tables), ("EVENT", "events", programs)]
        {
            if counts && !rights.has(privilege, &object.name) {
                lines.push(format!(
                    "{what} of {}, if there are any: this account lacks {privilege}, and is shown none",
                    object.title()
                ));
            }
        }
    }
    Ok(lines)
}

/// What was created, changed or removed while the dump ran. Tables that were read were already compared.
fn changes_during_dump((manifest, before): (&Manifest, &Catalogue), after: &Catalogue) -> Vec<String> {
    let dumped = || manifest.tables.iter().map(|entry| &entry.table);
    let mut lines = Vec::new();
    let names: BTreeSet<&TableName> = dumped().map(|table| &table.name).collect();
    let unread = |title: &str| {
        let mut omitted = before.omitted.iter().chain(&after.omitted);
        omitted.any(|line| line.starts_with(&format!("{title}: ")))
    };
    for table in after.tables.iter().filter(|table| !names.contains(&table.name)) {
        let title = format!("table {}", table.name);
        if !unread(&title) {
            lines.push(format!("{title}: created while the dump ran"));
        }
    }
    let now: BTreeMap<&TableName, &Table> = after.tables.iter().map(|table| (&table.name, table)).collect();
    for table in dumped() {
        match now.get(&table.name) {
            None if unread(&format!("table {}", table.name)) => {}
            None => {
                lines.push(format!("table {}: dropped after it was dumped; it is in the dump", table.name))
            }
            Some(now) if without_counter(&now.definition) != without_counter(&table.definition) => {
                lines.push(format!(
                    "table {}: altered after it was dumped; the dump has it as it was before",
                    table.name
                ));
            }
            Some(_) => {}
        }
    }
    // A sequence's position changes all the time.
    let plain = |objects: &'_ [Object]| -> BTreeMap<(Kind, String, String), Object> {
        let plain = objects.iter().filter(|object| object.kind != Kind::Sequence);
        plain
            .map(|object| ((object.kind, object.schema.clone(), object.name.clone()), object.clone()))
            .collect()
    };
    let (before_by_name, after_by_name) = (plain(&before.objects), plain(&after.objects));
    for (key, object) in &before_by_name {
        if !after_by_name.contains_key(key) && !unread(&object.title()) {
            lines.push(format!("{}: dropped while the dump ran; it is in the dump", object.title()));
        }
    }
    for (key, object) in &after_by_name {
        let what = match before_by_name.get(key) {
            Some(known) if known == object => continue,
            Some(_) => "changed while the dump ran; the dump has it as it was before",
            None if unread(&object.title()) => continue,
            None => "created while the dump ran",
        };
        lines.push(format!("{}: {what}", object.title()));
    }
    lines
}
