//! Whether a table is still the very one it was: then a snapshot has its rows also after an ALTER.
//!
//! The server refuses to read a table that is younger than the snapshot (error 1412), but it may not know
//! that any more of one that it has put out of its memory meanwhile. A table's number tells for sure.

use std::collections::BTreeMap;

use server::{Session, TableName};

use crate::Error;

/// The numbers that InnoDB gives to tables: a table that is built anew, emptied or replaced has another.
#[derive(Default)]
pub(super) struct Identities(BTreeMap<String, String>);

impl Identities {
    /// Reads them; there are none where this account may not see them.
    pub(super) fn read(session: &mut Session) -> Result<Identities, Error> {
        for table in ["INNODB_SYS_TABLES", "INNODB_TABLES"] {
            match session.strings(&format!("SELECT NAME, TABLE_ID FROM information_schema.{table}")) {
                Err(error) if error.code().is_some() => {}
                rows => {
                    let pairs = rows?.into_iter().filter_map(|row| {
                        let mut cells = row.into_iter().flatten();
                        Some((cells.next()?, cells.next()?))
                    });
                    return Ok(Identities(pairs.collect()));
                }
            }
        }
        Ok(Identities::default())
    }

    /// The number of a table.
    fn of(&self, name: &TableName) -> Option<&String> {
        // Other letters are written otherwise here.
        let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let known = plain(&name.schema) && plain(&name.table);
        self.0.get(&format!("{}/{}", name.schema, name.table)).filter(|_| known)
    }

    /// Whether a table is surely the one it was.
    pub(super) fn same(&self, later: &Identities, name: &TableName) -> bool {
        self.of(name).is_some() && self.of(name) == later.of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_not_the_same() {
        let of = |pairs: &[(&str, &str)]| {
            Identities(pairs.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned())).collect())
        };
        let name = |table: &str| TableName { schema: "d".into(), table: table.into() };
        let (before, after) = (
            of(&[("d/a", "1"), ("d/b", "2"), ("d/@e4", "3")]),
            of(&[("d/a", "1"), ("d/b", "4"), ("d/@e4", "3")]),
        );
        assert!(before.same(&after, &name("a")));
        assert!(
            !before.same(&after, &name("b"))
                && !before.same(&after, &name("c"))
                && !before.same(&after, &name("@e4"))
        );
    }
}
