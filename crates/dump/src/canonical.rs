//! Converts rows from the wire protocol to canonical lines, in LOAD DATA's default dialect, and sums their
//! hashes.

use std::io;

use crc_fast::Digest;
use server::RowSink;

use crate::hash::{self, Sum};

/// Bytes that are gathered before they are passed on. This fits into the second-level cache.
const BLOCK_BYTES: usize = 128 << 10;
/// On the wire a byte up to this one is a length.
const LENGTH_MAX: u8 = 250;

/// Converts rows to lines and passes them on in blocks; a block may end anywhere, even inside a value.
pub(crate) struct CanonicalLines<'a> {
    block: Vec<u8>,
    /// Where the current row begins in the block.
    row: usize,
    /// The digest of the part of the current row that went into earlier blocks.
    before: Option<Box<Digest>>,
    in_value: bool,
    in_row: bool,
    sum: Sum,
    bytes: u64,
    to: &'a mut dyn FnMut(&[u8], u64) -> io::Result<()>,
    told: u64,
}

impl<'a> CanonicalLines<'a> {
    /// Blocks go to this function, with the number of rows that ended since the last block.
    pub(crate) fn new(to: &'a mut dyn FnMut(&[u8], u64) -> io::Result<()>) -> CanonicalLines<'a> {
        CanonicalLines {
            block: Vec::with_capacity(BLOCK_BYTES * 5 / 4),
            row: 0,
            before: None,
            in_value: false,
            in_row: false,
            sum: Sum::default(),
            bytes: 0,
            to,
            told: 0,
        }
    }

    /// Passes on the rest. Returns the sum of all rows and the bytes of their lines.
    pub(crate) fn finish(mut self) -> io::Result<(Sum, u64)> {
        self.hand_on()?;
        Ok((self.sum, self.bytes))
    }

    fn hand_on(&mut self) -> io::Result<()> {
        if self.in_row {
            let digest = self.before.get_or_insert_with(|| Box::new(hash::pieces()));
            digest.update(&self.block[self.row..]);
        }
        self.bytes += self.block.len() as u64;
        (self.to)(&self.block, self.sum.rows - self.told)?;
        self.told = self.sum.rows;
        self.block.clear();
        self.row = 0;
        Ok(())
    }

    #[inline]
    fn begin_value(&mut self) {
        if self.in_row {
            self.block.push(b'\t');
        }
        self.in_row = true;
    }
}

impl RowSink for CanonicalLines<'_> {
    #[inline]
    fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.in_value {
            self.begin_value();
            self.in_value = true;
        }
        rows::write_load_data(Some(bytes), &mut self.block);
        if self.block.len() >= BLOCK_BYTES { self.hand_on() } else { Ok(()) }
    }

    #[inline]
    fn end_value(&mut self) {
        if !self.in_value {
            self.begin_value();
        }
        self.in_value = false;
    }

    #[inline]
    fn null(&mut self) {
        self.begin_value();
        self.block.extend_from_slice(b"\\N");
    }

    /// A tab takes the place of each length. Nothing else has to be written for a row of short values without
    /// escapes, so it is one copy instead of one for each value.
    #[inline]
    fn packed_row(&mut self, row: &[u8], columns: usize) -> bool {
        let Some((&first, rest)) = row.split_first() else { return false };
        let from = self.block.len();
        self.block.extend_from_slice(rest);
        let line = &mut self.block[from..];
        // Where the next length is, if the row is valid.
        let mut at = usize::from(first);
        let mut is_packed = first <= LENGTH_MAX;
        for _ in 1..columns {
            let Some(length) = line.get_mut(at) else {
                is_packed = false;
                break;
            };
            is_packed &= *length <= LENGTH_MAX;
            at += 1 + usize::from(std::mem::replace(length, b' '));
        }
        is_packed &= at == line.len();
        if !is_packed || !rows::is_plain_load_data(line) {
            self.block.truncate(from);
            return false;
        }
        let mut at = usize::from(first);
        for _ in 1..columns {
            line[at] = b'\t';
            at += 1 + usize::from(rest[at]);
        }
        self.in_row = true;
        true
    }

    #[inline]
    fn end_row(&mut self) -> io::Result<()> {
        match self.before.take() {
            None => self.sum.add_line(&self.block[self.row..]),
            Some(mut digest) => {
                digest.update(&self.block[self.row..]);
                self.sum.add_pieces(&digest);
            }
        }
        self.block.push(b'\n');
        self.row = self.block.len();
        self.in_row = false;
        if self.row >= BLOCK_BYTES { self.hand_on() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: &[&[Option<&[u8]>]], piece: usize) -> (Vec<u8>, Sum, u64) {
        let mut text = Vec::new();
        let mut told = 0;
        let mut to = |block: &[u8], rows: u64| {
            text.extend_from_slice(block);
            told += rows;
            Ok(())
        };
        let mut lines = CanonicalLines::new(&mut to);
        for row in rows {
            for cell in *row {
                match cell {
                    None => lines.null(),
                    Some(value) => {
                        value.chunks(piece).try_for_each(|part| lines.part(part)).unwrap();
                        lines.end_value();
                    }
                }
            }
            lines.end_row().unwrap();
        }
        let (sum, bytes) = lines.finish().unwrap();
        assert_eq!((bytes, told), (text.len() as u64, rows.len() as u64));
        (text, sum, bytes)
    }

    #[test]
    fn rows_become_lines() {
        let rows: [&[Option<&[u8]>]; 3] = [
            &[Some(b"a\tb"), None, Some(b"")],
            &[Some(b""), Some(b"\\N"), Some(b"c\nd")],
            &[None, None, None],
        ];
        let (text, sum, _) = run(&rows, 1000);
        assert_eq!(text, b"a\\tb\t\\N\t\n\t\\\\N\tc\\nd\n\\N\t\\N\t\\N\n");
        let mut expected = Sum::default();
        text.split_inclusive(|byte| *byte == b'\n')
            .for_each(|line| expected.add_line(&line[..line.len() - 1]));
        assert_eq!(sum, expected);
    }

    #[test]
    fn a_packed_row_is_what_its_values_make() {
        let long = [b'l'; 251];
        let rows: [&[&[u8]]; 9] = [
            &[b"1", b"-2.50", b"name"],
            &[b"", b"", b""],
            &[b"x"],
            &[b""],
            &[b"a longer value than a vector is", b"", b"and another one that is as long"],
            &[b"1", b"a\tb", b"c"],
            &[b"1", b"2", b"c\\"],
            &[&long[..250], b"2"],
            &[&[b' '; 13], &[b'x'; 92], &[b'\\'; 9]],
        ];
        for (at, row) in rows.iter().enumerate() {
            let packed: Vec<u8> = row
                .iter()
                .flat_map(|value| [&[u8::try_from(value.len()).unwrap()], *value].concat())
                .collect();
            let mut text = Vec::new();
            let mut to = |block: &[u8], _| {
                text.extend_from_slice(block);
                Ok(())
            };
            let mut lines = CanonicalLines::new(&mut to);
            let taken = lines.packed_row(&packed, row.len());
            assert_eq!(taken, ![5, 6, 8].contains(&at), "{row:?}");
            // The fast path leaves alone: a length too few or too many, NULL, a long value, no value at all.
            assert!(
                !lines.packed_row(&packed, row.len() + 1)
                    && !lines.packed_row(&packed[..packed.len() - 1], row.len())
            );
            assert!(
                !lines.packed_row(b"\x01a\xfb", 2)
                    && !lines.packed_row(b"\xfb", 1)
                    && !lines.packed_row(b"", 1)
            );
            assert!(!lines.packed_row(&[&[0xfc, 251, 0], &long[..]].concat(), 1));
            if !taken {
                for value in *row {
                    lines.part(value).unwrap();
                    lines.end_value();
                }
            }
            lines.end_row().unwrap();
            let (sum, _) = lines.finish().unwrap();
            let values: Vec<Option<&[u8]>> = row.iter().map(|value| Some(*value)).collect();
            let (expected, expected_sum, _) = run(&[&values], usize::MAX);
            assert_eq!((text, sum), (expected, expected_sum), "{row:?}");
        }
    }

    #[test]
    fn a_row_in_pieces_has_the_same_sum() {
        let long: Vec<u8> = (0..BLOCK_BYTES * 3).map(|at| u8::try_from(at % 256).unwrap()).collect();
        let rows: [&[Option<&[u8]>]; 2] = [&[Some(b"x"), Some(&long)], &[Some(&long), None]];
        let (whole, sum, _) = run(&rows, usize::MAX);
        assert_eq!((whole.clone(), sum), {
            let (text, sum, _) = run(&rows, 1000);
            (text, sum)
        });
        let mut expected = Sum::default();
        whole
            .split_inclusive(|byte| *byte == b'\n')
            .for_each(|line| expected.add_line(&line[..line.len() - 1]));
        assert_eq!(sum, expected);
    }
}
