//! Repositories as a user names them: a folder or a place in an object store, with a location for each name.
//!
//! [`Address`](address::Address) and [`Location`] say where things are, [`mod@names`] which names a
//! repository has and opens them, [`unlock`] opens what a key opens, [`log_archive`] finds the archive of a
//! binary log beside the backups. How backups are written and read is in `block`.
//!
//! Credentials of object stores are read from the environment, as other tools of such stores do.

pub mod address;
mod any_disk;
pub mod calendar;
pub mod key_file;
pub mod location;
pub mod log_archive;
pub mod log_summary;
pub mod names;
pub mod state;
pub mod unlock;

pub use any_disk::AnyDisk;
pub use key_file::KeyFile;
pub use location::Location;
pub use names::*;
