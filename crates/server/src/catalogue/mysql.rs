//! What only MySQL 8 and later have: libraries of functions, and what is not given as statements but named.

use std::collections::BTreeSet;

use super::program::shown;
use super::table::text;
use super::{Catalogue, Kind, Wanted, list};
use crate::{Error, Flavour, Session, TableName};

/// There is no such table in `information_schema`, no such column or function; this account may not read it.
const ABSENT: [u16; 7] = [1109, 1146, 1054, 1305, 1142, 1143, 1227];

/// Libraries, which come before the functions that use them.
pub(super) fn libraries(
    session: &mut Session,
    schemas: &BTreeSet<String>,
    wanted: &dyn Wanted,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let sql = format!(
        "SELECT LIBRARY_SCHEMA, LIBRARY_NAME FROM information_schema.LIBRARIES WHERE LIBRARY_SCHEMA IN ({}) \
         ORDER BY 1, 2",
        list(session, schemas)
    );
    for row in if_there(session, &sql)? {
        let name = TableName { schema: text(&row, 0), table: text(&row, 1) };
        if wanted.programs(&name.schema) && wanted.program(&name.schema, &name.table) {
            let library = shown(session, catalogue, Kind::Library, &name)?;
            catalogue.objects.extend(library);
        }
    }
    Ok(())
}

/// Lists what is omitted.
pub(super) fn name_the_rest(
    session: &mut Session,
    schemas: &BTreeSet<String>,
    wanted: &dyn Wanted,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let sql = format!(
        "SELECT SCHEMA_NAME, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMN_STATISTICS \
         WHERE SCHEMA_NAME IN ({}) ORDER BY 1, 2, 3",
        list(session, schemas)
    );
    for row in if_there(session, &sql)? {
        let name = TableName { schema: text(&row, 0), table: text(&row, 1) };
        if wanted.table(&name.schema, &name.table) {
            let column = text(&row, 2);
            let line = format!("histogram of {name}, column {column}: ANALYZE TABLE makes it again");
            catalogue.omitted.push(line);
        }
    }
    if !wanted.accounts() {
        return Ok(());
    }
    for (what, sql) in OF_THE_SERVER {
        let names = if_there(session, sql)?.iter().map(|row| text(row, 0)).collect::<Vec<_>>();
        catalogue.omitted.extend(names.iter().map(|name| format!("{what} {name}: is not dumped")));
    }
    Ok(())
}

/// What belongs to no database.
const OF_THE_SERVER: [(&str, &str); 4] = [
    (
        "tablespace",
        "SELECT NAME FROM information_schema.INNODB_TABLESPACES \
         WHERE SPACE_TYPE = 'General' AND NAME <> 'mysql' ORDER BY 1",
    ),
    (
        "resource group",
        "SELECT RESOURCE_GROUP_NAME FROM information_schema.RESOURCE_GROUPS \
         WHERE RESOURCE_GROUP_NAME NOT IN ('USR_default', 'SYS_default') ORDER BY 1",
    ),
    (
        // The others belong to the server (Reference Manual, CREATE SPATIAL REFERENCE SYSTEM).
        "spatial reference system",
        "SELECT SRS_ID FROM information_schema.ST_SPATIAL_REFERENCE_SYSTEMS WHERE SRS_ID > 32767 \
         AND SRS_ID NOT BETWEEN 60000000 AND 69999999 AND SRS_ID < 2000000000 ORDER BY 1",
    ),
    (
        "second password of",
        "SELECT CONCAT('`', User, '`@`', Host, '`') FROM mysql.user \
         WHERE JSON_EXTRACT(User_attributes, '$.additional_password') IS NOT NULL ORDER BY 1",
    ),
];

/// The rows of a query about what only some versions have.
fn if_there(session: &mut Session, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
    if session.about.flavour != Flavour::MySql {
        return Ok(Vec::new());
    }
    match session.strings(sql) {
        Err(error) if error.code().is_some_and(|code| ABSENT.contains(&code)) => Ok(Vec::new()),
        rows => rows,
    }
}
