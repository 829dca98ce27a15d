//! A whole server into a folder and back: parallel, one state of the data, proven equal.
//!
//! [`dump`] reads a catalogue and, from sessions that share one snapshot, the rows of every table in chunks
//! of its key, and writes a folder that docs/formats/dump.md describes. [`load`] makes everything again on
//! another server and reads it back to prove it. [`diff`] compares folders and servers.
//!
//! The way of a row: `server::Session::stream` hands over values as they come off the wire, `line` makes LOAD
//! DATA's text and the sum of rows of them, `format` turns that into what is asked for, `file` compresses and
//! writes it. On the way back the file's text is sent as it is. `hash` defines what equal means.
//!
//! It does not print, read arguments or know a clock: the caller brings a [`World`] and a
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
mod manifest;
mod name;
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
pub use manifest::{Chunk, Earlier, Manifest, Source, TableEntry, Within};
pub use name::folder as folder_name;
pub use run::{DumpRequest, DumpSummary, Limits, dump};
pub use selection::{Conditions, Pattern, Selection};
pub use world::World;
