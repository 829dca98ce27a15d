//! The values of a row before they become a record.

use std::ops::Range;

use crate::Error;
use crate::table::{Column, Type};
use crate::value::{self, Fault};

/// An odd number that spreads bits (2^64 by the golden ratio).
pub(super) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Folds the product of two numbers.
#[inline]
pub(super) fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    // The cast takes the low half.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

/// A 64-bit hash as in wyhash: 16 bytes at a time, some of the last ones perhaps twice. It is not stored, so
/// it may change from version to version.
#[inline]
pub(super) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = seed ^ SPREAD;
    let mut rest = bytes;
    while let Some((block, behind)) = rest.split_first_chunk::<16>().filter(|(_, behind)| !behind.is_empty())
    {
        let [low, high] = halves(block);
        hash = mix(low ^ hash, high ^ SPREAD.rotate_left(32));
        rest = behind;
    }
    let [low, high] = match (bytes.last_chunk::<16>(), rest.first_chunk::<8>(), rest.first_chunk::<4>()) {
        (Some(last), ..) => halves(last),
        (None, Some(first), _) => {
            [u64::from_le_bytes(*first), ending::<8>(rest).map_or(0, u64::from_le_bytes)]
        }
        (None, None, Some(first)) => {
            [u32::from_le_bytes(*first).into(), ending::<4>(rest).map_or(0, u32::from_le_bytes).into()]
        }
        (None, None, None) => [rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0],
    };
    mix(mix(low ^ hash, high ^ SPREAD.rotate_left(32)) ^ SPREAD, bytes.len() as u64 ^ SPREAD)
}

#[inline]
fn halves(block: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*block);
    // The cast takes the low half.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    [both as u64, (both >> 64) as u64]
}

#[inline]
fn ending<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.last_chunk().copied()
}

/// A row: the stored bytes of each column, in the table's order. The memory is reused for the next row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    bytes: Vec<u8>,
    /// Where each value ends, times two, plus one if it is NULL.
    ends: Vec<usize>,
}

impl Row {
    /// Forgets all values.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the value of the next column as it is stored; `None` is NULL, and stands for VIRTUAL columns.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.end(value.is_none());
    }

    #[inline]
    fn end(&mut self, null: bool) {
        self.ends.push(self.bytes.len() << 1 | usize::from(null));
    }

    /// Adds the value of the next column from its text.
    ///
    /// # Errors
    /// Those of [`value::encode`]; nothing is added then.
    pub fn push_text(&mut self, column: &Column, text: &[u8]) -> Result<(), Error> {
        self.push_as(&column.kind, text).map_err(|what| value::unfit(column, what, text))
    }

    /// Like [`Row::push_text`], for a column of this type. The error does not name the column.
    ///
    /// # Errors
    /// As those of [`value::encode_as`]; nothing is added then.
    #[inline]
    pub fn push_as(&mut self, kind: &Type, text: &[u8]) -> Result<(), Fault> {
        let start = self.bytes.len();
        match value::encode_as(kind, text, &mut self.bytes) {
            Ok(()) => self.end(false),
            Err(what) => {
                self.bytes.truncate(start);
                return Err(what);
            }
        }
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

    /// Where the value of a column begins.
    #[inline]
    fn start(&self, column: usize) -> usize {
        column.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| end >> 1)
    }

    /// The value of a column; NULL for a column that does not exist.
    #[inline]
    #[must_use]
    pub fn get(&self, column: usize) -> Option<&[u8]> {
        let &end = self.ends.get(column)?;
        if end & 1 == 1 { None } else { self.bytes.get(self.start(column)..end >> 1) }
    }

    /// How many bytes the value of a column has; none for NULL.
    #[inline]
    pub(super) fn len_of(&self, column: usize) -> Option<usize> {
        let &end = self.ends.get(column)?;
        if end & 1 == 1 { None } else { (end >> 1).checked_sub(self.start(column)) }
    }

    /// The concatenated values of several columns.
    #[inline]
    pub(super) fn span(&self, columns: Range<usize>) -> &[u8] {
        let end = self.start(columns.end);
        self.bytes.get(self.start(columns.start)..end).unwrap_or_default()
    }

    /// A 64-bit hash of all values.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.ends.iter().fold(hash(0, &self.bytes), |hash, &end| mix(hash ^ end as u64, SPREAD))
    }

    /// Appends all of it to `out`, for [`Row::unpack`].
    pub fn pack(&self, out: &mut Vec<u8>) {
        append_number(self.ends.len() as u64, out);
        let mut start = 0;
        for &end in &self.ends {
            // A length times two, plus one for NULL.
            append_number((end - start) as u64, out);
            start = end & !1;
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Becomes the packed row; returns whether the bytes are one.
    #[must_use]
    pub fn unpack(&mut self, packed: &[u8]) -> bool {
        self.clear();
        let mut rest = packed;
        let Some(count) = take_number(&mut rest) else { return false };
        let mut start = 0_usize;
        for _ in 0..count {
            let length = take_number(&mut rest).and_then(|number| usize::try_from(number).ok());
            let Some(end) = length.and_then(|length| start.checked_add(length)) else { return false };
            self.ends.push(end);
            start = end & !1;
        }
        self.bytes.extend_from_slice(rest);
        start >> 1 == rest.len()
    }
}

/// Stands for a number that takes eight bytes more.
const LONG: u8 = u8::MAX;

/// Appends a number: one byte if it is small.
#[inline]
pub fn append_number(number: u64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(byte) if byte != LONG => out.push(byte),
        _ => {
            out.push(LONG);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Takes such a number from the beginning; `None` if there is none.
#[inline]
pub fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (&first, mut behind) = rest.split_first()?;
    let number = if first == LONG {
        let (bytes, more) = behind.split_first_chunk()?;
        behind = more;
        u64::from_le_bytes(*bytes)
    } else {
        first.into()
    };
    *rest = behind;
    Some(number)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_stored_row_is_read_back_and_other_text_is_refused() {
        let long = vec![7; 20_000];
        let values = [Some(&b""[..]), None, Some(b"text"), Some(&long), None, Some(b"end")];
        for count in 0..=values.len() {
            let (mut row, mut back, mut packed) = (Row::default(), Row::default(), Vec::new());
            values.iter().take(count).for_each(|value| row.push(*value));
            row.pack(&mut packed);
            assert!(back.unpack(&packed) && back == row, "{count} values");
            assert!((0..count).all(|at| back.get(at) == values[at]));
            assert!(!back.unpack(&packed[..packed.len() - 1]), "{count} values");
            packed.push(0);
            assert!(!back.unpack(&packed), "{count} values");
        }
    }

    #[test]
    fn each_bit_counts_for_the_hash_and_so_do_the_length_and_the_seed() {
        let bytes: Vec<u8> = (0..50_u8).map(|at| at.wrapping_mul(77) ^ 0x5A).collect();
        let (mut of_bytes, mut of_seeds) = (BTreeSet::new(), BTreeSet::new());
        for len in 0..=bytes.len() {
            let own = &bytes[..len];
            assert!(of_bytes.insert(hash(7, own)) && of_bytes.insert(hash(7, &vec![0; len])) || len == 0);
            for bit in 0..8 * len {
                let mut other = own.to_vec();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(of_bytes.insert(hash(7, &other)), "{len}, bit {bit}");
            }
            for bit in 0..64 {
                assert!(of_seeds.insert(hash(7 ^ 1 << bit, own)), "{len}, bit {bit} of the seed");
            }
        }
    }

    #[test]
    fn numbers_come_back_and_small_ones_take_a_byte() {
        for number in (0..300).chain((8..64).flat_map(|bits| [1_u64 << bits, u64::MAX >> bits])) {
            let mut bytes = Vec::new();
            append_number(number, &mut bytes);
            assert_eq!(bytes.len(), if number < 255 { 1 } else { 9 });
            let mut rest = bytes.as_slice();
            assert_eq!((take_number(&mut rest), rest.len()), (Some(number), 0));
            assert_eq!(take_number(&mut &bytes[..bytes.len() - 1]), None);
        }
    }
}
