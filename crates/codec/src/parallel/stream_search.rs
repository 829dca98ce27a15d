//! Where a stream of bzip2 or xz ends. It does not say so at its beginning, so the beginning of the next one
//! is searched.

use flate2::Crc;

/// The head of a bzip2 stream without the level, which stands between the two.
const BZIP2: (&[u8], &[u8]) = (b"BZh", &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59]);
const BZIP2_HEAD_BYTES: usize = 10;
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// The header of an .xz stream, and also its footer (.xz file format 1.2, sections 2.1.1 and 2.1.2).
const XZ_HEAD_BYTES: usize = 12;

/// Whether bytes are the head of a stream with at least one block. By chance they are one at one of 2^72
/// places.
fn is_bzip2(head: &[u8]) -> bool {
    head.starts_with(BZIP2.0) && matches!(head.get(3), Some(b'1'..=b'9')) && head[4..].starts_with(BZIP2.1)
}

/// Where the next bzip2 stream begins, at `from` or later.
pub(super) fn bzip2(held: &[u8], from: usize) -> Option<usize> {
    let heads = held.get(from..)?.windows(BZIP2_HEAD_BYTES);
    heads.into_iter().position(is_bzip2).map(|at| from + at)
}

/// Whether a stream may begin with these bytes.
pub(super) fn is_bzip2_begin(held: &[u8]) -> bool {
    held.len() < BZIP2_HEAD_BYTES || is_bzip2(&held[..BZIP2_HEAD_BYTES])
}

/// Whether a stream may begin with these bytes.
pub(super) fn is_xz_begin(held: &[u8]) -> bool {
    held.len() < XZ.len() || held.starts_with(&XZ)
}

/// Where the next .xz stream begins, at `from` or later. Compressed data may have other such streams in them,
/// so it counts only if the bytes before it are a complete stream.
pub(super) fn xz(held: &[u8], from: usize, plain_max: usize) -> Option<usize> {
    // The length of a stream is a multiple of four.
    let mut at = (from.next_multiple_of(4)..held.len()).step_by(4);
    at.find(|at| held[*at..].starts_with(&XZ) && is_xz_stream(&held[..*at], plain_max))
}

/// Whether bytes are exactly one .xz stream: the index at its end gives the size of each block. `plain_max`
/// is the most plain bytes it may have.
pub(super) fn is_xz_stream(stream: &[u8], plain_max: usize) -> bool {
    sizes(stream).is_some_and(|(bytes, plain)| bytes == stream.len() && plain <= plain_max)
}

/// The bytes and the plain bytes that the stream has which ends here.
fn sizes(stream: &[u8]) -> Option<(usize, usize)> {
    let (rest, footer) = stream.split_last_chunk::<XZ_HEAD_BYTES>()?;
    let [c0, c1, c2, c3, s0, s1, s2, s3, flags @ .., b'Y', b'Z'] = footer else { return None };
    let is_whole = crc(&footer[4..10]) == [*c0, *c1, *c2, *c3];
    if !is_whole || stream.get(6..8)? != flags {
        return None;
    }
    let index_bytes = (usize::try_from(u32::from_le_bytes([*s0, *s1, *s2, *s3])).ok()? + 1).checked_mul(4)?;
    let index = rest.get(rest.len().checked_sub(index_bytes)?..)?;
    let (records, sum) = index.split_last_chunk::<4>()?;
    if crc(records) != *sum {
        return None;
    }
    let mut records = records.strip_prefix(&[0])?;
    let (mut bytes, mut plain) = (2 * XZ_HEAD_BYTES + index_bytes, 0_usize);
    for _ in 0..number(&mut records)? {
        bytes = bytes.checked_add(number(&mut records)?.checked_next_multiple_of(4)?)?;
        plain = plain.checked_add(number(&mut records)?)?;
    }
    Some((bytes, plain))
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

/// Takes a number of seven bits in each byte (section 1.2).
fn number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
