//! Tables beside those of the private server: which rows a foreign key may change along, how they were and
//! how they are then. What it did is written there once more by statements, so that the server logs it.

mod tracked;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anyhow::{Result, anyhow, bail, ensure};
use innodb::table::{Generated, KeyKind, Table};
use server::{Session, TableName, quote_name};
use transactions::logged;

use self::tracked::{ASKED, BEFORE, GONE, LEVEL, OUT, SCHEMA, Tracked, columns_refer, later, own, step};
use super::foreign_keys::{ForeignKey, Graph};

/// How far. InnoDB refuses to delete along more than 15 steps (FK_MAX_CASCADE_DEL); what is much further goes
/// round in a circle.
const LEVELS_MAX: u32 = 200;

/// What happened to the rows of the log from which foreign keys are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// They were deleted.
    Delete,
    /// They got another key.
    Update,
}

/// The notes, for one transaction.
pub(crate) struct Notes {
    session: Session,
    graph: Graph,
    tables: Vec<Tracked>,
    /// Those for which there are notes.
    made: BTreeSet<usize>,
    /// Those of which rows are noted now: the one of the log is first.
    reached: Vec<usize>,
}

impl Notes {
    /// Prepares a session.
    pub(crate) fn new(mut session: Session) -> Result<Notes> {
        session.execute(
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00', sql_log_bin = 0, \
             check_constraint_checks = 0, innodb_strict_mode = 0",
        )?;
        // It must see what another session has not committed.
        session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")?;
        session.execute(&format!("CREATE DATABASE {SCHEMA}"))?;
        session.execute(&format!("USE {SCHEMA}"))?;
        let (graph, made) = (Graph::default(), BTreeSet::new());
        Ok(Notes { session, graph, tables: Vec::new(), made, reached: Vec::new() })
    }

    /// The foreign keys as they are now.
    pub(crate) fn look(&mut self) -> Result<&Graph> {
        self.graph = Graph::read(&mut self.session)?;
        Ok(&self.graph)
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Takes up the tables of the server that may be concerned.
    pub(crate) fn begin(&mut self, tables: &BTreeMap<TableName, Rc<Table>>) -> Result<()> {
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
            self.tables.push(Tracked { name: name.clone(), at, columns, key });
        }
        Ok(())
    }

    /// Makes the notes for a table, if there are none yet.
    fn make(&mut self, at: usize) -> Result<()> {
        let Some(table) = self.tables.get(at).filter(|_| self.made.insert(at)) else { return Ok(()) };
        for own in table.own() {
            self.session.execute(&format!("CREATE OR REPLACE TABLE {own} LIKE {}", table.name))?;
        }
        self.session.execute(&format!(
            "ALTER TABLE {} ADD {LEVEL} SMALLINT UNSIGNED NOT NULL, ADD {GONE} TINYINT NOT NULL, ADD {ASKED} TINYINT NOT NULL",
            table.before()
        ))?;
        Ok(())
    }

    /// Removes them.
    pub(crate) fn end(&mut self) -> Result<()> {
        let made = std::mem::take(&mut self.made);
        for table in std::mem::take(&mut self.tables).iter().filter(|table| made.contains(&table.at)) {
            for own in table.own() {
                self.session.execute(&format!("DROP TABLE {own}"))?;
            }
        }
        Ok(())
    }

    /// The table of the server that a table with what was done is about.
    pub(crate) fn original(&self, schema: &str, name: &str) -> Option<&TableName> {
        let at: usize = name.strip_prefix(OUT).filter(|_| schema == SCHEMA)?.parse().ok()?;
        self.tables.get(at).map(|table| &table.name)
    }

    fn at(&self, name: &TableName) -> Option<&Tracked> {
        self.tables.iter().find(|table| table.name == *name)
    }

    /// Notes rows of the log: their columns, and tuples of values for them.
    pub(crate) fn seed(
        &mut self,
        (name, columns): (&TableName, &str),
        tuples: &[(String, bool)],
        cause: Cause,
    ) -> Result<()> {
        let Some(at) = self.at(name).map(|table| table.at) else { return Ok(()) };
        self.make(at)?;
        self.reached = vec![at];
        let Some(table) = self.tables.get(at) else { return Ok(()) };
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
    pub(crate) fn follow(&mut self, cause: Cause) -> Result<u32> {
        let mut parents = self.reached.clone();
        for level in 1..LEVELS_MAX {
            let edges = self.edges(&parents);
            let children: BTreeSet<usize> = edges.iter().map(|(_, child, _)| *child).collect();
            for child in &children {
                self.make(*child)?;
            }
            for (parent, child, key) in &edges {
                for text in self.steps((*parent, *child, key), level, cause) {
                    self.session.execute(&text)?;
                }
            }
            parents.clear();
            for child in children {
                if self.has_rows(child, level)? {
                    parents.push(child);
                }
            }
            if parents.is_empty() {
                self.refuse_circle(cause)?;
                return Ok(level - 1);
            }
            for at in &parents {
                self.refuse_without_key(*at)?;
                if !self.reached.contains(at) {
                    self.reached.push(*at);
                }
            }
        }
        Err(self.circle())
    }

    /// The foreign keys that refer to these tables, with their places.
    fn edges(&self, parents: &[usize]) -> Vec<(usize, usize, ForeignKey)> {
        let parents = parents.iter().filter_map(|at| self.tables.get(*at));
        let of = |parent: &Tracked| {
            let keys = self.graph.to(&parent.name);
            let edges = keys.filter_map(|key| Some((parent.at, self.at(&key.child)?.at, key.clone())));
            edges.collect::<Vec<_>>()
        };
        parents.flat_map(of).collect()
    }

    fn has_rows(&mut self, at: usize, level: u32) -> Result<bool> {
        let before = own(BEFORE, at);
        let found = self.session.value(&format!("SELECT 1 FROM {before} WHERE {LEVEL} = {level} LIMIT 1"))?;
        Ok(found.is_some())
    }

    /// Nobody can tell which rows of such a table are gone.
    fn refuse_without_key(&self, at: usize) -> Result<()> {
        let keyless = self.tables.get(at).filter(|table| table.key.is_empty());
        if let Some(table) = keyless {
            bail!(
                "{} has no primary key, so nobody knows which of its rows a foreign key changed by cascade; restore --tables --before gives \
                 it as it was",
                table.name
            );
        }
        Ok(())
    }

    /// Refuses rows of the log that refer to rows which come back behind them.
    fn refuse_circle(&mut self, cause: Cause) -> Result<()> {
        let Some(child) = self.reached.first().and_then(|at| self.tables.get(*at)) else { return Ok(()) };
        for key in self.graph.of(&child.name).filter(|_| cause == Cause::Delete) {
            let Some(parent) = self.at(&key.parent).filter(|parent| self.reached.contains(&parent.at)) else {
                continue;
            };
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
        Ok(())
    }

    fn circle(&self) -> anyhow::Error {
        let reached = self.reached.iter().filter_map(|at| self.tables.get(*at));
        let names: Vec<String> = reached.map(|table| table.name.to_string()).collect();
        anyhow!(
            "rows refer to each other in a circle, so there is no order in which they can come back, in some of these tables: {}; \
             restore --tables --before gives them as they were",
            names.join(", ")
        )
    }

    /// The statements that go along a foreign key from the rows of one level to those of the next.
    fn steps(
        &self,
        (parent, child, key): (usize, usize, &ForeignKey),
        level: u32,
        cause: Cause,
    ) -> Vec<String> {
        let (Some(parent), Some(child)) = (self.tables.get(parent), self.tables.get(child)) else {
            return Vec::new();
        };
        let mut all = Vec::new();
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
        all
    }

    /// The keys of a table through which its rows may be changed.
    fn above<'a>(&'a self, table: &'a Tracked) -> impl Iterator<Item = &'a ForeignKey> {
        self.graph.of(&table.name).filter(|key| key.acts() && self.at(&key.parent).is_some())
    }

    /// Whether what a key refers to may be changed by another key.
    fn may_change(&self, parent: &Tracked, key: &ForeignKey) -> bool {
        let is_changed = |column: &String| {
            self.above(parent).any(|above| above.columns.iter().any(|(own, _)| own == column))
        };
        key.columns.iter().any(|(_, column)| is_changed(column))
    }

    /// Notes how the rows are after the event, and writes what foreign keys did to those that are asked for
    /// where it is logged: the furthest first. Returns the most changes that InnoDB may have made of it.
    pub(crate) fn observe(&mut self, levels: u32, cause: Cause) -> Result<u64> {
        let mut changes = 0;
        for at in self.reached.clone() {
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
    fn is_moved(&self, table: &Tracked) -> bool {
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
    fn changeable(&self, table: &Tracked) -> Vec<String> {
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
        let reached = self.reached.iter().filter_map(|at| self.tables.get(*at));
        for table in reached.filter(|table| !table.key.is_empty()) {
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
        for table in std::mem::take(&mut self.reached).iter().filter_map(|at| self.tables.get(*at)) {
            for own in table.own() {
                self.session.execute(&format!("DELETE FROM {own}"))?;
            }
        }
        Ok(())
    }
}
