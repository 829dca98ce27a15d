//! Fills a table by writing its file: rows become pages, and the server imports the file as it is.
//!
//! The server creates an empty table with the same definition, the template, whose file shows where its
//! indexes begin. The template's file is replaced with one that is written here, read again and verified. The
//! server imports it, checks it, and builds the indexes whose collation only the server knows. At the end the
//! template is renamed to the target in one step. A failure before that leaves the target unchanged and no
//! file behind.

mod checkpoint_wait;
mod collation_weights;
mod fill;
mod page_writer;
mod preconditions;
mod space_requirements;
mod table_import;
mod template_table;
mod trial;
mod verify;
mod workspace;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use disk::Files;
use innodb::key_order::KeyOrder;
use innodb::table::Table;
use innodb::write::Row;
use progress::Progress;
use server::{Session, TableName};

use crate::Error;
pub use crate::pipeline::Next;
use table_import::TableImport;
use template_table::Names;
pub use trial::trial;
use workspace::Workspace;

/// The note for the user after tables were filled through their files.
pub const INCREMENTAL: &str =
    "incremental backups of mariadb-backup don't notice imported files: make a new full backup";

/// The table to fill, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The table. It does not exist yet, or is empty.
    pub target: &'a TableName,
    /// Its definition, as SHOW CREATE TABLE prints it.
    pub definition: &'a str,
    /// Whether the rows are sorted by the primary key.
    pub sorted: bool,
    /// How many threads make rows and pages.
    pub threads: usize,
    /// How many bytes of rows and index entries may be in memory while they are sorted.
    pub memory: usize,
    /// How many bytes the input has, for the progress, if that is known.
    pub bytes: Option<u64>,
    /// The folder for sorted pieces that exceed the memory.
    pub folder: &'a Path,
    /// Whether the rows may be missing in the binary log: neither replicas nor a recovery from it get them.
    pub unlogged: bool,
    /// Opens another session, in which the server counts the rows while it checks them.
    pub connect: &'a (dyn Fn() -> Result<Session, server::Error> + Sync),
    /// Set when the run must stop.
    pub stop: &'a AtomicBool,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of rows.
    pub rows: u64,
    /// The size of the written file in bytes.
    pub bytes: u64,
    /// The indexes that the server built.
    pub added: Vec<String>,
}

/// Receives a row: the value of each column of the table, and the position of the row in the input, for
/// error messages. Values of VIRTUAL columns are ignored.
pub type RowSink<'a> = dyn FnMut(&Row, u64) -> Result<(), Error> + 'a;

/// Reads the rows of a piece. The number is the most rows that the pieces before it can have. Several threads
/// call it.
pub type ReadPiece<'a, P> = dyn Fn(&Table, P, u64, &mut RowSink<'_>) -> Result<(), Error> + Sync + 'a;

/// A piece of the input.
pub struct Piece<P> {
    /// What it is.
    pub input: P,
    /// How many rows it has at most.
    pub rows: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// The source of the rows, and a receiver of the rows that are read back.
pub struct Input<'a, P> {
    /// Gives the next piece of the input.
    pub next: &'a mut Next<'a, Piece<P>>,
    /// How many bytes all pieces have, if that is known. Then a lack of disk space is reported early.
    pub bytes: Option<u64>,
    /// Turns it into rows.
    pub rows: &'a ReadPiece<'a, P>,
    /// Takes the rows as lines of [`Format::Tsv`](crate::Format::Tsv), as they are read back from the file
    /// that the server has imported; none if nobody compares them.
    pub back: Option<&'a mut (dyn Write + Send)>,
}

/// A definition that SHOW CREATE TABLE of this server prints, as a table.
///
/// # Errors
/// [`Error::Refused`] for what is not understood.
pub fn table(session: &Session, definition: &str) -> Result<Table, Error> {
    template_table::parse(session, definition).map_err(Error::refusal)
}

/// Whether rows that are not in the order of the primary key are noticed while they are written; otherwise
/// only the server notices it, when it has the file.
#[must_use]
pub fn knows_order(table: &Table) -> bool {
    KeyOrder::of(table, table.clustered()).is_some()
}

/// Checks whether a server and a table qualify, as far as that is known without changing anything.
///
/// # Errors
/// [`Error::Refused`] with the reason; errors of the server.
pub fn check(session: &mut Session, request: &Request<'_>) -> Result<(), Error> {
    preconditions::all(session, request).map(drop)
}

/// Fills a table. The server's data folder must be on this machine, and this process must run as the
/// server's user or as root.
///
/// # Errors
/// [`Error::Refused`] if this server or table does not qualify, before anything is changed. [`Error::Row`]
/// for rows out of order or with the same key. [`Error::Taken`] if the target has rows of others. Errors of
/// the server, of files, and of the input. The target is unchanged then.
pub fn write<P: Send>(
    session: &mut Session,
    disk: &dyn Files,
    request: &Request<'_>,
    mut input: Input<'_, P>,
) -> Result<Outcome, Error> {
    let mut import = TableImport::begin(session, disk, request)?;
    let made = import.run(&mut input);
    import.end(made)
}

/// Removes tables and files that a killed run may have left beside a table.
///
/// # Errors
/// Errors of the server and of files. A data folder that can't be read is not an error: then there was no
/// such run.
pub fn remove_leftovers(
    session: &mut Session,
    disk: &dyn Files,
    target: &TableName,
    progress: &dyn Progress,
) -> Result<(), Error> {
    if !Workspace::is_littered(session, disk, target)? {
        return Ok(());
    }
    // A trial fills a table that has a template of its own. Its tables are dropped last: they show that there
    // was a trial.
    let [filled, _] = Names::of(target).trial;
    for target in [&filled, target] {
        let mut workspace = Workspace::take(session, disk, target, progress)?;
        let cleared = workspace.clear();
        workspace.end(cleared)?;
    }
    Ok(())
}
