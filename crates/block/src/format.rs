//! The bytes of a repository: header, chunk records, index, trailer. Bytes in, bytes out.
//!
//! docs/formats/block.md describes them; this is the implementation.

mod file;
mod record;
mod wire;

pub use file::{FixedHeader, Header, IndexEntry, TRAILER_BYTES, Trailer};
pub use record::{BlockLocation, Change, Group, Method, RECORD_FRAME_BYTES, Record, record_len};

/// Bytes of a block, the unit of change.
pub const BLOCK: usize = 16 << 10;
/// Blocks of a chunk, the unit of reading and of the index.
pub const CHUNK_BLOCKS: usize = 256;
/// Bytes of a chunk.
pub const CHUNK: usize = BLOCK * CHUNK_BLOCKS;
/// The most blocks that are compressed together.
pub const GROUP_BLOCKS: usize = 16;

/// The highest number of a file, a generation, a lock or a segment of a log: there are never so many, and
/// JSON represents it exactly. A higher one is an attempt to cause an overflow.
pub const NUMBER_MAX: u64 = 1 << 53;

/// The first 16 bytes of a BLAKE3 hash.
pub type Hash = [u8; 16];
/// Stands for the hash of zeros.
pub const ZERO: Hash = [0; 16];
/// Stands for the hash of unknown content; real content has it with a chance of one in 2^128.
pub const UNKNOWN: Hash = [0xff; 16];

/// What is wrong with decoded bytes, and the offset from their start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// What is wrong.
    pub what: &'static str,
    /// Offset in bytes.
    pub place: usize,
}

/// The hash of some bytes, cut to 16.
#[must_use]
pub fn hash(bytes: &[u8]) -> Hash {
    let mut out = ZERO;
    out.copy_from_slice(blake3::hash(bytes).as_bytes().first_chunk::<16>().unwrap_or(&ZERO));
    out
}

/// The hash of a block; [`ZERO`] if it is all zeros.
#[must_use]
pub fn block_hash(block: &[u8]) -> Hash {
    if is_zero(block) { ZERO } else { hash(block) }
}

/// Whether all bytes are zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    // Most blocks that are not zero differ early; those that do not are read in words.
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// The hash of a chunk's content: over the hashes of its blocks in order; [`ZERO`] if all of them are.
#[must_use]
pub fn chunk_hash(blocks: &[Hash]) -> Hash {
    if blocks.iter().all(|hash| *hash == ZERO) {
        return ZERO;
    }
    let mut hasher = blake3::Hasher::new();
    blocks.iter().for_each(|hash| {
        hasher.update(hash);
    });
    let mut out = ZERO;
    out.copy_from_slice(hasher.finalize().as_bytes().first_chunk::<16>().unwrap_or(&ZERO));
    out
}

/// Number of chunks in a volume of `len` bytes.
#[must_use]
pub fn chunks_of(len: u64) -> u64 {
    len.div_ceil(CHUNK as u64)
}
