//! Where the files of the newest generation are, for backups with a put key, which can't read the list of
//! files. Files are identified by keyed hashes of their names.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use disk::{Attributes, Extended, Kind};
use seal::BlockSealer;

use super::{BLOCK_U64, Layout, Node};
use crate::format::Hash;
use crate::repository::Repository;
use crate::{Error, number_file};

/// The file of the store.
const NAME: &str = "places.note";
const MAGIC: [u8; 8] = *b"remoplc\n";
/// More blocks than a volume has: 1 EiB.
const BLOCKS_MAX: u64 = 1 << 46;

/// The keyed hash of a path.
fn hashed_path(sealer: &BlockSealer, path: &Path) -> Hash {
    sealer.keyring().keyed_hash(path.as_os_str().as_encoded_bytes())
}

fn halves(hash: &Hash) -> [u64; 2] {
    let (halves, _) = hash.as_chunks::<8>();
    [0, 1].map(|at| halves.get(at).map_or(0, |half| u64::from_le_bytes(*half)))
}

/// Adds the number of ranges, and the ranges.
fn add(all: &mut Vec<u64>, ranges: &[Range<u64>]) {
    all.push(ranges.len() as u64);
    all.extend(ranges.iter().flat_map(|range| [range.start, range.end]));
}

/// Saves where the files of a generation are. Does nothing if the repository is not encrypted: then the list
/// of files is readable.
///
/// # Errors
/// Errors of the store. The generation is complete without the note: files will only get other blocks next
/// time.
pub fn save_placements(repository: &Repository, generation: u64, layout: &Layout) -> Result<(), Error> {
    let Some(sealer) = repository.store().sealer() else { return Ok(()) };
    let mut all = vec![generation, u64::from(layout.grown.is_some())];
    all.extend(layout.grown.unwrap_or_default());
    add(&mut all, &layout.map);
    for node in layout.nodes.iter().filter(|node| node.kind == Kind::File && node.same_as.is_none()) {
        all.extend(halves(&hashed_path(sealer, &node.path)));
        add(&mut all, &node.blocks);
    }
    let _alone = repository.lock_writer()?;
    number_file::write(repository.store(), NAME, &MAGIC, all)
}

/// Where those of these files are that a generation has. `None`: that was not saved for this generation, or
/// the repository is not encrypted.
///
/// # Errors
/// Errors of the store.
pub fn load_placements(
    repository: &Repository,
    generation: u64,
    paths: impl IntoIterator<Item = PathBuf>,
) -> Result<Option<Layout>, Error> {
    let Some(sealer) = repository.store().sealer() else { return Ok(None) };
    let found = number_file::read(repository.store(), NAME, &MAGIC)?.flatten().unwrap_or_default();
    Ok(decode(sealer, generation, &found, paths))
}

fn decode(
    sealer: &BlockSealer,
    generation: u64,
    found: &[u64],
    paths: impl IntoIterator<Item = PathBuf>,
) -> Option<Layout> {
    let mut rest = Numbers(found);
    let [of, has_grown, second, third] = rest.take()?;
    if of != generation {
        return None;
    }
    let map = rest.ranges()?;
    let mut known: BTreeMap<[u64; 2], Vec<Range<u64>>> = BTreeMap::new();
    while let Some(hashed_path) = rest.take() {
        known.insert(hashed_path, rest.ranges()?);
    }
    if !are_apart(known.values().flatten().chain(&map)) {
        return None;
    }
    let mut node = |path: PathBuf| {
        let blocks = known.remove(&halves(&hashed_path(sealer, &path)))?;
        let len = blocks.iter().map(|range| (range.end - range.start).saturating_mul(BLOCK_U64)).sum();
        // Nothing but the blocks is known.
        let attributes = Attributes { mode: 0, uid: 0, gid: 0, modified_ns: 0 };
        let extended = Extended::default();
        Some(Node { path, kind: Kind::File, len, attributes, extended, same_as: None, blocks })
    };
    let nodes = paths.into_iter().filter_map(&mut node).collect();
    Some(Layout { nodes, map, grown: (has_grown == 1).then_some([second, third]) })
}

/// Whether the ranges are disjoint, do not include the first block, and are within the limit.
fn are_apart<'a>(ranges: impl Iterator<Item = &'a Range<u64>>) -> bool {
    let mut all: Vec<&Range<u64>> = ranges.collect();
    all.sort_by_key(|range| range.start);
    let ends = std::iter::once(1).chain(all.iter().map(|range| range.end));
    all.iter().zip(ends).all(|(range, end)| range.start >= end)
        && all.last().is_none_or(|last| last.end < BLOCKS_MAX)
}

/// Numbers that are read one after the other.
struct Numbers<'a>(&'a [u64]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    /// Ranges that are plausible for a file.
    fn ranges(&mut self) -> Option<Vec<Range<u64>>> {
        let [count] = self.take()?;
        let mut ranges = Vec::new();
        for _ in 0..count {
            let [start, end] = self.take()?;
            ranges.push(Some(start..end).filter(|range| range.start < range.end)?);
        }
        Some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use seal::{FullKey, Key, Keyring};

    use super::*;

    #[test]
    fn a_note_that_gives_a_block_twice_is_none() {
        let key = Key::Put(FullKey::generate().unwrap().put());
        let sealer = BlockSealer::new(Keyring::begin(&key).unwrap().0).unwrap();
        let note = |ranges: [u64; 2], map: [u64; 2]| {
            let mut all = vec![7, 0, 0, 0, 1, map[0], map[1]];
            all.extend(halves(&hashed_path(&sealer, Path::new("a"))));
            all.extend([1, ranges[0], ranges[1]]);
            all
        };
        let read = |all: &[u64], generation| decode(&sealer, generation, all, ["a", "b"].map(PathBuf::from));
        let found = read(&note([1, 4], [4, 5]), 7).unwrap();
        assert_eq!(found.nodes.len(), 1, "what is not noted is not there");
        assert!(matches!(&*found.nodes[0].blocks, [Range { start: 1, end: 4 }]));
        assert!(read(&note([1, 4], [4, 5]), 8).is_none(), "of another generation");
        for (ranges, map) in [([1, 4], [3, 5]), ([0, 4], [4, 5]), ([1, 1], [4, 5]), ([1, 1 << 46], [4, 5])] {
            assert!(read(&note(ranges, map), 7).is_none(), "{ranges:?} {map:?}");
        }
        let all = note([1, 4], [4, 5]);
        // Cut behind the map, it is the note of a generation without files.
        assert!((4..all.len()).all(|len| read(&all[..len], 7).is_none_or(|found| found.nodes.is_empty())));
    }
}
