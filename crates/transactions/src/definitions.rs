//! What CREATE TABLE statements say of columns that the log does not.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use binlog::column;
use binlog::event::table::{BINARY, Table};
use innodb::table::{self, Generated, Type, Version, sql};

use crate::transaction::Place;

/// The newest server whose statements are read.
const VERSION: Version = Version(110_806);

/// The beginning of the name of a column that MariaDB adds for a unique key that is too long.
pub const HASH_COLUMN: &str = "DB_ROW_HASH_";

/// A definition, or why it is not understood. `None`: there is none.
pub(crate) type Definition = Option<Result<Rc<table::Table>, String>>;

/// Definitions that change while a log is read.
pub trait Definitions {
    /// What is read next is at this place.
    fn at(&self, place: Place);

    /// A statement at a place, in this database.
    fn passes(&self, place: Place, schema: &str, sql: &str);

    /// The definition of a table at the last place of [`Definitions::at`].
    fn table(&self, schema: &str, name: &str) -> Definition;
}

/// Definitions, if there are any.
#[derive(Default)]
pub struct Known {
    text: Option<String>,
    /// What was looked for: by database and table.
    found: RefCell<BTreeMap<(String, String), Definition>>,
    /// What is asked if the text does not have a table.
    further: Option<Rc<dyn Definitions>>,
}

/// Reads a file of statements.
pub fn read(path: Option<&Path>) -> Result<Known> {
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| format!("--schema {}", path.display()));
    Ok(Known { text: path.map(read).transpose()?, ..Known::default() })
}

impl Known {
    /// What statements say, USE among them.
    pub fn of(text: String) -> Known {
        Known { text: Some(text), ..Known::default() }
    }

    /// The same, and what these know of other tables.
    pub fn and(self, further: Rc<dyn Definitions>) -> Known {
        Known { further: Some(further), ..self }
    }

    /// What is read next is at this place.
    pub fn at(&self, place: Place) {
        if let Some(further) = &self.further {
            further.at(place);
        }
    }

    /// A statement at a place, in this database.
    pub fn passes(&self, place: Place, schema: &str, sql: &str) {
        if let Some(further) = &self.further {
            further.passes(place, schema, sql);
        }
    }

    /// The definition of a table, if it has as many columns as the log says.
    ///
    /// # Errors
    /// Why it is of no use.
    pub fn definition(&self, table: &Table) -> Result<Option<Rc<table::Table>>, String> {
        let full = format!("{}.{}", table.schema, table.name);
        if let Some(defined) = self.by_name(&table.schema, &table.name) {
            let defined = defined.map_err(|error| {
                format!("--schema: the definition of {full} must be as SHOW CREATE TABLE prints it: {error}")
            })?;
            return fits(&defined, table).map(|()| Some(defined)).map_err(|why| {
                format!("--schema: {full} {why}: it was altered, and its columns are called @1, @2 and so on")
            });
        }
        let further = self.further.as_ref().and_then(|further| further.table(&table.schema, &table.name));
        let Some(defined) = further else { return Ok(None) };
        let defined = defined?;
        fits(&defined, table).map_err(|why| format!("in the backup {full} {why}"))?;
        Ok(Some(defined))
    }

    /// The definition of a table that is called so, if there is one.
    pub fn by_name(&self, schema: &str, name: &str) -> Definition {
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
    pub fn complete(&self, table: &mut Table) -> Option<String> {
        let defined = match self.definition(table) {
            Ok(None) => return None,
            Ok(Some(defined)) => defined,
            // What a backup does not know of tables that nobody asks for is of no interest.
            Err(why) => return Some(why).filter(|_| self.by_name(&table.schema, &table.name).is_some()),
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
pub fn logged(table: &table::Table) -> impl Iterator<Item = &table::Column> {
    table.columns().iter().filter(|column| !column.hidden || column.generated != Generated::No)
}

/// Whether a definition is that of the table in the log; else how they differ.
fn fits(defined: &table::Table, table: &Table) -> Result<(), String> {
    let count = logged(defined).count();
    if count != table.columns.len() {
        return Err(format!("has {count} columns in its definition and {} in the log", table.columns.len()));
    }
    let differ =
        table.columns.iter().zip(logged(defined)).find(|(own, defined)| differ(own.kind, &defined.kind));
    differ.map_or(Ok(()), |(_, defined)| {
        Err(format!("has another type of {} in its definition than in the log", defined.name))
    })
}

/// Whether a type in the log can't be this one.
fn differ(own: column::Type, defined: &Type) -> bool {
    use column::Type as Own;
    match (own, defined) {
        (Own::Int(own), Type::Int { bytes, .. }) => own != *bytes,
        (Own::Decimal(digits, behind), Type::Decimal { precision, scale, .. }) => {
            (digits, behind) != (*precision, *scale)
        }
        (Own::Enum(_), Type::Enum(_)) | (Own::Set(_), Type::Set(_)) => false,
        (Own::Float, Type::Float(_)) | (Own::Double, Type::Double(_)) => false,
        (Own::Int(_) | Own::Decimal(..) | Own::Enum(_) | Own::Set(_) | Own::Float | Own::Double, _) => true,
        (_, Type::Int { .. } | Type::Decimal { .. } | Type::Enum(_) | Type::Set(_)) => true,
        _ => false,
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
        Type::Enum(members) | Type::Set(members) => Some(members.collation().number().into()),
        Type::Uuid { .. } | Type::Inet4 | Type::Inet6 | Type::Vector { .. } | Type::Geometry(_) => {
            Some(BINARY)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of a table with these columns.
    fn table(columns: &str) -> Rc<table::Table> {
        let known = Known::of(format!("USE d; CREATE TABLE t ({columns}) DEFAULT CHARSET=latin1;"));
        known.by_name("d", "t").unwrap().unwrap()
    }

    fn kind(column: &str) -> Type {
        table(&format!("c {column}")).columns().iter().find(|column| column.name == "c").unwrap().kind.clone()
    }

    #[test]
    fn a_type_in_the_log_can_be_one_of_a_definition_or_not() {
        use column::Type as Own;
        for (own, can_be, can_not_be) in [
            (Own::Int(4), &["INT", "INT UNSIGNED"][..], &["BIGINT", "FLOAT", "VARCHAR(9)"][..]),
            (Own::Decimal(9, 2), &["DECIMAL(9,2)"], &["DECIMAL(9,3)", "DECIMAL(8,2)", "VARCHAR(9)", "INT"]),
            (Own::Float, &["FLOAT"], &["DOUBLE", "INT", "VARCHAR(9)"]),
            (Own::Double, &["DOUBLE"], &["FLOAT", "DATE"]),
            (Own::Enum(1), &["ENUM('a')"], &["SET('a')", "VARCHAR(9)"]),
            (Own::Set(1), &["SET('a')"], &["ENUM('a')", "VARCHAR(9)"]),
            (
                Own::Varchar(9),
                &["VARCHAR(9)", "VARBINARY(9)"],
                &["INT", "DECIMAL(9,2)", "ENUM('a')", "SET('a')"],
            ),
        ] {
            can_be.iter().for_each(|defined| assert!(!differ(own, &kind(defined)), "{own:?} {defined}"));
            can_not_be.iter().for_each(|defined| assert!(differ(own, &kind(defined)), "{own:?} {defined}"));
        }
    }

    #[test]
    fn a_definition_says_what_is_unsigned_and_which_collation_a_text_has() {
        for number in ["INT", "DECIMAL(9,2)", "FLOAT", "DOUBLE"] {
            assert!(
                is_unsigned(&kind(&format!("{number} UNSIGNED"))) && !is_unsigned(&kind(number)),
                "{number}"
            );
        }
        assert!(!is_unsigned(&kind("VARCHAR(9)")));
        let latin1_swedish_ci = Some(8);
        for (text, number) in [
            ("CHAR(9)", latin1_swedish_ci),
            ("VARCHAR(9)", latin1_swedish_ci),
            ("TEXT", latin1_swedish_ci),
            ("VARCHAR(9) CHARACTER SET utf8mb4", Some(45)),
            ("VARBINARY(9)", Some(BINARY)),
            ("UUID", Some(BINARY)),
            ("INET6", Some(BINARY)),
            ("POINT", Some(BINARY)),
            ("INT", None),
        ] {
            assert_eq!(collation(&kind(text)), number, "{text}");
        }
    }

    /// A system-versioned table has two columns that no statement sees, but the log has them.
    #[test]
    fn a_log_has_columns_that_the_server_adds() {
        let known = Known::of("USE d; CREATE TABLE t (a INT) WITH SYSTEM VERSIONING;".to_owned());
        let defined = known.by_name("d", "t").unwrap().unwrap();
        let names: Vec<&str> = logged(&defined).map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "row_start", "row_end"]);
    }
}
