//! Numbers as bytes.

use crc_fast::{CrcAlgorithm, Digest};

/// The number of a row in its queue, counted from 1 in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

/// CRC-32C over several slices.
pub(crate) fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    // The algorithm yields 32 bits; the crate returns every width as 64.
    u32::try_from(digest.finalize()).unwrap_or(u32::MAX)
}

/// Appends a number in LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a number with a sign: those near 0 are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

/// A reader that takes bytes from the front; a read is `None` when too few are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'bytes> {
    bytes: &'bytes [u8],
    at: usize,
}

impl<'bytes> ByteReader<'bytes> {
    pub(crate) fn new(bytes: &'bytes [u8]) -> Self {
        ByteReader { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'bytes [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub(crate) fn rest(&mut self) -> &'bytes [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number from [`put_signed`].
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Reads a varint that counts things in memory.
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{ByteReader, checksum, put_varint};

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(checksum(&[b"1234", b"56789"]), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn a_varint_comes_back(value in any::<u64>(), shift in 0..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.is_empty());
            assert_eq!(ByteReader::new(&bytes[..bytes.len() - 1]).varint(), None);
        }
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_none() {
        assert_eq!(ByteReader::new(&[0xff; 12]).varint(), None);
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(ByteReader::new(&most).varint(), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(ByteReader::new(&most).varint(), None);
    }
}
