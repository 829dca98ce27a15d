//! Dumps a whole server into a folder and loads it again: parallel, one state of the data, proven equal.
//!
//! [`dump`] reads the catalogue and, from sessions that share one snapshot, the rows of every table in chunks
//! of its key. It writes a folder that docs/formats/dump.md describes. [`load`] recreates everything on
//! another server and reads it back as proof. [`diff`] compares folders and servers.
//!
//! The way of a row: `server::Session::stream` passes on values as they arrive, `line` turns them into LOAD
//! DATA's text and the sum of rows, `format` converts that to the chosen format, `file` compresses and writes
//! it. On the way back the file's text is sent unchanged. `hash` defines what equal means.
//!
//! The crate does not print, read arguments or read a clock: the caller brings a [`World`] and a
//! [`progress::Progress`].

mod definer;
mod diff;
mod error;
mod file;
mod format;
mod hash;
mod inspect;
mod journal;
mod line;
mod load;
mod make;
mod manifest;
mod name;
mod named;
mod parallel;
mod plan;
mod range;
mod run;
mod schema;
mod select;
mod selection;
mod tally;
mod value;
mod verify;
mod world;

pub use definer::Definer;
pub use diff::{Difference, Side, diff};
pub use error::Error;
pub use format::Format;
pub use hash::{Hash, Sum};
pub use inspect::{CheckSummary, check};
pub use load::{LoadRequest, LoadSummary, Verify, load};
pub use make::Maker;
pub use manifest::{Chunk, Earlier, Manifest, Source, TableEntry, Within};
pub use name::folder as folder_name;
pub use run::{DumpRequest, DumpSummary, Limits, dump};
pub use selection::{Conditions, Pattern, Selection};
pub use world::World;
