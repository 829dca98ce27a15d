//! The forms of files.

use serde::{Deserialize, Serialize};

/// How changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON lines in Debezium's envelope.
    Jsonl,
    /// Parquet, with a row for each image of a row.
    Parquet,
}
