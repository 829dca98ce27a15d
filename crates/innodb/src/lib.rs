//! InnoDB's files: what a table is to the storage engine, and the bytes of its values. Bytes in, bytes out.
//!
//! docs/formats/innodb.md has the formats.

mod error;
pub mod table;
pub mod value;

pub use error::Error;
