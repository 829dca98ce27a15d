//! Finds the few bytes of a text that have a meaning, sixty-four at a time.
//!
//! Fields are short: starting a search for the next delimiter costs more than the search itself. Here the
//! bytes that matter become the bits of a word, and going to the next one is a step from bit to bit. The
//! loops are written so that the compiler generates vector instructions.

/// How many bytes one word of bits covers.
const BLOCK: usize = 64;

/// The bit of each byte of a block in its word, within its group of eight.
const BITS: [u8; BLOCK] = {
    let mut bits = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        bits[at] = 1 << (at % 8);
        at += 1;
    }
    bits
};

/// One to three bytes to search for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    bytes: [u8; 3],
    count: u8,
}

impl Marks {
    /// Searches for `first`, and for the others if given.
    #[inline]
    pub(crate) fn new(first: u8, second: Option<u8>, third: Option<u8>) -> Marks {
        match (second, third) {
            (None, None) => Marks { bytes: [first; 3], count: 1 },
            (Some(other), None) | (None, Some(other)) => Marks { bytes: [first, other, other], count: 2 },
            (Some(second), Some(third)) => Marks { bytes: [first, second, third], count: 3 },
        }
    }

    /// The marks among the 64 bytes from `base` on; the first byte is the lowest bit. It is compiled here and
    /// not in its callers' crates, whose tests are optimised less.
    fn word(&self, bytes: &[u8], base: usize) -> u64 {
        let Some(rest) = bytes.get(base..) else { return 0 };
        if let Some(block) = rest.first_chunk() {
            return self.block(block);
        }
        if rest.is_empty() {
            return 0;
        }
        if let Some(block) = bytes.last_chunk() {
            // The end of the block before is examined again and shifted out.
            return self.block(block) >> (BLOCK - rest.len());
        }
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        self.block(&padded) & ((1 << rest.len()) - 1)
    }

    #[inline]
    fn block(&self, block: &[u8; BLOCK]) -> u64 {
        let [one, two, three] = self.bytes;
        match self.count {
            1 => gather(block, |byte| byte == one),
            2 => gather(block, |byte| (byte == one) | (byte == two)),
            _ => gather(block, |byte| (byte == one) | (byte == two) | (byte == three)),
        }
    }
}

#[inline(always)]
fn gather(block: &[u8; BLOCK], test: impl Fn(u8) -> bool) -> u64 {
    let mut bits = [0; BLOCK];
    for at in 0..BLOCK {
        bits[at] = u8::from(test(block[at])).wrapping_neg() & BITS[at];
    }
    // Within a group all bits differ, so the sum of its bytes, which is at the top of the product, is their
    // union.
    let (groups, _) = bits.as_chunks::<8>();
    let sum = |group: &[u8; 8]| u64::from_le_bytes(*group).wrapping_mul(0x0101_0101_0101_0101) >> 56;
    groups.iter().rev().fold(0, |word, group| word << 8 | sum(group))
}

/// Goes from mark to mark.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    marks: Marks,
    base: usize,
    word: u64,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(marks: Marks, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, marks, base: 0, word: marks.word(bytes, 0) }
    }

    /// The offset of the next mark.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.base += BLOCK;
            if self.base >= self.bytes.len() {
                self.base = self.bytes.len();
                return None;
            }
            self.word = self.marks.word(self.bytes, self.base);
        }
        let at = self.base + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(at)
    }

    /// Skips all marks before `to`.
    #[inline]
    pub(crate) fn skip_to(&mut self, to: usize) {
        if to >= self.base + BLOCK {
            self.base = to;
            self.word = self.marks.word(self.bytes, to);
        } else if to > self.base {
            self.word &= u64::MAX << (to - self.base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_mark_in_texts_of_any_length() {
        let text: Vec<u8> = (0..300u32).map(|n| b"ab,c\"d\\e\xac\x00"[(n * n % 10) as usize]).collect();
        for (second, third) in
            [(None, None), (Some(b'"'), None), (None, Some(b'\\')), (Some(b'"'), Some(b'\\'))]
        {
            let wanted = |byte: u8| byte == b',' || Some(byte) == second || Some(byte) == third;
            for length in 0..text.len() {
                let text = &text[..length];
                let expected: Vec<usize> = (0..length).filter(|&at| wanted(text[at])).collect();
                let mut cursor = Cursor::new(Marks::new(b',', second, third), text);
                let found: Vec<usize> = std::iter::from_fn(|| cursor.next()).collect();
                assert_eq!(found, expected);
                assert_eq!(cursor.next(), None);
                for to in 0..=length {
                    let mut cursor = Cursor::new(Marks::new(b',', second, third), text);
                    cursor.skip_to(to);
                    assert_eq!(cursor.next(), expected.iter().copied().find(|&at| at >= to));
                }
            }
        }
    }
}
