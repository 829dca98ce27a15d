//! JSON of MySQL: documents, which are stored and logged in the same form, and changes of them.
//!
//! Facts: `json_diff.cc` of MySQL's source.

mod changes;

pub(crate) use changes::changes;
pub use innodb::value::json::Json;

use crate::error::Flaw;

/// Reads a document.
pub(crate) fn document(bytes: &[u8]) -> Result<Json, Flaw> {
    innodb::value::json::document(bytes).map_err(Flaw)
}
