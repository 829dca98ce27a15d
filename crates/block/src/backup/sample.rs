//! Selects the chunks of a sample.

/// Whether a chunk is in the sample: one in every `every` consecutive chunks. It is selected by a hash, so
/// that nobody can keep a block out of all samples.
pub(super) fn is_drawn(seed: u64, chunk: u64, every: u64) -> bool {
    let mut seeded = [0; 16];
    let (first, second) = seeded.split_at_mut(8);
    first.copy_from_slice(&seed.to_le_bytes());
    second.copy_from_slice(&(chunk / every).to_le_bytes());
    let hash = crate::format::hash(&seeded);
    let die = hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) % every;
    chunk % every == die
}
