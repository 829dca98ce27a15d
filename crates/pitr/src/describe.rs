//! What a scan of an archived log has of each transaction: all of it, and its name for people.

use dump::Selection;
use humanize::date_time;
use transactions::{Filter, Transaction, Wording, names};

/// The most characters of a statement that are shown.
const SHOWN_CHARS: usize = 100;

/// A filter that leaves nothing out, and looks for a text.
pub(crate) fn everything(statement: Option<Wording>) -> Filter {
    let tables = Selection { include: Vec::new(), exclude: Vec::new(), no_accounts: false };
    Filter { since: None, until: None, gtid: Vec::new(), tables, conditions: Vec::new(), statement }
}

/// What a transaction in a file is called.
pub(crate) fn name(whole: &Transaction, file: &str) -> String {
    names::gtid(whole.name).unwrap_or_else(|| format!("{file}:{}", whole.start.at))
}

/// A transaction in a file, for people.
pub(crate) fn describe(whole: &Transaction, file: &str) -> String {
    let name = name(whole, file);
    let statement = whole.statements.first().map(|statement| statement.sql.clone());
    let annotated = || whole.tables.iter().find_map(|changed| changed.statement.clone());
    let tables = || {
        let tables = whole.tables.iter().map(|it| format!("{}.{} {}", it.schema, it.name, it.shown()));
        tables.collect::<Vec<_>>().join(", ")
    };
    let what = statement.or_else(annotated).unwrap_or_else(tables);
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = what.chars().take(SHOWN_CHARS).collect();
    let more = if short.len() < what.len() { " ..." } else { "" };
    format!("{name} ({}) {short}{more}", date_time::shown(whole.time))
}
