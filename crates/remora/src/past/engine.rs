//! The engines of the tables that a log makes. Depending on its `sql_mode`, a server takes another one for an
//! engine that it does not have, and says so in a warning only.

use std::collections::BTreeSet;

use anyhow::Result;
use progress::Progress;
use server::Session;

use crate::boot::QUEUES;
use crate::report::Report;

/// Other names of engines, which SHOW ENGINES does not give.
const ALIASES: [&str; 4] = ["INNOBASE", "HEAP", "MERGE", "MARIA"];

/// The engine that a statement names which makes or alters a table, in capitals.
pub(super) fn named(sql: &str) -> Option<String> {
    // Behind CREATE OR REPLACE TEMPORARY. Other statements may be long.
    if !sql.split_whitespace().take(5).any(|word| word.eq_ignore_ascii_case("TABLE")) {
        return None;
    }
    let mut plain = String::new();
    let mut quote = None;
    let mut chars = sql.chars();
    while let Some(c) = chars.next() {
        match quote {
            Some(_) if c == '\\' => drop(chars.next()),
            Some(open) => quote = Some(open).filter(|open| *open != c),
            None if ['\'', '"', '`'].contains(&c) => quote = Some(c),
            None => plain.push(c.to_ascii_uppercase()),
        }
    }
    let (_, rest) = plain.rsplit_once("ENGINE")?;
    let name = rest.trim_start().strip_prefix('=')?.trim_start();
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    name.get(..end).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The option with which a server has the engine of queues, if tables need it.
pub(super) fn option(engines: &BTreeSet<String>) -> Option<String> {
    engines.contains("QUEUE").then(|| QUEUES.to_owned())
}

/// Warns of engines that this server lacks: it takes another one, as the original did if it lacked them too.
pub(super) fn tell_missing(session: &mut Session, engines: &BTreeSet<String>, report: &Report) -> Result<()> {
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
    use super::named;

    #[test]
    fn the_engine_of_a_table_is_found() {
        let found = |sql: &str| named(sql).unwrap_or_default();
        assert_eq!(found("CREATE TABLE t (a INT) ENGINE=QUEUE"), "QUEUE");
        assert_eq!(
            found("create or replace table `t` (`engine` int comment 'engine=x') engine = queue DUE=d"),
            "QUEUE"
        );
        assert_eq!(found("ALTER TABLE t ENGINE=InnoDB COMMENT='\\'ENGINE=y'"), "INNODB");
        for none in [
            "CREATE TABLE engine (a INT)",
            "CREATE TABLE t (a INT DEFAULT 1 COMMENT \"ENGINE=x\")",
            "INSERT INTO t VALUES ('CREATE TABLE t ENGINE=x')",
            "CREATE PROCEDURE p() UPDATE t SET engine=5",
            "CREATE TABLE t (a INT) ENGINE",
        ] {
            assert_eq!(found(none), "", "{none}");
        }
    }
}
