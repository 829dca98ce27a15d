//! Dumps a whole server into a folder and loads it again: in parallel, from one consistent snapshot, and
//! verified.
//!
//! [`dump`] reads the catalogue and, from sessions that share one snapshot, the rows of every table in chunks
//! of its key. It writes a folder that docs/formats/dump.md describes. [`load`] recreates everything on
//! another server and reads it back as proof. [`diff`] compares folders and servers.
//!
//! The way of a row: `server::Session::stream` passes on values as they arrive, `line` turns them into LOAD
//! DATA's text and the sum of rows, `format` converts that to the chosen format, `file` compresses and writes
//! it. On the way back the file's text is sent unchanged. `hash` defines what equal means.
//!
//! The crate does not print, read arguments or read a clock: the caller brings a [`Context`] and a
//! [`progress::Progress`].

mod builder;
mod canonical;
mod chunk_file;
mod context;
mod copy;
mod data_file;
mod definer;
mod diff;
mod error;
mod folder_name;
mod format;
mod hash;
mod inspect;
mod journal;
mod key_range;
mod load;
mod manifest;
mod manifest_filter;
mod mask;
mod parallel;
mod plan;
mod reading;
mod run;
mod schema;
mod select;
mod selection;
mod table_progress;
mod value_text;
mod verify;

pub use builder::{DumpBuilder, DumpOrigin};
pub use chunk_file::parquet::PARQUET_CODEC;
pub use context::Context;
pub use copy::{
    CopiedTable, CopyPlan, CopyRequest, CopySide, CopySummary, MaxLag, Programs, ReadTable, Refusals,
    Renames, TablePart, copy, copy_id, ledger_of_copy, plan as plan_copy, record_tables, standby,
};
pub use data_file::parquet::{OddFile, Part};
pub use definer::Definer;
pub use diff::{Difference, Side, diff};
pub use error::Error;
pub use folder_name::folder as folder_name;
pub use format::Format;
pub use hash::{Hash, Sum};
pub use inspect::{CheckSummary, check};
pub use load::{LoadRequest, LoadSummary, Verify, WriteRequest, load};
pub use manifest::{Chunk, EarlierState, Manifest, SharedFilePart, Source, TableEntry};
pub use mask::{MaskKey, Masks, ValueMask};
pub use parquet_rows::EncodingSet;
pub use reading::{Limits, ReadRequest};
pub use run::{DumpRequest, DumpSummary, OddPolicy, ParquetRequest, dump};
pub use selection::{ColumnNames, Conditions, Pattern, Selection};
