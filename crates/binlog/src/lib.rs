//! The binary log of MariaDB and MySQL: bytes in, events out.
//!
//! docs/formats/binlog.md describes the format. A log is read from the bottom up:
//!
//! 1. [`reader::Reader`] cuts a file or a stream into [`event::Event`]s, and proves each by its checksum.
//!    It can also decompress the events of a transaction of MySQL ([`reader::Reader::unpacking`]).
//! 2. [`event::Event::parse`] says what an event is: an [`event::Body`].
//! 3. [`group::Grouping`] says which events are a transaction, and whether its end is there.
//! 4. [`row`] reads the rows of an event, with the table that an event before it described
//!    ([`tables::Tables`]). [`json`] reads MySQL's JSON.
//!
//! Values become SQL that means exactly them ([`literal`]). Events can be passed to a server again as a
//! [`statement`]. An [`archive`] keeps the logs of a server.
//!
//! No part holds more than one event in memory. Any input yields events, or a [`Corrupt`] that names the
//! place.

pub mod archive;
pub mod column;
mod error;
pub mod event;
pub mod group;
pub mod json;
pub mod literal;
pub mod reader;
pub mod row;
pub mod statement;
pub mod tables;
mod wire;

pub use error::{Corrupt, Error};
