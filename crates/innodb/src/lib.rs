//! InnoDB's files: what a table is to the storage engine, its pages, trees and records, and the bytes of its
//! values. Bytes in, bytes out.
//!
//! docs/formats/innodb.md has the formats. A table's rows are read in four steps:
//!
//! 1. [`space::Space::parse`] says what a file is; its [`page::Sums`] prove every page that is read.
//! 2. [`instant::layout`] says where the fields of a [`table::Table`] are in its records.
//! 3. [`tree::Tree`] finds the leaves in the order of keys.
//! 4. [`leaf::rows`] gives the rows of one, and [`value::decode`] the text of each field.
//!
//! Pages come through a trait, [`page::Pages`]. Any bytes give rows or an [`Error`] that names the page.

pub mod chain;
mod error;
pub mod export;
pub mod index;
pub mod instant;
pub mod leaf;
pub mod order;
pub mod page;
pub mod prove;
pub mod record;
pub mod redo;
pub mod space;
pub mod table;
pub mod transaction;
pub mod tree;
pub mod value;
pub mod write;

pub use error::Error;
