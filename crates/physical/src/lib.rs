//! Tables as files: their rows without a server.
//!
//! [`Source::find`] says which tables a folder has, [`Source::judge`] whether their files can be trusted, and
//! [`Rows::write`] writes the rows of one, with several threads and in the order of its primary key. What the
//! bytes mean is the crate `innodb`'s.
//!
//! [`write::write`] goes the other way: rows become a file, and a server takes it.

mod definition;
mod deleted;
mod error;
mod file;
mod line;
mod name;
mod read;
mod sort;
mod source;
mod state;
pub mod write;

pub use error::Error;
pub use file::File;
pub use innodb::table::Table;
pub use line::Format;
pub use name::decode as table_name;
pub use read::{Counts, Rows};
pub use source::{Source, TableFiles};
pub use state::Verdict;
