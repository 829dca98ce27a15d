//! The plan of a statement that runs.
//!
//! Some servers let one connection ask for the plan of another. For one that waits for a lock on a row,
//! MariaDB answers only when that wait has ended. So there, and where a server refuses, the text is explained
//! instead.

use server::{Error, Flavour, Session, quote_name};

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

/// What prepares a session for explaining: the limits end what a server does not answer. Each server knows
/// only some of them.
const PREPARE: [&str; 3] = [
    "SET SESSION lock_wait_timeout = 2, SESSION innodb_lock_wait_timeout = 2",
    "SET SESSION max_statement_time = 3",
    "SET SESSION max_execution_time = 3000",
];

/// Statements that have a plan and change nothing.
const READS: [&str; 3] = ["SELECT", "WITH", "("];

/// Statements that have a plan and change rows: in a READ ONLY transaction they are refused.
const CHANGES: [&str; 4] = ["UPDATE", "DELETE", "INSERT", "REPLACE"];

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
    if connection.waits_for_lock() {
        // A plan needs the definition of the table, so whoever asks for it would wait, too.
        return Ok(Err(format!(
            "{} ({}): no plan can be made before that ends",
            connection.id, connection.state
        )));
    }
    for statement in PREPARE {
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
        tolerated(session.execute(&format!("USE {}", quote_name(&connection.database))).map(drop))?;
    }
    // Servers evaluate parts of a statement to make its plan, and those may call functions. Nothing of it is
    // committed; where a server allows it, nothing is changed in the first place.
    let is_change = CHANGES.iter().any(|word| begins_with(text, word));
    session.execute(if is_change { "START TRANSACTION" } else { "START TRANSACTION READ ONLY" })?;
    match session.named_rows(&format!("EXPLAIN {text}")) {
        Ok(rows) => Ok(Ok(Plan { how: "EXPLAIN of its text".to_owned(), rows })),
        Err(error) if error.code().is_some() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Whether it waits for a lock on a row.
fn waits(session: &mut Session, connection: &Connection) -> Result<bool, Error> {
    let transactions = ask(session, transaction::ALL)?.rows();
    let mut transactions = transactions.iter().map(transaction::transaction);
    let is_waiting = |one: Transaction| one.connection == connection.id && one.waits_for_row();
    Ok(transactions.any(is_waiting))
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
    match READS.iter().chain(&CHANGES).any(|word| begins_with(text, word)) {
        true => Ok(text),
        false => Err(format!("{} has no plan", text.split_whitespace().next().unwrap_or_default())),
    }
}

/// Whether a statement begins with a word, in upper or lower case.
fn begins_with(text: &str, word: &str) -> bool {
    let rest =
        text.get(..word.len()).filter(|front| front.eq_ignore_ascii_case(word)).map(|_| &text[word.len()..]);
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    rest.is_some_and(|rest| word == "(" || !rest.starts_with(is_letter))
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
            "SELECTED",
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
