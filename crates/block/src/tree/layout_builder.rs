//! A layout that is completed while its volume is read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use disk::Kind;

use super::{BLOCK_U64, BlockAllocator, Layout, Node, RegionStarts, blocks_of, first_blocks, format};
use crate::format::CHUNK_BLOCKS;

const CHUNK_BLOCKS_U64: u64 = CHUNK_BLOCKS as u64;

/// Assigns blocks to groups of files that become known one after the other, while earlier groups are being
/// read in volume order.
///
/// The volume has three regions, one per group, and ends with its header, because only then are all files
/// known. There is space between the regions, so that a group can grow from one generation to the next
/// without moving the files after it.
pub struct LayoutBuilder {
    /// A page of this many blocks must not be split: files begin at multiples of it.
    unit: u64,
    /// The blocks that files had in the previous generation.
    before: BTreeMap<PathBuf, Vec<Range<u64>>>,
    /// Where the regions began in the previous generation.
    bases_before: Option<RegionStarts>,
    /// The first blocks of the regions, as far as they are known.
    bases: Vec<u64>,
    /// The end of the last region that has its files.
    end: u64,
}

impl LayoutBuilder {
    /// Begins without files, which may have pages of `page_bytes` bytes. No page is split between two chunks,
    /// whose parts would be read at different times. `before`: the layout of the previous generation.
    #[must_use]
    pub fn new(before: Option<&Layout>, page_bytes: u32) -> LayoutBuilder {
        let nodes = before.into_iter().flat_map(|before| &before.nodes);
        let files = nodes.filter(|node| node.kind == Kind::File && node.same_as.is_none());
        LayoutBuilder {
            unit: blocks_of(page_bytes.into()).max(1),
            before: files.map(|node| (node.path.clone(), node.blocks.clone())).collect(),
            bases_before: before.and_then(|before| before.grown),
            // The first block says that the header is the last one.
            bases: vec![1],
            end: 1,
        }
    }

    /// Assigns blocks to the files of the next group: those that they had before, if these are in the same
    /// region. Returns the end of the volume as far as it is known, in bytes; the next group begins there.
    pub fn add(&mut self, nodes: &mut [Node]) -> u64 {
        let number = self.bases.len() - 1;
        let start = self.bases.last().copied().unwrap_or(1);
        let before = self.bases_before.map(|[second, third]| [1, second, third]);
        let region = match before {
            // A layout that was not built in this way has one region.
            None if number == 0 => 0..u64::MAX,
            Some(bases) if bases.get(number) == Some(&start) => {
                start..bases.get(number + 1).copied().unwrap_or(u64::MAX)
            }
            _ => start..start,
        };
        let is_in = |range: &Range<u64>| range.start >= region.start && range.end <= region.end;
        for node in nodes.iter_mut().filter(|node| node.kind == Kind::File) {
            let old = self.before.get(&node.path).filter(|old| old.iter().all(is_in));
            let old = old.filter(|old| self.can_stay(old, blocks_of(node.len)));
            node.blocks = old.map(|old| first_blocks(old, blocks_of(node.len))).unwrap_or_default();
        }
        // Everything before the region is used.
        let taken = 1..start;
        let used = nodes.iter().flat_map(|node| &node.blocks);
        let mut allocator =
            BlockAllocator::around(used.chain(Some(&taken).filter(|taken| !taken.is_empty())));
        allocator.unit = self.unit;
        for node in nodes.iter_mut().filter(|node| node.kind == Kind::File) {
            allocator.extend(&mut node.blocks, blocks_of(node.len));
        }
        self.end = nodes
            .iter()
            .flat_map(|node| &node.blocks)
            .map(|range| range.end)
            .max()
            .unwrap_or(start)
            .max(start);
        let stays = before.and_then(|bases| bases.get(number + 1).copied()).filter(|base| *base >= self.end);
        let spare = (self.end - start) / 4 + CHUNK_BLOCKS_U64;
        let next = stays.unwrap_or_else(|| (self.end + spare).next_multiple_of(CHUNK_BLOCKS_U64));
        self.bases.push(next);
        next * BLOCK_U64
    }

    /// Whether no page is split if a file has these blocks, or is extended from them to `count`.
    fn can_stay(&self, blocks: &[Range<u64>], count: u64) -> bool {
        let is_whole = |range: &Range<u64>| (range.end - range.start).is_multiple_of(self.unit);
        let all = blocks.iter().map(|range| range.end - range.start).sum::<u64>();
        // The last range of a file that does not grow may be cut anywhere.
        let whole = if all < count { blocks } else { blocks.split_last().map_or(blocks, |(_, rest)| rest) };
        blocks.iter().all(|range| range.start.is_multiple_of(self.unit)) && whole.iter().all(is_whole)
    }

    /// Bytes of the volume that may differ from `before`, as in [`Layout::changed`], if it has only these
    /// files so far.
    ///
    /// # Errors
    /// Those of `of_file`.
    pub fn changed<E>(
        nodes: Vec<Node>,
        before: &Layout,
        of_file: impl FnMut(&Node) -> Result<Vec<Range<u64>>, E>,
    ) -> Result<Vec<Range<u64>>, E> {
        Layout { nodes, map: Vec::new(), grown: None }.changed(before, of_file)
    }

    /// The first block of the volume, which is known from the beginning.
    #[must_use]
    pub fn first_block() -> Vec<u8> {
        format::stub()
    }

    /// The layout of all files, with their blocks, and of the folders and links. It includes the third group,
    /// whether that has files or not.
    #[must_use]
    pub fn finish(self, nodes: Vec<Node>) -> Layout {
        let bases = [1, 2].map(|number| self.bases.get(number).copied().unwrap_or(self.end));
        let mut map = Vec::new();
        let taken = 1..self.end.max(bases[1]);
        BlockAllocator::around(std::iter::once(&taken))
            .extend(&mut map, blocks_of(format::map(&nodes).len() as u64));
        Layout { nodes, map, grown: Some(bases) }
    }
}
