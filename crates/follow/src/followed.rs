//! A table that is followed.

use serde::{Deserialize, Serialize};
use server::TableName;
use server::catalogue::Table;

/// A table that is followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Followed {
    /// The table, as the source defines it.
    pub table: Table,
    /// Its name on the target.
    pub target: TableName,
    /// Whether foreign keys change rows of other tables along with its own (CASCADE, SET NULL).
    pub cascades: bool,
}
