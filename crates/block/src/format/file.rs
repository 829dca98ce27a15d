//! Header, index entries and trailer of a file.

use super::wire::Fields;
use super::{BLOCK, Corrupt, Hash, NUMBER_MAX};

const MAGIC: [u8; 8] = *b"remoblk\n";
const END_MAGIC: [u8; 8] = *b"remoend\n";
const VERSION: u32 = 1;
/// Longest note.
const NOTE_MAX: usize = 1 << 16;

/// The beginning of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Number of the generation, from 1.
    pub generation: u64,
    /// Generation relative to which this one has changes; 0: none, everything is here.
    pub parent: u64,
    /// Content hash of the parent; zeros if there is none.
    pub parent_content: [u8; 32],
    /// Length of the volume in bytes.
    pub len: u64,
    /// When the source was in this state, seconds since the epoch.
    pub taken_s: i64,
    /// A description for programs and people: JSON, at most 64 KiB.
    pub note: String,
}

impl Header {
    /// Bytes before the note.
    pub const FIXED_BYTES: usize = 92;
    /// Bytes of the longest header.
    pub const BYTES_MAX: usize = Header::FIXED_BYTES + NOTE_MAX;

    /// Bytes of the whole header, judged by its fixed part.
    ///
    /// # Errors
    /// When the bytes are not a header, or have an unknown version.
    pub fn total_bytes(fixed: &[u8]) -> Result<usize, Corrupt> {
        let mut fields = Fields::new(fixed);
        if fields.array::<8>()? != MAGIC {
            return Err(fields.wrong("not a backup file"));
        }
        if fields.u32()? != VERSION {
            return Err(fields.wrong("written by a newer remora"));
        }
        if fields.u32()? as usize != BLOCK {
            return Err(fields.wrong("unsupported block size"));
        }
        fields.bytes(72)?;
        let note = fields.u32()? as usize;
        if note > NOTE_MAX {
            return Err(fields.wrong("the note is too long"));
        }
        Ok(Header::FIXED_BYTES + note)
    }

    /// Encodes the header. A note that is too long is truncated.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut end = self.note.len().min(NOTE_MAX);
        while !self.note.is_char_boundary(end) {
            end -= 1;
        }
        let mut out = Vec::with_capacity(Header::FIXED_BYTES + end);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u32::try_from(BLOCK).unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.parent.to_le_bytes());
        out.extend_from_slice(&self.parent_content);
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.taken_s.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&u32::try_from(end).unwrap_or(0).to_le_bytes());
        out.extend_from_slice(self.note.as_bytes().get(..end).unwrap_or_default());
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// When they are not a header.
    pub fn decode(bytes: &[u8]) -> Result<Header, Corrupt> {
        let total = Header::total_bytes(bytes)?;
        let mut fields = Fields::new(bytes);
        fields.bytes(16)?;
        let (generation, parent) = (fields.u64()?, fields.u64()?);
        if generation == 0 || generation > NUMBER_MAX || parent >= generation {
            return Err(fields.wrong("generations out of order"));
        }
        let parent_content = fields.array()?;
        let len = fields.u64()?;
        let taken_s = i64::from_le_bytes(fields.array()?);
        fields.zero(8)?;
        fields.u32()?;
        let note = fields.bytes(total - Header::FIXED_BYTES)?;
        let note = String::from_utf8(note.to_vec()).map_err(|_| fields.wrong("the note is not UTF-8"))?;
        fields.end()?;
        Ok(Header { generation, parent, parent_content, len, taken_s, note })
    }
}

/// A header that may be damaged, without its note.
#[derive(Debug)]
pub struct FixedHeader {
    /// Its contents; the note is empty.
    pub header: Header,
    /// Bytes of the note, limited to the maximum.
    pub note_bytes: usize,
}

impl Header {
    /// The fields of a header that may be damaged elsewhere.
    #[must_use]
    pub fn decode_fixed(bytes: &[u8]) -> Option<FixedHeader> {
        let mut fields = Fields::new(bytes);
        fields.bytes(16).ok()?;
        let (generation, parent) = (fields.u64().ok()?, fields.u64().ok()?);
        let (parent_content, len) = (fields.array().ok()?, fields.u64().ok()?);
        let taken_s = i64::from_le_bytes(fields.array().ok()?);
        fields.bytes(8).ok()?;
        let note_bytes = (fields.u32().ok()? as usize).min(NOTE_MAX);
        let header = Header { generation, parent, parent_content, len, taken_s, note: String::new() };
        (generation > 0 && generation <= NUMBER_MAX && parent < generation)
            .then_some(FixedHeader { header, note_bytes })
    }
}

/// Where the record of a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Number of the chunk.
    pub chunk: u64,
    /// Where its record begins in the file.
    pub offset: u64,
    /// Bytes of the record.
    pub len: u32,
    /// Hash of the record.
    pub sum: Hash,
    /// Hash of the chunk's content, see [`super::chunk_hash`].
    pub content: Hash,
}

impl IndexEntry {
    /// Bytes of an entry.
    pub const BYTES: usize = 56;

    /// Encodes the entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(IndexEntry::BYTES);
        out.extend_from_slice(&self.chunk.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.sum);
        out.extend_from_slice(&self.content);
        out
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// When the bytes are not an entry.
    pub fn decode(bytes: &[u8]) -> Result<IndexEntry, Corrupt> {
        let mut fields = Fields::new(bytes);
        let (chunk, offset, len) = (fields.u64()?, fields.u64()?, fields.u32()?);
        fields.zero(4)?;
        let entry = IndexEntry { chunk, offset, len, sum: fields.hash()?, content: fields.hash()? };
        fields.end()?;
        Ok(entry)
    }
}

/// The trailer of a file. It is written last, so a file without it is incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    /// Where the index begins.
    pub index_offset: u64,
    /// Number of entries in the index.
    pub index_count: u64,
    /// Bytes of groups in this file.
    pub stored: u64,
    /// Blocks in its records that are not zeros.
    pub blocks: u64,
    /// Hash of the volume: over its length and the content hashes of all its chunks.
    pub content: [u8; 32],
    /// Hash of the header, the index and this trailer up to this field.
    pub root: [u8; 32],
}

/// Bytes of a trailer.
pub const TRAILER_BYTES: usize = 104;

impl Trailer {
    /// The part that the root hash covers; the root hash itself follows.
    #[must_use]
    pub fn encode_covered(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        out.extend_from_slice(&END_MAGIC);
        out.extend_from_slice(&self.index_offset.to_le_bytes());
        out.extend_from_slice(&self.index_count.to_le_bytes());
        out.extend_from_slice(&self.stored.to_le_bytes());
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.content);
        out
    }

    /// Decodes a trailer; the caller must check the root hash.
    ///
    /// # Errors
    /// When the bytes are not a trailer.
    pub fn decode(bytes: &[u8]) -> Result<Trailer, Corrupt> {
        let mut fields = Fields::new(bytes);
        if fields.array::<8>()? != END_MAGIC {
            return Err(fields.wrong("the trailer is missing: the file is truncated or damaged"));
        }
        let trailer = Trailer {
            index_offset: fields.u64()?,
            index_count: fields.u64()?,
            stored: fields.u64()?,
            blocks: fields.u64()?,
            content: fields.array()?,
            root: fields.array()?,
        };
        fields.end()?;
        Ok(trailer)
    }
}
