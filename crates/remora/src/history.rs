//! Binary logs as files: which transactions and rows somebody asks for, and what these did.
//!
//! A [`Request`] is what the command line says. A [`Walk`] reads the files and gives transactions to whoever
//! [`Take`]s them; [`Again`] reads a transaction a second time for its rows, so that none is kept in memory
//! before its end is found.

mod again;
mod ended;
mod feed;
mod file;
mod filter;
mod find;
mod known;
pub(crate) mod names;
mod request;
pub(crate) mod said;
mod transaction;
mod walk;
pub(crate) mod when;
mod wording;

pub(crate) use again::{Again, AskedRow, RowsEvent};
pub(crate) use ended::{Ended, Judged, TOLERANCE_S};
pub(crate) use feed::Feed;
pub(crate) use file::LogFile;
pub(crate) use filter::{Filter, Range};
pub(crate) use find::{Found, Times, files, of_segments};
pub(crate) use known::{Definitions, Known, logged};
pub(crate) use request::Request;
pub(crate) use transaction::{Changed, Place, Transaction, Xa, XaName, slot};
pub(crate) use walk::{Asked, Take, Walk, is_frame};
pub(crate) use wording::Wording;
