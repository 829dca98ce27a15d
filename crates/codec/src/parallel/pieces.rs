//! Pieces of a stream: how large they are, how they are written, and where they end.

use std::io::{self, Cursor, Read, Write};

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::Codec;
use crate::decode::explain;

use super::stream_search;

/// A larger piece, compressed or plain, is not treated as one: one core reads it as a stream.
pub(super) const BYTES_MAX: usize = 128 << 20;
/// Bytes per read when looking for a piece's end.
const READ_BYTES: usize = 1 << 18;

/// The most bytes, compressed or plain, of a piece whose beginning does not say how long it is. This much is
/// read before one core continues with a stream in one piece, so it is hardly more than our own pieces have.
fn bytes_max(codec: Codec) -> usize {
    match codec {
        Codec::Lz4 | Codec::Bzip2 => 8 << 20,
        // Up to level 7.
        Codec::Xz => 64 << 20,
        _ => BYTES_MAX,
    }
}

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
            let mut encoder = codec.encoder(Vec::with_capacity(piece.len()), level)?;
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
    let mut out = Vec::with_capacity(piece.len());
    out.extend(GZIP_HEAD);
    out.extend([0; 4]);
    let mut deflate = Compress::new(Compression::new(level.min(9)), false);
    loop {
        let taken = usize::try_from(deflate.total_in()).unwrap_or(usize::MAX);
        out.reserve(65_536);
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

/// Finds the pieces of a stream: by their headers, or by where the next one begins.
pub(super) struct Pieces {
    codec: Codec,
    source: Box<dyn Read + Send>,
    /// The bytes of the next one that were read.
    held: Vec<u8>,
    /// No piece begins in so many of them, except at the first.
    searched: usize,
}

impl Pieces {
    pub(super) fn new(codec: Codec, source: Box<dyn Read + Send>) -> Pieces {
        Pieces { codec, source, held: Vec::new(), searched: 0 }
    }

    /// The next piece; none at the end, or when its end is not found.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let end = match self.codec {
                Codec::Gzip => gzip_end(&self.held),
                Codec::Zstd => zstd_end(&self.held),
                Codec::Lz4 => lz4_end(&self.held),
                Codec::Bzip2 | Codec::Xz => self.search(),
                Codec::Plain | Codec::Column => PieceEnd::Unknown,
            };
            let wanted = match end {
                PieceEnd::Unknown => return Ok(None),
                PieceEnd::At(end) if self.held.len() >= end => {
                    self.searched = 0;
                    let rest = self.held.split_off(end);
                    return Ok(Some(std::mem::replace(&mut self.held, rest)));
                }
                PieceEnd::At(wanted) | PieceEnd::After(wanted) => wanted,
            };
            if wanted > bytes_max(self.codec) {
                return Ok(None);
            }
            let missing = (wanted - self.held.len()).max(READ_BYTES);
            if self.source.by_ref().take(missing as u64).read_to_end(&mut self.held)? == 0 {
                let is_whole = match self.codec {
                    Codec::Bzip2 => true,
                    Codec::Xz => stream_search::is_xz_stream(&self.held, BYTES_MAX),
                    _ => false,
                };
                if self.held.is_empty() || self.codec == Codec::Xz && !is_whole {
                    return Ok(None);
                }
                if is_whole {
                    return Ok(Some(std::mem::take(&mut self.held)));
                }
                return Err(explain(self.codec, &io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Searches where the next piece begins.
    fn search(&mut self) -> PieceEnd {
        let held = &self.held;
        let (is_one, next) = match self.codec {
            Codec::Xz => {
                (stream_search::is_xz_begin(held), stream_search::xz(held, self.searched.max(4), BYTES_MAX))
            }
            _ => (stream_search::is_bzip2_begin(held), stream_search::bzip2(held, self.searched.max(1))),
        };
        // The last bytes may be the beginning of a head.
        self.searched = held.len().saturating_sub(9);
        match next {
            _ if !is_one => PieceEnd::Unknown,
            Some(end) => PieceEnd::At(end),
            None => PieceEnd::After(held.len() + 1),
        }
    }

    /// What follows the last piece, if anything does.
    pub(super) fn rest(mut self) -> io::Result<Option<Box<dyn Read + Send>>> {
        if self.held.is_empty() {
            self.source.by_ref().take(1).read_to_end(&mut self.held)?;
        }
        Ok((!self.held.is_empty())
            .then(|| -> Box<dyn Read + Send> { Box::new(Cursor::new(self.held).chain(self.source)) }))
    }
}

/// Where a piece ends.
#[derive(Debug, PartialEq)]
enum PieceEnd {
    At(usize),
    /// The end is known when there are this many bytes.
    After(usize),
    /// The length is not given, or there is no piece.
    Unknown,
}

fn le(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn gzip_end(held: &[u8]) -> PieceEnd {
    match held.get(..GZIP_HEAD_BYTES) {
        None if held.is_empty() || GZIP_HEAD.starts_with(held) => PieceEnd::After(GZIP_HEAD_BYTES),
        Some(head) if head.starts_with(&GZIP_HEAD) => {
            let end = le(&head[GZIP_HEAD.len()..]);
            if end > GZIP_HEAD_BYTES { PieceEnd::At(end) } else { PieceEnd::Unknown }
        }
        _ => PieceEnd::Unknown,
    }
}

/// RFC 8878, section 3.1.1: the header says what follows it, and each block says how long it is.
fn zstd_end(held: &[u8]) -> PieceEnd {
    let Some(head) = held.get(..5) else { return PieceEnd::After(5) };
    if head[..4] != [0x28, 0xb5, 0x2f, 0xfd] {
        return PieceEnd::Unknown;
    }
    let descriptor = head[4];
    let single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = match (descriptor >> 6, single) {
        (0, false) => return PieceEnd::Unknown,
        (0, true) => 1,
        (size, _) => 1 << size,
    };
    let window = usize::from(!single);
    let mut at = 5 + window + dictionary + content;
    let Some(size) = held.get(at - content..at) else { return PieceEnd::After(at) };
    if le(size) > BYTES_MAX {
        return PieceEnd::Unknown;
    }
    loop {
        let Some(block) = held.get(at..at + 3) else { return PieceEnd::After(at + 3) };
        let header = le(block);
        // A block that repeats one byte stores it once.
        let size = if header >> 1 & 3 == 1 { 1 } else { header >> 3 };
        at += 3 + size;
        if header & 1 == 1 {
            return PieceEnd::At(at + if descriptor & 4 != 0 { 4 } else { 0 });
        }
    }
}

/// LZ4 frame format 1.6: the header says what follows it, and each block says how long it is.
fn lz4_end(held: &[u8]) -> PieceEnd {
    let Some(head) = held.get(..7) else { return PieceEnd::After(7) };
    let (flags, size) = (head[4], head[5] >> 4 & 7);
    if head[..4] != [0x04, 0x22, 0x4d, 0x18] || flags >> 6 != 1 || size < 4 {
        return PieceEnd::Unknown;
    }
    let has = |bit: u8| usize::from(flags & bit != 0);
    let block_max = 1 << (8 + 2 * size);
    let mut at = 7 + 8 * has(8) + 4 * has(1);
    let mut plain = 0;
    loop {
        let Some(block) = held.get(at..at + 4) else { return PieceEnd::After(at + 4) };
        at += 4;
        // The highest bit says that the block is not compressed.
        let bytes = le(block) & 0x7fff_ffff;
        if bytes == 0 {
            return PieceEnd::At(at + 4 * has(4));
        }
        at += bytes + 4 * has(16);
        plain += block_max;
        if plain > bytes_max(Codec::Lz4) {
            return PieceEnd::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(codec: Codec, stream: Vec<u8>) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut pieces = Pieces::new(codec, Box::new(Cursor::new(stream)));
        let mut found = Vec::new();
        while let Some(piece) = pieces.next().unwrap() {
            found.push(piece);
        }
        let mut rest = Vec::new();
        if let Some(mut more) = pieces.rest().unwrap() {
            more.read_to_end(&mut rest).unwrap();
        }
        (found, rest)
    }

    #[test]
    fn pieces_are_found_where_they_end() {
        let texts: [&[u8]; 5] = [b"a", b"b", &[b'x'; 300], &[b'y'; 70_000], b"the last"];
        for codec in [Codec::Gzip, Codec::Zstd, Codec::Lz4, Codec::Bzip2, Codec::Xz] {
            let written: Vec<Vec<u8>> = texts.iter().map(|text| compress(codec, 3, text).unwrap()).collect();
            assert_eq!(pieces(codec, written.concat()), (written.clone(), Vec::new()), "{codec}");
            if !matches!(codec, Codec::Gzip | Codec::Zstd) {
                continue;
            }
            // What does not say how long it is, is left.
            let mut encoder = codec.encoder(Vec::new(), 3).unwrap();
            encoder.write_all(b"of others").unwrap();
            let others = encoder.finish().unwrap();
            assert_eq!(
                pieces(codec, [written.concat(), others.clone()].concat()),
                (written, others),
                "{codec}"
            );
        }
    }

    #[test]
    fn fast_levels_of_zstd_write_a_frame_for_each_mebibyte() {
        for (len, frames) in [(0, 1), (1, 1), (1 << 20, 1), ((1 << 20) + 1, 2), (2 << 20, 2)] {
            let text = vec![b'x'; len];
            let mut encoder = Codec::Zstd.encoder(Vec::new(), 2).unwrap();
            text.chunks(700_000).for_each(|part| encoder.write_all(part).unwrap());
            let (found, rest) = pieces(Codec::Zstd, encoder.finish().unwrap());
            assert_eq!((found.len(), rest.len()), (frames, 0), "{len}");
        }
    }

    #[test]
    fn a_stream_inside_of_an_xz_stream_is_none_of_its_pieces() {
        // Random bytes are stored as they are, and with them the ends and beginnings of streams.
        let mut seed = 1_u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(seed >> 24).unwrap()
        };
        let mut noise = |bytes| (0..bytes).map(|_| random()).collect::<Vec<u8>>();
        let mut inner = Vec::new();
        for shift in 0..4 {
            let mut text = noise(shift);
            for _ in 0..3 {
                inner = compress(Codec::Xz, 1, &noise(5000)).unwrap();
                text.extend(&inner);
            }
            let outer = compress(Codec::Xz, 1, &text).unwrap();
            assert!(outer.windows(8).any(|bytes| bytes == b"YZ\xfd7zXZ\0"), "they are not in it");
            let (found, rest) = pieces(Codec::Xz, [outer.clone(), outer.clone()].concat());
            assert_eq!((found.len(), &found[0], rest.len()), (2, &outer, 0), "{shift}");
        }
        // Padding, a cut, and something else are left to be read as a stream.
        for (more, cut) in [(&[0; 4][..], 0), (b"", 1), (b"hello", 0)] {
            let stream = [&inner[..inner.len() - cut], more].concat();
            assert_eq!(pieces(Codec::Xz, stream.clone()), (Vec::new(), stream));
        }
    }

    #[test]
    fn a_head_of_bzip2_is_found_where_reads_meet() {
        let whole = compress(Codec::Bzip2, 9, b"hello").unwrap();
        for at in READ_BYTES - 12..READ_BYTES + 2 {
            let mut first = whole.clone();
            // What the codec makes of it is not asked here.
            first.resize(at, b'x');
            let (found, rest) = pieces(Codec::Bzip2, [&first[..], &whole].concat());
            assert!((found.len(), rest.len()) == (2, 0) && found[0].len() == at, "{at}");
        }
        let mut long = whole.clone();
        long.resize(bytes_max(Codec::Bzip2) + 5, b'x');
        assert_eq!(pieces(Codec::Bzip2, long.clone()).1.len(), long.len());
    }

    #[test]
    fn a_frame_of_lz4_ends_behind_its_last_block() {
        for flags in (0..32_u8).map(|n| 0x40 | (n & 1) | (n & 0x1e) << 1) {
            let has = |bit: u8| usize::from(flags & bit != 0);
            let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, 0x70];
            frame.extend(vec![1; 8 * has(8) + 4 * has(1) + 1]);
            for (len, high) in [(300_u32, 0), (70, 1 << 31)] {
                frame.extend((len | high).to_le_bytes());
                frame.extend(vec![9; usize::try_from(len).unwrap() + 4 * has(16)]);
            }
            frame.extend([0; 4]);
            frame.extend(vec![7; 4 * has(4)]);
            assert_eq!(lz4_end(&frame), PieceEnd::At(frame.len()), "{flags:x}");
            for cut in 0..frame.len() - 4 * has(4) {
                match lz4_end(&frame[..cut]) {
                    PieceEnd::After(wanted) => {
                        assert!(cut < wanted && wanted <= frame.len(), "{cut}: {wanted}")
                    }
                    found => panic!("{cut}: {found:?}"),
                }
            }
            // Three blocks may have more than our own pieces.
            frame.splice(6 + 8 * has(8) + 4 * has(1) + 1.., [1, 0, 0, 0, 5].repeat(20));
            assert!(has(16) == 1 || lz4_end(&frame) == PieceEnd::Unknown, "{flags:x}");
        }
        assert_eq!(lz4_end(b"hello, you"), PieceEnd::Unknown);
    }

    /// A frame of zstd: the descriptor's flags for the size, for one segment, a checksum and a dictionary,
    /// and the content size; then a raw block and one of a repeated byte.
    fn frame(size: u8, single: bool, sum: bool, dictionary: u8, content: usize) -> Vec<u8> {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
        frame.push(size << 6 | u8::from(single) << 5 | u8::from(sum) << 2 | dictionary);
        frame.extend((!single).then_some(0x7f));
        frame.extend(&[0xee; 4][..[0, 1, 2, 4][usize::from(dictionary)]]);
        frame.extend(&content.to_le_bytes()[..if size == 0 { usize::from(single) } else { 1 << size }]);
        let block = |len: usize, kind: usize, last: usize| (len << 3 | kind << 1 | last).to_le_bytes();
        frame.extend(&block(300, 0, 0)[..3]);
        frame.extend([9; 300]);
        frame.extend(&block(5000, 1, 1)[..3]);
        frame.push(9);
        frame.extend(&[7; 4][..if sum { 4 } else { 0 }]);
        frame
    }

    #[test]
    fn a_frame_of_zstd_ends_behind_its_last_block() {
        for (size, single, sum, dictionary) in (0..64).map(|n: u8| (n & 3, n & 4 != 0, n & 8 != 0, n >> 4)) {
            let whole = frame(size, single, sum, dictionary, 90);
            if size == 0 && !single {
                assert_eq!(zstd_end(&whole), PieceEnd::Unknown, "without a size");
                continue;
            }
            assert_eq!(zstd_end(&whole), PieceEnd::At(whole.len()), "{size} {single} {sum} {dictionary}");
            for cut in 0..whole.len() - if sum { 5 } else { 1 } {
                match zstd_end(&whole[..cut]) {
                    PieceEnd::After(wanted) => {
                        assert!(cut < wanted && wanted <= whole.len(), "{cut}: {wanted}")
                    }
                    found => panic!("{cut}: {found:?}"),
                }
            }
        }
        let of = |content| zstd_end(&frame(2, true, false, 0, content));
        assert_eq!((of(BYTES_MAX), of(BYTES_MAX + 1)), (PieceEnd::At(316), PieceEnd::Unknown));
        assert_eq!(zstd_end(b"hello"), PieceEnd::Unknown);
    }

    #[test]
    fn a_member_of_gzip_ends_where_its_field_says() {
        let head = |end: usize| [&GZIP_HEAD[..], &end.to_le_bytes()[..4]].concat();
        for held in [&b""[..], &GZIP_HEAD[..5], &GZIP_HEAD] {
            assert_eq!(gzip_end(held), PieceEnd::After(GZIP_HEAD_BYTES));
        }
        let ends = [1000, GZIP_HEAD_BYTES + 1, GZIP_HEAD_BYTES, 0].map(|end| gzip_end(&head(end)));
        assert_eq!(
            ends,
            [PieceEnd::At(1000), PieceEnd::At(GZIP_HEAD_BYTES + 1), PieceEnd::Unknown, PieceEnd::Unknown]
        );
        assert_eq!(
            [gzip_end(b"\x1f\x8b\x08\0"), gzip_end(&[0; 100])],
            [PieceEnd::Unknown, PieceEnd::Unknown]
        );
        // What is too large to be held is left to be read as a stream.
        let (found, rest) = pieces(Codec::Gzip, head(BYTES_MAX + 1));
        assert_eq!((found.len(), rest), (0, head(BYTES_MAX + 1)));
        let mut cut = Pieces::new(Codec::Gzip, Box::new(Cursor::new(head(BYTES_MAX))));
        assert_eq!(cut.next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_piece_is_larger_the_harder_it_is_packed() {
        let mib = |codec, level| bytes(codec, level) >> 20;
        let zstd = [0, 2, 3, 9, 10, 15, 16, 22].map(|level| mib(Codec::Zstd, level));
        assert_eq!(zstd, [1, 1, 8, 8, 16, 16, 64, 64]);
        assert_eq!(
            [0, 1, 9, 12].map(|level| bytes(Codec::Bzip2, level)),
            [100_000, 100_000, 900_000, 900_000]
        );
        assert_eq!([1, 6, 9, 12].map(|level| mib(Codec::Xz, level)), [3, 24, 192, 192]);
        assert_eq!([mib(Codec::Gzip, 9), mib(Codec::Lz4, 1)], [1, 4]);
    }
}
