//! Decides whether a table is still the same one: then the snapshot can read its rows even after an ALTER.
//!
//! The server refuses to read a table that is younger than the snapshot (error 1412). But it may have
//! forgotten that about a table which was evicted from its memory meanwhile. A table's number is reliable.

use std::collections::BTreeMap;

use server::{Session, TableName};

use crate::Error;

/// InnoDB's numbers of tables: a table that is rebuilt, emptied or replaced gets another one.
#[derive(Default)]
pub(super) struct TableIds(BTreeMap<String, String>);

impl TableIds {
    /// Reads the numbers; there are none if this account may not see them.
    pub(super) fn read(session: &mut Session) -> Result<TableIds, Error> {
        for table in ["INNODB_SYS_TABLES", "INNODB_TABLES"] {
            match session.strings(&format!("SELECT NAME, TABLE_ID FROM information_schema.{table}")) {
                Err(error) if error.code().is_some() => {}
                rows => {
                    let pairs = rows?.into_iter().filter_map(|row| {
                        let mut cells = row.into_iter().flatten();
                        Some((cells.next()?, cells.next()?))
                    });
                    return Ok(TableIds(pairs.collect()));
                }
            }
        }
        Ok(TableIds::default())
    }

    /// The number of a table.
    fn of(&self, name: &TableName) -> Option<&String> {
        // This view encodes all other letters.
        let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let known = plain(&name.schema) && plain(&name.table);
        self.0.get(&format!("{}/{}", name.schema, name.table)).filter(|_| known)
    }

    /// Whether a table is certainly the same.
    pub(super) fn same(&self, later: &TableIds, name: &TableName) -> bool {
        self.of(name).is_some() && self.of(name) == later.of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_table_ids_count_as_different() {
        let of = |pairs: &[(&str, &str)]| {
            TableIds(pairs.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned())).collect())
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
