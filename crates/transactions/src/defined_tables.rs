//! Which tables a DDL statement makes, alters or removes, as the statement itself says.
//!
//! [`TableReferences`](crate::table_references::TableReferences) finds every table that a statement may be
//! about; this is the opposite: what is not understood wholly is nothing.

use innodb::table::sql::{Kind, Token};
use server::TableName;

use crate::effective_statement::{acting, word};

/// A table: its database, if the statement says one, and its name.
pub type Name = (Option<String>, String);

/// What a DDL statement changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinedTables {
    /// The tables.
    pub tables: Vec<Name>,
    /// A database that it makes or alters; empty for the default one.
    pub database: Option<String>,
    /// Whether tables may exchange their rows or names, so that nobody can tell by the definitions afterwards
    /// whether it was executed.
    pub is_move: bool,
}

impl DefinedTables {
    /// Reads a statement. `None` if it is none, or does something else as well: if it takes rows from another
    /// table, or files, or removes a database.
    #[must_use]
    pub fn of(sql: &str) -> Option<DefinedTables> {
        let tokens = acting(sql)?;
        let mut cursor = Cursor { sql, tokens: &tokens, at: 0 };
        cursor.statement()
    }

    /// The tables with their databases. `schema` is the default one.
    #[must_use]
    pub fn names(&self, schema: &str) -> Vec<TableName> {
        let name = |(own, table): &Name| TableName {
            schema: own.clone().unwrap_or_else(|| schema.to_owned()),
            table: table.clone(),
        };
        self.tables.iter().map(name).collect()
    }
}

/// What is before the table's name in ALTER and CREATE.
const MODIFIERS: [&str; 5] = ["OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE"];

struct Cursor<'a> {
    sql: &'a str,
    tokens: &'a [Token],
    at: usize,
}

impl Cursor<'_> {
    fn word(&self) -> String {
        word(self.tokens, self.at)
    }

    /// Goes over this word, if it is next.
    fn skip(&mut self, wanted: &str) -> bool {
        let is_next = self.word() == wanted;
        self.at += usize::from(is_next);
        is_next
    }

    fn skip_all(&mut self, wanted: &[&str]) {
        while wanted.contains(&self.word().as_str()) {
            self.at += 1;
        }
    }

    fn is_sign(&self, at: usize, sign: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Sign && token.text == sign)
    }

    fn skip_sign(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(self.at, sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn identifier(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at)?;
        let is_quoted = token.kind == Kind::Text && self.sql.as_bytes().get(token.start) == Some(&b'"');
        if !is_quoted && !matches!(token.kind, Kind::Word | Kind::Name) {
            return None;
        }
        self.at += 1;
        Some(token.text.clone())
    }

    fn name(&mut self) -> Option<Name> {
        let first = self.identifier()?;
        if !self.skip_sign(".") {
            return Some((None, first));
        }
        Some((Some(first), self.identifier()?))
    }

    fn statement(&mut self) -> Option<DefinedTables> {
        let first = self.word();
        self.at += 1;
        match first.as_str() {
            "CREATE" => self.create(),
            "DROP" => self.drop(),
            "ALTER" => self.alter(),
            "RENAME" => self.rename(),
            "TRUNCATE" => {
                self.skip("TABLE");
                self.one()
            }
            _ => None,
        }
    }

    /// One table, whatever follows.
    fn one(&mut self) -> Option<DefinedTables> {
        Some(DefinedTables { tables: vec![self.name()?], ..DefinedTables::default() })
    }

    fn create(&mut self) -> Option<DefinedTables> {
        self.skip_all(&MODIFIERS);
        match self.word().as_str() {
            "DATABASE" | "SCHEMA" => {
                self.at += 1;
                self.skip_all(&["IF", "NOT", "EXISTS"]);
                Some(DefinedTables { database: Some(self.identifier()?), ..DefinedTables::default() })
            }
            "TABLE" | "SEQUENCE" => {
                self.at += 1;
                self.skip_all(&["IF", "NOT", "EXISTS"]);
                let found = self.one()?;
                // Rows of other tables are in the log as rows, or not at all.
                let takes_rows = (self.at..self.tokens.len()).any(|at| {
                    let next = word(self.tokens, at + 1);
                    match word(self.tokens, at).as_str() {
                        "SELECT" | "TABLE" => true,
                        "VALUES" => next == "ROW",
                        "START" => next == "TRANSACTION",
                        _ => false,
                    }
                });
                (!takes_rows).then_some(found)
            }
            _ => self.index(),
        }
    }

    /// What follows CREATE or DROP up to the table of an index.
    fn index(&mut self) -> Option<DefinedTables> {
        self.skip_all(&["UNIQUE", "FULLTEXT", "SPATIAL"]);
        if !self.skip("INDEX") {
            return None;
        }
        self.skip_all(&["IF", "NOT", "EXISTS"]);
        self.identifier()?;
        if self.skip("USING") {
            self.at += 1;
        }
        if self.skip("ON") { self.one() } else { None }
    }

    fn drop(&mut self) -> Option<DefinedTables> {
        if !matches!(self.word().as_str(), "TABLE" | "TABLES" | "SEQUENCE") {
            return self.index();
        }
        self.at += 1;
        self.skip_all(&["IF", "EXISTS"]);
        let mut found = self.one()?;
        while self.skip_sign(",") {
            found.tables.push(self.name()?);
        }
        if self.skip("WAIT") {
            self.at += 1;
        }
        self.skip_all(&["NOWAIT", "RESTRICT", "CASCADE"]);
        (self.at >= self.tokens.len()).then_some(found)
    }

    /// The defaults of a database, which tables that are made later get.
    fn alter_database(&mut self) -> Option<DefinedTables> {
        const OPTIONS: [&str; 5] = ["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT"];
        let begins = |word: String| OPTIONS.contains(&word.as_str());
        let database = if begins(self.word()) { String::new() } else { self.identifier()? };
        let database = Some(database);
        begins(self.word()).then(|| DefinedTables { database, ..DefinedTables::default() })
    }

    fn alter(&mut self) -> Option<DefinedTables> {
        self.skip_all(&MODIFIERS);
        if self.skip("DATABASE") || self.skip("SCHEMA") {
            return self.alter_database();
        }
        if !self.skip("TABLE") && !self.skip("SEQUENCE") {
            return None;
        }
        self.skip_all(&["IF", "EXISTS"]);
        let mut found = self.one()?;
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            let word = self.word();
            self.at += 1;
            match word.as_str() {
                "" if self.is_sign(self.at - 1, "(") => depth += 1,
                "" if self.is_sign(self.at - 1, ")") => depth = depth.saturating_sub(1),
                // Its rows are in a file.
                "DISCARD" | "IMPORT" if depth == 0 => return None,
                // Since MariaDB 11.4 a table becomes a partition, and the other way.
                "CONVERT" if depth == 0 && self.converts_partition() => return None,
                "EXCHANGE" if depth == 0 => {
                    found.is_move = true;
                    self.skip("PARTITION");
                    self.identifier()?;
                    if !self.skip("WITH") || !self.skip("TABLE") {
                        return None;
                    }
                    found.tables.push(self.name()?);
                }
                "RENAME" if depth == 0 && !matches!(self.word().as_str(), "COLUMN" | "INDEX" | "KEY") => {
                    found.is_move = true;
                    if !self.skip_sign("=") && !self.skip("TO") {
                        self.skip("AS");
                    }
                    found.tables.push(self.name()?);
                }
                _ => {}
            }
        }
        Some(found)
    }

    fn converts_partition(&self) -> bool {
        matches!(self.word().as_str(), "PARTITION" | "TABLE")
    }

    fn rename(&mut self) -> Option<DefinedTables> {
        if !self.skip("TABLE") && !self.skip("TABLES") {
            return None;
        }
        self.skip_all(&["IF", "EXISTS"]);
        let mut found = DefinedTables { is_move: true, ..DefinedTables::default() };
        loop {
            found.tables.push(self.name()?);
            if self.skip("WAIT") {
                self.at += 1;
            }
            self.skip("NOWAIT");
            if !self.skip("TO") {
                return None;
            }
            found.tables.push(self.name()?);
            if !self.skip_sign(",") {
                return Some(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sql: &str) -> Option<String> {
        let DefinedTables { tables, database, is_move } = DefinedTables::of(sql)?;
        let name = |(schema, name): Name| schema.map_or(name.clone(), |schema| format!("{schema}.{name}"));
        let mut words: Vec<String> = tables.into_iter().map(name).collect();
        words.extend(database.map(|name| format!("database {name}")));
        words.extend(is_move.then(|| "moved".to_owned()));
        Some(words.join(" "))
    }

    #[test]
    fn each_table_that_a_statement_defines_is_named() {
        for (sql, tables) in [
            ("CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 1)", "t"),
            ("create or replace table if not exists `a.b`.`c``d` LIKE x.y", "a.b.c`d"),
            ("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1))", "t"),
            ("CREATE SEQUENCE s START WITH 5", "s"),
            ("CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4", "database d"),
            ("ALTER DATABASE d CHARACTER SET latin1", "database d"),
            ("alter schema `d` default collate = utf8mb4_bin", "database d"),
            ("ALTER DATABASE CHARSET latin1", "database "),
            ("CREATE UNIQUE INDEX i USING BTREE ON d.t (a)", "d.t"),
            ("CREATE INDEX IF NOT EXISTS i ON t (a)", "t"),
            ("DROP INDEX i ON t", "t"),
            ("DROP TABLE IF EXISTS `a`, d.b /* generated by server */", "a d.b"),
            ("DROP TABLE t CASCADE", "t"),
            ("TRUNCATE d.t", "d.t"),
            ("TRUNCATE TABLE `t`", "t"),
            ("ALTER TABLE t ADD a INT, DROP b, RENAME COLUMN c TO d, RENAME KEY i TO j", "t"),
            ("ALTER ONLINE IGNORE TABLE IF EXISTS \"t\" MODIFY a TEXT", "t"),
            ("ALTER TABLE t RENAME d.u", "t d.u moved"),
            ("ALTER TABLE t ADD x INT CHECK (x IN (1, 2)), RENAME = u", "t u moved"),
            ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION", "t u moved"),
            ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "t"),
            ("RENAME TABLE a TO b, d.c WAIT 5 TO d.a", "a b d.c d.a moved"),
            ("SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ENGINE=InnoDB", "t"),
        ] {
            assert_eq!(found(sql).as_deref(), Some(tables), "{sql}");
        }
    }

    #[test]
    fn what_does_more_than_that_is_not_taken() {
        for sql in [
            "CREATE TABLE t AS SELECT 1 AS a",
            "CREATE TABLE t (a INT) REPLACE SELECT * FROM u",
            "CREATE TABLE t TABLE u",
            "CREATE TABLE t VALUES ROW(1)",
            "CREATE TABLE t (a INT) START TRANSACTION",
            "DROP DATABASE d",
            "DROP TABLE a b.",
            "ALTER DATABASE d UPGRADE DATA DIRECTORY NAME",
            "ALTER DATABASE d READ ONLY = 1",
            "ALTER TABLE t DISCARD TABLESPACE",
            "ALTER TABLE t IMPORT TABLESPACE",
            "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
            "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (5)",
            "RENAME USER a TO b",
            "RENAME TABLE a TO",
            "CREATE VIEW v AS SELECT 1",
            "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
            "ALTER VIEW v AS SELECT 1",
            "INSERT INTO t VALUES (1)",
            "OPTIMIZE TABLE t",
            "",
        ] {
            assert_eq!(found(sql), None, "{sql}");
        }
    }
}
