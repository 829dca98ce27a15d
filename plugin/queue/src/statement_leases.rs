//! What a statement of a connection has leased.

use queue::LeasedRows;

/// What a statement has leased, and the text about it that C++ reads.
#[derive(Default)]
pub(crate) struct StatementLeases {
    /// The last one comes last.
    pub(crate) all: Vec<LeasedRows>,
    pub(crate) text: String,
}
