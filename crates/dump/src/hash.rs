//! Sums of row hashes: equal sums mean equal rows, in any order.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

/// The number of rows and the sum of their hashes. Two sets of rows with equal sums are considered equal: a
/// change that is not an attack goes unnoticed with a probability of 2^-64.
///
/// The hash of a row is the CRC-64/NVME of its line without the newline, in LOAD DATA's default dialect,
/// mixed by the finalizer of MurmurHash3 (without it, values that change places between two rows could cancel
/// out). Hashes are added modulo 2^64: unlike XOR, a sum detects a row that is there twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Rows.
    pub rows: u64,
    /// Sum of their hashes.
    pub hash: Hash,
}

impl Sum {
    /// Adds other rows.
    pub fn add(&mut self, other: Sum) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.hash = Hash(self.hash.0.wrapping_add(other.hash.0));
    }

    /// Takes out some of its rows.
    pub fn subtract(&mut self, other: Sum) {
        self.rows = self.rows.wrapping_sub(other.rows);
        self.hash = Hash(self.hash.0.wrapping_sub(other.hash.0));
    }

    /// Adds a row, given as its line.
    pub(crate) fn add_line(&mut self, line: &[u8]) {
        self.add_checksum(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, line));
    }

    /// Adds a row whose line came in pieces.
    pub(crate) fn add_pieces(&mut self, pieces: &Digest) {
        self.add_checksum(pieces.finalize());
    }

    fn add_checksum(&mut self, checksum: u64) {
        self.rows += 1;
        self.hash = Hash(self.hash.0.wrapping_add(mix(checksum)));
    }
}

/// Adds up lines that come in blocks. A block may end anywhere, even inside a line.
#[derive(Default)]
pub(crate) struct Adder {
    sum: Sum,
    /// The digest of a line whose end is in a later block.
    begun: Option<Box<Digest>>,
}

impl Write for Adder {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        let mut rest = block;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            match self.begun.take() {
                None => self.sum.add_line(&rest[..end]),
                Some(mut digest) => {
                    digest.update(&rest[..end]);
                    self.sum.add_pieces(&digest);
                }
            }
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            self.begun.get_or_insert_with(|| Box::new(pieces())).update(rest);
        }
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Adder {
    /// Whether the input ends in the middle of a line.
    pub(crate) fn is_inside(&self) -> bool {
        self.begun.is_some()
    }

    /// The sum of all lines that have ended.
    pub(crate) fn sum(&self) -> Sum {
        self.sum
    }
}

/// The checksum of a line that comes in pieces.
pub(crate) fn pieces() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// fmix64 of MurmurHash3.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// A sum of hashes; written as 16 hexadecimal digits, which every JSON reader keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash(pub u64);

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Hash, String> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(Hash).ok_or_else(|| format!("{text:?} is no hash of 16 hexadecimal digits"))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = String;

    fn try_from(text: String) -> Result<Hash, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(lines: &[&str]) -> Sum {
        lines.iter().fold(Sum::default(), |mut sum, line| {
            sum.add_line(line.as_bytes());
            sum
        })
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        assert_eq!(sum(&["1\ta", "2\tb"]), sum(&["2\tb", "1\ta"]));
        assert_ne!(sum(&["1\ta", "2\tb"]), sum(&["1\tb", "2\ta"]));
        assert_ne!(sum(&["1\ta", "1\ta"]), sum(&[]));
        assert_ne!(sum(&["1\ta", "1\ta", "2\tb"]).hash, sum(&["2\tb"]).hash);
        assert_ne!(sum(&["\\N"]), sum(&[""]));
    }

    #[test]
    fn lines_have_one_sum_wherever_they_are_cut() {
        let (lines, text) = (["1\ta", "", "2\tb"], "1\ta\n\n2\tb\n");
        for cut in 0..=text.len() {
            let mut adder = Adder::default();
            for block in [&text[..cut], "", &text[cut..], "3"] {
                adder.write_all(block.as_bytes()).unwrap();
            }
            assert_eq!(adder.sum(), sum(&lines), "{cut}");
            assert!(adder.is_inside());
        }
    }

    #[test]
    fn the_hash_is_the_one_of_the_format() {
        // The definition of CRC-64/NVME gives this check value for "123456789".
        assert_eq!(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(sum(&["123456789"]).hash.0, mix(0xae8b_1486_0a79_9888));
        let mut pieces = pieces();
        pieces.update(b"1234");
        pieces.update(b"56789");
        let mut other = Sum::default();
        other.add_pieces(&pieces);
        assert_eq!(other, sum(&["123456789"]));
    }

    #[test]
    fn a_hash_survives_its_text() {
        let hash = Hash(0x00ab_0000_0000_00cd);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert!("12".parse::<Hash>().is_err() && "+0ab0000000000cd1".parse::<Hash>().is_err());
    }
}
