//! Tries the lines of an option file without touching the server that they are for.
//!
//! [`program`] asks a server's program for its options and lets it judge lines; [`server`] starts a private
//! server with them; [`trial`] removes refused lines until none is refused. [`fresh`] describes a series by a
//! server that nobody has configured.

pub mod fresh;
pub mod program;
pub mod server;
pub mod trial;
