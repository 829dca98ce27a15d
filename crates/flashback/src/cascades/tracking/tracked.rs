//! A table of the notes, and the statements about it.

use server::{TableName, quote_name};

use super::super::foreign_keys::ForeignKey;

/// Their database.
pub(crate) const SCHEMA: &str = "remora_children";
/// Columns that the notes have besides: how far from the rows of the log, whether the row is deleted, and
/// whether it is asked for.
pub(crate) const LEVEL: &str = "remora_level";
pub(crate) const GONE: &str = "remora_gone";
pub(crate) const ASKED: &str = "remora_asked";
/// The beginnings of the names of tables with how rows were, and with what was done.
pub(crate) const BEFORE: &str = "before";
pub(crate) const OUT: &str = "out";

/// A table of the notes.
pub(crate) struct Tracked {
    pub name: TableName,
    pub at: usize,
    /// All columns but generated ones, quoted.
    pub columns: Vec<String>,
    /// The primary key, quoted.
    pub key: Vec<String>,
}

impl Tracked {
    /// The notes of it: how rows were, how they are then, and what was done.
    pub(crate) fn own(&self) -> [String; 3] {
        [BEFORE, "after", OUT].map(|kind| own(kind, self.at))
    }

    pub(crate) fn before(&self) -> String {
        own(BEFORE, self.at)
    }

    /// All columns, of this alias.
    pub(crate) fn of(&self, alias: &str) -> String {
        let columns = self.columns.iter().map(|column| format!("{alias}.{column}"));
        columns.collect::<Vec<_>>().join(", ")
    }

    /// Assignments that leave all columns as they are, so that none gets a value by itself (ON UPDATE
    /// CURRENT_TIMESTAMP).
    fn kept(&self, prefix: &str, table: &str) -> String {
        let columns = self.columns.iter().map(|column| format!("{prefix}{column} = {table}.{column}"));
        columns.collect::<Vec<_>>().join(", ")
    }

    /// The condition that two rows have the same primary key.
    pub(crate) fn same(&self, one: &str, other: &str) -> String {
        let parts = self.key.iter().map(|column| format!("{one}.{column} = {other}.{column}"));
        parts.collect::<Vec<_>>().join(" AND ")
    }
}

pub(crate) fn own(kind: &str, at: usize) -> String {
    format!("{SCHEMA}.{kind}{at}")
}

/// The condition that a row `c` refers to a row `p`.
pub(crate) fn columns_refer(key: &ForeignKey) -> String {
    let columns = key.columns.iter();
    let parts = columns.map(|(own, other)| format!("c.{} = p.{}", quote_name(own), quote_name(other)));
    parts.collect::<Vec<_>>().join(" AND ")
}

/// The condition that a row `c` refers to a row `p`, and is not that row.
fn refers(key: &ForeignKey, (parent, child): (&Tracked, &Tracked)) -> String {
    let parts = columns_refer(key);
    if parent.at == child.at && !child.key.is_empty() {
        format!("{parts} AND NOT ({})", child.same("c", "p"))
    } else {
        parts
    }
}

/// Notes the rows that a key changes along with those of the level before. `is_gone`: with those that are
/// deleted.
pub(crate) fn step(
    key: &ForeignKey,
    (parent, child): (&Tracked, &Tracked),
    level: u32,
    is_gone: bool,
) -> String {
    let (before, above) = (child.before(), parent.before());
    format!(
        "INSERT INTO {before} ({}, {LEVEL}, {GONE}, {ASKED}) SELECT {}, {level}, {}, p.{ASKED} \
         FROM {} c JOIN {above} p ON {} WHERE p.{LEVEL} = {level} - 1 AND p.{GONE} = {} \
         ON DUPLICATE KEY UPDATE {LEVEL} = IF({before}.{LEVEL} = 0, 0, {level}), \
         {GONE} = GREATEST({before}.{GONE}, VALUES({GONE})), {ASKED} = GREATEST({before}.{ASKED}, VALUES({ASKED})), {}",
        child.columns.join(", "),
        child.of("c"),
        u8::from(is_gone && key.deletes()),
        child.name,
        refers(key, (parent, child)),
        u8::from(is_gone),
        child.kept("", &before),
    )
}

/// Rows come back behind all that they refer to.
pub(crate) fn later(key: &ForeignKey, (parent, child): (&Tracked, &Tracked), level: u32) -> String {
    format!(
        "UPDATE {} c JOIN {} p ON {} SET c.{LEVEL} = {level}, {} \
         WHERE p.{LEVEL} = {level} - 1 AND p.{GONE} = 1 AND c.{LEVEL} BETWEEN 1 AND {level} - 1",
        child.before(),
        parent.before(),
        refers(key, (parent, child)),
        child.kept("c.", "c"),
    )
}
