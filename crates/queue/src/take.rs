//! Taking rows: a connection, the rows that it owns and sees, and waiting.

pub(crate) mod cursor;
mod held;
pub(crate) mod lease;
mod scan;
pub(crate) mod session;
pub(crate) mod transaction;
pub(crate) mod wait;
