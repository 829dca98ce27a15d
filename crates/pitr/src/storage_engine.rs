//! The engines of the tables that a log makes. Depending on its `sql_mode`, a server takes another one for an
//! engine that it does not have, and says so in a warning only.

use std::collections::BTreeSet;

use anyhow::Result;
use innodb::table::sql::{Kind, Token};
use instance::QUEUES;
use progress::{Progress, Shared};
use server::Session;
use transactions::effective_statement::{acting, word};

const WORD: &[u8] = b"ENGINE";

/// Other names of engines, which SHOW ENGINES does not give.
const ALIASES: [&str; 4] = ["INNOBASE", "HEAP", "MERGE", "MARIA"];

/// Words behind which `engine` is the name of a column.
const COLUMN: [&str; 8] = ["ADD", "COLUMN", "CHANGE", "MODIFY", "EXISTS", "DROP", "AFTER", "TO"];

/// The engine that a statement names which makes or alters a table, in capitals.
pub(crate) fn named(sql: &str) -> Option<String> {
    // Most statements have no such word, and may be long.
    sql.as_bytes().windows(WORD.len()).any(|bytes| bytes.eq_ignore_ascii_case(WORD)).then_some(())?;
    let tokens = acting(sql)?;
    // Behind CREATE OR REPLACE TEMPORARY.
    let makes = matches!(word(&tokens, 0).as_str(), "CREATE" | "ALTER");
    let is_table = |at| matches!(word(&tokens, at).as_str(), "TABLE" | "SEQUENCE");
    (makes && (1..5).any(is_table)).then_some(())?;
    let (mut depth, mut is_part, mut last) = (0_usize, false, None);
    for (at, token) in tokens.iter().enumerate() {
        match (&token.kind, token.text.to_uppercase().as_str()) {
            (Kind::Sign, "(") => depth += 1,
            (Kind::Sign, ")") => depth = depth.saturating_sub(1),
            (Kind::Word, "PARTITION") if depth == 0 => is_part = true,
            // The rows that a table is made of.
            (Kind::Word, "SELECT") if depth == 0 => break,
            (Kind::Word, "ENGINE") if depth == 0 || is_part => {
                let before = at.checked_sub(1).map_or_else(String::new, |at| word(&tokens, at));
                last = engine(&tokens, at + 1, COLUMN.contains(&before.as_str())).or(last);
            }
            _ => {}
        }
    }
    last
}

/// The engine that is named behind the word, with or without a sign between them.
fn engine(tokens: &[Token], at: usize, is_column: bool) -> Option<String> {
    let has_sign = tokens.get(at).is_some_and(|token| token.kind == Kind::Sign && token.text == "=");
    let name = tokens.get(at + usize::from(has_sign)).filter(|_| has_sign || !is_column)?;
    matches!(name.kind, Kind::Word | Kind::Name | Kind::Text).then(|| name.text.to_uppercase())
}

/// The option with which a server has the engine of queues, if tables need it.
pub(crate) fn option(engines: &BTreeSet<String>) -> Option<String> {
    engines.contains("QUEUE").then(|| QUEUES.to_owned())
}

/// Warns of engines that this server lacks: it takes another one, as the original did if it lacked them too.
pub(crate) fn tell_missing(session: &mut Session, engines: &BTreeSet<String>, report: &Shared) -> Result<()> {
    let query = "SELECT UPPER(engine) FROM information_schema.engines WHERE support IN ('YES', 'DEFAULT')";
    let there: BTreeSet<String> = session.strings(query)?.into_iter().flatten().flatten().collect();
    for name in engines.iter().filter(|name| !there.contains(*name) && !ALIASES.contains(&name.as_str())) {
        report.warn(&format!(
            "the log makes a table with ENGINE={name}, which the private server does not have and may replace by another one; \
             --server-option=--plugin-load-add=LIBRARY gives it a plugin"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{QUEUES, named, option};

    #[test]
    fn the_engine_of_a_table_is_found() {
        let engine_in = |sql: &str| named(sql).unwrap_or_default();
        assert_eq!(engine_in("CREATE TABLE t (a INT) ENGINE=QUEUE"), "QUEUE");
        assert_eq!(
            engine_in("create or replace table `t` (`engine` int comment 'engine=x') engine = queue DUE=d"),
            "QUEUE"
        );
        assert_eq!(engine_in("ALTER TABLE t ENGINE=InnoDB COMMENT='\\'ENGINE=y'"), "INNODB");
        for sql in [
            "SET STATEMENT max_statement_time=1, sql_mode='' FOR CREATE TABLE t (a INT) ENGINE=QUEUE",
            "/* one */ -- two\n create /* a longer comment than five words */ table t (a INT) engine=QUEUE",
            "CREATE TABLE t (engine INT) ENGINE 'queue' SELECT 1 AS engine",
            "/*!50000 CREATE OR REPLACE TEMPORARY TABLE t (a INT) ENGINE=`queue` */",
            "ALTER TABLE t ADD engine INT, ENGINE Queue",
            "CREATE TABLE t (a INT) PARTITION BY HASH (a) (PARTITION p ENGINE = QUEUE)",
            "CREATE TABLE t (a INT DEFAULT (SELECT 1)) ENGINE=QUEUE",
            "CREATE TABLE t ENGINE=QUEUE SELECT engine = b FROM u",
        ] {
            assert_eq!(engine_in(sql), "QUEUE", "{sql}");
        }
        for none in [
            "ALTER TABLE t ADD engine INT",
            "CREATE TABLE t (a INT, CHECK (engine = b))",
            "CREATE TABLE engine (a INT)",
            "CREATE TABLE t (a INT DEFAULT 1 COMMENT \"ENGINE=x\")",
            "INSERT INTO t VALUES ('CREATE TABLE t ENGINE=x')",
            "CREATE PROCEDURE p() UPDATE t SET engine=5",
            "CREATE TABLE t (a INT) ENGINE",
            "CREATE DATABASE engine CHARACTER SET utf8",
            "CREATE TABLE t (a INT, CHECK (f(partition, engine = b)))",
        ] {
            assert_eq!(engine_in(none), "", "{none}");
        }
    }

    #[test]
    fn only_tables_of_queues_need_an_option() {
        let of =
            |names: &[&str]| option(&names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
        assert_eq!(of(&["INNODB", "QUEUE"]).as_deref(), Some(QUEUES));
        assert_eq!(of(&["INNODB"]), None);
    }
}
