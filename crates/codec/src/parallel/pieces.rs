//! Pieces of a stream: how large they are, how they are written, and where they end.

use std::io::{self, Cursor, Read, Write};

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::Codec;
use crate::decode::explain;

/// A larger piece, compressed or plain, is not treated as one: one core reads it as a stream.
pub(super) const BYTES_MAX: usize = 128 << 20;
/// Bytes per read when looking for a piece's end.
const READ_BYTES: usize = 1 << 18;

/// Plain bytes of a piece: large enough that hardly any match is lost.
pub(super) fn bytes(codec: Codec, level: u32) -> usize {
    let level = level as usize;
    match codec {
        Codec::Zstd if level <= 2 => 1 << 20,
        Codec::Zstd if level <= 9 => 8 << 20,
        Codec::Zstd if level <= 15 => 16 << 20,
        Codec::Zstd => 64 << 20,
        Codec::Gzip => 1 << 20,
        Codec::Bzip2 => level.clamp(1, 9) * 100_000,
        // Three times the window, as xz does it.
        Codec::Xz => 3 << [18, 20, 21, 22, 22, 23, 23, 24, 25, 26][level.min(9)],
        Codec::Lz4 | Codec::Plain | Codec::Column => 4 << 20,
    }
}

/// Compresses one piece, which becomes a stream of its own.
pub(super) fn compress(codec: Codec, level: u32, piece: &[u8]) -> io::Result<Vec<u8>> {
    match codec {
        Codec::Gzip => gzip(level, piece),
        Codec::Zstd => {
            // In one call, so that the frame says how long it is.
            let level = i32::try_from(level.clamp(1, 22)).unwrap_or(22);
            let mut compressor = zstd::bulk::Compressor::new(level)?;
            compressor.include_checksum(true)?;
            compressor.compress(piece)
        }
        _ => {
            let mut encoder = codec.encoder(Vec::with_capacity(piece.len() / 2), level)?;
            encoder.write_all(piece)?;
            encoder.finish()
        }
    }
}

/// The id of our subfield in a member's header (RFC 1952): the member's length in bytes.
const FIELD: [u8; 2] = *b"RM";
/// Magic, method, flags (with an extra field), time, extra flags, system (unknown), and the field.
const GZIP_HEAD: [u8; 16] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 8, 0, FIELD[0], FIELD[1], 4, 0];
const GZIP_HEAD_BYTES: usize = GZIP_HEAD.len() + 4;

/// A member whose header gives its length, so that the next one is found without decompressing it.
fn gzip(level: u32, piece: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(piece.len() / 2 + 64);
    out.extend(GZIP_HEAD);
    out.extend([0; 4]);
    let mut deflate = Compress::new(Compression::new(level.min(9)), false);
    loop {
        let taken = usize::try_from(deflate.total_in()).unwrap_or(usize::MAX);
        out.reserve(1 << 16);
        let status = deflate.compress_vec(&piece[taken..], &mut out, FlushCompress::Finish);
        if status.map_err(io::Error::other)? == Status::StreamEnd {
            break;
        }
    }
    let mut crc = flate2::Crc::new();
    crc.update(piece);
    out.extend(crc.sum().to_le_bytes());
    out.extend(crc.amount().to_le_bytes());
    let len = u32::try_from(out.len()).map_err(io::Error::other)?;
    out[GZIP_HEAD.len()..GZIP_HEAD_BYTES].copy_from_slice(&len.to_le_bytes());
    Ok(out)
}

/// Finds the pieces of a stream whose headers give their lengths.
pub(super) struct Pieces {
    codec: Codec,
    source: Box<dyn Read + Send>,
    /// The bytes of the next one that were read.
    held: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(codec: Codec, source: Box<dyn Read + Send>) -> Pieces {
        Pieces { codec, source, held: Vec::new() }
    }

    /// The next piece; none at the end, or when its length is not given.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let end = match self.codec {
                Codec::Gzip => gzip_end(&self.held),
                Codec::Zstd => zstd_end(&self.held),
                _ => Found::Unknown,
            };
            let wanted = match end {
                Found::Unknown => return Ok(None),
                Found::At(end) if self.held.len() >= end => {
                    let rest = self.held.split_off(end);
                    return Ok(Some(std::mem::replace(&mut self.held, rest)));
                }
                Found::At(wanted) | Found::After(wanted) => wanted,
            };
            if wanted > BYTES_MAX {
                return Ok(None);
            }
            let missing = (wanted - self.held.len()).max(READ_BYTES);
            if self.source.by_ref().take(missing as u64).read_to_end(&mut self.held)? == 0 {
                if self.held.is_empty() {
                    return Ok(None);
                }
                return Err(explain(self.codec, &io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// What follows the last piece, if anything does.
    pub(super) fn rest(mut self) -> io::Result<Option<Box<dyn Read + Send>>> {
        if self.held.is_empty() {
            self.source.by_ref().take(1).read_to_end(&mut self.held)?;
        }
        // A source of no bytes is a plain stream.
        Ok((!self.held.is_empty() || self.codec == Codec::Plain)
            .then(|| -> Box<dyn Read + Send> { Box::new(Cursor::new(self.held).chain(self.source)) }))
    }
}

/// Where a piece ends.
enum Found {
    At(usize),
    /// The end is known when there are this many bytes.
    After(usize),
    /// The length is not given, or there is no piece.
    Unknown,
}

fn le(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn gzip_end(held: &[u8]) -> Found {
    match held.get(..GZIP_HEAD_BYTES) {
        None if held.is_empty() || GZIP_HEAD.starts_with(held) => Found::After(GZIP_HEAD_BYTES),
        Some(head) if head.starts_with(&GZIP_HEAD) => {
            let end = le(&head[GZIP_HEAD.len()..]);
            if end > GZIP_HEAD_BYTES { Found::At(end) } else { Found::Unknown }
        }
        _ => Found::Unknown,
    }
}

/// RFC 8878, section 3.1.1: the header says what follows it, and each block says how long it is.
fn zstd_end(held: &[u8]) -> Found {
    let Some(head) = held.get(..5) else { return Found::After(5) };
    if head[..4] != [0x28, 0xb5, 0x2f, 0xfd] {
        return Found::Unknown;
    }
    let descriptor = head[4];
    let single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = match (descriptor >> 6, single) {
        (0, false) => return Found::Unknown,
        (0, true) => 1,
        (size, _) => 1 << size,
    };
    let window = usize::from(!single);
    let mut at = 5 + window + dictionary + content;
    let Some(size) = held.get(at - content..at) else { return Found::After(at) };
    if le(size) > BYTES_MAX {
        return Found::Unknown;
    }
    loop {
        let Some(block) = held.get(at..at + 3) else { return Found::After(at + 3) };
        let header = le(block);
        // A block that repeats one byte stores it once.
        let size = if header >> 1 & 3 == 1 { 1 } else { header >> 3 };
        at += 3 + size;
        if header & 1 == 1 {
            return Found::At(at + if descriptor & 4 != 0 { 4 } else { 0 });
        }
    }
}
