//! The disk of another machine, and its commands, over an existing connection: two pipes to ssh.
//!
//! The near side has a [`Connection`]. The far side is a small program, `remora-far`, which [`script`] makes
//! a shell receive and start; it answers in [`serve`] until its input ends. docs/formats/far.md describes the
//! protocol, `wire` implements it.
//!
//! [`FarDisk`] is a [`disk::Disk`], so everything that works with local files also works with files there.
//! [`FarFeed`] reads a volume: hashing and compression happen there, and unchanged blocks are not
//! transferred.
//!
//! The crate does not start ssh, and knows only the paths that it is given.

mod clone;
mod command;
mod connection;
mod feed;
mod file;
mod intact;
mod request;
mod script;
mod serve;
mod still;
mod wire;

pub use clone::{Cloned, Cloning, clone};
pub use command::run;
pub use connection::{Connection, Greeting};
pub use feed::FarFeed;
pub use file::FarDisk;
pub use intact::Intact;
pub use request::{FilePart, Handle, Request};
pub use script::script;
pub use serve::{Machine, serve};
pub use still::Still;
pub use wire::{Ran, VERSION};
