//! Where the rows of a load come from: data files, or the snapshot of another server.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Load;
use super::rows::AGAIN;
use crate::copy::{ServerRows, SourceSession};
use crate::manifest::{Chunk, TableEntry};
use crate::table_progress::TableProgress;
use crate::{Error, hash::Sum};

/// Where the rows come from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The data files of a dump.
    Files(Files<'a>),
    /// The snapshot of another server.
    Server(&'a ServerRows<'a>),
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
