//! The values of a row before they become a record.

use crate::table::Column;
use crate::{Error, value};

/// An odd number that spreads bits (2^64 by the golden ratio).
pub(super) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Folds the product of two numbers.
pub(super) fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    // The cast takes the low half.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

/// A number that two texts hardly ever share, as in wyhash: 16 bytes at a time. It is not kept, so it may be
/// another one in another version.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let word = |block: &[u8; 16], at: usize| {
        block.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
    };
    let blocks = blocks.iter().chain([&last]);
    let hash = blocks.fold(SPREAD ^ bytes.len() as u64, |hash, block| {
        mix(word(block, 0) ^ hash, word(block, 8) ^ SPREAD.rotate_left(32))
    });
    mix(hash ^ SPREAD, bytes.len() as u64 ^ SPREAD)
}

/// A row: the stored bytes of each column, in the table's order. The memory is reused for the next row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    bytes: Vec<u8>,
    /// Where each value ends, and whether it is NULL.
    ends: Vec<(usize, bool)>,
}

impl Row {
    /// Forgets all values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the value of the next column as it is stored; `None` is NULL, and stands for VIRTUAL columns.
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.ends.push((self.bytes.len(), value.is_none()));
    }

    /// Adds the value of the next column from its text.
    ///
    /// # Errors
    /// Those of [`value::encode`]; nothing is added then.
    pub fn push_text(&mut self, column: &Column, text: &[u8]) -> Result<(), Error> {
        let start = self.bytes.len();
        if let Err(error) = value::encode(column, text, &mut self.bytes) {
            self.bytes.truncate(start);
            return Err(error);
        }
        self.ends.push((self.bytes.len(), false));
        Ok(())
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value of a column; NULL for a column that does not exist.
    #[inline]
    #[must_use]
    pub fn get(&self, column: usize) -> Option<&[u8]> {
        let &(end, null) = self.ends.get(column)?;
        let start = column.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| end.0);
        if null { None } else { self.bytes.get(start..end) }
    }

    /// A number that two rows with different values hardly ever share.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let ends = self.ends.iter().map(|&(end, null)| (end as u64) << 1 | u64::from(null));
        ends.fold(hash(&self.bytes), |hash, end| mix(hash ^ end, SPREAD))
    }

    /// Appends all of it to `out`, for [`Row::unpack`].
    pub fn pack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.ends.len() as u64).to_le_bytes());
        for &(end, null) in &self.ends {
            out.extend_from_slice(&((end as u64) << 1 | u64::from(null)).to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Becomes the packed row; returns whether the bytes are one.
    #[must_use]
    pub fn unpack(&mut self, packed: &[u8]) -> bool {
        self.clear();
        let (words, _) = packed.as_chunks::<8>();
        let Some((count, ends)) = words.split_first() else { return false };
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let Some(ends) = ends.get(..count) else { return false };
        for end in ends {
            let end = u64::from_le_bytes(*end);
            self.ends.push((usize::try_from(end >> 1).unwrap_or(usize::MAX), end & 1 == 1));
        }
        self.bytes.extend_from_slice(packed.get(8 * (count + 1)..).unwrap_or_default());
        self.ends.is_sorted_by_key(|end| end.0)
            && self.ends.last().is_none_or(|last| last.0 == self.bytes.len())
    }
}
