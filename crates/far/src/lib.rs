//! The disk of another machine, and its commands, over a connection that is there: two pipes to ssh.
//!
//! The near side holds a [`Connection`]. The far side is a small program, `remora-far`, which [`script`]
//! makes a shell receive and start; it answers in [`serve`] until its input ends. What they say is described
//! in docs/formats/far.md and implemented in `wire`.
//!
//! [`FarDisk`] is a [`disk::Disk`], so that everything that works with files here works with files there.
//! [`FarFeed`] reads a volume: hashes and compresses are made there, and blocks that are as they were do not
//! travel.
//!
//! It does not start ssh, and knows no path that it was not told.

mod clone;
mod command;
mod connection;
mod feed;
mod file;
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
pub use request::{Handle, Request};
pub use script::script;
pub use serve::{Machine, serve};
pub use still::Still;
pub use wire::{Ran, VERSION};
