//! Masks of values that we have read ourselves, as from a binary log: what the source server makes of the
//! same values when it selects them.

use std::collections::BTreeMap;

use server::catalogue::Table;
use sha2::{Digest, Sha256};

use super::{
    BYTES, BYTES_MAX, DIGITS, DOMAIN, FAMILY_NAMES, GIVEN_NAMES, Holds, Mask, MaskKey, Masks, PHONE,
    email_digits, holds,
};
use crate::Error;

/// Masks the values of a column.
#[derive(Clone, Debug)]
pub struct ValueMask {
    mask: Mask,
    holds: Holds,
    key: MaskKey,
}

impl Masks {
    /// What masks the values of a table's columns, by the column's name.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a column whose type the mask does not fit.
    pub fn of_values(&self, table: &Table) -> Result<BTreeMap<String, ValueMask>, Error> {
        let masked = self.of(table)?;
        let columns = table.columns.iter().filter_map(|column| {
            let mask = masked.get(&column.name)?.mask;
            Some((column.name.clone(), ValueMask { mask, holds: holds(column), key: self.key.clone() }))
        });
        Ok(columns.collect())
    }
}

impl ValueMask {
    /// What is stored instead of a value that is not NULL, as SQL. `value`: a text in UTF-8, bytes, or the
    /// digits of an integer.
    #[must_use]
    pub fn literal(&self, value: &[u8]) -> String {
        if self.mask == Mask::Null {
            return "NULL".to_owned();
        }
        let hash = self.hash(value);
        let digits = hex(&hash);
        let first = |count: u64| digits.get(..index(count)).unwrap_or(&digits);
        let number = |from: usize, count: usize| {
            let digits = digits.get(from..from + count).unwrap_or_default();
            u64::from_str_radix(digits, 16).unwrap_or_default()
        };
        match (self.mask, self.holds) {
            (Mask::Null, _) | (_, Holds::Other) => "NULL".to_owned(),
            (Mask::Hash, Holds::Text(chars)) => format!("'{}'", first(DIGITS.min(chars))),
            (Mask::Hash, Holds::FixedBytes(bytes)) => {
                let mut padded = hash[..index(BYTES_MAX.min(bytes))].to_vec();
                padded.resize(index(bytes), 0);
                format!("x'{}'", hex(&padded))
            }
            (Mask::Hash, Holds::Bytes(bytes)) => format!("x'{}'", first(2 * BYTES.min(bytes))),
            (Mask::Hash, Holds::Integer(bits)) => (number(0, 15) % (1_u64 << bits)).to_string(),
            (Mask::Email, holds) => format!("'u{}{DOMAIN}'", first(email_digits(holds.chars()))),
            (Mask::Name, _) => {
                let one = |number: u64, names: &'static str| {
                    let name = names.split(',').nth(index(number % 32)).unwrap_or_default();
                    name.trim_matches('\'')
                };
                format!("'{} {}'", one(number(0, 8), GIVEN_NAMES), one(number(8, 8), FAMILY_NAMES))
            }
            (Mask::Phone, _) => format!("'{PHONE}{:010}'", number(0, 15) % 10_000_000_000),
        }
    }

    fn hash(&self, value: &[u8]) -> [u8; 32] {
        let inner = hex(&Sha256::digest(value));
        Sha256::new().chain_update(self.key.0).chain_update(inner).finalize().into()
    }
}

impl Holds {
    /// Characters of a text.
    fn chars(self) -> u64 {
        match self {
            Holds::Text(chars) => chars,
            _ => 0,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with another program: SHA-256 of the key and of the digits of SHA-256 of the value.
    const DIGITS_OF_ANN: &str = "a1028f18e8f86eefd5d754a51a466c313ef52219fab70246e8d3c4dbad52e672";

    #[test]
    fn a_value_is_masked_as_its_column_can_store_it() {
        let digits = DIGITS_OF_ANN;
        for (mask, holds, expected) in [
            (Mask::Null, Holds::Other, "NULL".to_owned()),
            (Mask::Hash, Holds::Text(100), format!("'{}'", &digits[..32])),
            (Mask::Hash, Holds::Text(8), format!("'{}'", &digits[..8])),
            (Mask::Hash, Holds::Bytes(3), format!("x'{}'", &digits[..6])),
            (Mask::Hash, Holds::Bytes(u64::MAX), format!("x'{}'", &digits[..32])),
            (Mask::Hash, Holds::FixedBytes(2), format!("x'{}'", &digits[..4])),
            (Mask::Hash, Holds::FixedBytes(40), format!("x'{digits}{}'", "00".repeat(8))),
            (Mask::Hash, Holds::Integer(7), "110".to_owned()),
            (Mask::Email, Holds::Text(25), format!("'u{}@example.com'", &digits[..12])),
            (Mask::Email, Holds::Text(u64::MAX), format!("'u{}@example.com'", &digits[..16])),
            (Mask::Name, Holds::Text(20), "'Radia Hill'".to_owned()),
            (Mask::Phone, Holds::Text(14), "'+9997950650094'".to_owned()),
        ] {
            let found = ValueMask { mask, holds, key: MaskKey([7; 32]) }.literal(b"ann");
            assert_eq!(found, expected, "{mask} {holds:?}");
        }
    }
}
