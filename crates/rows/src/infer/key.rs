//! Finds out whether a column could be the primary key.

use std::hash::Hasher;

/// How many hashes are remembered, of eight bytes each: 32 MiB.
const HASHES_MAX: usize = 4 << 20;

/// Watches the values of one column for duplicates.
///
/// Values are equal when their bytes are, without trailing spaces, as in a `_bin` collation with padding.
/// That is right for integers, dates and text; for other types two spellings of one value count as different,
/// so the caller must also ask [`ColumnType::suits_key`](super::ColumnType::suits_key).
///
/// As long as the values ascend, only two of them are kept. In addition a hash of each is kept up to a limit;
/// beyond that only ascending values are known to be unique.
#[derive(Clone, Debug)]
pub struct KeyStats {
    count: u64,
    nulls: u64,
    /// Whether every value is above the one before it in the order of [`number_less`].
    ascending_numbers: bool,
    /// Whether every value is above the one before it, byte by byte.
    ascending_bytes: bool,
    first: Vec<u8>,
    last: Vec<u8>,
    hashes: Vec<u64>,
    limit: usize,
}

impl Default for KeyStats {
    fn default() -> KeyStats {
        KeyStats::new()
    }
}

impl KeyStats {
    /// Nothing observed yet; remembers about four million values.
    pub fn new() -> KeyStats {
        KeyStats::with_limit(HASHES_MAX)
    }

    /// The same with another limit, in hashes of eight bytes.
    pub fn with_limit(limit: usize) -> KeyStats {
        KeyStats {
            count: 0,
            nulls: 0,
            ascending_numbers: true,
            ascending_bytes: true,
            first: Vec::new(),
            last: Vec::new(),
            hashes: Vec::new(),
            limit,
        }
    }

    /// Observes the column's value in the next row.
    pub fn observe(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.nulls += 1;
            return;
        };
        let value = trim(value);
        self.count += 1;
        if self.count == 1 {
            self.first.extend_from_slice(value);
        } else {
            self.ascending_numbers = self.ascending_numbers && number_less(&self.last, value);
            self.ascending_bytes = self.ascending_bytes && self.last.as_slice() < value;
        }
        self.last.clear();
        self.last.extend_from_slice(value);
        if self.count <= self.limit as u64 {
            self.hashes.push(hash(value));
        } else if !self.hashes.is_empty() {
            self.hashes = Vec::new();
        }
    }

    /// Adds what was observed in the rows that follow directly.
    pub fn merge(&mut self, later: &KeyStats) {
        self.nulls += later.nulls;
        if later.count == 0 {
            return;
        }
        if self.count == 0 {
            self.first.clone_from(&later.first);
            (self.ascending_numbers, self.ascending_bytes) = (later.ascending_numbers, later.ascending_bytes);
        } else {
            self.ascending_numbers =
                self.ascending_numbers && later.ascending_numbers && number_less(&self.last, &later.first);
            self.ascending_bytes = self.ascending_bytes && later.ascending_bytes && self.last < later.first;
        }
        self.last.clone_from(&later.last);
        self.count += later.count;
        if self.count <= self.limit as u64 && later.hashes.len() as u64 == later.count {
            self.hashes.extend_from_slice(&later.hashes);
        } else {
            self.hashes = Vec::new();
        }
    }

    /// Whether every row has a value and all values differ. `false` also means "not known": there were too
    /// many values, or, very rarely, two different ones have the same hash. Without rows it is `false`.
    pub fn unique(&self) -> bool {
        if self.count == 0 || self.nulls > 0 {
            return false;
        }
        if self.ascending_numbers || self.ascending_bytes {
            return true;
        }
        if self.hashes.len() as u64 != self.count {
            return false;
        }
        let mut sorted = self.hashes.clone();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    }
}

fn trim(value: &[u8]) -> &[u8] {
    let kept = value.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
    &value[..kept]
}

/// Compares integers in canonical form, of any length. For other values it is also an order, if an odd one,
/// and so good enough to see that they differ.
fn number_less(left: &[u8], right: &[u8]) -> bool {
    match (left.strip_prefix(b"-"), right.strip_prefix(b"-")) {
        (None, None) => (left.len(), left) < (right.len(), right),
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (Some(left), Some(right)) => (right.len(), right) < (left.len(), left),
    }
}

fn hash(value: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(value);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(values: &[&str], limit: usize) -> KeyStats {
        let mut stats = KeyStats::with_limit(limit);
        values.iter().for_each(|value| stats.observe(Some(value.as_bytes())));
        stats
    }

    /// Whether they are unique, observed together and in any two parts.
    fn is_unique(values: &[&str], limit: usize) -> bool {
        let unique = observed(values, limit).unique();
        for cut in 0..=values.len() {
            let mut merged = observed(&values[..cut], limit);
            merged.merge(&observed(&values[cut..], limit));
            assert_eq!(merged.unique(), unique, "{values:?} at {cut}");
        }
        unique
    }

    #[test]
    fn ascending_values_are_unique_without_memory() {
        assert!(is_unique(&["-10", "-9", "0", "9", "10", "18446744073709551616"], 0));
        assert!(is_unique(&["a", "ab", "b"], 0));
        assert!(!is_unique(&["9", "10", "10"], 0));
        assert!(!is_unique(&["9", "10", "9", "10"], 0));
        assert!(!is_unique(&["b", "a"], 0), "not known");
        assert!(!is_unique(&["a", "b", "a", "b"], 0));
    }

    #[test]
    fn unordered_values_are_unique_if_remembered() {
        assert!(is_unique(&["3", "1", "2"], 3));
        assert!(!is_unique(&["3", "1", "2"], 2), "not known");
        assert!(!is_unique(&["3", "1", "3"], 9));
        assert!(!is_unique(&["b", "a", "b  "], 9), "padding");
    }

    #[test]
    fn no_rows_and_nulls_are_no_key() {
        assert!(!KeyStats::new().unique());
        let mut stats = observed(&["1"], 9);
        stats.observe(None);
        assert!(!stats.unique());
    }
}
