//! One source of the server. Each may be missing or refused without harm to the others.

use server::{Error, Session};

/// A row of text, `None` for NULL.
pub(crate) type Row = Vec<Option<String>>;

/// What a source answered.
#[derive(Debug)]
pub(crate) enum View {
    /// Its rows.
    Rows(Vec<Row>),
    /// This server does not have it.
    Missing,
    /// It was refused, in the server's words.
    Refused(String),
}

impl View {
    /// The rows; none if the source is not there.
    pub(crate) fn rows(self) -> Vec<Row> {
        if let View::Rows(rows) = self { rows } else { Vec::new() }
    }
}

/// ER_NO_SUCH_TABLE, ER_UNKNOWN_TABLE (of information_schema) and ER_BAD_FIELD_ERROR.
const MISSING: [u16; 3] = [1146, 1109, 1054];

/// Asks a source.
///
/// # Errors
///
/// Those after which the session can't be used.
pub(crate) fn ask(session: &mut Session, sql: &str) -> Result<View, Error> {
    match session.strings(sql) {
        Ok(rows) => Ok(View::Rows(rows)),
        Err(error) => match error.code() {
            Some(code) if MISSING.contains(&code) => Ok(View::Missing),
            Some(_) => Ok(View::Refused(error.to_string())),
            None => Err(error),
        },
    }
}

/// A column as text; empty for NULL.
pub(crate) fn text(row: &Row, at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

/// A column as a number; `None` for NULL.
pub(crate) fn number(row: &Row, at: usize) -> Option<u64> {
    row.get(at)?.as_deref()?.parse().ok()
}
