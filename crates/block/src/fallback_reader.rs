//! Reads a chunk's blocks even if some are damaged: the same block may be stored more than once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Error;
use crate::fetch::{Fetcher, OpenedFiles};
use crate::file::File;
use crate::format::{BLOCK, BlockLocation, CHUNK_BLOCKS, Hash};
use crate::store::Store;

/// Reads blocks from their locations, or from another location with the same block.
pub(crate) struct FallbackReader<'a> {
    fetcher: Fetcher<'a>,
    /// The files whose records may give other locations.
    files: &'a BTreeMap<u64, Arc<File>>,
}

/// Blocks of a chunk that can't be read.
#[derive(Default)]
pub(crate) struct LostBlocks {
    /// By their index among those that were requested.
    pub(crate) blocks: Vec<usize>,
    /// Why.
    pub(crate) damages: Vec<Error>,
}

impl<'a> FallbackReader<'a> {
    pub(crate) fn new(store: &'a dyn Store, files: &'a BTreeMap<u64, Arc<File>>) -> FallbackReader<'a> {
        FallbackReader::sharing(store, files, Arc::default())
    }

    /// A reader that shares open files with others.
    pub(crate) fn sharing(
        store: &'a dyn Store,
        files: &'a BTreeMap<u64, Arc<File>>,
        opened: Arc<OpenedFiles>,
    ) -> FallbackReader<'a> {
        FallbackReader { fetcher: Fetcher::sharing(store, opened), files }
    }

    /// Puts blocks of chunk `number` into `out`, which must be zero where blocks are zeros. Blocks that can't
    /// be read are zeros too. `blocks` may be a part of the chunk's; indexes count from its start.
    pub(crate) fn chunk(
        &self,
        number: u64,
        blocks: &[Option<BlockLocation>],
        out: &mut [u8],
    ) -> Result<LostBlocks, Error> {
        let mut lost = LostBlocks::default();
        self.fetcher.blocks(blocks, out, &mut |found, error| {
            if !error.is_damage() {
                return Err(error);
            }
            lost.blocks.extend_from_slice(found);
            lost.damages.push(error);
            Ok(())
        })?;
        if lost.blocks.is_empty() {
            return Ok(lost);
        }
        let others = self.places(number);
        lost.blocks.retain(|block| {
            let target = out.get_mut(block * BLOCK..(block + 1) * BLOCK).unwrap_or_default();
            let hash = blocks.get(*block).and_then(Option::as_ref).map(|place| place.hash);
            let places = hash.and_then(|hash| others.get(&hash)).into_iter().flatten();
            let found = places.into_iter().any(|place| self.read_copy(place, target));
            if !found {
                target.fill(0);
            }
            !found
        });
        lost.blocks.sort_unstable();
        Ok(lost)
    }

    fn read_copy(&self, place: &BlockLocation, target: &mut [u8]) -> bool {
        let mut whole = true;
        let told = self.fetcher.blocks(&[Some(*place)], target, &mut |_, _| {
            whole = false;
            Ok(())
        });
        told.is_ok() && whole
    }

    /// The locations of a chunk's blocks in all generations. Records that can't be read are skipped.
    pub(crate) fn places(&self, number: u64) -> BTreeMap<Hash, Vec<BlockLocation>> {
        let mut places: BTreeMap<Hash, Vec<BlockLocation>> = BTreeMap::new();
        for file in self.files.values() {
            let Ok(Some(entry)) = file.entry(number) else { continue };
            let Ok(record) = file.record(&entry) else { continue };
            for place in record.changes.into_iter().filter_map(|(_, place)| place) {
                let known = places.entry(place.hash).or_default();
                if !known.contains(&place) {
                    known.push(place);
                }
            }
        }
        places
    }
}

/// The numbers of blocks as ranges.
pub(crate) fn runs(blocks: impl IntoIterator<Item = usize>) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for block in blocks.into_iter().filter(|block| *block < CHUNK_BLOCKS) {
        match runs.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}
