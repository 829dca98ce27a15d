//! A segment of an archived log: its header, which describes it, and its chunks. Bytes in, bytes out.
//!
//! docs/formats/archive.md describes the bytes.

use std::io;

use block::NUMBER_MAX;
use serde::{Deserialize, Serialize};

use super::arrival::Arrival;
use super::timeline::TimelineInfo;
use crate::error::Flaw;

const MAGIC: [u8; 8] = *b"remolog\n";
const VERSION: u32 = 2;
/// The magic bytes, the version, and two lengths.
pub(super) const PREFIX_BYTES: usize = 20;
/// Bytes of a chunk's entry in the header: two lengths and a hash.
const CHUNK_BYTES: usize = 40;
/// The hash at the end of a header.
const ROOT_BYTES: usize = 32;
/// Limits for the bytes of a description and the chunks of a segment.
const TEXT_MAX: u32 = 1 << 24;
const CHUNKS_MAX: u32 = 1 << 22;

/// The suffix of segment names.
pub(super) const END: &str = ".log";

/// The numbers of the first and the last segment that a segment contains.
pub type Numbers = (u64, u64);

/// A BLAKE3 hash in hexadecimal.
pub type HashText = String;

/// The description of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Its number; if it is compacted, that of the first segment in it.
    pub first: u64,
    /// The number of the last segment in it.
    pub last: u64,
    /// How often its bytes were compacted.
    pub level: u32,
    /// The root of the previous segment; `None` if there is none.
    pub before: Option<HashText>,
    /// If it is compacted, the root of the last segment in it. Otherwise `None`: its root is that of the
    /// header.
    pub root: Option<HashText>,
    /// The number of its timeline.
    pub timeline: u32,
    /// The timeline's description. Every segment that begins a file has it, because older ones may be
    /// removed.
    pub info: Option<TimelineInfo>,
    /// The server's file.
    pub file: String,
    /// The offset in that file at which its bytes begin.
    pub start: u64,
    /// The offset at which they end.
    pub end: u64,
    /// Whether the file ends there.
    pub whole: bool,
    /// What is needed to resume there. `None` if there are no bytes yet.
    pub resume_point: Option<ResumePoint>,
    /// When its bytes arrived. Empty if that is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrived: Vec<Arrival>,
}

/// Proves that a server's file continues where a segment ends, without the segment's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    /// Where the newest transaction begins; without one, where the first event does.
    pub last_start: u64,
    /// The hash of the file's first event, with the in-use flag set.
    pub first_event_hash: HashText,
    /// The hash of the bytes from `last_start` to the end.
    pub tail_hash: HashText,
    /// MariaDB's last transaction of each domain and server: domain, server, number.
    pub gtid_state: Option<Vec<(u32, u32, u64)>>,
    /// The file in which the log continues, if this file names it.
    pub next_file: Option<String>,
}

/// A part of the bytes that is sealed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes of the log.
    pub len: u32,
    /// Bytes as they are stored.
    pub stored: u32,
    /// The hash of the stored bytes.
    pub hash: [u8; 32],
}

/// The header of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// What the segment is.
    pub segment: Segment,
    /// Its chunks, in order.
    pub chunks: Vec<Chunk>,
}

/// The root of the segment with this header, which the next segment names.
fn root(header: &[u8]) -> blake3::Hash {
    blake3::hash(header)
}

/// `0000000017.log`, or `0000000001-0000000064.log`.
#[must_use]
pub fn name((first, last): Numbers) -> String {
    if first == last { format!("{first:010}{END}") } else { format!("{first:010}-{last:010}{END}") }
}

/// The numbers in a name from [`name`], which are at most [`NUMBER_MAX`].
#[must_use]
pub fn numbers(of: &str) -> Option<Numbers> {
    let numbers = of.strip_suffix(END)?;
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    let is_one = first > 0 && first <= last && last <= NUMBER_MAX && name((first, last)) == of;
    is_one.then_some((first, last))
}

/// The length of the header that begins with these bytes.
///
/// # Errors
/// [`Flaw`] if it is none.
pub(super) fn header_bytes(head: &[u8; PREFIX_BYTES]) -> Result<usize, Flaw> {
    let number = |at: usize| {
        let bytes = head.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    if !head.starts_with(&MAGIC) {
        return Err(Flaw("not a log segment"));
    }
    if number(8) != VERSION {
        return Err(Flaw("unsupported format version"));
    }
    let (text, chunks) = (number(12), number(16));
    if text > TEXT_MAX || chunks > CHUNKS_MAX {
        return Err(Flaw("the segment header is too long"));
    }
    Ok(PREFIX_BYTES + text as usize + chunks as usize * CHUNK_BYTES + ROOT_BYTES)
}

impl SegmentHeader {
    /// The bytes of the header, and the segment's root.
    ///
    /// # Errors
    /// `InvalidData` if it is longer than a reader accepts: then it must not be written, least of all in
    /// place of the segments that it would replace.
    pub fn encode(&self) -> io::Result<(Vec<u8>, HashText)> {
        let text = serde_json::to_vec(&self.segment)?;
        let lengths = [text.len(), self.chunks.len()].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        let mut head = [0; PREFIX_BYTES];
        let numbers = [VERSION, lengths[0], lengths[1]].map(u32::to_le_bytes);
        head.copy_from_slice(&[&MAGIC, numbers.as_flattened()].concat());
        header_bytes(&head).map_err(|flaw| io::Error::new(io::ErrorKind::InvalidData, flaw.0))?;
        let mut out = head.to_vec();
        out.extend_from_slice(&text);
        for chunk in &self.chunks {
            out.extend(chunk.len.to_le_bytes());
            out.extend(chunk.stored.to_le_bytes());
            out.extend(chunk.hash);
        }
        let root = root(&out);
        out.extend_from_slice(root.as_bytes());
        Ok((out, self.root_or(root)))
    }

    /// Reads the header of a segment that has `len` bytes and a name with these numbers.
    ///
    /// # Errors
    /// [`Corrupt`](crate::Corrupt) if it is not a header, or belongs to another name.
    pub fn decode(
        header: &[u8],
        numbers: Numbers,
        len: u64,
    ) -> Result<(SegmentHeader, HashText), crate::Corrupt> {
        SegmentHeader::parse(header, numbers, len).map_err(|flaw| flaw.at(name(numbers)))
    }

    fn parse(header: &[u8], numbers: Numbers, len: u64) -> Result<(SegmentHeader, HashText), Flaw> {
        const CUT: Flaw = Flaw("the segment header is truncated");
        let head = header.first_chunk::<PREFIX_BYTES>().ok_or(CUT)?;
        if header.len() != header_bytes(head)? {
            return Err(CUT);
        }
        let (covered, sum) = header.split_last_chunk::<ROOT_BYTES>().ok_or(CUT)?;
        let root = root(covered);
        if root.as_bytes() != sum {
            return Err(Flaw("the segment header does not match its hash"));
        }
        let count = head.last_chunk::<4>().map_or(0, |count| u32::from_le_bytes(*count)) as usize;
        let body = covered.get(PREFIX_BYTES..).unwrap_or_default();
        let (text, table) = body.split_at(body.len().saturating_sub(count * CHUNK_BYTES));
        let segment: Segment =
            serde_json::from_slice(text).map_err(|_| Flaw("the segment description can't be parsed"))?;
        let (rows, _) = table.as_chunks::<CHUNK_BYTES>();
        let chunks: Vec<Chunk> = rows.iter().map(chunk).collect();
        let header_len = header.len() as u64;
        let sum = |of: fn(&Chunk) -> u32| chunks.iter().map(|chunk| u64::from(of(chunk))).sum::<u64>();
        if (segment.first, segment.last) != numbers {
            return Err(Flaw("the segment number differs from the file name"));
        }
        if segment.root.is_some() != (segment.first < segment.last) {
            return Err(Flaw("a root must be named in compacted segments, and in no others"));
        }
        if segment.start.checked_add(sum(|chunk| chunk.len)) != Some(segment.end) {
            return Err(Flaw("the chunk lengths do not add up to the segment's range"));
        }
        if header_len + sum(|chunk| chunk.stored) != len {
            return Err(Flaw("the file length differs from the segment header"));
        }
        let header = SegmentHeader { segment, chunks };
        let root = header.root_or(root);
        Ok((header, root))
    }

    fn root_or(&self, own: blake3::Hash) -> HashText {
        self.segment.root.clone().unwrap_or_else(|| own.to_hex().to_string())
    }
}

fn chunk(row: &[u8; CHUNK_BYTES]) -> Chunk {
    let (lengths, hash) = row.split_at(8);
    let number = |at: usize| {
        let bytes = lengths.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    Chunk { len: number(0), stored: number(4), hash: hash.try_into().unwrap_or_default() }
}
