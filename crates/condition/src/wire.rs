//! Numbers as bytes, as rows, schemas and the files of a queue have them.

/// Appends a number in LEB128.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a number with a sign: those near 0 are short.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

/// A reader that takes bytes from the front; a read is `None` when too few are left.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'bytes> {
    bytes: &'bytes [u8],
    at: usize,
}

impl<'bytes> ByteReader<'bytes> {
    /// A reader of these bytes.
    #[must_use]
    pub fn new(bytes: &'bytes [u8]) -> Self {
        ByteReader { bytes, at: 0 }
    }

    /// How many bytes have been read.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether all bytes have been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Option<&'bytes [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'bytes [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    /// The next bytes, as many as the array has.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number from [`put_varint`].
    pub fn varint(&mut self) -> Option<u64> {
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
    pub fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Reads a varint that counts things in memory.
    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{ByteReader, put_varint};

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
