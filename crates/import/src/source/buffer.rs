//! Memory for text that is used again and again.

/// Bytes followed by spare room that is zeroed once, not for each use.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    /// Line ends of the file before the first byte, for messages.
    pub lines_before: u64,
}

impl Buffer {
    /// What is in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Bytes in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties it and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
        self.lines_before = 0;
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Adds bytes.
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
        }
        self.len = end;
    }

    /// Space for reading, up to a total of `want` bytes.
    pub(super) fn room(&mut self, want: usize) -> &mut [u8] {
        if self.bytes.len() < want {
            self.bytes.reserve_exact(want - self.bytes.len());
            self.bytes.resize(want, 0);
        }
        self.bytes.get_mut(self.len..want).unwrap_or_default()
    }

    /// Counts bytes that were read into [`Buffer::room`].
    pub(super) fn grow(&mut self, count: usize) {
        self.len += count;
    }
}
