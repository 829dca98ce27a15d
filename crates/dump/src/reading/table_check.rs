//! Compares tables whose rows were read with the catalogue of the beginning.

use server::Session;
use server::catalogue::{Table, TableStatus, statuses};
use server::definition::{counted, counter, without_counter};

use crate::manifest::TableEntry;
use crate::{Error, plan};

/// How many tables are checked by one statement.
pub(crate) const TABLES_PER_CHECK: usize = 50;

/// Compares tables with the catalogue from which they were read.
pub(crate) struct TableCheck<'a> {
    /// The tables of the catalogue.
    pub(crate) tables: &'a [TableEntry],
    /// The time before which a table must have been created for an ALTER to show in that time.
    pub(crate) settled: Option<&'a str>,
}

impl TableCheck<'_> {
    /// Checks that tables are still those in the catalogue. There is a result for each table: its
    /// AUTO_INCREMENT counter, if rows have moved it since.
    pub(crate) fn check(&self, session: &mut Session, tables: &[usize]) -> Vec<Result<Option<u64>, Error>> {
        let names: Vec<_> = tables.iter().map(|at| &self.tables[*at].table.name).collect();
        let read = statuses(session, &names);
        let read = read.and_then(|read| session.execute(plan::RELEASE_LOCKS).map(|_| read));
        match read {
            Ok(statuses) => {
                let pairs = tables.iter().zip(&statuses);
                pairs.map(|(at, status)| self.check_one(session, *at, status)).collect()
            }
            Err(error) => {
                // Reported once, for the first table: this session can't continue.
                let mut results: Vec<_> = tables.iter().map(|_| Ok(None)).collect();
                results[0] = Err(error.into());
                results
            }
        }
    }

    fn check_one(
        &self,
        session: &mut Session,
        at: usize,
        status: &TableStatus,
    ) -> Result<Option<u64>, Error> {
        let table = &self.tables[at].table;
        let shows_alter = self.settled.is_some_and(|settled| table.shows_alter(settled));
        let now = if shows_alter && status.created == table.created {
            // Only rows may have changed.
            status.counter
        } else {
            let definition = session.definition(&table.name).map_err(|error| explain(error.into(), table))?;
            session.execute(plan::RELEASE_LOCKS)?;
            compare(table, &definition, &status.created)?;
            counter(&definition)
        };
        // A definition does not show the first value.
        if now.unwrap_or(1) > counter(&table.definition).unwrap_or(1) {
            return counter_of_rows(session, table).map_err(|error| explain(error, table));
        }
        Ok(None)
    }
}

/// Compares a table with the catalogue.
fn compare(table: &Table, definition: &str, created: &str) -> Result<(), Error> {
    let altered = |what: &str| Error::Altered { table: table.name.to_string(), what: what.to_owned() };
    if without_counter(definition) != without_counter(&table.definition) {
        return Err(altered("its definition changed"));
    }
    // While somebody has the table open in certain ways the server does not know its time of creation.
    let known = !created.is_empty() && !table.created.is_empty();
    if table.is_transactional() && known && created != table.created {
        return Err(altered("it was created again"));
    }
    Ok(())
}

/// The counter for a table with the rows of the snapshot.
fn counter_of_rows(session: &mut Session, table: &Table) -> Result<Option<u64>, Error> {
    let Some(column) = counted(&table.definition) else { return Ok(None) };
    let last = session.value(&format!("SELECT MAX({column}) FROM {}", table.name))?;
    session.execute(plan::RELEASE_LOCKS)?;
    let last = last.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Ok(Some(last.saturating_add(1).max(counter(&table.definition).unwrap_or(1))))
}

/// Explains errors that mean that a table has changed.
pub(crate) fn explain(error: Error, table: &Table) -> Error {
    /// Definition changed since the snapshot; no such table, column, partition or index; the engine lost the
    /// table.
    const ALTERED: [u16; 8] = [1412, 1146, 1054, 1735, 1176, 1932, 1105, 1030];
    match error {
        Error::Server(source) if source.code().is_some_and(|code| ALTERED.contains(&code)) => {
            Error::Altered { table: table.name.to_string(), what: source.to_string() }
        }
        Error::Server(source) if source.code().is_some() => {
            Error::Object { object: format!("table {}", table.name), source: Box::new(source) }
        }
        error => error,
    }
}
