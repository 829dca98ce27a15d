//! The files of a queue: the folder they are in, how many of them are open, reading segments, and the end of
//! the log.

pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod log;
