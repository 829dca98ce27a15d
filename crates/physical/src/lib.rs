//! Tables as files: reads their rows without a server.
//!
//! [`Source::find`] finds the tables in a folder, [`Source::check_consistency`] checks whether their files
//! are consistent, and [`RowReader::write`] writes the rows of one, with several threads and in the order of
//! its
//! primary key. The crate `innodb` knows the file formats.
//!
//! [`write::write`] goes the other way: it turns rows into a file and lets a server import it.
//!
//! [`redo_copy::RedoCopier`] copies the redo log of a running server.

mod catalogue_entry;
mod consistency;
mod definition;
mod deleted_rows;
mod error;
mod file;
mod file_name;
mod pipeline;
pub mod redo_copy;
mod redo_position;
mod row_reader;
mod row_text;
mod sort;
mod source;
pub mod write;

pub use catalogue_entry::is_ordered_by;
pub use consistency::{Consistency, Inconsistency};
pub use error::Error;
pub use file::File;
pub use file_name::decode as table_name;
pub use innodb::table::Table;
pub use redo_position::RedoPosition;
pub use row_reader::{Counts, RowReader};
pub use row_text::Format;
pub use source::{Source, TableFiles};
