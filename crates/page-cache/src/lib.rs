//! Which part of files is in the page cache, and which files a command line names.
//!
//! The calls to the kernel are in `disk`.

pub mod find;
pub mod resident;
