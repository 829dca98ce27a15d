//! The ledger: a table on the target that records which chunks are loaded. Its database is dropped with the
//! last ledger. The line for a chunk commits together with the chunk's rows.

use std::collections::BTreeSet;

use server::catalogue::{OWN_SCHEMA as SCHEMA, Object, Origin, Table};
use server::definition::without_counter;
use server::{Session, TableName, quote_name};

use super::leftover;
use crate::Error;
use crate::manifest::TableEntry;

/// The ledger of one dump, or of one copy, on one target.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    table: TableName,
    of: &'static str,
}

/// The lines of a ledger: table and chunk, or what stands in their places.
pub(crate) type Lines = BTreeSet<(usize, i64)>;

/// The chunk number recorded for a table that is loaded in one piece.
pub(crate) const WHOLE: i64 = -1;

/// Replaces the table's number in a line that marks an account which this load has created.
pub(crate) const ACCOUNTS: usize = 0xffff_ffff;
/// The same in a line that marks what is to be loaded; its number stands in place of the chunk's.
const WANTED: usize = 0xffff_fffe;
/// The same for what is loaded.
const COMPLETE: usize = 0xffff_fffd;
/// The same in a line that marks a view, routine, trigger or event which this load has created.
pub(crate) const PROGRAMS: usize = 0xffff_fffc;
/// The same in a line that marks a table which this copy has made or is about to make, by its name.
const TABLES: usize = 0xffff_fffb;
/// The same, by the table's name and definition.
const DEFINITIONS: usize = 0xffff_fffa;
/// The same, by the table's name and the names of its columns.
const COLUMNS: usize = 0xffff_fff9;

impl Ledger {
    /// `other_name`: the name under which the one table is loaded, if it is another; that is a load of its
    /// own.
    pub(crate) fn of_dump(id: &str, other_name: Option<&TableName>) -> Ledger {
        let end = other_name.map(|name| format!("_{:016x}", mark(&name.to_string()).cast_unsigned()));
        let table = format!("load_{id}{}", end.unwrap_or_default());
        Ledger { table: TableName { schema: SCHEMA.to_owned(), table }, of: "load of this dump" }
    }

    /// The ledger of a copy from another server.
    pub(crate) fn of_copy(id: &str) -> Ledger {
        let table = TableName { schema: SCHEMA.to_owned(), table: format!("copy_{id}") };
        Ledger { table, of: "copy of the same from this source" }
    }

    /// Where it is.
    pub(crate) fn table(&self) -> &TableName {
        &self.table
    }

    /// What it is the ledger of, in words.
    pub(crate) fn of(&self) -> &'static str {
        self.of
    }

    /// Takes the lock that its owner holds as long as the session lasts.
    pub(crate) fn lock(&self, session: &mut Session) -> Result<(), Error> {
        if session.lock(&self.lock_name(), 0)? {
            return Ok(());
        }
        Err(Error::Busy(format!("another {} into this server", self.of)))
    }

    /// The name of the lock that the ledger's owner holds.
    pub(crate) fn lock_name(&self) -> String {
        format!("remora.{}", self.table.table)
    }

    /// Whether it was made. One of which a crash has left a part records nothing.
    pub(crate) fn exists(&self, session: &mut Session) -> Result<bool, Error> {
        let found = session.value(&format!(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = '{}'",
            self.table.table
        ))?;
        Ok(found.is_some() && (leftover::is_impossible(session) || leftover::opens(session, &self.table)?))
    }

    /// Creates the database of ledgers.
    pub(crate) fn create_database(&self, session: &mut Session) -> Result<(), Error> {
        session.execute(&format!("CREATE DATABASE IF NOT EXISTS {SCHEMA}"))?;
        Ok(())
    }

    /// The name of a temporary object in the ledger's database.
    pub(crate) fn trial(&self) -> TableName {
        TableName { schema: SCHEMA.to_owned(), table: format!("{}_trial", self.table.table) }
    }

    pub(crate) fn create(&self, session: &mut Session) -> Result<(), Error> {
        self.create_database(session)?;
        let whole = match self.create_table(session) {
            Err(error) if leftover::is_left(&error) => false,
            created => {
                created?;
                leftover::is_impossible(session) || leftover::opens(session, &self.table)?
            }
        };
        if !whole {
            // The server was killed while it made it, so nothing is recorded.
            self.remove(session)?;
            self.create_database(session)?;
            leftover::remove(session, &self.table)?;
            self.create_table(session)?;
        }
        Ok(())
    }

    fn create_table(&self, session: &mut Session) -> Result<(), server::Error> {
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {} (`table` INT UNSIGNED NOT NULL, chunk BIGINT NOT NULL, \
             PRIMARY KEY (`table`, chunk)) ENGINE=InnoDB \
             COMMENT='what remora has loaded; remora removes it when it is over'",
            self.table
        );
        session.execute(&sql).map(drop)
    }

    /// Records a chunk, as part of the session's transaction.
    pub(crate) fn add(&self, session: &mut Session, table: usize, chunk: i64) -> Result<(), server::Error> {
        self.add_all(session, &[(table, chunk)])
    }

    /// Records several chunks.
    pub(crate) fn add_all(&self, session: &mut Session, lines: &[(usize, i64)]) -> Result<(), server::Error> {
        let lines: Vec<_> = lines.iter().map(|(table, chunk)| format!("({table}, {chunk})")).collect();
        session.execute(&format!("INSERT INTO {} VALUES {}", self.table, lines.join(","))).map(drop)
    }

    /// Whether a line exists.
    pub(crate) fn has(&self, session: &mut Session, table: usize, chunk: i64) -> Result<bool, server::Error> {
        let sql = format!("SELECT 1 FROM {} WHERE `table` = {table} AND chunk = {chunk}", self.table);
        Ok(session.value(&sql)?.is_some())
    }

    /// The chunks that are loaded. This is a locking read, because the server may still be committing a chunk
    /// of a run that was just killed.
    pub(crate) fn read(&self, session: &mut Session) -> Result<Lines, Error> {
        let rows =
            session.strings(&format!("SELECT `table`, chunk FROM {} LOCK IN SHARE MODE", self.table))?;
        let number =
            |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        rows.iter()
            .map(|row| match (number(row, 0).parse(), number(row, 1).parse()) {
                (Ok(table), Ok(chunk)) => Ok((table, chunk)),
                _ => Err(Error::Corrupt {
                    what: "a number is no number".to_owned(),
                    place: format!("the ledger {}", self.table),
                }),
            })
            .collect()
    }

    /// Records that a table is about to be made.
    pub(crate) fn mark_table(&self, session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
        let (name, columns) = (mark(&entry.table.name.to_string()), of_columns(&entry.table));
        let definition = of_definition(entry);
        let lines = format!("({TABLES}, {name}), ({COLUMNS}, {columns}), ({DEFINITIONS}, {definition})");
        session.execute(&format!("INSERT IGNORE INTO {} VALUES {lines}", self.table))?;
        Ok(())
    }

    /// Records tables that were made or altered on the target since, and forgets others that were removed.
    pub(crate) fn record_tables(
        &self,
        session: &mut Session,
        made: &[Table],
        gone: &[TableName],
    ) -> Result<(), Error> {
        let number = |name: &TableName| mark(&name.to_string());
        if !made.is_empty() {
            let lines = |table: &Table| {
                format!("({TABLES}, {}), ({COLUMNS}, {})", number(&table.name), of_columns(table))
            };
            let lines: Vec<_> = made.iter().map(lines).collect();
            session.execute(&format!("INSERT IGNORE INTO {} VALUES {}", self.table, lines.join(", ")))?;
        }
        if !gone.is_empty() {
            let lines: Vec<_> = gone.iter().map(|name| number(name).to_string()).collect();
            session.execute(&format!(
                "DELETE FROM {} WHERE `table` = {TABLES} AND chunk IN ({})",
                self.table,
                lines.join(", ")
            ))?;
        }
        Ok(())
    }

    /// Whether a table was recorded under this name, in the lines of a ledger.
    pub(crate) fn is_marked(lines: &Lines, name: &TableName) -> bool {
        lines.contains(&(TABLES, mark(&name.to_string())))
    }

    /// Whether it was recorded with this definition.
    pub(crate) fn is_defined(lines: &Lines, entry: &TableEntry) -> bool {
        lines.contains(&(DEFINITIONS, of_definition(entry)))
    }

    /// Whether a table with these columns was recorded under this name.
    pub(crate) fn has_columns(lines: &Lines, table: &Table) -> bool {
        lines.contains(&(COLUMNS, of_columns(table)))
    }

    /// Whether both have the same name and columns, as far as the ledger tells them apart.
    pub(crate) fn are_columns_equal(one: &Table, other: &Table) -> bool {
        of_columns(one) == of_columns(other)
    }

    /// Whether a view, routine, trigger or event is recorded.
    pub(crate) fn is_program(lines: &Lines, object: &Object) -> bool {
        lines.contains(&(PROGRAMS, mark(&object.title())))
    }

    /// Removes what a stopped run has recorded of rows and definitions; the tables that are given stay.
    pub(crate) fn begin_again(&self, session: &mut Session, kept: &[&TableEntry]) -> Result<(), Error> {
        session.execute("START TRANSACTION")?;
        session.execute(&format!("DELETE FROM {} WHERE `table` <= {DEFINITIONS}", self.table))?;
        kept.iter().try_for_each(|entry| self.mark_table(session, entry))?;
        session.execute("COMMIT")?;
        Ok(())
    }

    /// Notes what is to be loaded.
    pub(crate) fn want(&self, session: &mut Session, wanted: &[usize]) -> Result<(), Error> {
        self.mark(session, WANTED, wanted)
    }

    /// What is to be loaded and was not, when this is loaded. If there is any, that is noted.
    pub(crate) fn rest(&self, session: &mut Session, loaded: &[usize]) -> Result<Vec<usize>, Error> {
        let lines = self.read(session)?;
        let of = |kind: usize| {
            let lines = lines.iter().filter(move |(table, _)| *table == kind);
            lines.filter_map(|(_, number)| usize::try_from(*number).ok())
        };
        let before: BTreeSet<usize> = of(COMPLETE).collect();
        let rest: Vec<usize> =
            of(WANTED).filter(|number| !before.contains(number) && !loaded.contains(number)).collect();
        if !rest.is_empty() {
            let now: Vec<usize> = loaded.iter().copied().filter(|number| !before.contains(number)).collect();
            self.mark(session, COMPLETE, &now)?;
        }
        Ok(rest)
    }

    /// Adds a line for each of these.
    fn mark(&self, session: &mut Session, kind: usize, numbers: &[usize]) -> Result<(), Error> {
        let lines: Vec<_> =
            numbers.iter().filter_map(|number| Some((kind, i64::try_from(*number).ok()?))).collect();
        if lines.is_empty() { Ok(()) } else { Ok(self.add_all(session, &lines)?) }
    }

    /// Removes the ledger, and the database of ledgers if none is left in it.
    pub(crate) fn remove(&self, session: &mut Session) -> Result<(), Error> {
        session.execute(&format!("DROP TABLE IF EXISTS {}", self.table))?;
        let left = session.value(&format!(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}'"
        ))?;
        if left.as_deref() == Some("0") {
            session.execute(&format!("DROP DATABASE IF EXISTS {SCHEMA}"))?;
        }
        Ok(())
    }
}

/// The number of a table's definition in the ledger, whatever the number that its rows have reached.
fn of_definition(entry: &TableEntry) -> i64 {
    mark(&format!("{} {}", entry.table.name, without_counter(&entry.table.definition)))
}

/// The number of a table's columns in the ledger: types and indexes may differ between the servers, and row
/// times may be left out.
fn of_columns(table: &Table) -> i64 {
    let is_row_time = |origin: &Origin| matches!(origin, Origin::RowTime | Origin::RowTransaction);
    let stored = table.columns.iter().filter(|column| !is_row_time(&column.origin));
    let names: Vec<String> = stored.map(|column| quote_name(&column.name).to_lowercase()).collect();
    mark(&format!("{} ({})", table.name, names.join(", ")))
}

/// The number of an account or a program in the ledger.
pub(crate) fn mark(name: &str) -> i64 {
    let hash = blake3::hash(name.as_bytes());
    let (first, _) = hash.as_bytes().split_at(8);
    i64::from_le_bytes(first.try_into().unwrap_or_default())
}
