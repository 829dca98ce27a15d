//! Loads one table under another name, next to the original.

use server::catalogue::{Kind, Object};
use server::definition::{foreign_keys, quoted, without_lines};
use server::{Session, TableName, quote_name};

use crate::Error;
use crate::manifest::Manifest;

/// The dump after the change of the name.
pub(super) struct RenamedTable {
    pub(super) rewrites: Vec<String>,
    pub(super) omitted: Vec<String>,
}

/// Gives the one table of a dump another name. Left out is what would touch other tables, or has a name that
/// its database has only once: triggers, foreign keys, and every other object but the database.
pub(super) fn apply(
    session: &mut Session,
    manifest: &mut Manifest,
    name: &TableName,
) -> Result<RenamedTable, Error> {
    let count = manifest.tables.len();
    let [entry] = manifest.tables.as_mut_slice() else {
        return Err(Error::Mismatch(format!(
            "--as {name} names one table, but {count} are selected: select one with --only db.table"
        )));
    };
    let mut omitted = Vec::new();
    let old = std::mem::replace(&mut entry.table.name, name.clone());
    for key in foreign_keys(&entry.table.definition) {
        omitted.push(format!(
            "foreign key {key} of table {name}: a copy has none; add it by ALTER TABLE if it is to stay"
        ));
    }
    let definition = without_lines(&entry.table.definition, |line| {
        line.starts_with("CONSTRAINT ") && line.contains(" FOREIGN KEY ")
    });
    entry.table.definition = retitled(&definition, &name.table);
    let exists = session
        .value(&format!(
            "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {}",
            session.quote(&name.schema)
        ))?
        .is_some();
    for object in std::mem::take(&mut manifest.objects) {
        match object.kind {
            Kind::Database if object.name == old.schema => {
                manifest.objects.extend((!exists).then(|| retitled_database(object, &name.schema)));
            }
            _ => omitted.push(format!("{}: --as loads the table alone", object.title())),
        }
    }
    if !exists && manifest.objects.is_empty() {
        let schema = quote_name(&name.schema);
        return Err(Error::Mismatch(format!(
            "--as {name}: there is no database {schema}, and the dump does not say how to make it; CREATE DATABASE {schema} \
             first"
        )));
    }
    Ok(RenamedTable { rewrites: vec![format!("table {old}: its name becomes {name}")], omitted })
}

/// A definition, or a statement that makes a database, with another name in the place of its first one.
fn retitled(statement: &str, name: &str) -> String {
    let from = statement.find('`').unwrap_or(statement.len());
    let to = from + quoted(&statement[from..]).map_or(0, str::len);
    format!("{}{}{}", &statement[..from], quote_name(name), &statement[to..])
}

/// The database under another name.
pub(crate) fn retitled_database(mut object: Object, name: &str) -> Object {
    object.statements.iter_mut().for_each(|statement| *statement = retitled(statement, name));
    (object.schema, object.name) = (name.to_owned(), name.to_owned());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_is_replaced() {
        assert_eq!(
            retitled("CREATE TABLE `a``b` (\n  `a``b` int\n)", "c`d"),
            "CREATE TABLE `c``d` (\n  `a``b` int\n)"
        );
    }
}
