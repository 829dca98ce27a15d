//! Whether a server can be backed up, archived and restored, and what fixes what stands in the way.
//!
//! [`judge::all`] turns [`facts`] into [`finding`]s, each good, a warning or bad. It asks nobody: who has
//! gathered the facts, and from which server and repository, is not its business.

mod archive;
pub mod facts;
pub mod finding;
pub mod judge;
mod repository;
