//! Which parts of a tree may have changed since the generation before.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use disk::{Extent, Kind};

use super::{BLOCK_U64, Layout, Node, blocks_of};

/// An extent is reliable, with a known place and stored unchanged, only without these flags of
/// linux/fiemap.h: `UNKNOWN`, `DELALLOC`, `ENCODED`, `DATA_ENCRYPTED`, `NOT_ALIGNED`, `DATA_INLINE`,
/// `DATA_TAIL`.
const UNSURE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
/// `FIEMAP_EXTENT_UNWRITTEN`: it reads as zeros.
const UNWRITTEN: u32 = 0x800;

impl Layout {
    /// Bytes of the volume that may differ from `before`. For a file that already existed, `of_file` returns
    /// the ranges of its bytes that may have changed.
    ///
    /// # Errors
    /// Those of `of_file`.
    pub fn changed<E>(
        &self,
        before: &Layout,
        mut of_file: impl FnMut(&Node) -> Result<Vec<Range<u64>>, E>,
    ) -> Result<Vec<Range<u64>>, E> {
        let mut changed: Vec<Range<u64>> = std::iter::once(0..BLOCK_U64).collect();
        let bytes = |range: &Range<u64>| range.start * BLOCK_U64..range.end * BLOCK_U64;
        changed.extend(self.map.iter().chain(&before.map).map(bytes));
        let mut old: BTreeMap<&Path, &Node> = before.nodes.iter().map(|node| (&*node.path, node)).collect();
        for node in self.nodes.iter().filter(|node| node.kind == Kind::File) {
            let same = old.get(&*node.path).filter(|old| old.kind == Kind::File);
            let Some(was) = same.copied() else {
                changed.extend(node.blocks.iter().map(bytes));
                continue;
            };
            old.remove(&*node.path);
            let kept = common(&node.blocks, &was.blocks);
            // The last common block is padded with zeros, or was.
            let kept = if node.len == was.len {
                kept
            } else {
                kept.min(blocks_of(node.len.min(was.len)).saturating_sub(1))
            };
            behind(&was.blocks, kept, &mut changed);
            behind(&node.blocks, kept, &mut changed);
            if node.same_as.is_some() {
                continue;
            }
            for range in of_file(node)? {
                for (place, offset) in node.places() {
                    let len = place.end - place.start;
                    let start = range.start.clamp(offset, offset + len) - offset;
                    let end = range.end.clamp(offset, offset + len) - offset;
                    if start < end {
                        changed.push(place.start + start..place.start + end);
                    }
                }
            }
        }
        // Removed files have left zeros, or their blocks went to other files.
        changed.extend(old.values().flat_map(|gone| &gone.blocks).map(bytes));
        Ok(changed)
    }
}

/// How many blocks two lists share at their beginning.
fn common<'a>(one: &'a [Range<u64>], other: &'a [Range<u64>]) -> u64 {
    let each = |blocks: &'a [Range<u64>]| blocks.iter().cloned().flatten();
    let (mut count, mut others) = (0, each(other));
    for block in each(one) {
        if others.next() != Some(block) {
            break;
        }
        count += 1;
    }
    count
}

/// Adds the bytes of the blocks from number `skip` on.
fn behind(blocks: &[Range<u64>], mut skip: u64, changed: &mut Vec<Range<u64>>) {
    for range in blocks {
        let here = (range.end - range.start).min(skip);
        skip -= here;
        if range.start + here < range.end {
            changed.push((range.start + here) * BLOCK_U64..range.end * BLOCK_U64);
        }
    }
}

/// Byte ranges of a file of `len` bytes whose extents have moved. Both lists are of copies that still exist
/// and are not written to, so bytes in the same extent are the same.
#[must_use]
pub fn moved_ranges(before: &[Extent], now: &[Extent], len: u64) -> Vec<Range<u64>> {
    let mut moved_ranges = Vec::new();
    let mut before = before.iter().peekable();
    let mut now = now.iter().peekable();
    let mut at = 0;
    while at < len {
        before.next_if(|extent| extent.logical.saturating_add(extent.len) <= at);
        now.next_if(|extent| extent.logical.saturating_add(extent.len) <= at);
        let (was, is) = (place(before.peek().copied(), at), place(now.peek().copied(), at));
        let end = was.end.min(is.end).min(len);
        if end <= at {
            // A list that is not in order: nothing in it can be trusted.
            moved_ranges.push(at..len);
            break;
        }
        if was.of != is.of || matches!(is.of, Backing::Unsure) {
            moved_ranges.push(at..end);
        }
        at = end;
    }
    moved_ranges
}

/// What backs an offset of a file, and where that ends.
struct ExtentAt {
    of: Backing,
    end: u64,
}

#[derive(PartialEq, Eq)]
enum Backing {
    Zeros,
    /// On the device, at this distance from the place in the file.
    Device(u64),
    Unsure,
}

fn place(extent: Option<&Extent>, at: u64) -> ExtentAt {
    match extent {
        None => ExtentAt { of: Backing::Zeros, end: u64::MAX },
        Some(extent) if extent.logical > at => ExtentAt { of: Backing::Zeros, end: extent.logical },
        Some(extent) => {
            let of = match extent.flags {
                flags if flags & UNSURE != 0 => Backing::Unsure,
                flags if flags & UNWRITTEN != 0 => Backing::Zeros,
                _ => Backing::Device(extent.physical.wrapping_sub(extent.logical)),
            };
            ExtentAt { of, end: extent.logical.saturating_add(extent.len) }
        }
    }
}
