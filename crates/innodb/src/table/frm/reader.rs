//! Reads bytes at offsets that may be beyond the end.

use crate::Error;

/// Bytes of a file, or of a part of it.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// Their offset in the file.
    start: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, start: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn slice(&self, at: usize, len: usize) -> Result<&'a [u8], Error> {
        let end = at.checked_add(len);
        let slice = end.and_then(|end| self.bytes.get(at..end));
        slice.ok_or_else(|| self.corrupt(at, "it ends before what should be here"))
    }

    pub(super) fn part(&self, at: usize, len: usize) -> Result<Reader<'a>, Error> {
        Ok(Reader { bytes: self.slice(at, len)?, start: self.start + at })
    }

    pub(super) fn u8(&self, at: usize) -> Result<u8, Error> {
        Ok(self.slice(at, 1)?[0])
    }

    pub(super) fn u16(&self, at: usize) -> Result<u16, Error> {
        let bytes = self.slice(at, 2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&self, at: usize) -> Result<u32, Error> {
        let bytes = self.slice(at, 4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(super) fn text(&self, at: usize, len: usize) -> Result<&'a str, Error> {
        let text = std::str::from_utf8(self.slice(at, len)?);
        text.map_err(|_| self.corrupt(at, "a name or text that is not UTF-8"))
    }

    pub(super) fn corrupt(&self, at: usize, what: &str) -> Error {
        let place = format!("offset {} of the .frm file", self.start.saturating_add(at));
        Error::Corrupt { what: what.to_owned(), place }
    }
}

/// A length in the file; one that no memory can hold is too large in any case.
pub(super) fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
