//! A table that is followed.

use std::collections::BTreeSet;

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
    /// The columns to which foreign keys of other tables refer that change rows of these (CASCADE, SET NULL).
    pub cascades: BTreeSet<String>,
}
