//! What CREATE TABLE statements say of columns that the log does not.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use binlog::event::table::{BINARY, Table};
use innodb::table::{self, Generated, Type, Version, sql};

/// The newest server whose statements are read.
const VERSION: Version = Version(110_806);

/// A definition, or why it is not understood. `None`: there is none.
pub(crate) type Definition = Option<Result<Rc<table::Table>, String>>;

/// Definitions, if there are any.
#[derive(Default)]
pub(crate) struct Known {
    text: Option<String>,
    /// What was looked for: by database and table.
    found: RefCell<BTreeMap<(String, String), Definition>>,
}

/// Reads a file of statements.
pub(crate) fn read(path: Option<&Path>) -> Result<Known> {
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| format!("--schema {}", path.display()));
    Ok(Known { text: path.map(read).transpose()?, found: RefCell::default() })
}

impl Known {
    /// What statements say, USE among them.
    pub(crate) fn of(text: String) -> Known {
        Known { text: Some(text), found: RefCell::default() }
    }

    /// The definition of a table, if it has as many columns as the log says.
    ///
    /// # Errors
    /// Why it is of no use.
    pub(crate) fn definition(&self, table: &Table) -> Result<Option<Rc<table::Table>>, String> {
        let Some(defined) = self.by_name(&table.schema, &table.name) else { return Ok(None) };
        let full = format!("{}.{}", table.schema, table.name);
        let defined = defined
            .map_err(|error| format!("--schema: the definition of {full} is not understood: {error}"))?;
        let count = logged(&defined).count();
        if count != table.columns.len() {
            return Err(format!(
                "--schema: {full} has {count} columns in its definition and {} in the log: it was altered, and its columns are \
                 called @1, @2 and so on",
                table.columns.len()
            ));
        }
        Ok(Some(defined))
    }

    /// The definition of a table that is called so, if there is one.
    pub(crate) fn by_name(&self, schema: &str, name: &str) -> Definition {
        let text = self.text.as_ref()?;
        let key = (schema.to_owned(), name.to_owned());
        let mut found = self.found.borrow_mut();
        let definition = found.entry(key).or_insert_with(|| {
            let statement = sql::find(text, Some(schema), name).ok()?;
            Some(sql::describe(statement, VERSION).map(Rc::new).map_err(|error| error.to_string()))
        });
        definition.clone()
    }

    /// Gives the columns of a table their names, if it has as many as its definition. Returns why not.
    pub(crate) fn complete(&self, table: &mut Table) -> Option<String> {
        let defined = match self.definition(table) {
            Ok(None) => return None,
            Ok(Some(defined)) => defined,
            Err(why) => return Some(why),
        };
        for (column, defined) in table.columns.iter_mut().zip(logged(&defined)) {
            column.name.get_or_insert_with(|| defined.name.clone());
            if column.is_unsigned.is_none() {
                column.is_unsigned = Some(is_unsigned(&defined.kind));
            }
            if let Type::Enum(members) | Type::Set(members) = &defined.kind {
                column.members.get_or_insert_with(|| members.names().to_vec());
            }
            if column.collation.is_none() {
                column.collation = collation(&defined.kind);
            }
        }
        None
    }
}

/// The columns of a table that are in a log. The server adds some that no statement sees. It does not know
/// InnoDB's own.
pub(crate) fn logged(table: &table::Table) -> impl Iterator<Item = &table::Column> {
    table.columns().iter().filter(|column| !column.hidden || column.generated != Generated::No)
}

fn is_unsigned(kind: &Type) -> bool {
    match kind {
        Type::Int { unsigned, .. } | Type::Decimal { unsigned, .. } => *unsigned,
        Type::Float(real) | Type::Double(real) => real.unsigned,
        _ => false,
    }
}

fn collation(kind: &Type) -> Option<u64> {
    match kind {
        Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
            Some(collation.number().into())
        }
        Type::Uuid { .. } | Type::Inet4 | Type::Inet6 | Type::Vector { .. } | Type::Geometry(_) => {
            Some(BINARY)
        }
        _ => None,
    }
}
