//! InnoDB's files: tables as the storage engine sees them, its pages, trees and records, and the bytes of its
//! values. Bytes in, bytes out.
//!
//! docs/formats/innodb.md describes the formats. A table's rows are read in four steps:
//!
//! 1. [`space::Space::parse`] recognises a file; its [`page::Sums`] check every page that is read.
//!    [`sdi::tables`] are the definitions in it, if it is of MySQL 8 or later.
//! 2. [`instant::layout`] finds where the fields of a [`table::Table`] are in its records.
//! 3. [`tree::Tree`] finds the leaves in the order of keys.
//! 4. [`leaf::rows`] returns the rows of a leaf, and [`value::decode`] the text of each field.
//!
//! Pages come through a trait, [`page::Pages`]. Any bytes yield rows or an [`Error`] that names the page.
//!
//! ```
//! // A page of zeros is no first page of a tablespace.
//! assert!(innodb::space::Space::parse(&[0; 16 * 1024]).is_err());
//! ```

mod error;
pub mod export;
pub mod index_page;
pub mod instant;
pub mod key_order;
pub mod leaf;
pub mod off_page;
pub mod page;
pub mod page_check;
pub mod record;
pub mod redo;
pub mod sdi;
pub mod space;
pub mod table;
pub mod transaction;
pub mod tree;
pub mod value;
pub mod verify;
pub mod write;

pub use error::Error;
