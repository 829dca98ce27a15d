//! Who owns a row.

/// The owner of rows: the number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// Who owns a row. It is kept apart from the row and its entry in the index, which do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The connection.
    pub owner: OwnerId,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}
