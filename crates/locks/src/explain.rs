//! The plan of a statement that runs.
//!
//! Some servers let one connection ask for the plan of another. MariaDB does not answer for one that waits for
//! a lock on a row before that wait has ended, so there, and where a server refuses, the text is explained
//! instead.

use server::{Error, Flavour, Session};

use crate::connection::{Connection, one};
use crate::transaction::{self, Transaction};
use crate::view::ask;

/// The plan of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How it was asked for.
    pub how: String,
    /// Its rows: the names of columns and their values; empty for NULL.
    pub rows: Vec<Vec<(String, String)>>,
}

/// What prepares a session for explaining. The session is used for nothing else: the transaction keeps
/// functions in the statement from changing anything, and the limits end what a server does not answer.
const PREPARE: [&str; 4] = [
    "SET SESSION lock_wait_timeout = 2, SESSION innodb_lock_wait_timeout = 2",
    "SET SESSION max_statement_time = 3",
    "SET SESSION max_execution_time = 3000",
    "START TRANSACTION READ ONLY",
];

/// Statements that have a plan.
const EXPLAINABLE: [&str; 7] = ["SELECT", "WITH", "UPDATE", "DELETE", "INSERT", "REPLACE", "("];

/// Asks for the plan of what a connection runs, over a session that is used for nothing else.
///
/// # Errors
///
/// Those of the server. What can't be explained is told in words, as the inner error.
pub fn explain(session: &mut Session, id: u64) -> Result<Result<Plan, String>, Error> {
    let Some(connection) = one(session, id)? else {
        return Ok(Err(format!("there is no connection {id}")));
    };
    plan(session, &connection)
}

fn plan(session: &mut Session, connection: &Connection) -> Result<Result<Plan, String>, Error> {
    if connection.is_idle() || connection.statement.trim().is_empty() {
        return Ok(Err("it runs no statement".to_owned()));
    }
    for statement in PREPARE {
        // Each server knows only some of these.
        tolerated(session.execute(statement).map(drop))?;
    }
    let is_mariadb = session.about.flavour == Flavour::MariaDb;
    let of_connection = match is_mariadb {
        true if waits(session, connection)? => None,
        true => Some(format!("SHOW EXPLAIN FOR {}", connection.id)),
        // The default form tells nothing about changes of rows.
        false => Some(format!("EXPLAIN FORMAT=TRADITIONAL FOR CONNECTION {}", connection.id)),
    };
    if let Some(how) = of_connection
        && let Some(rows) = tolerated(session.named_rows(&how))?.filter(|rows| !rows.is_empty())
    {
        return Ok(Ok(Plan { how, rows }));
    }
    let text = match explainable(&connection.statement) {
        Ok(text) => text,
        Err(why) => return Ok(Err(why)),
    };
    if !connection.database.is_empty() {
        tolerated(session.execute(&format!("USE `{}`", connection.database.replace('`', "``"))).map(drop))?;
    }
    match session.named_rows(&format!("EXPLAIN {text}")) {
        Ok(rows) => Ok(Ok(Plan { how: "EXPLAIN of its text".to_owned(), rows })),
        Err(error) if error.code().is_some() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Whether it waits for a lock.
fn waits(session: &mut Session, connection: &Connection) -> Result<bool, Error> {
    let transactions = ask(session, transaction::ALL)?.rows();
    let mut transactions = transactions.iter().map(transaction::transaction);
    let is_waiting = |one: Transaction| one.connection == connection.id && one.waits_for_row();
    Ok(connection.waits_for_lock() || transactions.any(is_waiting))
}

/// The text of a statement that may stand behind EXPLAIN.
fn explainable(statement: &str) -> Result<&str, String> {
    let text = without_comments(statement).trim_end_matches(';').trim_end();
    // A text of several statements would run all but the first.
    if text.contains(';') {
        return Err(
            "its text has a semicolon: it may be several statements, which are not explained".to_owned()
        );
    }
    let first = text.split(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default().to_uppercase();
    let first = if text.starts_with('(') { "(" } else { &first };
    match EXPLAINABLE.contains(&first) {
        true => Ok(text),
        false => Err(format!("{first} has no plan")),
    }
}

/// A statement without the comments in front of it. Those that a server runs are no comments.
fn without_comments(statement: &str) -> &str {
    let mut text = statement.trim();
    while let Some(rest) = text.strip_prefix("/*")
        && !rest.starts_with(['!', 'M', '+'])
        && let Some((_, after)) = rest.split_once("*/")
    {
        text = after.trim_start();
    }
    text
}

/// What a server refused is `None`.
fn tolerated<T>(done: Result<T, Error>) -> Result<Option<T>, Error> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.code().is_some() && !error.is_connection_lost() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_statement_with_a_plan_is_explained() {
        assert_eq!(explainable(" select 1 ; "), Ok("select 1"));
        for good in
            ["SELECT(1)", "(SELECT 1) UNION (SELECT 2)", "with x as (select 1) select * from x", "UPDATE\nt"]
        {
            assert_eq!(explainable(good), Ok(good));
        }
        assert_eq!(explainable("/* a */ /* b */SELECT 1"), Ok("SELECT 1"));
        assert!(explainable("SELECT 1; DROP TABLE t").unwrap_err().contains("semicolon"));
        for bad in [
            "ALTER TABLE t ADD a INT",
            "CALL p()",
            "/*! SELECT 1 */",
            "/* SELECT 1",
            "DO SLEEP(1)",
            "XA COMMIT 'x'",
        ] {
            assert!(explainable(bad).unwrap_err().ends_with("has no plan"), "{bad}");
        }
    }
}
