//! Block-level backups of volumes: first a full one, then only what changed.
//!
//! A volume is anything that has a length and can be read at an offset: a file, a block device. How a block
//! is backed up: [`backup()`] reads the volume once (from a [`ChunkSource`]; `scan` for local volumes), finds
//! out what changed (`backup/change`) since the parent generation (`chain`), compresses it (`compress`) and
//! writes a file (`writer`, `format`) into a [`Store`]. [`restore`] and [`verify()`] read blocks back
//! (`fetch`), and check each against its hash. [`prune()`] removes generations without copying what the
//! others still need.
//!
//! The crate does not know where a volume comes from, does not print, and reads no clock.
//! docs/formats/block.md describes the files.

pub mod backup;
mod catalogue;
mod chain;
mod chunk_source;
mod chunk_versions;
mod compress;
mod encrypted_store;
mod error;
mod fallback_reader;
mod fetch;
mod file;
mod file_kind;
pub mod format;
mod inventory;
mod lru;
pub mod mirror;
mod mirror_note;
mod notes;
mod number_file;
mod object_lock;
pub mod prune;
mod reader;
mod repository;
pub mod restore;
pub mod retention;
mod scan;
mod store;
pub mod tree;
pub mod verify;
mod writer;

pub use backup::{RunContext, backup};
pub use chunk_source::{BlockSet, ChunkRead, ChunkRequest, ChunkSource};
pub use encrypted_store::{EncryptedStore, is_encrypted, is_not_encrypted, rekey};
pub use error::Error;
pub use format::{BLOCK, CHUNK, Hash, NUMBER_MAX};
pub use mirror::mirror;
pub use prune::prune;
pub use reader::{GenerationReader, RepositoryReader};
pub use repository::{Generation, Listing, READER_LOCK, Repository, is_backup_file};
pub use scan::Scan;
pub use store::{Folder, Removal, Store, Upload, WRITER_LOCK};
pub use verify::verify;
