//! What is followed: tables, and the statements that concern them.

use std::collections::BTreeMap;
use std::rc::Rc;

use binlog::event::table::Table as LogTable;
use server::catalogue::{OWN_SCHEMA, SYSTEM_SCHEMAS, Wanted};
use server::{Flavour, TableName, quote_name};
use transactions::Known;
use transactions::defined_tables::DefinedTables;
use transactions::table_references::{Effect, TableReferences};

use crate::Followed;
use crate::form::Form;
use crate::rules::Rules;

/// Forms that are kept. Servers that run for long give tables ever higher numbers.
const KEPT_MAX: usize = 4096;
/// So much of a statement is shown.
const SHOWN_CHARS: usize = 120;

/// What a statement means for the target.
pub(crate) enum Meaning {
    /// Nothing.
    Nothing,
    /// It changes something that is not followed, but is on the target: a view, a routine.
    Missed,
    /// It changes a trigger or an event, which are not on the target before the cut-over.
    Later,
    /// It changes what followed tables are, or makes one that was selected.
    Definition,
    /// It can't be applied. Why.
    Unapplied(String),
}

/// Everything that is followed.
pub(crate) struct Scope<'a> {
    tables: BTreeMap<(String, String), Followed>,
    wanted: &'a dyn Wanted,
    rules: Rules,
    target: Flavour,
    known: Known,
    /// By the number of the table in the log. A table that is described again is another object.
    forms: BTreeMap<u64, (Rc<LogTable>, Option<Rc<Form>>)>,
}

impl<'a> Scope<'a> {
    /// `target`: of which family the target is.
    pub(crate) fn new(
        tables: Vec<Followed>,
        wanted: &'a dyn Wanted,
        rules: Rules,
        target: Flavour,
    ) -> Scope<'a> {
        let mut text = String::new();
        for Followed { table, .. } in &tables {
            text.push_str(&format!("USE {};\n{};\n", quote_name(&table.name.schema), table.definition));
        }
        let key = |followed: Followed| {
            let name = &followed.table.name;
            ((name.schema.clone(), name.table.clone()), followed)
        };
        Scope {
            tables: tables.into_iter().map(key).collect(),
            wanted,
            rules,
            target,
            known: Known::of(text),
            forms: BTreeMap::new(),
        }
    }

    /// Adds to a description of a table in the log what its definition says.
    ///
    /// # Errors
    /// Why its rows can't be read.
    pub(crate) fn complete(&self, table: &mut LogTable) -> Result<(), String> {
        if !self.has(&table.schema, &table.name) {
            return Ok(());
        }
        match self.known.complete(table) {
            None => Ok(()),
            Some(_) => Err(format!(
                "table {}.{} has other columns in the log than when it was copied",
                quote_name(&table.schema),
                quote_name(&table.name)
            )),
        }
    }

    /// How rows of a table become SQL; `None` for a table that is not followed.
    ///
    /// # Errors
    /// Why they can't.
    pub(crate) fn form(&mut self, table: &Rc<LogTable>) -> Result<Option<Rc<Form>>, String> {
        if let Some((kept, form)) = self.forms.get(&table.id)
            && Rc::ptr_eq(kept, table)
        {
            return Ok(form.clone());
        }
        if self.forms.len() >= KEPT_MAX {
            self.forms.clear();
        }
        let followed = self.tables.get(&(table.schema.clone(), table.name.clone()));
        let form = |followed: &Followed| {
            Form::new(table, followed, self.rules.table(&followed.table)?, self.target).map(Rc::new)
        };
        let form = followed.map(form).transpose()?;
        self.forms.insert(table.id, (Rc::clone(table), form.clone()));
        Ok(form)
    }

    /// What a statement means that was logged as its text. `schema` is its default database.
    pub(crate) fn meaning(&self, schema: &str, sql: &str) -> Meaning {
        let references = TableReferences::of(sql);
        let is_followed = |schema: &str, name: Option<&str>| match name {
            Some(name) => self.has(schema, name),
            None => self.has_schema(schema),
        };
        match references.effect {
            Effect::Rows if references.is_about(schema, is_followed) => Meaning::Unapplied(format!(
                "a statement was logged instead of the rows that it changed (binlog_format of its session was not ROW): {}",
                shown(sql)
            )),
            Effect::Definition if references.is_about(schema, is_followed) => Meaning::Definition,
            // What is made under a name that was selected would be missing on the target.
            Effect::Definition
                if makes(sql)
                    && references.is_about(schema, |schema, name| {
                        name.is_some_and(|name| self.is_wanted(schema, name))
                    }) =>
            {
                Meaning::Definition
            }
            Effect::None if is_program(sql) && self.concerns(schema, sql) => {
                if is_later(sql) {
                    Meaning::Later
                } else {
                    Meaning::Missed
                }
            }
            _ => Meaning::Nothing,
        }
    }

    /// What DDL is to be executed on the target, too. `None` if it is about nothing that is followed, or was
    /// selected.
    ///
    /// # Errors
    /// Why it can't be executed there.
    pub(crate) fn defines(&self, schema: &str, sql: &str) -> Result<Option<DefinedTables>, String> {
        let is_meant = matches!(self.meaning(schema, sql), Meaning::Definition);
        let Some(defined) = DefinedTables::of(sql) else {
            return if is_meant { Err("it is not executed on the target".to_owned()) } else { Ok(None) };
        };
        if let Some(name) = &defined.database {
            let name = if name.is_empty() { schema } else { name };
            return Ok(self.wanted.programs(name).then_some(defined));
        }
        let tables = defined.names(schema);
        let is_in = |name: &&TableName| {
            self.has(&name.schema, &name.table) || self.is_wanted(&name.schema, &name.table)
        };
        if !is_meant && !tables.iter().any(|name| is_in(&name)) {
            return Ok(None);
        }
        match tables.iter().find(|name| !is_in(name)) {
            Some(name) => Err(format!("it is about {name}, too, which is not followed")),
            None => Ok(Some(defined)),
        }
    }

    /// Whether a table of this name would have been selected.
    fn is_wanted(&self, schema: &str, table: &str) -> bool {
        !SYSTEM_SCHEMAS.contains(&schema) && schema != OWN_SCHEMA && self.wanted.table(schema, table)
    }

    fn has(&self, schema: &str, table: &str) -> bool {
        self.tables.contains_key(&(schema.to_owned(), table.to_owned()))
    }

    fn has_schema(&self, schema: &str) -> bool {
        self.tables.keys().any(|(own, _)| own == schema)
    }

    /// Whether a statement may be about a database of which tables are followed.
    fn concerns(&self, schema: &str, sql: &str) -> bool {
        let names = |schema: &str| {
            sql.contains(&format!("{schema}.")) || sql.contains(&format!("{}.", quote_name(schema)))
        };
        self.has_schema(schema) || self.tables.keys().any(|(own, _)| names(own))
    }
}

/// Whether a statement gives a table a name that it did not have.
fn makes(sql: &str) -> bool {
    let words = words(sql);
    let first = words.first().map_or("", String::as_str);
    matches!(first, "CREATE" | "RENAME") || first == "ALTER" && words.iter().any(|word| word == "RENAME")
}

/// Whether a statement makes, changes or removes something that is no table and no account.
fn is_program(sql: &str) -> bool {
    const ACCOUNTS: [&str; 8] =
        ["USER", "ROLE", "SERVER", "TEMPORARY", "TABLESPACE", "UNDO", "INSTANCE", "LOGFILE"];
    let words = words(sql);
    let is_first = words.first().is_some_and(|word| matches!(word.as_str(), "CREATE" | "ALTER" | "DROP"));
    is_first && !words.iter().take(4).any(|word| ACCOUNTS.contains(&word.as_str()))
}

/// Whether a statement is about a trigger or an event.
fn is_later(sql: &str) -> bool {
    const KINDS: [&str; 6] = ["TRIGGER", "EVENT", "VIEW", "PROCEDURE", "FUNCTION", "PACKAGE"];
    let words = words(sql);
    let kind = words.iter().find(|word| KINDS.contains(&word.as_str()));
    kind.is_some_and(|kind| kind == "TRIGGER" || kind == "EVENT")
}

/// The words of a statement, in capitals.
fn words(sql: &str) -> Vec<String> {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_uppercase)
        .collect()
}

/// A statement in one line that is not too long.
pub(crate) fn shown(sql: &str) -> String {
    let line: String = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use binlog::column::Type;
    use server::catalogue::Table;

    use super::*;

    /// Everything but d.left_out.
    struct Some;

    impl Wanted for Some {
        fn schema(&self, schema: &str) -> bool {
            schema == "d"
        }

        fn table(&self, _: &str, table: &str) -> bool {
            table != "left_out"
        }

        fn programs(&self, schema: &str) -> bool {
            schema == "d"
        }

        fn accounts(&self) -> bool {
            false
        }
    }

    fn scope() -> Scope<'static> {
        let name = TableName { schema: "d".to_owned(), table: "t".to_owned() };
        let table = Table {
            name: name.clone(),
            engine: "InnoDB".to_owned(),
            definition: "CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`))".to_owned(),
            created: String::new(),
            rows: 0,
            bytes: 0,
            columns: vec![server::catalogue::Column {
                name: "id".to_owned(),
                data_type: "int".to_owned(),
                column_type: "int".to_owned(),
                character_set: None,
                origin: server::catalogue::Origin::Stored,
            }],
            key: vec!["id".to_owned()],
            key_name: "PRIMARY".to_owned(),
            partitions: Vec::new(),
            versioned: false,
        };
        Scope::new(
            vec![Followed { table, target: name, cascades: BTreeSet::new() }],
            &Some,
            Rules::default(),
            Flavour::MariaDb,
        )
    }

    #[test]
    fn statements_are_refused_missed_or_of_no_interest() {
        let scope = scope();
        let meaning = |schema: &str, sql: &str| match scope.meaning(schema, sql) {
            Meaning::Nothing => "nothing",
            Meaning::Missed => "missed",
            Meaning::Later => "later",
            Meaning::Definition => "ddl",
            Meaning::Unapplied(_) => "statement",
        };
        for (expected, schema, sql) in [
            ("ddl", "d", "ALTER TABLE t ADD a INT"),
            ("ddl", "", "TRUNCATE `d`.`T`"),
            ("ddl", "", "DROP DATABASE d"),
            ("ddl", "d", "CREATE TABLE fresh (id INT)"),
            ("ddl", "x", "RENAME TABLE x.y TO d.y"),
            ("ddl", "x", "ALTER TABLE y RENAME TO d.y"),
            ("nothing", "d", "CREATE TABLE left_out (id INT)"),
            ("nothing", "x", "ALTER TABLE y ADD a INT"),
            ("nothing", "x", "DROP DATABASE x"),
            ("nothing", "d", "CREATE TEMPORARY TABLE t (id INT)"),
            ("nothing", "mysql", "CREATE TABLE t (id INT)"),
            ("statement", "d", "DELETE FROM t"),
            ("statement", "x", "CALL p()"),
            ("statement", "x", "a new kind of statement"),
            ("nothing", "x", "INSERT INTO y VALUES (1)"),
            ("missed", "d", "CREATE VIEW v AS SELECT 1"),
            (
                "later",
                "d",
                "CREATE DEFINER=`a`@`%` EVENT e ON SCHEDULE EVERY 1 DAY DO CREATE VIEW v AS SELECT 1",
            ),
            ("missed", "d", "CREATE DEFINER=`a`@`%` VIEW v AS SELECT 1 AS event"),
            ("later", "x", "CREATE TRIGGER `d`.`tr` BEFORE INSERT ON t FOR EACH ROW SET @a = 1"),
            ("missed", "d", "CREATE INDEX i ON t (id)"),
            ("nothing", "x", "CREATE VIEW v AS SELECT 1"),
            ("nothing", "d", "CREATE USER u"),
            ("nothing", "d", "ANALYZE TABLE t"),
            ("nothing", "d", "FLUSH TABLES"),
        ] {
            assert_eq!(meaning(schema, sql), expected, "{sql}");
        }
    }

    /// A table of the log with these columns, which it does not name.
    fn logged(id: u64, name: &str, kinds: &[Type]) -> LogTable {
        let column = |kind: &Type| binlog::event::table::Column {
            kind: *kind,
            nullable: false,
            name: None,
            is_unsigned: None,
            collation: None,
            members: None,
        };
        let columns = kinds.iter().map(column).collect();
        LogTable { id, schema: "d".to_owned(), name: name.to_owned(), columns, primary_key: None }
    }

    #[test]
    fn a_definition_completes_what_the_log_says_of_a_followed_table() {
        let scope = scope();
        let mut own = logged(7, "t", &[Type::Int(4)]);
        assert_eq!(scope.complete(&mut own), Ok(()));
        assert_eq!(
            (own.columns[0].name.as_deref(), own.columns[0].is_unsigned),
            (Option::Some("id"), Option::Some(false))
        );
        let mut altered = logged(7, "t", &[Type::Int(4), Type::Int(4)]);
        let error = scope.complete(&mut altered).unwrap_err();
        assert_eq!(error, "table `d`.`t` has other columns in the log than when it was copied");
        let mut other = logged(8, "u", &[Type::Int(4), Type::Int(4)]);
        assert_eq!(scope.complete(&mut other), Ok(()));
        assert!(other.columns.iter().all(|column| column.name.is_none()));
    }

    #[test]
    fn a_followed_table_has_one_form_until_it_is_described_again() {
        let mut scope = scope();
        let mut own = logged(7, "t", &[Type::Int(4)]);
        scope.complete(&mut own).unwrap();
        let own = Rc::new(own);
        let first = scope.form(&own).unwrap().unwrap();
        assert_eq!(first.target, "`d`.`t`");
        assert!(Rc::ptr_eq(&first, &scope.form(&own).unwrap().unwrap()));
        let again = Rc::new(LogTable::clone(&own));
        assert!(!Rc::ptr_eq(&first, &scope.form(&again).unwrap().unwrap()));
        let nameless = Rc::new(logged(7, "t", &[Type::Int(4)]));
        assert!(scope.form(&nameless).err().unwrap().contains("the log does not name column 1"));
        let mut others = |ids: std::ops::Range<u64>| {
            ids.for_each(|id| assert!(scope.form(&Rc::new(logged(id, "u", &[]))).unwrap().is_none()));
            scope.forms.len()
        };
        // Number 7 is there already.
        assert_eq!([others(100..4195), others(4195..4197)], [4096, 2]);
    }

    #[test]
    fn a_long_statement_is_cut_and_in_one_line() {
        assert_eq!(shown("ALTER\n  TABLE\tt"), "ALTER TABLE t");
        let long = shown(&"\u{e4} ".repeat(100));
        assert_eq!((long.chars().count(), long.ends_with("...")), (123, true));
    }
}
