//! What is to be written, and what was.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use failure::Completeness;
use transactions::{Filter, Found, Known};

use crate::format::Format;
use crate::position::LogPosition;

/// The bytes of the log that make a batch, unless the log ends before.
pub const BATCH_BYTES: u64 = 128 << 20;

/// Where a folder of changes begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// With all that the log has.
    First,
    /// At this position of the newest timeline.
    At(LogPosition),
}

/// What is written, and where.
pub struct Request<'a> {
    /// What the log is called.
    pub name: String,
    /// Tells the files that the log has now.
    pub files: &'a dyn Fn() -> Result<Found>,
    /// The tables.
    pub filter: &'a Filter,
    /// What is known of them that the log may not say.
    pub known: &'a Known,
    /// The folder.
    pub to: PathBuf,
    /// The form.
    pub format: Format,
    /// Where to begin, if nothing was written before.
    pub start: Start,
    /// How often to look for more, for ever; `None` to end when there is no more.
    pub every: Option<Duration>,
    /// A batch ends with the transaction in which it has so many bytes of the log: [`BATCH_BYTES`].
    pub batch_bytes: u64,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Changes of rows.
    pub rows: u64,
    /// Files.
    pub files: u64,
    /// Where the next run begins.
    pub next: LogPosition,
    /// Whether something is in none of the files, or can't be read.
    pub completeness: Completeness,
}
