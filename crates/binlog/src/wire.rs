//! Numbers and texts in the bytes of an event. All are little-endian unless the name says otherwise.

use std::io::Read;

use crate::error::Flaw;

const SHORT: Flaw = Flaw("it ends too early");

/// The bytes that were not taken yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a>(pub(crate) &'a [u8]);

impl<'a> Wire<'a> {
    /// The next bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// All bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        self.take(N)?.try_into().map_err(|_| SHORT)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Flaw> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Flaw> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Flaw> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Flaw> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of up to 8 bytes.
    pub(crate) fn uint(&mut self, len: usize) -> Result<u64, Flaw> {
        Ok(little(self.take(len)?))
    }

    /// A number of up to 8 bytes, the highest first.
    pub(crate) fn uint_be(&mut self, len: usize) -> Result<u64, Flaw> {
        Ok(big(self.take(len)?))
    }

    /// A number in 1 to 9 bytes, after its first byte.
    pub(crate) fn packed(&mut self) -> Result<u64, Flaw> {
        match self.u8()? {
            byte @ ..=250 => Ok(byte.into()),
            252 => self.uint(2),
            253 => self.uint(3),
            254 => self.u64(),
            _ => Err(Flaw("invalid length encoding")),
        }
    }

    /// The same, for something in memory.
    pub(crate) fn packed_len(&mut self) -> Result<usize, Flaw> {
        usize::try_from(self.packed()?).map_err(|_| SHORT)
    }

    /// A number of MySQL's messages in 1 to 9 bytes: the first has as many ones at its low end as bytes
    /// follow.
    pub(crate) fn varint(&mut self) -> Result<u64, Flaw> {
        let first = self.u8()?;
        let more = first.trailing_ones();
        let high = self.uint(usize::try_from(more).unwrap_or_default())?;
        // The bits of the first byte behind its ones and a zero; with eight ones there are none.
        Ok(match more {
            0..7 => u64::from(first >> (more + 1)) | high << (7 - more),
            _ => high,
        })
    }

    /// A length in one byte, and as many bytes.
    pub(crate) fn short_text(&mut self) -> Result<&'a [u8], Flaw> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A length in one byte, as many bytes, and a zero.
    pub(crate) fn short_text_zero(&mut self) -> Result<&'a [u8], Flaw> {
        let text = self.short_text()?;
        match self.u8()? {
            0 => Ok(text),
            _ => Err(Flaw("a name is not null-terminated")),
        }
    }
}

/// A number of up to 8 bytes, the lowest first.
pub(crate) fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// A number of up to 8 bytes, the highest first.
pub(crate) fn big(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// What was compressed: the decoder gives exactly so many bytes.
fn inflated(decoder: impl Read, len: u64) -> Result<Vec<u8>, Flaw> {
    let mut out = Vec::new();
    // One more, so that too much is noticed.
    decoder
        .take(len.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|_| Flaw("it can't be decompressed"))?;
    match out.len() as u64 == len {
        true => Ok(out),
        false => Err(Flaw("its uncompressed length is wrong")),
    }
}

/// The content of a compressed event: a byte with the method and the length of a length, the length with its
/// highest byte first, and a zlib stream.
pub(crate) fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, Flaw> {
    let mut wire = Wire(bytes);
    let head = wire.u8()?;
    let len_bytes = usize::from(head & 7);
    if head & 0xF0 != 0x80 || !(1..=4).contains(&len_bytes) {
        return Err(Flaw("unknown compression"));
    }
    let len = wire.uint_be(len_bytes)?;
    inflated(flate2::read::ZlibDecoder::new(wire.rest()), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages_have_up_to_9_bytes() {
        let cases: [(&[u8], u64); 8] = [
            (&[0x00], 0),
            (&[0xFE], 127),
            (&[0x01, 0x02], 128),
            (&[0xFB, 0xFF, 0x07], 65535),
            (&[0x7F, 0, 0, 0, 0, 0, 0, 0x80], 1 << 55),
            (&[0xFF, 0, 0, 0, 0, 0, 0, 0, 0x80], 1 << 63),
            (&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], u64::MAX),
            (&[0x3F, 0x80, 0, 0, 0, 0, 0x80], 1 << 48 | 1 << 8),
        ];
        for (bytes, number) in cases {
            assert_eq!(Wire(bytes).varint(), Ok(number), "{bytes:x?}");
            assert!(Wire(&bytes[..bytes.len() - 1]).varint().is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn what_was_packed_has_the_length_that_is_said() {
        // A zlib stream of one stored block: `abc`.
        let stream = [0x78, 0x01, 1, 3, 0, 0xFC, 0xFF, b'a', b'b', b'c', 0x02, 0x4D, 0x01, 0x27];
        let packed = |head: &[u8]| unpacked(&[head, &stream[..]].concat());
        assert_eq!(packed(&[0x81, 3]).as_deref(), Ok(&b"abc"[..]));
        assert_eq!(packed(&[0x82, 0, 3]).as_deref(), Ok(&b"abc"[..]));
        for wrong in [&[0x81, 2][..], &[0x81, 4], &[0x91, 3], &[0x80]] {
            assert!(packed(wrong).is_err(), "{wrong:?}");
        }
    }
}
