//! Tables as files: reads their rows without a server.
//!
//! [`Source::find`] finds the tables in a folder, [`Source::judge`] tells whether their files can be trusted,
//! and [`Rows::write`] writes the rows of one, with several threads and in the order of its primary key. The
//! crate `innodb` knows what the bytes mean.
//!
//! [`write::write`] goes the other way: it turns rows into a file and lets a server import it.
//!
//! [`follow::Follow`] copies the redo log of a running server.

mod definition;
mod deleted;
mod describe;
mod error;
mod file;
pub mod follow;
mod line;
mod name;
mod pipeline;
mod position;
mod read;
mod sort;
mod source;
mod state;
pub mod write;

pub use describe::is_ordered_by;
pub use error::Error;
pub use file::File;
pub use innodb::table::Table;
pub use line::Format;
pub use name::decode as table_name;
pub use position::Position;
pub use read::{Counts, Rows};
pub use source::{Source, TableFiles};
pub use state::{Doubt, Verdict};
