//! Which chunks need not be read because they are known to be unchanged, and the check of that by sample.

use std::ops::Range;

use super::sample;
use crate::chunk_source::BlockSet;
use crate::format::{BLOCK, CHUNK_BLOCKS, chunks_of};
use crate::{CHUNK, Error};

/// One in this many unchanged chunks is read nevertheless.
const SAMPLE: u64 = 256;
/// The least number of unchanged chunks that are read.
const SAMPLE_MIN: u64 = 2;

/// Where a volume may have changed, according to a file system or device that tracks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRanges {
    /// The generation since which changes are listed.
    pub since: u64,
    /// Bytes of the volume that may have changed, in any order. All other bytes are unchanged.
    pub ranges: Vec<Range<u64>>,
}

impl ChangedRanges {
    /// How many bytes of the volume may have changed, in whole blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks().iter().map(|range| (range.end - range.start) * BLOCK as u64).sum()
    }

    /// The blocks that may have changed: ascending, not adjacent.
    fn blocks(&self) -> Vec<Range<u64>> {
        let block = BLOCK as u64;
        let mut ranges: Vec<Range<u64>> = self
            .ranges
            .iter()
            .filter(|range| range.start < range.end)
            .map(|range| range.start / block..range.end.div_ceil(block))
            .collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let touching = next.start <= last.end;
            if touching {
                last.end = last.end.max(next.end);
            }
            touching
        });
        ranges
    }
}

/// How much of a chunk to read.
pub(super) enum ReadScope {
    /// Read all of it.
    All,
    /// Read nothing: it is unchanged.
    Nothing,
    /// Read only these blocks.
    Blocks(BlockSet),
    /// Read all of it, although only these blocks may have changed.
    Sample(BlockSet),
}

/// Decides how much of each chunk to read, in ascending order.
pub(super) struct ReadPlan {
    /// Ranges of blocks, ascending, not adjacent.
    ranges: Vec<Range<u64>>,
    /// The first range that a later chunk may need.
    next: usize,
    /// Chunks from here on are read, because the volume ended there before or ends there now.
    tail: u64,
    seed: u64,
    /// One chunk in this many is part of the sample.
    every: u64,
}

impl ReadPlan {
    /// For a volume that had `before` bytes and has `len`. `seed` selects the sample.
    pub(super) fn new(changed: &ChangedRanges, before: u64, len: u64, seed: u64) -> ReadPlan {
        let chunks = chunks_of(len);
        let tail = before.min(len) / CHUNK as u64;
        ReadPlan {
            ranges: changed.blocks(),
            next: 0,
            tail,
            seed,
            every: SAMPLE.min(chunks / SAMPLE_MIN).max(1),
        }
    }

    pub(super) fn scope(&mut self, chunk: u64) -> ReadScope {
        let blocks = self.blocks(chunk);
        match blocks {
            _ if chunk >= self.tail => ReadScope::All,
            blocks if sample::is_drawn(self.seed, chunk, self.every) => ReadScope::Sample(blocks),
            blocks if blocks.contains(&true) => ReadScope::Blocks(blocks),
            _ => ReadScope::Nothing,
        }
    }

    fn blocks(&mut self, chunk: u64) -> BlockSet {
        let (start, end) = (chunk * CHUNK_BLOCKS as u64, (chunk + 1) * CHUNK_BLOCKS as u64);
        while self.ranges.get(self.next).is_some_and(|range| range.end <= start) {
            self.next += 1;
        }
        let mut blocks: BlockSet = Box::new([false; CHUNK_BLOCKS]);
        let here = self.ranges.get(self.next..).unwrap_or_default();
        for range in here.iter().take_while(|range| range.start < end) {
            let place = |at: u64| usize::try_from(at.clamp(start, end) - start).unwrap_or(0);
            blocks.get_mut(place(range.start)..place(range.end)).unwrap_or_default().fill(true);
        }
        blocks
    }
}

/// Fails if a block outside of `claimed` has changed.
pub(super) fn check_claimed(
    name: &str,
    chunk: u64,
    claimed: &BlockSet,
    changed: impl Iterator<Item = usize>,
) -> Result<(), Error> {
    for block in changed {
        if claimed.get(block) == Some(&false) {
            let at = chunk * CHUNK as u64 + (block * BLOCK) as u64;
            return Err(Error::Untracked { name: name.to_owned(), at });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: u64 = 100 * CHUNK as u64;

    fn plan(ranges: &[Range<u64>]) -> ReadPlan {
        ReadPlan::new(&ChangedRanges { since: 1, ranges: ranges.to_vec() }, VOLUME, VOLUME, 7)
    }

    #[test]
    fn every_byte_that_may_have_changed_is_looked_at() {
        let block = BLOCK as u64;
        // Overlapping, adjacent, empty, unordered, across the end of a chunk.
        let ranges =
            [5..6, 3 * block - 1..3 * block + 1, 20..20, block..2 * block, 6..9, 400 * block..900 * block];
        let mut plan = plan(&ranges);
        for chunk in 0..100 {
            let scope = plan.scope(chunk);
            for number in 0..CHUNK_BLOCKS {
                let start = chunk * CHUNK as u64 + number as u64 * block;
                let touched = ranges
                    .iter()
                    .any(|range| !range.is_empty() && range.start < start + block && range.end > start);
                match &scope {
                    ReadScope::All => {}
                    ReadScope::Nothing => assert!(!touched),
                    ReadScope::Blocks(blocks) | ReadScope::Sample(blocks) => {
                        assert_eq!(blocks[number], touched, "{chunk} {number}")
                    }
                }
            }
        }
    }

    #[test]
    fn every_part_of_a_volume_has_a_sample() {
        for seed in 0..50 {
            let mut plan =
                ReadPlan::new(&ChangedRanges { since: 1, ranges: Vec::new() }, VOLUME, VOLUME, seed);
            let samples = (0..100).filter(|chunk| matches!(plan.scope(*chunk), ReadScope::Sample(_))).count();
            assert_eq!(samples, 2, "{seed}");
        }
    }

    #[test]
    fn the_cut_and_the_added_end_of_a_file_are_read() {
        let changed = ChangedRanges { since: 1, ranges: Vec::new() };
        for (before, len) in [(3 * CHUNK + 1, 9 * CHUNK), (9 * CHUNK, 3 * CHUNK + 1)] {
            let mut plan = ReadPlan::new(&changed, before as u64, len as u64, 7);
            for chunk in 0..chunks_of(len as u64) {
                assert_eq!(matches!(plan.scope(chunk), ReadScope::All), chunk >= 3, "{chunk}");
            }
        }
    }
}
