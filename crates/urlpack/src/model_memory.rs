//! Memory for a model file.

/// Size of a large page; a large model should begin at one.
const PAGE: usize = 2 << 20;
/// Size of a cache line; every model should begin at one.
const LINE: usize = 64;
/// Offsets that a reader of a model can use: states end before 2^24, and no state is longer than what is
/// left.
const PLACES: usize = 1 << 25;
/// The most bytes a reader loads at once.
const LOAD_MAX: usize = 32;

/// A model followed by zeros, as far as a state could ever reach, so that reads need no bounds check.
pub(crate) type AddressSpace = [u8; PLACES + LOAD_MAX];

/// The bytes at an offset.
#[inline(always)]
pub(crate) fn load<const N: usize>(space: &AddressSpace, at: usize) -> [u8; N] {
    const { assert!(N <= LOAD_MAX) };
    let at = at % PLACES;
    space[at..at + N].first_chunk().copied().unwrap_or([0; N])
}

/// Prefetches the cache lines at an offset. A state rarely extends beyond the second one.
#[inline(always)]
pub(crate) fn prefetch(space: &AddressSpace, at: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in [at, at + LINE] {
        safe_arch::prefetch_t0(&space[line % PLACES]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (space, at);
}

/// Memory for a model file, aligned as the file's layout expects: to a cache line, and to a large page if the
/// file is at least that large.
#[derive(Debug)]
pub struct ModelMemory {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl ModelMemory {
    /// Zeros for a file of `len` bytes.
    pub fn new(len: usize) -> Self {
        let step = step(len);
        // Pages that are never touched take no memory.
        let bytes = vec![0; len.next_multiple_of(step).max(size_of::<AddressSpace>()) + step];
        let start = bytes.as_ptr().align_offset(step).min(step);
        Self { bytes, start, len }
    }

    /// The memory up to the end of the page in which the file ends, for advice to the operating system.
    pub fn pages(&mut self) -> &mut [u8] {
        let end = self.start + self.len.next_multiple_of(step(self.len));
        self.bytes.get_mut(self.start..end).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn space(&self) -> &AddressSpace {
        let space = self.bytes.get(self.start..).and_then(|bytes| bytes.first_chunk());
        space.expect("a room is made at least as long as a space")
    }
}

/// The alignment for a file of `len` bytes.
fn step(len: usize) -> usize {
    if len < PAGE { LINE } else { PAGE }
}

impl From<&[u8]> for ModelMemory {
    fn from(file: &[u8]) -> Self {
        let mut room = Self::new(file.len());
        room.as_mut().copy_from_slice(file);
        room
    }
}

impl From<Vec<u8>> for ModelMemory {
    fn from(file: Vec<u8>) -> Self {
        file.as_slice().into()
    }
}

impl AsRef<[u8]> for ModelMemory {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl AsMut<[u8]> for ModelMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_boundary_and_holds_the_file() {
        let large = size_of::<AddressSpace>() + 1;
        for (len, step) in
            [(0, LINE), (1, LINE), (PAGE - 1, LINE), (PAGE, PAGE), (PAGE + 1, PAGE), (large, PAGE)]
        {
            let file: Vec<u8> = (1..=u8::MAX).cycle().take(len).collect();
            let mut room = ModelMemory::from(file.as_slice());
            assert_eq!(room.as_ref(), file);
            assert_eq!(room.as_ref().as_ptr().addr() % step, 0, "{len}");
            assert_eq!(room.pages().len(), len.next_multiple_of(step), "{len}");
            assert_eq!(load::<1>(room.space(), 0)[0], u8::from(len > 0));
        }
    }
}
