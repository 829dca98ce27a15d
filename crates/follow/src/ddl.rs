//! DDL of the source, executed on the target in its place among the changes of rows.
//!
//! A server commits DDL by itself, so the position can't be part of it. What is about to be executed is noted
//! before, with a hash of what its tables were. A run that finds this note knows by the hash whether the
//! statement was executed. Where that does not tell, a new snapshot does.

use std::collections::BTreeSet;

use binlog::event::query::Query;
use server::catalogue::{Catalogue, Only, Table, Wanted, database};
use server::{Flavour, Session, TableName, quote_name, snapshot};
use transactions::defined_tables::DefinedTables;

use crate::check::{cascading, table_refusal};
use crate::scope::shown;
use crate::state::Intent;
use crate::{Error, Followed, Noted, Reached, Request};

/// How long a statement waits for others who use its tables on the target.
const LOCK_WAIT_S: u32 = 60;
/// Unknown database.
const NO_SCHEMA: u16 = 1049;
/// Bits in the log for `foreign_key_checks = 0` and `unique_checks = 0`.
const NO_FOREIGN_KEY_CHECKS: u32 = 1 << 26;
const NO_UNIQUE_CHECKS: u32 = 1 << 27;
/// From these versions on a server does DDL whole or not at all.
const ATOMIC_MARIADB: (u16, u16) = (10, 6);
const ATOMIC_MYSQL: (u16, u16) = (8, 0);

/// A DDL statement of the source.
#[derive(Debug)]
pub(crate) struct Ddl {
    /// Where it is in the log, `FILE:OFFSET`.
    pub(crate) place: String,
    /// Its default database.
    schema: String,
    sql: String,
    /// The error that it ended with on the source; 0 is none.
    error: u16,
    /// Statements that make a session like the one that executed it.
    settings: Vec<String>,
    /// The tables that it defines.
    tables: Vec<TableName>,
    /// A database that it makes or alters.
    database: Option<String>,
    /// Whether tables exchange their names or rows, so that their definitions don't tell whether it was
    /// executed.
    is_move: bool,
    /// Where the log continues behind it.
    pub(crate) after: Reached,
}

impl Ddl {
    /// `time_s`: when it was executed, in seconds since 1970.
    ///
    /// # Errors
    /// Why it can't be executed.
    pub(crate) fn new(
        query: &Query<'_>,
        time_s: u32,
        (place, defined): (String, &DefinedTables),
        after: Reached,
    ) -> Result<Ddl, String> {
        let utf8 =
            |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "it is not in UTF-8".to_owned());
        let (schema, sql) = (utf8(query.schema)?, utf8(&query.sql)?);
        let tables = defined.names(&schema);
        let database = defined.database.clone();
        let database = database.map(|name| if name.is_empty() { schema.clone() } else { name });
        let (error, settings, is_move) = (query.error, settings(query, time_s), defined.is_move);
        Ok(Ddl { place, schema, sql, error, settings, tables, database, is_move, after })
    }

    /// Executes it on the target, and notes what is followed from there on.
    ///
    /// # Errors
    /// [`Error::Unapplied`] if the target refuses it, or what it makes can't be followed.
    pub(crate) fn execute(&self, request: &Request<'_>) -> Result<(), Error> {
        let mut session = request.target()?;
        let state = &request.state;
        if !state.lock(&mut session)? {
            return Err(Error::Busy);
        }
        let noted = crate::noted(request, &mut session)?;
        let mut own = snapshot::connect(request.to)?;
        // A server executes what it has begun, though the run that sent it was killed.
        if !state.lock_ddl(&mut own, LOCK_WAIT_S)? {
            return Err(Error::Again("DDL of a run that was killed still waits on the target"));
        }
        let before = self.fingerprint(&mut session)?;
        let intent = state.intent(&mut session)?.filter(|intent| intent.place == self.place);
        match intent {
            None => state.intend(&mut session, &Intent { place: self.place.clone(), before })?,
            Some(_) if self.is_move || !is_atomic(&session) => {
                return Err(self.unapplied(
                    "nobody knows whether it was executed, because remora or its connection was lost there",
                ));
            }
            Some(intent) if intent.before != before => return self.executed(request, session, noted),
            Some(_) => {}
        }
        if let Some(name) = self.stranger(&mut session, &noted)? {
            return Err(self.unapplied(&format!("the target has a table {name} that is not of this copy")));
        }
        let done = same_timestamps(request, &mut own).and_then(|unlike| match unlike {
            Some(why) => Err(self.unapplied(&why)),
            None => self.on_target(own, request.copy.write.no_binlog),
        });
        if let Err(Error::Server(error)) = &done
            && error.code().is_some()
        {
            // The server says that it was not executed, such as after a wait for a lock.
            state.withdraw_intent(&mut session)?;
        }
        done?;
        self.executed(request, session, noted)
    }

    /// A table on the target that has a name of the statement and is not followed.
    fn stranger(&self, session: &mut Session, noted: &Noted) -> Result<Option<&TableName>, Error> {
        for name in &self.tables {
            if noted.tables.iter().any(|followed| followed.target == *name) {
                continue;
            }
            let sql = format!(
                "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                session.quote(&name.schema),
                session.quote(&name.table)
            );
            // Sequences were copied, and are not followed.
            if session.value(&sql)?.is_some_and(|kind| kind != "SEQUENCE" && kind != "VIEW") {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    fn unapplied(&self, why: &str) -> Error {
        Error::Unapplied { place: self.place.clone(), what: format!("DDL: {}: {why}", self.shown()) }
    }

    /// The statement in a line.
    pub(crate) fn shown(&self) -> String {
        shown(&self.sql)
    }

    /// Executes the statement in a session of its own, which gets settings that nothing else may have.
    fn on_target(&self, mut session: Session, no_binlog: bool) -> Result<(), Error> {
        if no_binlog {
            session.execute("SET SESSION sql_log_bin = 0")?;
        }
        let use_schema = (!self.schema.is_empty()).then(|| format!("USE {}", quote_name(&self.schema)));
        for statement in self.settings.iter().chain(&use_schema).chain([&self.sql]) {
            let Err(error) = session.execute(statement) else { continue };
            let is_meant = match error.code() {
                // Names with their database need no other one, which may not be copied.
                Some(NO_SCHEMA) => Some(statement) == use_schema.as_ref(),
                // It ended so on the source, too, as DROP TABLE does of which one table was not there.
                code => code == Some(self.error) && *statement == self.sql,
            };
            match error.is_passing() {
                _ if is_meant => {}
                true => return Err(error.into()),
                false => return Err(self.unapplied(&format!("the target refuses it: {error}"))),
            }
        }
        Ok(())
    }

    /// Notes that it was executed, and what is followed now.
    fn executed(&self, request: &Request<'_>, mut session: Session, noted: Noted) -> Result<(), Error> {
        let selection = &request.copy.read.selection;
        let mut followed = noted.tables;
        let known: BTreeSet<TableName> = followed.iter().map(|followed| followed.target.clone()).collect();
        followed.retain(|followed| !self.tables.contains(&followed.table.name));
        let mut made = Vec::new();
        for table in self.read(request)? {
            if !selection.table(&table.name.schema, &table.name.table) {
                continue;
            }
            if let Some(why) = table_refusal(&table) {
                if !known.contains(&table.name) {
                    // Nothing is left of what was made just now.
                    session.execute(&format!("DROP TABLE {}", table.name))?;
                }
                return Err(self.unapplied(&format!("{why}, so it can't be followed: --exclude it")));
            }
            let target = table.name.clone();
            made.push(table.clone());
            followed.push(Followed { table, target, cascades: BTreeSet::new() });
        }
        let cascading = cascading(&mut session)?;
        for followed in &mut followed {
            followed.cascades = cascading.get(&followed.target).cloned().unwrap_or_default();
        }
        let is_gone =
            |name: &&TableName| self.tables.contains(name) && made.iter().all(|table| table.name != **name);
        let gone: Vec<TableName> = known.iter().filter(is_gone).cloned().collect();
        request.state.record_tables(&mut session, &made, &gone)?;
        request.state.redefine(&mut session, &followed, &self.after)
    }

    /// Its tables as they are on the target now. A sequence is none.
    fn read(&self, request: &Request<'_>) -> Result<Vec<Table>, Error> {
        let mut session = snapshot::connect(request.to)?;
        let catalogue = Catalogue::read(&mut session, &Only(&self.tables), &mut |_, _| {})?;
        Ok(catalogue.tables)
    }

    /// A hash of what its tables are on the target.
    fn fingerprint(&self, session: &mut Session) -> Result<String, Error> {
        let mut hash = blake3::Hasher::new();
        let tables = self.tables.iter().map(|name| session.definition(name)).collect::<Vec<_>>();
        let database = self.database.iter().map(|name| Ok(database(session, name)?.statements.concat()));
        for definition in tables.into_iter().chain(database) {
            // An error is that there is none.
            let definition = match definition {
                Ok(definition) => definition,
                Err(error) if error.code().is_some() => String::new(),
                Err(error) => return Err(error.into()),
            };
            hash.update(&(definition.len() as u64).to_le_bytes());
            hash.update(definition.as_bytes());
        }
        Ok(hash.finalize().to_hex().to_string())
    }
}

/// Makes TIMESTAMP columns mean in a session what they mean on the source, which no log says. Returns why
/// that can't be.
fn same_timestamps(request: &Request<'_>, session: &mut Session) -> Result<Option<String>, Error> {
    let name = "explicit_defaults_for_timestamp";
    let source =
        snapshot::connect(request.from)?.value(&format!("SELECT @@GLOBAL.{name}"))?.unwrap_or_default();
    if session.value(&format!("SELECT @@{name}"))?.as_deref() == Some(source.as_str()) {
        return Ok(None);
    }
    match session.execute(&format!("SET SESSION {name} = {source}")) {
        Ok(_) => Ok(None),
        Err(error) if error.code().is_some() => {
            Ok(Some(format!("{name} is {source} on the source, and the target has another one: {error}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a server does DDL whole or not at all.
fn is_atomic(session: &Session) -> bool {
    let version = (session.about.version.major, session.about.version.minor);
    match session.about.flavour {
        Flavour::MariaDb => version >= ATOMIC_MARIADB,
        Flavour::MySql => version >= ATOMIC_MYSQL,
    }
}

/// What a session needs for a statement, as far as the log says it.
fn settings(query: &Query<'_>, time_s: u32) -> Vec<String> {
    let session = &query.session;
    let mut all = vec![
        // Nobody waits for ever for a table that somebody reads.
        format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}"),
        "SET SESSION default_storage_engine = InnoDB".to_owned(),
        format!("SET SESSION timestamp = {time_s}"),
    ];
    if let Some(mode) = session.sql_mode {
        all.push(format!("SET SESSION sql_mode = {mode}"));
    }
    if let Some([_, connection, server]) = session.charsets {
        // The statement itself is in UTF-8.
        all.push(format!(
            "SET SESSION character_set_client = utf8mb4, collation_connection = {connection}, collation_server = {server}"
        ));
    }
    if let Some(options) = session.options {
        let is_on = |bit: u32| u8::from(options & bit == 0);
        all.push(format!(
            "SET SESSION foreign_key_checks = {}, unique_checks = {}",
            is_on(NO_FOREIGN_KEY_CHECKS),
            is_on(NO_UNIQUE_CHECKS)
        ));
    }
    let zone = session.time_zone.and_then(|zone| std::str::from_utf8(zone).ok());
    all.extend(zone.map(|zone| format!("SET SESSION time_zone = '{}'", zone.replace('\'', "''"))));
    all
}
