//! Imports delimited files into a table: as fast as the server accepts rows, all or nothing, with nothing
//! lost.
//!
//! The path of a row: [`source`] opens and decompresses a file, and [`chunk`] cuts it at record boundaries.
//! `load` hands the chunks to sessions, `sender` sends each as one LOAD DATA LOCAL (or multi-row INSERT), and
//! `bisect` finds the bad rows of a chunk for which the server returned warnings. `target` decides where rows
//! go, `shadow` creates the table into which they are loaded first, `ledger` records on the server which
//! chunks are loaded, `durability` relaxes server-wide settings and restores them.
//!
//! The crate does not print, read arguments or read a clock: the caller brings a [`Context`] and a
//! [`progress::Progress`].

mod archive;
mod bisect;
pub mod chunk;
mod connect;
mod context;
mod contradiction;
mod dialect;
mod duplicates;
mod durability;
mod error;
mod foreign;
mod insert;
mod job;
mod ledger;
mod load;
mod mapping;
mod memory_budget;
pub mod option_value;
mod other_files;
mod plan;
mod privileges;
mod reject;
mod reject_files;
mod request;
mod run;
mod sender;
mod server_warnings;
mod shadow;
pub mod source;
mod survey;
mod tablespace;
mod target;

pub use context::Context;
pub use duplicates::Duplicates;
pub use durability::{RestoredSettings, undo};
pub use error::Error;
pub use parquet_rows::foreign::Int96;
pub use reject::Reject;
pub use request::{FieldTarget, Indexes, Input, Mode, OnDuplicate, Physical, Request};
pub use run::{Preview, Summary, import, preview};
