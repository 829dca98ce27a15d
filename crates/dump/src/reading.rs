//! Reading a server: what is wanted of it, the snapshot that all sessions share, how tables are cut, and what
//! DDL changed meanwhile. A dump writes the rows into files, a copy sends them to another server.

mod changes;
pub(crate) mod chunk_size;
pub(crate) mod read_units;
pub(crate) mod table_check;
pub(crate) mod throttle;

use std::sync::Mutex;
use std::time::Duration;

use server::catalogue::{Catalogue, Kind, Origin, Table, Wanted};
use server::snapshot::{self, Snapshot, SnapshotMethod, SnapshotRequest};
use server::{Flavour, SchemaPrivileges, Session, TableName, Target, Version};

pub(crate) use changes::changes;
use chunk_size::ChunkSize;
pub use throttle::Limits;

use crate::context::Context;
use crate::hash::Sum;
use crate::manifest::{self, Source, TableEntry};
use crate::mask::{self, Masks};
use crate::selection::{Conditions, Selection};
use crate::{Error, Format, folder_name, plan};

/// What is read of a server, and how.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to read.
    pub selection: Selection,
    /// Sessions that read at the same time.
    pub sessions: usize,
    /// Which rows are read.
    pub conditions: Conditions,
    /// What is read instead of the values of some columns.
    pub masks: Masks,
    /// Whether rows are read at all.
    pub data: bool,
    /// Whether historical rows of system-versioned tables are read.
    pub history: bool,
    /// The approximate size of a chunk in bytes; `None` for the amount that is read in two seconds, within
    /// limits.
    pub chunk_bytes: Option<u64>,
    /// Limits on the load that reading puts on the server.
    pub limits: Limits,
    /// How long to wait for a lock.
    pub lock_wait: Duration,
    /// Block DDL on all tables until their rows are read.
    pub block_ddl: bool,
    /// Kill queries that block a lock for longer than that.
    pub kill_long_queries: bool,
}

impl ReadRequest {
    /// Whether not all rows are read, or some values otherwise: what gets them can't take the server's place.
    pub(crate) fn is_part(&self) -> bool {
        !self.conditions.is_empty() || !self.masks.is_empty()
    }

    /// A session that reads definitions, with our limit on waiting for locks.
    pub(crate) fn connect(&self, target: &Target) -> Result<Session, Error> {
        let mut session = snapshot::connect(target)?;
        let wait = self.lock_wait.as_secs().max(1);
        session.execute(&format!("SET SESSION lock_wait_timeout = {wait}"))?;
        Ok(session)
    }

    /// The catalogue of what is selected, after a check that each selected name and condition fits it.
    pub(crate) fn catalogue(&self, context: &Context, session: &mut Session) -> Result<Catalogue, Error> {
        let mut told = |done, total| context.progress.step(done, total, "table");
        let catalogue = Catalogue::read(session, &self.selection, &mut told)?;
        self.selection.check(&catalogue)?;
        check_conditions(session, &catalogue, self)?;
        mask::check(session, &catalogue, &self.masks)?;
        Ok(catalogue)
    }

    /// A table of the catalogue, without chunks.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a mask that does not fit a column.
    pub(crate) fn entry(&self, table: &Table) -> Result<TableEntry, Error> {
        let times = |origin| table.columns.iter().any(|column| column.origin == origin);
        Ok(TableEntry {
            place: 0,
            version: manifest::VERSION,
            folder: folder_name::folder(&table.name),
            condition: self.conditions.of(&table.name).map(str::to_owned),
            masks: self.masks.of(table)?,
            partition_column: None,
            bloom: Vec::new(),
            history: table.versioned && self.history && times(Origin::RowTime),
            data: self.data && table.holds_rows(),
            earlier: None,
            chunks: Vec::new(),
            sum: Sum::default(),
            table: table.clone(),
        })
    }

    /// The size of the first chunk of these tables.
    pub(crate) fn chunk_size(&self, tables: &[TableEntry], format: Format) -> Mutex<ChunkSize> {
        let total = tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum();
        let usual = || match format {
            Format::Parquet => ChunkSize::for_parquet(total, self.sessions),
            Format::Tsv | Format::Csv | Format::Sql => ChunkSize::new(total, self.sessions),
        };
        Mutex::new(self.chunk_bytes.map_or_else(usual, ChunkSize::fixed))
    }
}

/// Checks that the server understands the condition for each table: it resolves names without reading rows.
fn check_conditions(
    session: &mut Session,
    catalogue: &Catalogue,
    request: &ReadRequest,
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
pub(crate) fn block_ddl(
    target: &Target,
    tables: &[TableEntry],
    every: bool,
) -> Result<Option<Session>, Error> {
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

/// Tables that no snapshot covers.
pub(crate) fn unversioned(tables: &[TableEntry]) -> Vec<TableName> {
    let entries = tables.iter().filter(|entry| entry.is_due() && !entry.table.is_transactional());
    entries.map(|entry| entry.table.name.clone()).collect()
}

/// What reading such tables does to those who write to them; nothing if there are none.
pub(crate) fn held_up(unversioned: &[TableName]) -> Option<String> {
    let names: Vec<_> = unversioned.iter().map(ToString::to_string).collect();
    let line = format!("{} are not transactional: writes to them wait until they are read", names.join(", "));
    (!names.is_empty()).then_some(line)
}

/// Instead of a position.
const UNSEEN: &str = "where that is in the binary log this account may not see (it lacks BINLOG MONITOR, which MySQL calls \
     REPLICATION CLIENT, on *.*), so that no replica can start from it";

/// Begins one snapshot for all sessions, and one more that plans.
pub(crate) fn begin(
    context: &Context,
    target: &Target,
    request: &ReadRequest,
    tables: &[TableEntry],
) -> Result<Snapshot, Error> {
    context.progress.phase("beginning one snapshot", None);
    let with_rows = tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.name.clone());
    let unversioned = unversioned(tables);
    held_up(&unversioned).iter().for_each(|line| context.progress.note(line));
    let mut snapshot = Snapshot::begin(
        target,
        &SnapshotRequest {
            // One more session plans.
            sessions: request.sessions + 1,
            lock_wait: request.lock_wait,
            kill_long_queries: request.kill_long_queries,
            unversioned,
            tables: with_rows.collect(),
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
        request.masks.prepare(session)?;
    }
    Ok(snapshot)
}

/// Describes a server before there is a snapshot of it.
pub(crate) fn server(session: &Session) -> Source {
    let about = &session.about;
    Source {
        flavour: if about.flavour == Flavour::MariaDb { "mariadb" } else { "mysql" }.to_owned(),
        server_version: about.version_text.clone(),
        host: about.hostname.clone(),
        server_id: about.server_id,
        lower_case_table_names: about.lower_case_table_names,
        snapshot: None,
        position: None,
        replica_of: Vec::new(),
    }
}

/// Describes the state that a snapshot has.
pub(crate) fn describe(
    source: &mut Source,
    session: &mut Session,
    snapshot: &mut Snapshot,
) -> Result<(), Error> {
    let mut replica_of = session.source_position()?;
    if let Some(first) = snapshot.sessions.first_mut().filter(|_| !replica_of.is_empty()) {
        // The position in the source's log may have advanced since the snapshot began; this one has not.
        let applied = first.applied()?;
        first.execute(plan::RELEASE_LOCKS)?;
        replica_of.extend((!applied.is_empty()).then(|| ("gtid_slave_pos".to_owned(), applied)));
    }
    source.snapshot = Some(snapshot.method);
    source.position.clone_from(&snapshot.position);
    source.replica_of = replica_of;
    Ok(())
}

/// What is known from the start to be missing.
pub(crate) fn missing_at_start(
    catalogue: &Catalogue,
    tables: &[TableEntry],
    request: &ReadRequest,
) -> Vec<String> {
    let mut lines = catalogue.omitted.clone();
    for entry in tables {
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
pub(crate) fn hidden_objects(
    session: &mut Session,
    catalogue: &Catalogue,
    request: &ReadRequest,
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
