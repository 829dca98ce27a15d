//! Who owns a row.

/// The owner of rows: the number of a connection, less than 2^62, a prepared transaction, or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// Set in the numbers of owners that are prepared transactions; no connection has such a number.
const TRANSACTION: u64 = 1 << 63;

/// The number of the owner that all leases are.
const LEASE: u64 = 1 << 62;

impl OwnerId {
    /// The owner of all leased rows.
    pub(crate) const LEASE: OwnerId = OwnerId(LEASE);

    /// The prepared transaction with this number in its queue, as an owner.
    pub(crate) fn transaction(tx: u64) -> OwnerId {
        OwnerId(tx | TRANSACTION)
    }

    /// Whether the owner is a lease and not a connection.
    #[must_use]
    pub fn is_lease(self) -> bool {
        self == OwnerId::LEASE
    }

    /// Whether the owner is a prepared transaction and not a connection.
    #[must_use]
    pub fn is_transaction(self) -> bool {
        self.0 & TRANSACTION != 0
    }
}

/// Who owns a row. It is kept apart from the row and its entry in the index, which do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The connection.
    pub owner: OwnerId,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}
