//! Memory that a model file lies in.

/// Size of a large page, which a large model should begin at.
const PAGE: usize = 2 << 20;
/// Size of a cache line, which every model should begin at.
const LINE: usize = 64;

/// Memory for a model file that begins where the file's layout expects it: at a cache line, and at a large page
/// if it is as large as one.
///
/// Any other memory does as well; it is read a little slower.
#[derive(Debug)]
pub struct Room {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Room {
    /// Zeros for a file of `len` bytes.
    pub fn new(len: usize) -> Self {
        let step = if len < PAGE { LINE } else { PAGE };
        let whole = len.next_multiple_of(step);
        // What is never touched of it never becomes memory.
        let bytes = vec![0; whole + step];
        let start = bytes.as_ptr().align_offset(step).min(step);
        Self { bytes, start, len }
    }

    /// The memory with what lies behind the file up to the end of the page: what an operating system may be told about.
    pub fn pages(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }
}

impl From<&[u8]> for Room {
    fn from(file: &[u8]) -> Self {
        let mut room = Self::new(file.len());
        room.as_mut().copy_from_slice(file);
        room
    }
}

impl AsRef<[u8]> for Room {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl AsMut<[u8]> for Room {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_boundary_and_holds_the_file() {
        for (len, step) in [(0, LINE), (1, LINE), (PAGE - 1, LINE), (PAGE, PAGE), (PAGE + 1, PAGE)] {
            let file: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
            let mut room = Room::from(file.as_slice());
            assert_eq!(room.as_ref(), file);
            assert_eq!(room.as_ref().as_ptr().addr() % step, 0, "{len}");
            assert!(room.pages().len() >= len.next_multiple_of(step), "{len}");
        }
    }
}
