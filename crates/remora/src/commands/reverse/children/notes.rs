//! Tables beside those of the private server: which rows a foreign key may change along, how they were and
//! how they are then. What it did is written there once more by statements, so that the server logs it.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Result, anyhow, bail, ensure};
use innodb::table::{Generated, KeyKind, Table};
use server::{Session, TableName, quote_name};

use super::graph::{ForeignKey, Graph};
use crate::history::logged;

/// Their database.
const SCHEMA: &str = "remora_children";
/// Columns that the notes have besides: how far from the rows of the log, whether the row is deleted, and
/// whether it is asked for.
const LEVEL: &str = "remora_level";
const GONE: &str = "remora_gone";
const ASKED: &str = "remora_asked";
/// The beginning of the names of tables with what was done.
const OUT: &str = "out";
/// How far. InnoDB refuses to delete from tables that hang together in more than 15 steps; what is further
/// goes round in a circle.
const LEVELS_MAX: u32 = 200;

/// A table of the notes.
struct Noted {
    name: TableName,
    at: usize,
    /// All columns but generated ones, quoted.
    columns: Vec<String>,
    /// The primary key, quoted.
    key: Vec<String>,
}

/// What happened to the rows of the log from which foreign keys are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// They were deleted.
    Delete,
    /// They got another key.
    Update,
}

/// The notes, for one transaction.
pub(super) struct Notes {
    session: Session,
    graph: Graph,
    tables: Vec<Noted>,
}

impl Notes {
    /// Prepares a session.
    pub(super) fn new(mut session: Session) -> Result<Notes> {
        session.execute(
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00', sql_log_bin = 0, \
             check_constraint_checks = 0, innodb_strict_mode = 0",
        )?;
        // It must see what another session has not committed.
        session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")?;
        session.execute(&format!("CREATE DATABASE {SCHEMA}"))?;
        session.execute(&format!("USE {SCHEMA}"))?;
        Ok(Notes { session, graph: Graph::default(), tables: Vec::new() })
    }

    /// The foreign keys as they are now.
    pub(super) fn look(&mut self) -> Result<&Graph> {
        self.graph = Graph::read(&mut self.session)?;
        Ok(&self.graph)
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(super) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Makes the tables, for these of the server.
    pub(super) fn begin(&mut self, tables: &BTreeMap<TableName, Rc<Table>>) -> Result<()> {
        for (at, (name, table)) in tables.iter().enumerate() {
            if table.columns().iter().any(|column| column.generated == Generated::RowEnd) {
                bail!(
                    "{name} is system-versioned: SELECT ... FOR SYSTEM_TIME AS OF shows its rows as they were"
                );
            }
            let columns = logged(table).filter(|column| column.generated == Generated::No);
            let columns: Vec<String> = columns.map(|column| quote_name(&column.name)).collect();
            let primary = table.keys().iter().find(|key| key.kind == KeyKind::Primary);
            let parts = primary.map(|key| key.parts.as_slice()).unwrap_or_default();
            let key = parts.iter().filter_map(|part| table.columns().get(part.column));
            let key: Vec<String> = key.map(|column| quote_name(&column.name)).collect();
            if key.is_empty() && self.graph.of(name).any(ForeignKey::acts) {
                bail!(
                    "{name} has no primary key, so nobody knows which of its rows a foreign key took along; restore --tables --before \
                     gives it as it was"
                );
            }
            let noted = Noted { name: name.clone(), at, columns, key };
            for own in noted.own() {
                self.session.execute(&format!("CREATE OR REPLACE TABLE {own} LIKE {name}"))?;
            }
            self.session.execute(&format!(
                "ALTER TABLE {} ADD {LEVEL} SMALLINT UNSIGNED NOT NULL, ADD {GONE} TINYINT NOT NULL, \
                 ADD {ASKED} TINYINT NOT NULL",
                noted.before()
            ))?;
            self.tables.push(noted);
        }
        Ok(())
    }

    /// Removes them.
    pub(super) fn end(&mut self) -> Result<()> {
        for own in std::mem::take(&mut self.tables).iter().flat_map(Noted::own) {
            self.session.execute(&format!("DROP TABLE {own}"))?;
        }
        Ok(())
    }

    /// The table of the server that a table with what was done is about.
    pub(super) fn original(&self, schema: &str, name: &str) -> Option<&TableName> {
        let at: usize = name.strip_prefix(OUT).filter(|_| schema == SCHEMA)?.parse().ok()?;
        self.tables.get(at).map(|table| &table.name)
    }

    fn at(&self, name: &TableName) -> Option<&Noted> {
        self.tables.iter().find(|table| table.name == *name)
    }

    /// Notes rows of the log: their columns, and tuples of values for them.
    pub(super) fn seed(
        &mut self,
        (name, columns): (&TableName, &str),
        tuples: &[(String, bool)],
        cause: Cause,
    ) -> Result<()> {
        let Some(table) = self.at(name) else { return Ok(()) };
        let into = format!("INSERT INTO {} ({columns}, {LEVEL}, {GONE}, {ASKED}) VALUES", table.before());
        for part in tuples.chunks(200) {
            let rows = part.iter().map(|(tuple, is_asked)| {
                let values = tuple.strip_suffix(')').unwrap_or(tuple);
                format!("{values}, 0, {}, {})", u8::from(cause == Cause::Delete), u8::from(*is_asked))
            });
            let rows: Vec<String> = rows.collect();
            self.session.execute(&format!("{into} {}", rows.join(",\n")))?;
        }
        Ok(())
    }

    /// Follows the foreign keys from the rows that are noted, to all rows that may be changed along. Returns
    /// how far that is.
    pub(super) fn follow(&mut self, cause: Cause) -> Result<u32> {
        for level in 1..LEVELS_MAX {
            for statement in self.steps(level, cause) {
                self.session.execute(&statement)?;
            }
            let any =
                self.befores().map(|own| format!("EXISTS (SELECT 1 FROM {own} WHERE {LEVEL} = {level})"));
            let any: Vec<String> = any.collect();
            if self.session.value(&format!("SELECT {}", any.join(" OR ")))?.as_deref() != Some("1") {
                self.refuse_circle(cause)?;
                return Ok(level - 1);
            }
        }
        Err(self.circle())
    }

    /// Refuses rows of the log that refer to rows which come back behind them.
    fn refuse_circle(&mut self, cause: Cause) -> Result<()> {
        for child in self.tables.iter().filter(|_| cause == Cause::Delete) {
            for key in self.graph.of(&child.name) {
                let Some(parent) = self.at(&key.parent) else { continue };
                let found = self.session.value(&format!(
                    "SELECT 1 FROM {} c JOIN {} p ON {} WHERE c.{LEVEL} = 0 AND p.{LEVEL} > 0 AND p.{GONE} = 1 LIMIT 1",
                    child.before(),
                    parent.before(),
                    columns_refer(key),
                ))?;
                if found.is_some() {
                    return Err(self.circle());
                }
            }
        }
        Ok(())
    }

    fn circle(&self) -> anyhow::Error {
        let names: Vec<String> = self.tables.iter().map(|table| table.name.to_string()).collect();
        anyhow!(
            "rows refer to each other in a circle, so there is no order in which they can come back, in some of {}; restore --tables \
             --before gives them as they were",
            names.join(", ")
        )
    }

    fn befores(&self) -> impl Iterator<Item = String> {
        self.tables.iter().map(Noted::before)
    }

    /// The statements that go from the rows of one level to those of the next.
    fn steps(&self, level: u32, cause: Cause) -> Vec<String> {
        let mut all = Vec::new();
        for parent in &self.tables {
            for key in self.graph.to(&parent.name) {
                let Some(child) = self.at(&key.child) else { continue };
                if key.acts_on_delete() && cause == Cause::Delete {
                    all.push(step(key, (parent, child), level, true));
                }
                let is_seeded = level == 1 && cause == Cause::Update;
                if key.acts_on_update() && (is_seeded || self.may_change(parent, key)) {
                    all.push(step(key, (parent, child), level, false));
                }
                if !child.key.is_empty() {
                    all.push(later(key, (parent, child), level));
                }
            }
        }
        all
    }

    /// The keys of a table through which its rows may be changed.
    fn above<'a>(&'a self, table: &'a Noted) -> impl Iterator<Item = &'a ForeignKey> {
        self.graph.of(&table.name).filter(|key| key.acts() && self.at(&key.parent).is_some())
    }

    /// Whether what a key refers to may be changed by another key.
    fn may_change(&self, parent: &Noted, key: &ForeignKey) -> bool {
        let is_changed = |column: &String| {
            self.above(parent).any(|above| above.columns.iter().any(|(own, _)| own == column))
        };
        key.columns.iter().any(|(_, column)| is_changed(column))
    }

    /// Notes how the rows are after the event, and writes what foreign keys did to those that are asked for
    /// where it is logged: the furthest first. Returns the most changes that InnoDB may have made of it.
    pub(super) fn observe(&mut self, levels: u32, cause: Cause) -> Result<u64> {
        let mut changes = 0;
        for at in 0..self.tables.len() {
            changes += self.compare(at, cause)?;
        }
        self.session.execute("SET SESSION sql_log_bin = 1")?;
        for level in (1..=levels).rev() {
            for text in self.done(level, cause) {
                self.session.execute(&text)?;
            }
        }
        self.session.execute("SET SESSION sql_log_bin = 0")?;
        self.clear()?;
        Ok(changes)
    }

    /// Notes how the rows of a table are after the event. Returns how many changes there were at most.
    fn compare(&mut self, at: usize, cause: Cause) -> Result<u64> {
        let Some(table) = self.tables.get(at).filter(|table| !table.key.is_empty()) else { return Ok(0) };
        let [before, after, out] = table.own();
        let columns = table.columns.join(", ");
        let first = table.key.first().cloned().unwrap_or_default();
        let changeable = self.changeable(table);
        // Each key that sets columns to NULL changes the row by itself, perhaps before another deletes it.
        let nulling = self.above(table).filter(|key| self.may_null(key)).flat_map(|key| key.columns.first());
        let nulling = nulling
            .map(|(column, _)| quote_name(column))
            .map(|column| format!("(b.{column} IS NOT NULL AND (a.{first} IS NULL OR a.{column} IS NULL))"));
        let changed: Vec<String> = [format!("(a.{first} IS NULL)")].into_iter().chain(nulling).collect();
        let texts = [
            format!(
                "INSERT INTO {after} ({columns}) SELECT {} FROM {} c JOIN {before} b ON {} WHERE b.{LEVEL} > 0",
                table.of("c"),
                table.name,
                table.same("b", "c")
            ),
            format!(
                "INSERT INTO {out} ({columns}) SELECT {columns} FROM {before} WHERE {LEVEL} > 0 AND {ASKED} = 1"
            ),
        ];
        let counted = match cause {
            Cause::Delete => format!(
                "SELECT IFNULL(SUM({}), 0) FROM {before} b LEFT JOIN {after} a ON {} WHERE b.{LEVEL} > 0",
                changed.join(" + "),
                table.same("a", "b")
            ),
            // Another primary key is two changes to InnoDB.
            Cause::Update => format!("SELECT 2 * COUNT(*) FROM {before} WHERE {LEVEL} > 0"),
        };
        let (name, moves) = (table.name.clone(), self.is_moved(table) && !changeable.is_empty());
        for text in texts {
            self.session.execute(&text)?;
        }
        let changes: u64 = self.session.value(&counted)?.unwrap_or_default().parse()?;
        ensure!(
            cause == Cause::Delete || changes == 0 || !moves,
            "a foreign key changed the primary key of rows of {name}, and another may have changed further columns of them; restore \
             --tables --before gives them as they were",
        );
        Ok(changes)
    }

    /// Whether a foreign key may change the primary key of rows.
    fn is_moved(&self, table: &Noted) -> bool {
        let mut columns = self.above(table).filter(|key| key.acts_on_update()).flat_map(|key| &key.columns);
        columns.any(|(own, _)| table.key.contains(&quote_name(own)))
    }

    /// Whether a key may set its columns to NULL when rows are deleted: it says so, or it follows what
    /// another key sets to NULL.
    fn may_null(&self, key: &ForeignKey) -> bool {
        let nulled = self.at(&key.parent).map(|parent| self.changeable(parent)).unwrap_or_default();
        let follows = key.columns.iter().any(|(_, column)| nulled.contains(&quote_name(column)));
        key.acts_on_delete() && !key.deletes() || key.acts_on_update() && follows
    }

    /// The columns, outside of the primary key, that foreign keys may change.
    fn changeable(&self, table: &Noted) -> Vec<String> {
        let columns = self.above(table).flat_map(|key| &key.columns).map(|(own, _)| quote_name(own));
        let mut columns: Vec<String> = columns.filter(|column| !table.key.contains(column)).collect();
        columns.sort();
        columns.dedup();
        columns
    }

    /// The statements that do once more what a foreign key did to the rows of a level. A key that was changed
    /// along goes back along, so only what became NULL counts.
    fn done(&self, level: u32, cause: Cause) -> Vec<String> {
        let mut all = Vec::new();
        for table in self.tables.iter().filter(|table| !table.key.is_empty()) {
            let [before, after, out] = table.own();
            let (b, a) = (table.same("b", "o"), table.same("a", "o"));
            if cause == Cause::Delete {
                let first = table.key.first().map_or("", String::as_str);
                all.push(format!(
                    "DELETE o FROM {out} o JOIN {before} b ON {b} LEFT JOIN {after} a ON {a} \
                     WHERE b.{LEVEL} = {level} AND a.{first} IS NULL"
                ));
            }
            let changeable = self.changeable(table);
            if !changeable.is_empty() {
                // The others too, as in `kept`.
                let set = table.columns.iter().map(|column| match changeable.contains(column) {
                    true => format!("o.{column} = IF(a.{column} IS NULL, NULL, o.{column})"),
                    false => format!("o.{column} = o.{column}"),
                });
                let set: Vec<String> = set.collect();
                all.push(format!(
                    "UPDATE {out} o JOIN {before} b ON {b} JOIN {after} a ON {a} SET {} WHERE b.{LEVEL} = {level}",
                    set.join(", ")
                ));
            }
        }
        all
    }

    /// Removes all rows.
    fn clear(&mut self) -> Result<()> {
        for own in self.tables.iter().flat_map(Noted::own) {
            self.session.execute(&format!("DELETE FROM {own}"))?;
        }
        Ok(())
    }
}

impl Noted {
    /// The notes of it: how rows were, how they are then, and what was done.
    fn own(&self) -> [String; 3] {
        ["before", "after", OUT].map(|kind| own(kind, self.at))
    }

    fn before(&self) -> String {
        own("before", self.at)
    }

    /// All columns, of this alias.
    fn of(&self, alias: &str) -> String {
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
    fn same(&self, one: &str, other: &str) -> String {
        let parts = self.key.iter().map(|column| format!("{one}.{column} = {other}.{column}"));
        parts.collect::<Vec<_>>().join(" AND ")
    }
}

fn own(kind: &str, at: usize) -> String {
    format!("{SCHEMA}.{kind}{at}")
}

/// The condition that a row `c` refers to a row `p`.
fn columns_refer(key: &ForeignKey) -> String {
    let columns = key.columns.iter();
    let parts = columns.map(|(own, other)| format!("c.{} = p.{}", quote_name(own), quote_name(other)));
    parts.collect::<Vec<_>>().join(" AND ")
}

/// The condition that a row `c` refers to a row `p`, and is not that row.
fn refers(key: &ForeignKey, (parent, child): (&Noted, &Noted)) -> String {
    let parts = columns_refer(key);
    if parent.at == child.at { format!("{parts} AND NOT ({})", child.same("c", "p")) } else { parts }
}

/// Notes the rows that a key changes along with those of the level before. `is_gone`: with those that are
/// deleted.
fn step(key: &ForeignKey, (parent, child): (&Noted, &Noted), level: u32, is_gone: bool) -> String {
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
fn later(key: &ForeignKey, (parent, child): (&Noted, &Noted), level: u32) -> String {
    format!(
        "UPDATE {} c JOIN {} p ON {} SET c.{LEVEL} = {level}, {} \
         WHERE p.{LEVEL} = {level} - 1 AND p.{GONE} = 1 AND c.{LEVEL} BETWEEN 1 AND {level} - 1",
        child.before(),
        parent.before(),
        refers(key, (parent, child)),
        child.kept("c.", "c"),
    )
}
