//! Where the chunks of a volume come from.

use std::io;

use disk::Stat;

use crate::format::{CHUNK_BLOCKS, Hash};

/// A volume that is read once, in order, possibly on another machine.
///
/// Chunks are announced in ascending order with [`ChunkSource::expect`], at most [`ChunkSource::ahead`] of
/// them before they are read, and are read in the same order; chunks that are not announced are skipped.
/// After everything was read some chunks may be announced again, in ascending order from the start. This
/// keeps a remote source busy, and lets it determine by itself what is unchanged.
pub trait ChunkSource: Send {
    /// The current state of the volume.
    ///
    /// # Errors
    /// Errors of reading it.
    fn stat(&mut self) -> io::Result<Stat>;

    /// Ensures, as far as possible, that any later change of the volume shows in its state.
    fn settle(&mut self) {}

    /// Whether somebody has the volume open for writing. None if that is unknown.
    fn is_written_to(&mut self) -> Option<bool> {
        None
    }

    /// How many chunks are announced before the first of them is read.
    fn ahead(&self) -> u64;

    /// Announces chunk `number`, counted from 0, of `bytes` bytes; the last chunk of a volume may have fewer
    /// than [`CHUNK`](crate::CHUNK).
    ///
    /// # Errors
    /// Errors of reading it.
    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()>;

    /// Reads the next announced chunk into a buffer, which then has [`CHUNK`](crate::CHUNK) bytes unless the
    /// chunk is a hole. After the end of the volume there are zeros.
    ///
    /// # Errors
    /// Errors of reading it; `UnexpectedEof` when the volume ends too early.
    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead>;

    /// Called when everything known of the volume was read. Returns its new length in bytes, if there is more
    /// to read. Before that the length must be a whole number of chunks.
    ///
    /// # Errors
    /// Errors of finding out; then nothing that was read is kept.
    fn more(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Whether somebody is waiting for the read to finish, so that the rate limit does not apply.
    fn is_urgent(&self) -> bool {
        false
    }

    /// The note to store instead of the request's, which was needed too early. It must not be longer.
    fn note(&self) -> Option<String> {
        None
    }

    /// Confirms, once everything was read, that it can be trusted. If not, nothing is kept.
    ///
    /// # Errors
    /// Why it can't be trusted, for example because a snapshot overflowed meanwhile.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Some of the blocks of a chunk.
pub type BlockSet = Box<[bool; CHUNK_BLOCKS]>;

/// Which part of a chunk is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkRequest {
    /// All of it, with the hashes of its blocks when it was last read: a remote source need not send blocks
    /// that are unchanged.
    All(Option<Vec<Hash>>),
    /// Only these blocks: nobody has written to the others.
    Blocks(BlockSet),
}

/// The result of reading a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkRead {
    /// A hole, which reads as zeros; the buffer is undefined.
    Hole,
    /// The whole chunk is in the buffer.
    Whole,
    /// The blocks that are set are in the buffer; the others are unchanged.
    Blocks(BlockSet),
}
