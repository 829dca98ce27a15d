//! Binary logs as files: which transactions and rows somebody asks for, and what these did.
//!
//! A [`Filter`] says which. A [`Walk`] reads the files and gives transactions to whoever
//! [`Take`]s them; [`Again`] reads a transaction a second time for its rows, so that none is kept in memory
//! before its end is found.

pub mod defined_tables;
mod definitions;
pub mod effective_statement;
mod end_time;
mod file;
mod filter;
mod find;
mod frame;
pub mod names;
mod reread;
mod source;
mod statement_text;
pub mod sums;
pub mod table_references;
mod transaction;
mod walk;

pub use definitions::{Definitions, HASH_COLUMN, Known, logged, read as read_definitions};
pub use end_time::{EndTime, Judged, TOLERANCE_S};
pub use file::LogFile;
pub use filter::{Condition, Filter, Range};
pub use find::{Found, Times, files, of_segments};
pub use frame::is_frame;
pub use reread::{Again, AskedRow, RowsEvent};
pub use source::{FileSource, begun};
pub use statement_text::Wording;
pub use transaction::{Changed, Place, Statement, Transaction, Xa, slot};
pub use walk::{Asked, Take, Walk};
