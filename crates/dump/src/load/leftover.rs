//! What a crash leaves of a table that a server was making or dropping. MySQL before 8.0 and MariaDB before
//! 10.6 make the file of the definition, the tablespace and their own entry apart, so any of them may be
//! there alone.

use server::{Flavour, Session, TableName, Version};

use crate::Error;

/// ER_NOT_FORM_FILE: the definition was not written to its end.
const TORN: u16 = 1033;

/// ER_TABLESPACE_EXISTS: there is a tablespace and no table.
const TABLESPACE_EXISTS: u16 = 1813;

/// Errors about a table of which only a part is there. 1146 is ER_NO_SUCH_TABLE, 1932 MariaDB's
/// ER_NO_SUCH_TABLE_IN_ENGINE: there is a definition and no table.
const LEFT: [u16; 4] = [TORN, TABLESPACE_EXISTS, 1146, 1932];

/// Whether a crash leaves a table as a whole, or not at all.
pub(crate) fn is_impossible(session: &Session) -> bool {
    let since = if session.about.flavour == Flavour::MariaDb { "10.6" } else { "8.0" };
    session.about.version >= Version::parse(since)
}

/// Whether a table can be opened: one that the server lists may be no more than a definition.
pub(crate) fn opens(session: &mut Session, name: &TableName) -> Result<bool, Error> {
    match session.execute(&format!("SELECT 1 FROM {name} LIMIT 0")) {
        Err(error) if is_left(&error) => Ok(false),
        opened => Ok(opened.map(|_| true)?),
    }
}

/// Whether the server met a part of a table.
pub(crate) fn is_left(error: &server::Error) -> bool {
    error.code().is_some_and(|code| LEFT.contains(&code))
}

/// Removes what is left of a table. The caller knows that it was a table of ours.
pub(crate) fn remove(session: &mut Session, name: &TableName) -> Result<(), Error> {
    session.execute(&format!("DROP TABLE IF EXISTS {name}"))?;
    let make = |session: &mut Session, engine: &str| {
        session.execute(&format!("CREATE TABLE {name} (id INT) ENGINE={engine}")).map(drop)
    };
    match make(session, "InnoDB") {
        // The server makes no table as long as its tablespace is there, but one that is given the name
        // replaces it.
        Err(error) if error.code() == Some(TABLESPACE_EXISTS) => {
            make(session, "MyISAM")?;
            session.execute(&format!("ALTER TABLE {name} ENGINE=InnoDB"))?;
        }
        Err(error) if error.code() == Some(TORN) => {
            return Err(Error::Mismatch(format!(
                "a crash of the target has left an empty file {}.frm in the folder of database {}, which no statement \
                 removes; remove it, or drop the database",
                name.table, name.schema
            )));
        }
        Ok(()) => {}
        // Such as that its database is not there: whoever makes the table is told.
        Err(_) => return Ok(()),
    }
    session.execute(&format!("DROP TABLE {name}"))?;
    Ok(())
}
