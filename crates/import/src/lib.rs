//! Imports files of rows into a table: as fast as the server accepts them, with nothing lost and nothing half
//! done.
//!
//! The way of a row: [`source`] opens and decompresses a file, [`chunk`] cuts it at record boundaries, `load`
//! hands the chunks to sessions, `wire` sends each as one LOAD DATA LOCAL (or multi-row INSERT), and
//! `careful` finds the bad rows of a chunk that the server did not accept without complaint. `target` decides
//! where rows go, `shadow` creates the table in which they wait, `ledger` records on the server which chunks
//! are loaded, `relax` changes server-wide settings and restores them.
//!
//! The crate does not print, read arguments or read a clock: the caller brings a [`World`] and a
//! [`progress::Progress`].

mod archive;
mod aside;
mod careful;
pub mod chunk;
mod complaint;
mod connect;
mod doubt;
mod duplicate;
mod error;
mod form;
mod further;
mod ibd;
mod insert;
mod job;
mod ledger;
mod load;
mod mapping;
mod plan;
mod reject;
mod relax;
mod request;
mod rights;
mod room;
mod run;
mod shadow;
pub mod source;
mod survey;
mod target;
mod wire;
mod world;

pub use duplicate::Duplicates;
pub use error::Error;
pub use reject::Reject;
pub use relax::{Undone, undo};
pub use request::{FieldTarget, Indexes, Input, Mode, OnDuplicate, Physical, Request};
pub use run::{Preview, Summary, import, preview};
pub use world::World;
