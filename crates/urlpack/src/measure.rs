//! Tests a model on a list of strings: size, order, prefix ranges, round trip. No clock: the caller measures
//! time.

use crate::model::Model;
use crate::random::Random;

/// Result of [`measure`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measured {
    /// Strings measured.
    pub strings: u64,
    /// Their bytes, without line ends.
    pub raw_bytes: u64,
    /// Bytes of all their packed values; nothing else is stored for a value.
    pub packed_bytes: u64,
    /// Strings that unpacked to something else.
    pub round_trip_wrong: u64,
    /// Adjacent strings in sorted order whose packed values are in another order.
    pub order_wrong: u64,
    /// Prefixes probed.
    pub probes: u64,
    /// Prefixes whose range held other values than those of the strings with that prefix.
    pub prefix_wrong: u64,
}

impl Measured {
    /// Packed bytes divided by raw bytes; 1 when there are none.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn ratio(&self) -> f64 {
        if self.raw_bytes == 0 { 1.0 } else { self.packed_bytes as f64 / self.raw_bytes as f64 }
    }
}

/// Packs and unpacks every string, compares all adjacent ones, and probes `probes` random prefixes.
///
/// A probe cuts a random string at a random place, changes the last remaining byte in one of four probes, and
/// compares the values in the prefix's range with the strings that have the prefix. `seed` chooses the
/// probes.
pub fn measure(model: &Model, strings: &[&[u8]], probes: u64, seed: u64) -> Measured {
    let mut measured = Measured { strings: strings.len() as u64, probes, ..Measured::default() };
    let mut sorted = strings.to_vec();
    sorted.sort_unstable();
    let (mut values, mut ends, mut back) = (Vec::new(), vec![0], Vec::new());
    for string in &sorted {
        let start = values.len();
        model.pack(string, &mut values);
        ends.push(values.len());
        back.clear();
        let outcome = model.unpack(&values[start..], &mut back, string.len());
        measured.round_trip_wrong += u64::from(outcome.is_err() || back != *string);
        measured.raw_bytes += string.len() as u64;
    }
    measured.packed_bytes = values.len() as u64;
    let values: Vec<&[u8]> = ends.windows(2).map(|pair| &values[pair[0]..pair[1]]).collect();
    let wrong = |i: &usize| values[i - 1].cmp(values[*i]) != sorted[i - 1].cmp(sorted[*i]);
    measured.order_wrong = (1..sorted.len()).filter(wrong).count() as u64;
    if !sorted.is_empty() {
        let mut random = Random::new(seed);
        measured.prefix_wrong =
            (0..probes).filter(|_| !probe(model, &sorted, &values, &mut random)).count() as u64;
    }
    measured
}

/// Whether a random prefix finds exactly the strings that have it.
fn probe(model: &Model, sorted: &[&[u8]], values: &[&[u8]], random: &mut Random) -> bool {
    let string = sorted[random.below(sorted.len())];
    let mut prefix = string[..random.below(string.len() + 1)].to_vec();
    if random.below(4) == 0
        && let Some(last) = prefix.last_mut()
    {
        *last = last.wrapping_add(if random.below(2) == 0 { 1 } else { u8::MAX });
    }
    let (mut min, mut max) = (Vec::new(), Vec::new());
    model.prefix_min(&prefix, &mut min);
    model.prefix_max(&prefix, &mut max);
    let first = sorted.partition_point(|string| **string < *prefix);
    let end = first + sorted[first..].partition_point(|string| string.starts_with(&prefix));
    let found_first = values.partition_point(|value| **value < *min);
    let found_end = values.partition_point(|value| **value < *max);
    let found_last = values.partition_point(|value| **value <= *max);
    (first, end, end) == (found_first, found_end, found_last)
}
