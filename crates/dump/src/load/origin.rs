//! Where the rows of a load come from: data files, or the snapshot of another server.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use server::Session;

use super::{AGAIN, Load};
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::table_progress::TableProgress;
use crate::{Error, hash::Sum};

/// Where the rows come from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The data files of a dump.
    Files(Files<'a>),
    /// The snapshot of another server.
    Server(&'a dyn ServerOrigin),
}

/// A session of the snapshot, in the hands of one thread.
pub(crate) type SourceSession = Arc<Mutex<Session>>;

/// What one session does at a time, by the numbers of tables: a chunk, all chunks of a table whose engine
/// can't roll back, or some small tables.
pub(crate) struct Task {
    pub(crate) pieces: Vec<(usize, Chunk)>,
    /// The bytes it was planned with, by which the time it takes is judged; 0 if unknown.
    pub(crate) planned_bytes: u64,
}

/// What the target has of some chunks.
pub(crate) struct Settled {
    /// Chunks that are to be written.
    pub(crate) missing: Vec<(usize, Chunk)>,
    /// Chunks whose rows are there and right.
    pub(crate) there: Vec<(usize, Chunk)>,
}

/// The snapshot of a server as the origin of rows.
pub(crate) trait ServerOrigin: Sync {
    /// A session for one thread; `None` when there is none left.
    fn session(&self) -> Option<SourceSession>;

    /// Bytes of all tables, as the source estimates them.
    fn bytes(&self) -> u64;

    /// Plans all tables and hands on their chunks.
    fn feed(&self, send: &mut dyn FnMut(Task) -> Result<(), Error>) -> Result<(), Error>;

    /// Waits as long as the source is busy with others.
    fn wait(&self, source: &SourceSession, is_over: &dyn Fn() -> bool) -> Result<(), Error>;

    /// Tells chunks that are to be written from those that a stopped run has written. It is given a session
    /// that writes and one that reads the target.
    fn settle(
        &self,
        load: &Load<'_>,
        source: &SourceSession,
        target: (&mut Session, &mut Session),
        pieces: Vec<(usize, Chunk)>,
    ) -> Result<Settled, Error>;

    /// The text of a chunk, as it is read.
    fn text(
        &self,
        source: Option<&SourceSession>,
        at: usize,
        chunk: &Chunk,
        tally: Arc<TableProgress>,
    ) -> ChunkText;

    /// Notes how long a task took that was planned with this many bytes.
    fn note(&self, planned_bytes: u64, took: Duration);

    /// Records chunks that are written. Returns the tables that are complete now, after a check that they are
    /// still those of the catalogue.
    fn add(&self, source: &SourceSession, chunks: Vec<(usize, Chunk)>) -> Result<Vec<usize>, Error>;

    /// Releases the source, and puts all chunks into the manifest.
    fn finish(&self, manifest: &mut Manifest);
}

/// The data files of a dump.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    /// The dump's folder.
    pub(crate) folder: &'a Path,
    /// Whether large tables are loaded by writing their files, where that is possible.
    pub(crate) physical: bool,
    /// Whether the dump is complete.
    pub(crate) is_whole: bool,
}

impl Origin<'_> {
    /// Whether all chunks, and their sizes, are known from the start.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Origin::Files(Files { is_whole: true, .. }))
    }

    /// What is done with the rows, in a word for the progress.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Origin::Files(_) => "loading",
            Origin::Server(_) => "copying",
        }
    }

    /// A session of the source, if that is a server, for one thread.
    pub(super) fn session(&self) -> Option<SourceSession> {
        match self {
            Origin::Files(_) => None,
            Origin::Server(rows) => rows.session(),
        }
    }
}

/// Takes the text of a chunk block by block; a block may end anywhere.
pub(crate) type OnBlock<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// What was read of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// The sum of its rows.
    pub(crate) sum: Sum,
    /// Bytes of its text.
    pub(crate) text_bytes: u64,
}

/// The text of a chunk, in the form that LOAD DATA takes.
pub(crate) struct ChunkText {
    /// Reads all of it, and passes it on.
    pub(crate) read: Box<dyn FnMut(OnBlock<'_>) -> io::Result<Sent> + Send>,
    /// Says what an error of reading is about.
    pub(crate) explain: Box<dyn Fn(io::Error) -> Error>,
}

impl Files<'_> {
    /// The text of a chunk's file.
    pub(super) fn text(
        &self,
        load: &Load<'_>,
        entry: &TableEntry,
        chunk: &Chunk,
        tally: Arc<TableProgress>,
    ) -> ChunkText {
        let context = load.context;
        let (disk, stop, progress) =
            (Arc::clone(&context.disk), Arc::clone(&context.stop), Arc::clone(&context.progress));
        let file = load.manifest.data_file(self.folder, entry, chunk);
        let path = file.path.clone();
        let sent = Sent { sum: chunk.sum, text_bytes: chunk.text_bytes };
        let each_row = (chunk.text_bytes / chunk.sum.rows.max(1)).max(1);
        let read = move |to: OnBlock<'_>| {
            file.read(&*disk, &mut |piece| {
                if stop.load(Ordering::Relaxed) {
                    return Err(io::Error::other("stopped"));
                }
                let bytes = piece.len() as u64;
                progress.read(bytes);
                progress.done(bytes / each_row, bytes);
                tally.add(&*progress, 0, bytes, bytes);
                to(piece)
            })?;
            Ok(sent)
        };
        let stop = Arc::clone(&context.stop);
        let explain = move |source: io::Error| match stop.load(Ordering::Relaxed) {
            true => Error::Stopped(AGAIN),
            false => Error::File { name: path.clone(), source },
        };
        ChunkText { read: Box::new(read), explain: Box::new(explain) }
    }
}
