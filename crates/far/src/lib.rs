//! Access to files and commands of another machine over an existing connection: two pipes to ssh.
//!
//! The near side has a [`Connection`]. The far side is a small program, `remora-far`, which a shell receives
//! and starts with the [`bootstrap_script`]; it answers in [`serve`] until its input ends.
//! docs/formats/far.md describes the describes the protocol, `wire` implements it.
//!
//! [`FarDisk`] is a [`disk::Disk`], so everything that works with local files also works with files there.
//! [`FarFeed`] reads a volume: hashing and compression happen there, and unchanged blocks are not
//! transferred.
//!
//! The crate does not start ssh, and knows only the paths that it is given.

mod bootstrap;
mod clone;
mod command;
mod connection;
mod feed;
mod file;
mod freeze;
mod page_check;
mod request;
mod serve;
mod wire;

pub use bootstrap::bootstrap_script;
pub use clone::{CloneReport, CloneRequest, clone};
pub use command::run;
pub use connection::{Connection, Greeting};
pub use feed::FarFeed;
pub use file::FarDisk;
pub use freeze::Freeze;
pub use page_check::InnodbPages;
pub use request::{FilePart, Handle, Request};
pub use serve::{Machine, serve};
pub use wire::{CommandOutput, VERSION};
