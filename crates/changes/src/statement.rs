//! Statements that were logged as such.

use binlog::group::GroupId;
use dump::Selection;
use serde_json::{Value, json};
use server::catalogue::Wanted;
use transactions::table_references::{Effect, TableReferences};
use transactions::{Statement, Transaction, names};

use crate::position::LogPosition;

/// What a statement means for who reads the changes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing.
    Nothing,
    /// A table may have changed its columns, or be empty now.
    Definition,
    /// It may have changed rows, and nobody knows which.
    Rows,
}

/// What a statement means if these tables are selected.
pub(crate) fn meaning(statement: &Statement, selection: &Selection) -> Meaning {
    let references = TableReferences::of(&statement.sql);
    let is_selected = |schema: &str, table: Option<&str>| match table {
        Some(table) => selection.table(schema, table),
        None => selection.schema(schema),
    };
    // A temporary table is of one connection.
    if statement.has_temporary || !references.is_about(&statement.schema, is_selected) {
        return Meaning::Nothing;
    }
    match references.effect {
        Effect::None => Meaning::Nothing,
        Effect::Definition => Meaning::Definition,
        Effect::Rows => Meaning::Rows,
    }
}

/// A statement as a line of JSON, in the words of Debezium's schema changes.
pub(crate) fn line(statement: &Statement, whole: &Transaction, name: &str, position: &LogPosition) -> Value {
    let ts_ms = whole.time.saturating_mul(1000);
    json!({
        "source": {
            "version": env!("CARGO_PKG_VERSION"),
            "connector": if is_mariadb(whole) { "mariadb" } else { "mysql" },
            "name": name,
            "ts_ms": ts_ms,
            "db": statement.schema,
            "server_id": whole.server_id,
            "gtid": names::gtid(whole.name),
            "timeline": position.timeline,
            "file": position.file,
            "pos": position.at,
            "thread": statement.thread_id,
        },
        "ts_ms": ts_ms,
        "databaseName": statement.schema,
        "ddl": statement.sql,
    })
}

/// Whether a server of MariaDB wrote a transaction.
pub(crate) fn is_mariadb(whole: &Transaction) -> bool {
    matches!(whole.name, GroupId::MariaDb(_)) || whole.format.server.contains("MariaDB")
}
