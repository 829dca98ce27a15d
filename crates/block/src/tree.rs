//! A tree of files as one volume: where each file's bytes are in it, from one generation to the next.
//!
//! [`Layout`] gives every file blocks of its own, and the file keeps them, so that unchanged data stays at
//! its place. The layout is written into the volume itself, so a generation describes its own contents.
//! [`TreeSource`] reads files at the places that the layout assigns ([`Layout::parts`]), [`restore()`]
//! restores them, [`Files`] reads them out of the repository. docs/formats/tree.md describes it.

mod changed_ranges;
mod files;
mod format;
mod layout_builder;
mod new_folder;
mod open_files;
mod page_check;
mod part_map;
mod placements;
mod read;
mod restore;
mod restore_paths;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use disk::{Attributes, Entry, Extended, Kind, Tree};

pub use changed_ranges::moved_ranges;
pub use files::{Files, nodes};
pub use layout_builder::LayoutBuilder;
pub use new_folder::NewFolder;
pub use page_check::{BadPage, PageCheck};
pub use placements::{load_placements, save_placements};
pub use read::TreeSource;
pub(crate) use restore::read_layout;
pub use restore::{layout_of, restore};
pub use restore_paths::restore_paths;

use crate::format::BLOCK;

/// The prefix of names that a backup creates at the top of a tree.
pub const TEMP_PREFIX: &str = ".remora-";

/// Letters of the random word after the prefix.
const TOKEN_LETTERS: usize = 16;
/// Bytes of the longest path, plus one (linux/limits.h).
const PATH_MAX: usize = 4096;

const BLOCK_U64: u64 = BLOCK as u64;

/// A file, folder or link of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its path relative to the top, whose own path is empty.
    pub path: PathBuf,
    /// Its kind, which is never [`Kind::Other`].
    pub kind: Kind,
    /// Length of a file in bytes.
    pub len: u64,
    /// Owner, permissions and time.
    pub attributes: Attributes,
    /// Extended attributes and access control lists.
    pub extended: Extended,
    /// The path of the file that this is a hard link to: everything except the attributes is stored there.
    pub same_as: Option<PathBuf>,
    /// The blocks of the volume that contain its bytes, in order; the last one is padded with zeros.
    pub blocks: Vec<Range<u64>>,
}

/// What is in a tree, and where in the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// A folder comes before its contents.
    pub nodes: Vec<Node>,
    /// The blocks of the map.
    map: Vec<Range<u64>>,
    /// Where the later regions begin, if the volume grew while it was read: see [`LayoutBuilder`].
    grown: Option<RegionStarts>,
}

/// The first blocks of the second and the third region of a volume that grew while it was read.
type RegionStarts = [u64; 2];

/// Something that was left out of a tree, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its path relative to the top.
    pub path: PathBuf,
    /// What it is.
    pub what: &'static str,
    /// Whether nothing is lost without it.
    pub is_harmless: bool,
}

/// Lists a folder and everything below it, on one file system. What can't be backed up is listed separately:
/// sockets, pipes and devices, and folders where another file system or subvolume begins, which are kept as
/// empty folders.
///
/// # Errors
/// Errors of reading the folders.
pub fn list(tree: &dyn Tree, top: &Path) -> std::io::Result<(Vec<Node>, Vec<Skipped>)> {
    list_seen(tree, top, |_, _| ())
}

/// The same as [`list`], and calls a function for each entry with its path relative to the top.
///
/// # Errors
/// Those of [`list`].
pub fn list_seen(
    tree: &dyn Tree,
    top: &Path,
    mut see: impl FnMut(&Path, &Entry),
) -> std::io::Result<(Vec<Node>, Vec<Skipped>)> {
    let own = tree.entry(top)?;
    let device = own.device;
    // Each with its inode number, if it has other names too.
    let mut nodes = vec![(Node::of(PathBuf::new(), own), None)];
    let (mut left, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match tree.entries(&top.join(&folder)) {
            // It was removed since the folder above was read.
            Err(error) if error.kind() == ErrorKind::NotFound && folder != Path::new("") => continue,
            // At the top of ext4, for what fsck finds.
            Err(error)
                if error.kind() == ErrorKind::PermissionDenied && folder == Path::new("lost+found") =>
            {
                left.push(Skipped { path: folder, what: "only root may read it", is_harmless: true });
                continue;
            }
            entries => entries?,
        };
        for entry in entries {
            // The name may come from another machine.
            let mut parts = Path::new(&entry.name).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == entry.name)
            {
                let text = format!("{}: invalid file name: {:?}", folder.display(), entry.name);
                return Err(std::io::Error::new(ErrorKind::InvalidData, text));
            }
            let path = folder.join(&entry.name);
            see(&path, &entry);
            if folder.as_os_str().is_empty() && is_own(&entry.name) {
                continue;
            }
            if top.join(&path).as_os_str().len() >= PATH_MAX {
                let what = "its path is too long for the system";
                left.push(Skipped { path, what, is_harmless: false });
                continue;
            }
            if entry.kind == Kind::Other {
                left.push(Skipped { path, what: "a socket, pipe or device", is_harmless: true });
                continue;
            }
            if entry.kind == Kind::Folder && entry.device != device {
                let what = "on another file system or subvolume";
                left.push(Skipped { path: path.clone(), what, is_harmless: false });
            } else if entry.kind == Kind::Folder {
                folders.push(path.clone());
            }
            let shared = (entry.kind == Kind::File && entry.links > 1).then_some((entry.device, entry.inode));
            nodes.push((Node::of(path, entry), shared));
        }
    }
    nodes.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    let mut first: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    let name = |(mut node, shared): (Node, Option<_>)| {
        match shared.and_then(|shared| first.get(&shared)) {
            Some(path) => node.rename(path.clone()),
            None => drop(shared.and_then(|shared| first.insert(shared, node.path.clone()))),
        }
        node
    };
    Ok((nodes.into_iter().map(name).collect(), left))
}

/// Whether a backup has created this name at the top of a tree.
#[must_use]
pub fn is_own(name: &OsStr) -> bool {
    let marked = name.as_encoded_bytes().strip_prefix(TEMP_PREFIX.as_bytes());
    marked
        .and_then(|rest| rest.split_first_chunk::<TOKEN_LETTERS>())
        .is_some_and(|(mark, rest)| mark.iter().all(u8::is_ascii_hexdigit) && rest.starts_with(b"-"))
}

impl Layout {
    /// Assigns blocks to the files of a tree: those that they had `before`, more or fewer if they have grown
    /// or shrunk.
    #[must_use]
    pub fn new(mut nodes: Vec<Node>, before: Option<&Layout>) -> Layout {
        let old: BTreeMap<&Path, &Node> =
            before.into_iter().flat_map(|before| &before.nodes).map(|node| (&*node.path, node)).collect();
        keep_names(&mut nodes, &old);
        for node in nodes.iter_mut().filter(|node| node.kind == Kind::File) {
            if let Some(old) = old.get(&*node.path).filter(|old| old.kind == Kind::File) {
                node.blocks = first_blocks(&old.blocks, blocks_of(node.len));
            }
        }
        let mut map = before.map(|before| before.map.clone()).unwrap_or_default();
        let mut allocator = BlockAllocator::around(nodes.iter().flat_map(|node| &node.blocks).chain(&map));
        for node in nodes.iter_mut().filter(|node| node.kind == Kind::File) {
            allocator.extend(&mut node.blocks, blocks_of(node.len));
        }
        let needed = blocks_of(format::map(&nodes).len() as u64);
        map = first_blocks(&map, needed);
        allocator.extend(&mut map, needed);
        if map.len() > format::MAP_PARTS_MAX {
            map = Vec::new();
            allocator.extend(&mut map, needed);
        }
        Layout { nodes, map, grown: None }
    }

    /// Length of the volume in bytes.
    #[must_use]
    pub fn volume_len(&self) -> u64 {
        let header_last = u64::from(self.grown.is_some());
        (self.used().map(|range| range.end).max().unwrap_or(1) + header_last) * BLOCK_U64
    }

    /// Total bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.len).sum()
    }

    fn used(&self) -> impl Iterator<Item = &Range<u64>> {
        self.nodes.iter().flat_map(|node| &node.blocks).chain(&self.map)
    }

    /// The parts of the volume, with their byte ranges: header, map, and all files.
    pub fn parts(&self) -> impl Iterator<Item = (Range<u64>, Part<'_>)> {
        let map = format::map(&self.nodes);
        let header = format::header(&self.map, &map, self.grown);
        let mut own = match self.grown {
            None => vec![(0..BLOCK_U64, Part::Bytes(header))],
            Some(_) => {
                let end = self.volume_len();
                vec![(0..BLOCK_U64, Part::Bytes(format::stub())), (end - BLOCK_U64..end, Part::Bytes(header))]
            }
        };
        for (place, offset) in places(&self.map, map.len() as u64) {
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let bytes = map.get(index(offset)..index(offset + (place.end - place.start)));
            own.push((place, Part::Bytes(bytes.unwrap_or_default().to_vec())));
        }
        let files = self.nodes.iter().flat_map(|node| {
            node.places().map(move |(place, offset)| (place, Part::File(&node.path, offset)))
        });
        own.into_iter().chain(files)
    }
}

/// The content of a part of the volume.
#[derive(Debug)]
pub enum Part<'a> {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes of a file, by its path relative to the top, from an offset on.
    File(&'a Path, u64),
}

impl Layout {
    /// The file that a block of the volume belongs to, and the block's offset in the file in bytes.
    #[must_use]
    pub fn file_of(&self, block: u64) -> Option<(&Path, u64)> {
        let at = block * BLOCK_U64;
        self.nodes.iter().find_map(|node| {
            let (place, offset) = node.places().find(|(place, _)| place.contains(&at))?;
            Some((&*node.path, offset + (at - place.start)))
        })
    }
}

/// What others may do to a file while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcurrentUse {
    /// Nothing: it is an error if it is missing or shorter than before.
    Unchanging,
    /// Remove or shorten it. Missing bytes are zeros.
    Removal,
    /// Write its pages, shorten and remove it: a server is using it. It is read around the page cache; each
    /// page is checked, and read again if it is torn. Missing bytes are zeros. The number is the server's
    /// page size in bytes, for files that do not state it.
    PageWrites(u32),
}

/// Among hard links to one file, makes the one the file that had its blocks before.
fn keep_names(nodes: &mut [Node], old: &BTreeMap<&Path, &Node>) {
    let had = |path: &Path| old.get(path).is_some_and(|old| old.kind == Kind::File && old.same_as.is_none());
    let mut instead: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for node in nodes.iter() {
        if let Some(first) = node.same_as.as_ref().filter(|first| had(&node.path) && !had(first)) {
            instead.entry(first.clone()).or_insert_with(|| node.path.clone());
        }
    }
    if instead.is_empty() {
        return;
    }
    let lens: BTreeMap<PathBuf, u64> =
        nodes.iter().filter_map(|node| Some((instead.get(&node.path)?.clone(), node.len))).collect();
    for node in nodes {
        let first = node.same_as.clone().unwrap_or_else(|| node.path.clone());
        match instead.get(&first) {
            Some(other) if *other == node.path => {
                (node.same_as, node.len) = (None, lens.get(other).copied().unwrap_or(0));
            }
            Some(other) => node.rename(other.clone()),
            None => {}
        }
    }
}

impl Node {
    /// What is at a path, relative to the top, without blocks.
    #[must_use]
    pub fn of(path: PathBuf, entry: Entry) -> Node {
        let Entry { kind, len, attributes, extended, .. } = entry;
        Node { path, kind, len, attributes, extended, same_as: None, blocks: Vec::new() }
    }

    /// The same with another length in bytes.
    #[must_use]
    pub fn with_len(self, len: u64) -> Node {
        Node { len, ..self }
    }

    /// Turns it into a hard link to a file.
    fn rename(&mut self, of: PathBuf) {
        (self.same_as, self.len) = (Some(of), 0);
    }

    /// The places of its bytes: ranges of bytes in the volume, each with the offset in the file.
    pub fn places(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        places(&self.blocks, self.len)
    }
}

/// The places of `len` bytes in these blocks.
fn places(blocks: &[Range<u64>], len: u64) -> impl Iterator<Item = (Range<u64>, u64)> {
    blocks.iter().scan(0, move |offset, range| {
        let at = *offset;
        let here = ((range.end - range.start) * BLOCK_U64).min(len - at);
        *offset += here;
        let start = range.start * BLOCK_U64;
        Some((start..start + here, at))
    })
}

fn blocks_of(len: u64) -> u64 {
    len.div_ceil(BLOCK_U64)
}

/// The first `count` blocks of these, or all if there are fewer.
fn first_blocks(blocks: &[Range<u64>], mut count: u64) -> Vec<Range<u64>> {
    let mut kept = Vec::new();
    for range in blocks {
        let here = (range.end - range.start).min(count);
        if here > 0 {
            kept.push(range.start..range.start + here);
        }
        count -= here;
    }
    kept
}

/// Allocates blocks of the volume.
struct BlockAllocator {
    /// Free ranges in ascending order; the last one is unbounded.
    gaps: Vec<Range<u64>>,
    /// Allocations begin at a multiple of this many blocks.
    unit: u64,
}

impl BlockAllocator {
    /// The gaps between these blocks, and what follows them. The first block is for the header.
    fn around<'a>(used: impl Iterator<Item = &'a Range<u64>>) -> BlockAllocator {
        let mut used: Vec<&Range<u64>> = used.collect();
        used.sort_by_key(|range| range.start);
        let (mut gaps, mut next) = (Vec::new(), 1);
        for range in used {
            if range.start > next {
                gaps.push(next..range.start);
            }
            next = range.end;
        }
        gaps.push(next..u64::MAX);
        BlockAllocator { gaps, unit: 1 }
    }

    /// Adds adjacent blocks until there are `count`.
    fn extend(&mut self, blocks: &mut Vec<Range<u64>>, count: u64) {
        let missing = count - blocks.iter().map(|range| range.end - range.start).sum::<u64>();
        if missing == 0 {
            return;
        }
        let begin = |gap: &Range<u64>| gap.start.next_multiple_of(self.unit);
        let fits = |gap: &&mut Range<u64>| gap.end.saturating_sub(begin(gap)) >= missing;
        if let Some(gap) = self.gaps.iter_mut().find(fits) {
            let taken = begin(gap)..begin(gap) + missing;
            gap.start = taken.end;
            match blocks.last_mut() {
                Some(last) if last.end == taken.start => last.end = taken.end,
                _ => blocks.push(taken),
            }
        }
    }
}

#[cfg(test)]
mod tests;
