//! Reads little-endian numbers from bytes.

use super::{Corrupt, Hash};

/// Reads fields one after the other.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    /// An error about the last field that was read.
    pub(super) fn wrong(&self, what: &'static str) -> Corrupt {
        Corrupt { what, place: self.at }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = rest.first_chunk::<N>().ok_or(self.wrong("truncated"))?;
        self.at += N;
        Ok(*found)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let end = self.at.checked_add(len).ok_or(self.wrong("invalid length"))?;
        let found = self.bytes.get(self.at..end).ok_or(self.wrong("truncated"))?;
        self.at = end;
        Ok(found)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Corrupt> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Corrupt> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Corrupt> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Corrupt> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn hash(&mut self) -> Result<Hash, Corrupt> {
        self.array()
    }

    /// Checks that reserved fields are zero.
    pub(super) fn zero(&mut self, len: usize) -> Result<(), Corrupt> {
        let bytes = self.bytes(len)?;
        if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(self.wrong("a reserved field is set")) }
    }

    /// Fails if bytes are left.
    pub(super) fn end(&self) -> Result<(), Corrupt> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.wrong("too long")) }
    }
}
