//! What a statement of a connection has leased.

use queue::Leased;

/// What a statement has leased, and the text about it that C++ reads.
#[derive(Default)]
pub(crate) struct Leases {
    /// The last one comes last.
    pub(crate) all: Vec<Leased>,
    pub(crate) text: String,
}
