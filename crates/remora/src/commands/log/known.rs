//! What CREATE TABLE statements say of columns that the log does not.

use std::path::Path;

use anyhow::{Context, Result};
use binlog::event::table::Table;
use innodb::table::{Type, Version, sql};

/// The newest server whose statements are read.
const VERSION: Version = Version(110_806);

/// Definitions, if there are any.
#[derive(Default)]
pub(super) struct Known {
    text: Option<String>,
}

/// Reads a file of statements.
pub(super) fn read(path: Option<&Path>) -> Result<Known> {
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| format!("--schema {}", path.display()));
    Ok(Known { text: path.map(read).transpose()? })
}

impl Known {
    /// Gives the columns of a table their names, if it has as many as its definition. Returns why not.
    pub(super) fn complete(&self, table: &mut Table) -> Option<String> {
        let text = self.text.as_ref()?;
        let statement = sql::find(text, Some(&table.schema), &table.name).ok()?;
        let full = format!("{}.{}", table.schema, table.name);
        let defined = match sql::parse(statement, VERSION) {
            Ok(defined) => defined,
            Err(error) => {
                return Some(format!("--schema: the definition of {full} is not understood: {error}"));
            }
        };
        let columns: Vec<_> = defined.columns().iter().filter(|column| !column.hidden).collect();
        if columns.len() != table.columns.len() {
            return Some(format!(
                "--schema: {full} has {} columns in its definition and {} in the log: it was altered, and its columns are \
                 called @1, @2 and so on",
                columns.len(),
                table.columns.len()
            ));
        }
        for (column, defined) in table.columns.iter_mut().zip(columns) {
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
        _ => None,
    }
}
