//! Encodes a layout, as docs/formats/tree.md describes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use disk::{Attributes, Extended, Kind};

use super::{Layout, Node, RegionStarts, blocks_of, places};
use crate::format::BLOCK;

const MAGIC: &[u8; 8] = b"remotree";
/// The version without extended attributes and hard links.
const PLAIN: u32 = 1;
const VERSION: u32 = 2;
/// The version of a volume that grew while it was read: its header is the last block, its first block has
/// nothing but this version.
const GROWN: u32 = 3;
/// The most bytes of a map: some million files.
const MAP_MAX: u64 = 1 << 30;
/// Bytes of a header before the parts of the map.
const HEADER_BYTES: usize = 64;
/// Parts of the map that a header has room for.
pub(super) const MAP_PARTS_MAX: usize = (BLOCK - HEADER_BYTES) / 16;

const FILE: u8 = 0;
const FOLDER: u8 = 1;
const LINK: u8 = 2;
/// A hard link to a file.
const NAME: u8 = 3;

/// The header of a volume whose map is in these blocks.
pub(super) fn header(parts: &[Range<u64>], map: &[u8], grown: Option<RegionStarts>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_u32(&mut out, if grown.is_some() { GROWN } else { VERSION });
    put_u32(&mut out, u32::try_from(parts.len()).unwrap_or(u32::MAX));
    put_u64(&mut out, map.len() as u64);
    out.extend_from_slice(blake3::hash(map).as_bytes());
    out.resize(HEADER_BYTES, 0);
    grown.into_iter().flatten().for_each(|base| put_u64(&mut out, base));
    put_blocks(&mut out, parts);
    out.resize(BLOCK, 0);
    out
}

/// The first block of a volume whose header is its last block.
pub(super) fn stub() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_u32(&mut out, GROWN);
    out.resize(BLOCK, 0);
    out
}

/// The map: every node with its blocks.
pub(super) fn map(nodes: &[Node]) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, nodes.len() as u64);
    for node in nodes {
        let (kind, target) = match &node.kind {
            Kind::Folder => (FOLDER, None),
            Kind::Link(target) => (LINK, Some(target.as_os_str())),
            Kind::File | Kind::Other => match &node.same_as {
                Some(path) => (NAME, Some(path.as_os_str())),
                None => (FILE, None),
            },
        };
        out.push(kind);
        put_bytes(&mut out, node.path.as_os_str().as_bytes());
        let Attributes { mode, uid, gid, modified_ns } = node.attributes;
        [mode, uid, gid].into_iter().for_each(|number| put_u32(&mut out, number));
        out.extend_from_slice(&modified_ns.to_le_bytes());
        put_u32(&mut out, u32::try_from(node.extended.len()).unwrap_or(u32::MAX));
        for (name, value) in &node.extended {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value);
        }
        match target {
            Some(target) => put_bytes(&mut out, target.as_bytes()),
            None if kind == FILE => {
                put_u64(&mut out, node.len);
                put_u32(&mut out, u32::try_from(node.blocks.len()).unwrap_or(u32::MAX));
                put_blocks(&mut out, &node.blocks);
            }
            None => {}
        }
    }
    out
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(bytes);
}

fn put_blocks(out: &mut Vec<u8>, blocks: &[Range<u64>]) {
    for range in blocks {
        put_u64(out, range.start);
        put_u64(out, range.end);
    }
}

/// A decoded header.
pub(super) struct TreeHeader {
    pub(super) parts: Vec<Range<u64>>,
    len: u64,
    hash: [u8; 32],
    version: u32,
    grown: Option<RegionStarts>,
}

impl TreeHeader {
    /// Reads the header of a volume.
    pub(super) fn decode(block: &[u8]) -> Result<TreeHeader, &'static str> {
        let mut input = Decoder(block.strip_prefix(MAGIC).ok_or("not a tree of files")?);
        let version = input.u32()?;
        if ![PLAIN, VERSION, GROWN].contains(&version) {
            return Err("written by a newer remora");
        }
        let count = input.u32()? as usize;
        let (len, hash) = (input.u64()?, input.array()?);
        input.take(HEADER_BYTES - 56)?;
        let grown = if version == GROWN { Some([input.u64()?, input.u64()?]) } else { None };
        let parts = input.blocks(count)?;
        let room: u64 = parts.iter().map(|range| range.end - range.start).sum();
        if room != blocks_of(len) || count > MAP_PARTS_MAX || len > MAP_MAX {
            return Err("the map's blocks do not match its length");
        }
        Ok(TreeHeader { parts, len, hash, version, grown })
    }

    /// The places of the map's bytes in the volume.
    pub(super) fn places(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        places(&self.parts, self.len)
    }

    /// The layout, from the bytes of the map and the number of blocks of the volume.
    pub(super) fn layout(self, map: &[u8], blocks: u64) -> Result<Layout, &'static str> {
        if *blake3::hash(map).as_bytes() != self.hash {
            return Err("the map does not match the header's hash");
        }
        let mut input = Decoder(map);
        let count = input.u64()?;
        let mut nodes: Vec<Node> = Vec::new();
        for _ in 0..count {
            let node = input.node(self.version)?;
            check(&nodes, &node)?;
            nodes.push(node);
        }
        if !input.0.is_empty() {
            return Err("the map is too long");
        }
        self.placed(nodes, blocks)
    }

    /// The layout as far as the first bytes of a map give it; these bytes are verified elsewhere.
    pub(super) fn part(self, map: &[u8], blocks: u64) -> Result<Layout, &'static str> {
        let mut input = Decoder(map);
        let count = input.u64()?;
        let mut nodes: Vec<Node> = Vec::new();
        for _ in 0..count {
            let Ok(node) = input.node(self.version) else { break };
            check(&nodes, &node)?;
            nodes.push(node);
        }
        // A hard link to a file that is not known is dropped.
        let files: BTreeSet<PathBuf> = files(&nodes).map(Path::to_owned).collect();
        nodes.retain(|node| node.same_as.as_ref().is_none_or(|path| files.contains(path)));
        self.placed(nodes, blocks)
    }

    fn placed(self, nodes: Vec<Node>, blocks: u64) -> Result<Layout, &'static str> {
        let files: BTreeSet<&Path> = files(&nodes).collect();
        if nodes.iter().filter_map(|node| node.same_as.as_deref()).any(|path| !files.contains(path)) {
            return Err("a hard link to a missing file");
        }
        let layout = Layout { nodes, map: self.parts, grown: self.grown };
        let mut used: Vec<&Range<u64>> = layout.used().collect();
        used.sort_by_key(|range| range.start);
        // The header is the first block or the last one.
        let (mut next, blocks) = (1, blocks.saturating_sub(u64::from(layout.grown.is_some())));
        for range in used {
            if range.start < next || range.end > blocks {
                return Err("blocks overlap, or lie beyond the end");
            }
            next = range.end;
        }
        Ok(layout)
    }
}

/// Paths of files that are not hard links to others.
fn files(nodes: &[Node]) -> impl Iterator<Item = &Path> {
    nodes.iter().filter(|node| node.kind == Kind::File && node.same_as.is_none()).map(|node| &*node.path)
}

/// Checks that the parent of a path is a folder that came before.
fn check(nodes: &[Node], node: &Node) -> Result<(), &'static str> {
    let Some(last) = nodes.last() else {
        let is_top = node.path.as_os_str().is_empty() && node.kind == Kind::Folder;
        return if is_top { Ok(()) } else { Err("the top folder is missing") };
    };
    let name = node.path.components().next_back();
    let plain = matches!(name, Some(Component::Normal(_)));
    let parent = node.path.parent().unwrap_or(Path::new(""));
    let rebuilt = parent.join(node.path.file_name().unwrap_or_default());
    if !plain || rebuilt.as_os_str() != node.path.as_os_str() || last.path >= node.path {
        return Err("invalid path");
    }
    let above = nodes.binary_search_by(|found| (*found.path).cmp(parent)).ok().and_then(|at| nodes.get(at));
    match above {
        Some(above) if above.kind == Kind::Folder => Ok(()),
        _ => Err("a path whose parent is not a folder"),
    }
}

struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("truncated")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        self.take(N)?.try_into().map_err(|_| "truncated")
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<OsString, &'static str> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        if bytes.contains(&0) {
            Err("a name with a null byte")
        } else {
            Ok(OsString::from_vec(bytes.to_vec()))
        }
    }

    fn blocks(&mut self, count: usize) -> Result<Vec<Range<u64>>, &'static str> {
        let mut blocks: Vec<Range<u64>> = Vec::new();
        for _ in 0..count {
            let range = self.u64()?..self.u64()?;
            if range.is_empty() || range.end > u64::MAX / BLOCK as u64 {
                return Err("invalid blocks");
            }
            blocks.push(range);
        }
        Ok(blocks)
    }

    fn extended(&mut self) -> Result<Extended, &'static str> {
        let count = self.u32()?;
        let mut all = Extended::new();
        for _ in 0..count {
            let name = self.text()?;
            let len = self.u32()? as usize;
            all.push((name, self.take(len)?.to_vec()));
        }
        Ok(all)
    }

    fn node(&mut self, version: u32) -> Result<Node, &'static str> {
        let kind = u8::from_le_bytes(self.array()?);
        let path = PathBuf::from(self.text()?);
        let (mode, uid, gid) = (self.u32()?, self.u32()?, self.u32()?);
        let attributes = Attributes { mode, uid, gid, modified_ns: i128::from_le_bytes(self.array()?) };
        let extended = if version == PLAIN { Extended::new() } else { self.extended()? };
        let mut node = Node {
            path,
            kind: Kind::Folder,
            len: 0,
            attributes,
            extended,
            same_as: None,
            blocks: Vec::new(),
        };
        match kind {
            FOLDER => {}
            LINK => node.kind = Kind::Link(self.text()?),
            NAME if version != PLAIN => {
                (node.kind, node.same_as) = (Kind::File, Some(PathBuf::from(self.text()?)));
            }
            FILE => {
                (node.kind, node.len) = (Kind::File, self.u64()?);
                let count = self.u32()? as usize;
                node.blocks = self.blocks(count)?;
                let room =
                    node.blocks.iter().try_fold(0u64, |sum, range| sum.checked_add(range.end - range.start));
                if room != Some(blocks_of(node.len)) {
                    return Err("a file's blocks do not match its length");
                }
            }
            _ => return Err("unknown kind of entry"),
        }
        Ok(node)
    }
}
