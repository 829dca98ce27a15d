//! Block-level backups of volumes: first a full one, then only what changed.
//!
//! A volume is anything that has a length and can be read at an offset: a file, a block device. The way of a
//! block: [`backup()`] reads the volume once (with a [`Feed`]; `scan` for local volumes), finds out what
//! changed (`backup/change`) since the generation before (`chain`), compresses it (`pack`) and writes a file
//! (`writer`, `format`) into a [`Store`]. [`restore`] and [`verify()`] read blocks back (`fetch`), each
//! proven by its hash. [`prune()`] removes generations without copying what the others still need.
//!
//! The crate does not know where a volume comes from, does not print, and reads no clock.
//! docs/formats/block.md describes the files.

pub mod backup;
mod catalogue;
mod chain;
mod content;
mod copies;
mod error;
mod feed;
mod fetch;
mod file;
pub mod format;
mod known;
mod listed;
pub mod mirror;
mod mirrored;
mod name;
mod numbers;
mod pack;
pub mod prune;
mod recent;
mod repository;
pub mod restore;
mod retain;
pub mod retention;
mod scan;
mod sealed;
mod store;
pub mod tree;
pub mod verify;
mod view;
mod writer;

pub use backup::{World, backup};
pub use content::{Content, Library};
pub use error::Error;
pub use feed::{Blocks, Feed, Seen, Want};
pub use format::{BLOCK, CHUNK, Hash, NUMBER_MAX};
pub use mirror::mirror;
pub use prune::prune;
pub use repository::{Generation, Listing, READER, Repository, is_of_backups};
pub use scan::Scan;
pub use sealed::{Sealed, is_not_sealed, is_sealed, rekey};
pub use store::{Folder, Freed, Store, Upload, WRITER};
pub use verify::verify;
