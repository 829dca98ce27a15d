//! Consumers: sessions, the rows that they own and see, and waiting.

pub(crate) mod cursor;
pub(crate) mod leased_rows;
mod owned_rows;
mod scan;
pub(crate) mod session;
pub(crate) mod transaction;
pub(crate) mod wait;
