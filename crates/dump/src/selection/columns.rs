//! Columns of some tables, as the command line names them.

use server::catalogue::{Catalogue, Column, Table};

use super::{Pattern, own};
use crate::Error;

/// Columns by name, each of every table that has it or of the tables that a pattern matches.
#[derive(Clone, Debug, Default)]
pub struct ColumnNames {
    named: Vec<(Option<Pattern>, String)>,
}

impl ColumnNames {
    /// Adds one as it is written on the command line: `COLUMN`, or `db.table:COLUMN`.
    pub fn add(&mut self, text: &str) {
        self.named.push(match own(text) {
            Some((pattern, name)) => (Some(pattern), name.trim().to_owned()),
            None => (None, text.to_owned()),
        });
    }

    /// Whether none is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The columns of a table that are named.
    pub(crate) fn of<'t>(&self, table: &'t Table) -> Vec<&'t Column> {
        let is_named = |column: &&Column| self.named.iter().any(|named| is_meant(named, table, column));
        table.columns.iter().filter(is_named).collect()
    }

    /// Refuses a name that no table has, because it is a mistake.
    pub(crate) fn check(&self, option: &str, catalogue: &Catalogue) -> Result<(), Error> {
        let is_there = |named: &&(Option<Pattern>, String)| {
            let has = |table: &Table| table.columns.iter().any(|column| is_meant(named, table, column));
            catalogue.tables.iter().any(has)
        };
        match self.named.iter().find(|named| !is_there(named)) {
            None => Ok(()),
            Some((pattern, name)) => {
                let table = pattern.as_ref().map(|pattern| format!("{pattern}:")).unwrap_or_default();
                Err(Error::Mismatch(format!("{option} {table}{name}: no table of the dump has this column")))
            }
        }
    }
}

/// Names of columns have no upper and lower case.
fn is_meant((pattern, name): &(Option<Pattern>, String), table: &Table, column: &Column) -> bool {
    let covers = |pattern: &Pattern| pattern.covers(&table.name.schema, &table.name.table);
    pattern.as_ref().is_none_or(covers) && column.name.to_lowercase() == name.to_lowercase()
}
