//! The frame around a block, and the beginning and end of a stream.

use crc_fast::CrcAlgorithm;

use crate::{Error, TEXT_BYTES_MAX, short};

/// The first bytes of a stream. The last of them is the version.
pub const MAGIC: [u8; 8] = [0x8f, b'R', b'C', b'O', b'L', b'\r', b'\n', 1];
/// Bytes at the start of a block that give its length.
pub const HEAD_BYTES: usize = 21;
/// Bytes at the very end of a stream that give the length of its index.
pub const TRAILER_BYTES: usize = 8;

const BLOCK: u8 = b'B';
const END: u8 = b'E';
const SUM_BYTES: usize = 8;
const ENTRY_BYTES: usize = 12;
/// The most bytes by which an uncompressed block is longer than its text.
const OVERHEAD_MAX: usize = 1 << 16;
const LAST: [u8; 4] = *b"LOCR";
/// The most blocks of a stream: a petabyte of text.
const BLOCKS_MAX: usize = 1 << 26;

/// CRC-64/NVME.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The beginning of a block, or that of the index after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the block's text.
    pub text_bytes: usize,
    /// Line ends in it.
    pub lines: usize,
    /// Bytes of the whole block, including this head and the checksum at its end.
    pub block_bytes: usize,
    pub(crate) text_sum: u64,
}

fn number(bytes: &[u8], at: usize) -> usize {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or_default();
    u32::from_le_bytes(four) as usize
}

fn sum(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + SUM_BYTES).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Head {
    /// Reads the first [`HEAD_BYTES`] of a block.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no block begins with these bytes.
    pub fn parse(bytes: &[u8]) -> Result<Head, Error> {
        if bytes.len() < HEAD_BYTES || bytes.first() != Some(&BLOCK) {
            return Err(Error::Corrupt("there is no block where one should begin"));
        }
        let (text_bytes, packed, lines) = (number(bytes, 1), number(bytes, 5), number(bytes, 9));
        if text_bytes > TEXT_BYTES_MAX || packed > TEXT_BYTES_MAX + OVERHEAD_MAX || lines > text_bytes {
            return Err(Error::Corrupt("a block is longer than it may be"));
        }
        let block_bytes = HEAD_BYTES + packed + SUM_BYTES;
        Ok(Head { text_bytes, lines, block_bytes, text_sum: sum(bytes, 13) })
    }

    /// Whether this byte begins the index and not a block.
    #[must_use]
    pub fn is_end(first: u8) -> bool {
        first == END
    }
}

/// Puts a head before a compressed text, and a checksum after it.
pub(crate) fn block(text: &[u8], packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + packed.len() + SUM_BYTES);
    out.push(BLOCK);
    let lines = memchr::memchr_iter(b'\n', text).count();
    for number in [text.len(), packed.len(), lines] {
        out.extend(short(number).to_le_bytes());
    }
    out.extend(checksum(text).to_le_bytes());
    out.extend_from_slice(packed);
    let sum = checksum(&out);
    out.extend(sum.to_le_bytes());
    out
}

/// The compressed text of a block, after checking the checksum.
pub(crate) fn packed<'b>(block: &'b [u8], head: &Head) -> Result<&'b [u8], Error> {
    let end = head.block_bytes - SUM_BYTES;
    if block.len() != head.block_bytes || checksum(&block[..end]) != sum(block, end) {
        return Err(Error::Corrupt("a block's checksum does not match"));
    }
    Ok(&block[HEAD_BYTES..end])
}

/// The index of a stream, which follows its last block: its blocks, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// For each block the bytes of its text, its own bytes, and its lines.
    pub blocks: Vec<(usize, usize, usize)>,
}

impl End {
    /// Adds a block.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not a block.
    pub fn note(&mut self, block: &[u8]) -> Result<(), Error> {
        let head = Head::parse(block)?;
        self.blocks.push((head.text_bytes, head.block_bytes, head.lines));
        Ok(())
    }

    /// The end of the stream as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![END];
        out.extend(short(self.blocks.len()).to_le_bytes());
        for (text, block, lines) in &self.blocks {
            for number in [text, block, lines] {
                out.extend(short(*number).to_le_bytes());
            }
        }
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        out.extend(short(self.blocks.len()).to_le_bytes());
        out.extend(LAST);
        out
    }

    /// The length of an end that begins with these five bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no end begins with these bytes.
    pub fn bytes(head: &[u8]) -> Result<usize, Error> {
        let many = number(head, 1);
        if head.len() < 5 || head.first() != Some(&END) || many > BLOCKS_MAX {
            return Err(Error::Corrupt("there is no block and no end where one should begin"));
        }
        Ok(5 + many * ENTRY_BYTES + SUM_BYTES + TRAILER_BYTES)
    }

    /// Reads an end.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes differ from what was written.
    pub fn parse(bytes: &[u8]) -> Result<End, Error> {
        let len = End::bytes(bytes)?;
        let entries = len - SUM_BYTES - TRAILER_BYTES;
        let same = bytes.len() == len
            && checksum(&bytes[..entries]) == sum(bytes, entries)
            && Trailer::parse(&bytes[len - TRAILER_BYTES..])?.end_bytes == len;
        if !same {
            return Err(Error::Corrupt("the index of the blocks is damaged"));
        }
        let (all, _) = bytes[5..entries].as_chunks::<ENTRY_BYTES>();
        let blocks = all.iter().map(|entry| (number(entry, 0), number(entry, 4), number(entry, 8))).collect();
        Ok(End { blocks })
    }
}

/// The last bytes of a stream: how far back its [`End`] begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes of the end, including these.
    pub end_bytes: usize,
}

impl Trailer {
    /// Reads the last [`TRAILER_BYTES`] of a stream.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no stream ends with these bytes.
    pub fn parse(bytes: &[u8]) -> Result<Trailer, Error> {
        let many = number(bytes, 0);
        if bytes.len() != TRAILER_BYTES || bytes[4..] != LAST || many > BLOCKS_MAX {
            return Err(Error::Corrupt("the stream has no end"));
        }
        Ok(Trailer { end_bytes: 5 + many * ENTRY_BYTES + SUM_BYTES + TRAILER_BYTES })
    }
}
