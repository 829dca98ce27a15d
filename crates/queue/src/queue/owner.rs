//! Who owns a row.

/// Who owns rows: the number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// Who has a row. A record of its own: the row and its place in the index do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The connection.
    pub owner: OwnerId,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}
