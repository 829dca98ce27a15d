//! The frame of the script: what it says of itself, what it checks before and at its end.
//!
//! It must work in every client and on every server, so it has no stored programs. What is wrong is gathered
//! in `@remora`. A statement that is prepared from text then either commits, or rolls back and fails; it does
//! so even if the client continues after errors.

use std::io::Write;

use anyhow::Result;
use binlog::literal;
use progress::count;

use crate::undo::Sums;
use crate::undo_record::{Records, STATEMENT_MAX};

/// Statements up to this length are taken by every server and every client, whatever their settings.
const USUAL_MAX: u64 = 1 << 20;
/// What a statement has around it.
const AROUND: u64 = 1 << 10;

/// The `max_allowed_packet` that the statements need, if it is not a usual one.
fn packet(sums: &Sums) -> Option<u64> {
    let needed = (sums.longest + AROUND).next_power_of_two().min(STATEMENT_MAX);
    (sums.longest > USUAL_MAX).then_some(needed)
}

/// The command that runs the script.
pub fn command(sums: &Sums, name: &str) -> String {
    let packet = packet(sums).map(|bytes| format!(" --max-allowed-packet={bytes}"));
    format!("mariadb --binary-mode{} < {name}", packet.unwrap_or_default())
}

/// Executes this statement if nothing is wrong, and else fails with what is.
fn or_stop(sql: &str) -> String {
    format!(
        "SET @remora_sql = IF(@remora = '', '{sql}', CONCAT('SELECT `remora changed nothing',\n  \
         REPLACE(IFNULL(@remora, ''), '`', ''), '`'));\nPREPARE remora FROM @remora_sql;\nEXECUTE remora;\n"
    )
}

/// Writes the script. `name` is what it will be called.
pub fn write(records: Records, sums: &Sums, name: &str, out: &mut dyn Write) -> Result<()> {
    head(sums, name, out)?;
    checks(sums, out)?;
    writeln!(out, "START TRANSACTION;")?;
    records.write(out)?;
    let rows: u64 = sums.tables.values().flat_map(|sum| sum.rows).sum();
    writeln!(
        out,
        "\n-- All of it, or nothing.\n\
         SET @remora_sql = IF(@remora = '', 'COMMIT', 'ROLLBACK');\nPREPARE remora FROM @remora_sql;\nEXECUTE remora;\n\
         {}",
        or_stop(&format!("SELECT {rows} AS `rows taken back and committed`"))
    )?;
    Ok(())
}

fn head(sums: &Sums, name: &str, out: &mut dyn Write) -> Result<()> {
    let mut lines = vec!["Takes back, the last change first:".to_owned()];
    lines.extend(sums.names.iter().map(|name| format!("  {name}")));
    let named = sums.names.len() as u64;
    if sums.transactions > named {
        lines.push(format!("  and {} more", sums.transactions - named));
    }
    lines.push(format!("The log was read to {}.", sums.end));
    lines.push("It does this:".to_owned());
    for ((schema, table), sum) in &sums.tables {
        let parts = ["insert", "update", "delete"].into_iter().zip(sum.rows).filter(|(_, rows)| *rows > 0);
        let parts: Vec<String> = parts.map(|(word, rows)| format!("{word} {rows}")).collect();
        let along = match sum.taken_along {
            0 => String::new(),
            rows => format!(" ({rows} of them were changed by cascades of foreign keys)"),
        };
        lines.push(format!("  {schema}.{table}: {}{along}", parts.join(", ")));
    }
    lines.extend(remarks(sums).into_iter().map(|line| format!("Note: {line}.")));
    lines.push(format!("Read it, then run it: {}", command(sums, name)));
    for line in lines {
        comment(&line, out)?;
    }
    writeln!(
        out,
        "\nSET sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\nSET NAMES utf8mb4;\n\
         SET time_zone = '+00:00', foreign_key_checks = 1, unique_checks = 1, sql_safe_updates = 0;\n\
         -- What is wrong. It must stay empty.\nSET @remora = '';"
    )?;
    Ok(())
}

/// A line that no server executes, whatever is in a name.
fn comment(text: &str, out: &mut dyn Write) -> Result<()> {
    let line: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Ok(writeln!(out, "-- {line}")?)
}

/// What somebody must know before running the script.
pub fn remarks(sums: &Sums) -> Vec<String> {
    let mut lines = Vec::new();
    for (schema, table) in &sums.others {
        lines.push(format!("the same transactions changed {schema}.{table} too, which was not asked for"));
    }
    for ((schema, table), _) in sums.tables.iter().filter(|(_, sum)| !sum.has_key) {
        lines.push(format!(
            "{schema}.{table} has no primary key: each of its rows is looked for in the whole table"
        ));
    }
    lines.extend(sums.definitions.iter().cloned());
    if sums.unchecked > 0 {
        lines.push(format!(
            "foreign keys are not checked for the rows of {}: they were not checked when these were changed, or a table refers to \
             itself",
            count(sums.unchecked, "transaction")
        ));
    }
    if sums.passed_over > 0 {
        lines.push(format!(
            "{} instead of rows passed over, because the tables asked for are not named in it: what triggers and views made of it is \
             not in the log",
            count(sums.passed_over, "statement")
        ));
    }
    if sums.by_statement > 0 {
        lines.push(format!(
            "the copy in which remora looked for what foreign keys did was brought there by {} with statements instead of rows, as DDL \
             always is: the result of a statement may differ",
            count(sums.by_statement, "transaction")
        ));
    }
    lines
}

/// The tables for which one of these is done (insert, update, delete), as a condition on these columns.
fn among(sums: &Sums, done: [bool; 3], schema: &str, table: &str) -> Option<String> {
    let is_done = |rows: [u64; 3]| rows.iter().zip(done).any(|(rows, done)| done && *rows > 0);
    let tables = sums.tables.iter().filter(|(_, sum)| is_done(sum.rows));
    let parts: Vec<String> = tables
        .map(|((own, name), _)| {
            format!("({schema} = {} AND {table} = {})", literal::name(own), literal::name(name))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("({})", parts.join("\n    OR ")))
}

/// Checks of what only the server knows, before anything is changed.
fn checks(sums: &Sums, out: &mut dyn Write) -> Result<()> {
    let mut check = |why: &str, what: &str, from: &str, condition: Option<String>| -> Result<()> {
        let Some(condition) = condition else { return Ok(()) };
        Ok(writeln!(
            out,
            "\n-- {why}\nSET @remora = LEFT(CONCAT(@remora, IFNULL((SELECT GROUP_CONCAT({what} SEPARATOR '')\n  FROM {from}\n  \
             WHERE {condition}), '')), 300);"
        )?)
    };
    check(
        "Tables without transactions can't be rolled back. If nobody else writes them, this check can be deleted.",
        "': ', TABLE_NAME, ' is ', ENGINE, ', without transactions'",
        "information_schema.TABLES",
        among(sums, [true; 3], "TABLE_SCHEMA", "TABLE_NAME").map(|tables| {
            format!(
                "{tables}\n  AND ENGINE NOT IN (SELECT ENGINE FROM information_schema.ENGINES WHERE TRANSACTIONS = 'YES')"
            )
        }),
    )?;
    for (at, event) in ["INSERT", "UPDATE", "DELETE"].into_iter().enumerate() {
        check(
            &format!(
                "{event} triggers would run again, and the log has what they changed the first time. Drop them first, or delete this \
                 check if they shall run."
            ),
            "': trigger ', TRIGGER_NAME, ' of ', EVENT_OBJECT_TABLE",
            "information_schema.TRIGGERS",
            among(sums, std::array::from_fn(|own| own == at), "EVENT_OBJECT_SCHEMA", "EVENT_OBJECT_TABLE")
                .map(|tables| format!("{tables}\n  AND EVENT_MANIPULATION = '{event}'")),
        )?;
    }
    check(
        "These foreign keys would set columns of other tables to NULL when a row that they refer to is changed. If no such \
         rows exist, this check can be deleted.",
        "': foreign key ', CONSTRAINT_NAME, ' of ', TABLE_NAME",
        "information_schema.REFERENTIAL_CONSTRAINTS",
        among(sums, [false, true, false], "UNIQUE_CONSTRAINT_SCHEMA", "REFERENCED_TABLE_NAME")
            .map(|tables| format!("{tables}\n  AND UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION', 'CASCADE')")),
    )?;
    check(
        "These foreign keys would delete or change rows of other tables along. If no such rows exist any more, or \
         they shall go, this check can be deleted.",
        "': foreign key ', CONSTRAINT_NAME, ' of ', TABLE_NAME",
        "information_schema.REFERENTIAL_CONSTRAINTS",
        among(sums, [false, false, true], "UNIQUE_CONSTRAINT_SCHEMA", "REFERENCED_TABLE_NAME")
            .map(|tables| format!("{tables}\n  AND DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION')")),
    )?;
    if let Some(bytes) = packet(sums) {
        writeln!(
            out,
            "\n-- A server that takes no statement as long as the longest one here would end the connection.\n\
             SET @remora = IF(@@max_allowed_packet >= {bytes}, @remora, LEFT(CONCAT(@remora,\n  \
             ': SET GLOBAL max_allowed_packet = {bytes} first'), 300));"
        )?;
    }
    writeln!(out, "\n{}", or_stop("DO 0"))?;
    let tables = among(sums, [true, false, false], "UNIQUE_CONSTRAINT_SCHEMA", "REFERENCED_TABLE_NAME");
    if let Some(tables) = tables.filter(|_| sums.lacks_cascades && !sums.has_cascades) {
        writeln!(
            out,
            "-- Rows that a foreign key deleted or changed along with those that come back are in no log. This shows\n\
             -- where some may be missing; remora reverse --children brings them back.\n\
             SELECT CONCAT(TABLE_NAME, ': rows that foreign key ', CONSTRAINT_NAME, ' changed by cascade do not come back') AS remora\n  \
             FROM information_schema.REFERENTIAL_CONSTRAINTS\n  \
             WHERE {tables}\n  AND DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION');\n"
        )?;
    }
    Ok(())
}
