//! Where the chunks of a volume come from.

use std::io;

use disk::Stat;

use crate::format::{CHUNK_BLOCKS, Hash};

/// A volume that is read once, from front to end, by whoever is nearest to it.
///
/// Chunks are announced in ascending order with [`Feed::expect`], at most [`Feed::ahead`] of them before they
/// are read, and read in the same order; those that are not announced are not looked at. When all was read
/// some may be announced again, in ascending order from where that begins. So one that is far away can be
/// kept busy, and can tell by itself what has not changed.
pub trait Feed: Send {
    /// The volume's state now.
    ///
    /// # Errors
    /// What reading it reports.
    fn stat(&mut self) -> io::Result<Stat>;

    /// Makes sure, as far as that can be done, that whoever changes the volume from now on is seen by its
    /// state.
    fn settle(&mut self) {}

    /// Whether somebody has the volume open for writing. None where that can't be told.
    fn is_written_to(&mut self) -> Option<bool> {
        None
    }

    /// How many chunks are announced before the first of them is read.
    fn ahead(&self) -> u64;

    /// Announces chunk `number`, counted from 0, of `bytes` bytes, of which the last one of a volume may have
    /// fewer than [`CHUNK`](crate::CHUNK).
    ///
    /// # Errors
    /// What reading it reports.
    fn expect(&mut self, number: u64, bytes: usize, want: Want) -> io::Result<()>;

    /// Reads the first chunk that was announced and not yet read into a buffer, which becomes
    /// [`CHUNK`](crate::CHUNK) bytes unless the chunk is a hole. What lies behind the end of the volume is
    /// zeros.
    ///
    /// # Errors
    /// What reading it reports; `UnexpectedEof` when the volume ends before it should.
    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Seen>;

    /// Says, once everything was read, whether what was read can be relied on. Nothing is kept of it
    /// otherwise.
    ///
    /// # Errors
    /// Why it can't, such as a snapshot that overflowed meanwhile.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Some of the blocks of a chunk.
pub type Blocks = Box<[bool; CHUNK_BLOCKS]>;

/// What is wanted of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// All of it. The hashes of its blocks when it was read the last time, if it was: who is far away need
    /// not send blocks that are the same.
    All(Option<Vec<Hash>>),
    /// Only these blocks: nobody has written to the others.
    Blocks(Blocks),
}

/// What a chunk turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Zeros that take no room; the buffer means nothing.
    Hole,
    /// It is in the buffer.
    Whole,
    /// The blocks that are set are in the buffer; the others are as was known.
    Blocks(Blocks),
}
