//! Writes numbers and bytes in sequence, and reads them back without trusting them.

use crate::{Effort, Error};

/// Appends a number, seven bits per byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low(number) | 0x80);
        number >>= 7;
    }
    out.push(low(number));
}

/// The lowest seven bits.
fn low(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// Appends bytes preceded by their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Shorter bytes gain nothing from compression.
const PACKED_BYTES_MIN: usize = 32;

/// Appends bytes, compressed if that is shorter.
pub(crate) fn put_packed(out: &mut Vec<u8>, bytes: &[u8], effort: Effort) -> Result<(), Error> {
    put(out, bytes.len() as u64);
    if bytes.len() >= PACKED_BYTES_MIN {
        let packed = zstd::bulk::compress(bytes, effort.zstd).map_err(|_| Error::Library("zstd"))?;
        if packed.len() < bytes.len() {
            put_bytes(out, &packed);
            return Ok(());
        }
    }
    put(out, 0);
    out.extend_from_slice(bytes);
    Ok(())
}

/// A position in bytes that are read from front to end.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Error::Corrupt("a part is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.rest.split_first().ok_or(Error::Corrupt("a part is cut off"))?;
        self.rest = rest;
        Ok(*first)
    }

    /// Reads a number of at most `max`.
    pub(crate) fn number(&mut self, max: usize) -> Result<usize, Error> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let number = usize::try_from(number).ok().filter(|number| *number <= max);
                return number.ok_or(Error::Corrupt("a number is larger than it can be"));
            }
        }
        Err(Error::Corrupt("a number has no end"))
    }

    /// Reads bytes preceded by their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let count = self.number(self.rest.len())?;
        self.take(count)
    }

    /// Reads what [`put_packed`] wrote: at most `max` bytes.
    pub(crate) fn packed(&mut self, max: usize) -> Result<Vec<u8>, Error> {
        let plain = self.number(max)?;
        let packed = self.number(self.rest.len())?;
        if packed == 0 {
            return Ok(self.take(plain)?.to_vec());
        }
        let bytes = zstd::bulk::decompress(self.take(packed)?, plain)
            .map_err(|_| Error::Corrupt("a compressed part is damaged"))?;
        if bytes.len() == plain { Ok(bytes) } else { Err(Error::Corrupt("a part is shorter than it says")) }
    }

    /// The remaining bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}
