//! The foreign keys of a server, and what they do to rows when rows that they refer to change.

use std::collections::BTreeSet;

use anyhow::Result;
use server::{Session, TableName};

/// Bits of `dict_foreign_t::type` in `dict0mem.h`.
const DELETES: u32 = 1;
const NULLS_ON_DELETE: u32 = 2;
const UPDATES: u32 = 4;
const NULLS_ON_UPDATE: u32 = 8;

/// A foreign key.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    /// The table that has it.
    pub child: TableName,
    /// The table that it refers to.
    pub parent: TableName,
    /// Its columns, and those that they refer to.
    pub columns: Vec<(String, String)>,
    actions: u32,
}

impl ForeignKey {
    /// Whether it changes rows by itself.
    pub(crate) fn acts(&self) -> bool {
        self.actions & (DELETES | NULLS_ON_DELETE | UPDATES | NULLS_ON_UPDATE) != 0
    }

    /// Whether it deletes rows when those that they refer to are deleted.
    pub(crate) fn deletes(&self) -> bool {
        self.actions & DELETES != 0
    }

    /// Whether it changes or deletes rows when those that they refer to are deleted.
    pub(crate) fn acts_on_delete(&self) -> bool {
        self.actions & (DELETES | NULLS_ON_DELETE) != 0
    }

    /// Whether it changes rows when those that they refer to get another key.
    pub(crate) fn acts_on_update(&self) -> bool {
        self.actions & (UPDATES | NULLS_ON_UPDATE) != 0
    }
}

/// The foreign keys of a server.
#[derive(Default)]
pub(crate) struct Graph(Vec<ForeignKey>);

impl Graph {
    /// Asks for them.
    pub(crate) fn read(session: &mut Session) -> Result<Graph> {
        let rows = session.strings(
            "SELECT f.ID, f.FOR_NAME, f.REF_NAME, f.TYPE, c.FOR_COL_NAME, c.REF_COL_NAME \
             FROM information_schema.INNODB_SYS_FOREIGN f \
             JOIN information_schema.INNODB_SYS_FOREIGN_COLS c ON c.ID = f.ID ORDER BY f.ID, c.POS",
        )?;
        let mut keys: Vec<(String, ForeignKey)> = Vec::new();
        for row in rows {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || cells.next().unwrap_or_default();
            let id = next();
            let (child, parent) = (table(&next()), table(&next()));
            let actions = next().parse()?;
            let columns = (next(), next());
            match keys.last_mut() {
                Some((known, key)) if *known == id => key.columns.push(columns),
                _ => keys.push((id, ForeignKey { child, parent, columns: vec![columns], actions })),
            }
        }
        Ok(Graph(keys.into_iter().map(|(_, key)| key).collect()))
    }

    /// Those that refer to a table.
    pub(crate) fn to<'a>(&'a self, table: &'a TableName) -> impl Iterator<Item = &'a ForeignKey> {
        self.0.iter().filter(move |key| key.parent == *table)
    }

    /// Those of a table.
    pub(crate) fn of<'a>(&'a self, table: &'a TableName) -> impl Iterator<Item = &'a ForeignKey> {
        self.0.iter().filter(move |key| key.child == *table)
    }

    /// The tables whose rows may be changed along with rows of these.
    pub(crate) fn below(&self, tables: &BTreeSet<TableName>) -> BTreeSet<TableName> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&TableName> = tables.iter().collect();
        while let Some(table) = open.pop() {
            for key in self.to(table).filter(|key| key.acts()) {
                if found.insert(key.child.clone()) {
                    open.push(&key.child);
                }
            }
        }
        found
    }
}

/// The table of a name of InnoDB's, which calls tables as their files are called.
fn table(name: &str) -> TableName {
    let (schema, table) = name.split_once('/').unwrap_or_default();
    TableName { schema: physical::table_name(schema), table: physical::table_name(table) }
}
