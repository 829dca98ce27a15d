//! A table that is filled by writing its file: rows become pages, and the server takes the file as it is.
//!
//! The server makes an empty twin of the table and says where its indexes begin. The twin's file is written
//! here, read again and proven; the server imports it, checks it, and builds the indexes whose order only it
//! knows. Last, the twin takes the target's name in one step. Whatever fails before that leaves the target as
//! it was, and no file.

mod attach;
mod barrier;
mod fill;
mod probe;
mod twin;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use disk::{Disk, Tree};
use innodb::table::Table;
use innodb::write::Row;
use progress::Progress;
use server::{Session, TableName};

use crate::Error;
use attach::Attach;

/// What is to be made.
pub struct Request<'a> {
    /// The table. There is none yet, or it is empty.
    pub target: &'a TableName,
    /// Its definition, as SHOW CREATE TABLE prints it.
    pub definition: &'a str,
    /// Whether rows come in the order of the primary key. They must where that is the order of a collation.
    pub sorted: bool,
    /// Bytes of rows and of entries of indexes that may be in memory to be sorted.
    pub memory: usize,
    /// Where those go that are more.
    pub folder: &'a Path,
    /// Whether rows may be missing in the binary log: neither replicas nor a recovery from it get them.
    pub unlogged: bool,
    /// Set when the end is asked for.
    pub stop: &'a AtomicBool,
    /// Who is told of what is done.
    pub progress: &'a dyn Progress,
}

/// What was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file that was written.
    pub bytes: u64,
    /// The indexes that the server built.
    pub added: Vec<String>,
}

/// Gives the next row: puts the value of each column of the table in its place; says whether there was one.
/// What is put for VIRTUAL columns is not looked at.
pub type Rows<'a> = dyn FnMut(&Table, &mut Row) -> Result<bool, Error> + 'a;

/// Fills a table. The server's data folder must be there to be written, by the server's user or by root.
///
/// # Errors
/// [`Error::Refused`] when this server or table can't be filled so, before anything is changed;
/// [`Error::Bytes`] for rows that are in no order or twice; those of the server, of files, and of `rows`. The
/// target is what it was then.
pub fn write<D: Disk + Tree>(
    session: &mut Session,
    disk: &D,
    request: &Request<'_>,
    rows: &mut Rows<'_>,
) -> Result<Outcome, Error> {
    let mut attach = Attach::begin(session, disk, request)?;
    let made = attach.run(rows);
    attach.end(made)
}
