//! A generation as a tree of numbered nodes, which can be changed without changing the backup.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use block::{BLOCK, GenerationReader, tree};
use disk::xattr::{ACCESS_LIST, mode_without_list};
use disk::{Attributes, Extended, Kind};
use rustix::io::Errno;

use crate::file_data::{FileData, WriteFolder};

/// The file with the bytes of a volume.
pub const VOLUME: &str = "volume.img";
/// Permissions of what we make up: whoever may read a repository may read it.
const OWN_FOLDER: u32 = 0o500;
const OWN_FILE: u32 = 0o400;
/// The number of the top.
pub(crate) const TOP: usize = 0;

const NS: i128 = 1_000_000_000;

/// A generation.
pub(crate) struct Overlay {
    pub content: GenerationReader,
    nodes: RwLock<Vec<Node>>,
}

/// A file, folder or link.
struct Node {
    kind: NodeContent,
    attributes: Attributes,
    extended: Extended,
    /// How many names it has.
    names: u32,
    /// How often it is open.
    open: u32,
    /// The folder that it is in; of several, the first.
    above: usize,
}

enum NodeContent {
    Folder(BTreeMap<OsString, usize>),
    File(Arc<FileData>),
    Link(OsString),
}

/// What is known about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub node: usize,
    pub kind: NodeKind,
    pub len: u64,
    pub attributes: Attributes,
    pub names: u32,
}

/// What is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewNode<'a> {
    /// An empty file.
    File,
    /// An empty folder.
    Folder,
    /// A link to this target.
    Link(&'a OsStr),
}

/// Whose a new file, folder or link is, and who may do what with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    Folder,
    File,
    Link,
}

/// What to change of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub len: Option<u64>,
    pub modified_ns: Option<i128>,
}

type Reply<Value> = Result<Value, Errno>;

impl Overlay {
    /// The tree of a generation, or a folder with the file that is its volume.
    pub(crate) fn open(content: GenerationReader, is_tree: bool) -> Result<Overlay, block::Error> {
        let nodes = if is_tree { of_tree(tree::nodes(&content)?) } else { of_volume(&content) };
        Ok(Overlay { content, nodes: RwLock::new(nodes) })
    }

    fn read_nodes(&self) -> RwLockReadGuard<'_, Vec<Node>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_nodes(&self) -> RwLockWriteGuard<'_, Vec<Node>> {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self, node: usize) -> Reply<Metadata> {
        known(&self.read_nodes(), node)
    }

    pub(crate) fn lookup(&self, folder: usize, name: &OsStr) -> Reply<Metadata> {
        let nodes = self.read_nodes();
        let found = *folder_of(&nodes, folder)?.get(name).ok_or(Errno::NOENT)?;
        known(&nodes, found)
    }

    /// The folder that a folder is in; of the top, itself.
    pub(crate) fn above(&self, folder: usize) -> Reply<usize> {
        self.read_nodes().get(folder).map(|node| node.above).ok_or(Errno::NOENT)
    }

    /// What is in a folder, by name.
    pub(crate) fn list(&self, folder: usize) -> Reply<Vec<(OsString, Metadata)>> {
        let nodes = self.read_nodes();
        let entries = folder_of(&nodes, folder)?;
        entries.iter().map(|(name, node)| Ok((name.clone(), known(&nodes, *node)?))).collect()
    }

    pub(crate) fn target(&self, node: usize) -> Reply<OsString> {
        match self.read_nodes().get(node).map(|node| &node.kind) {
            Some(NodeContent::Link(target)) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn data(&self, node: usize) -> Reply<Arc<FileData>> {
        match self.read_nodes().get(node).map(|node| &node.kind) {
            Some(NodeContent::File(data)) => Ok(Arc::clone(data)),
            Some(NodeContent::Folder(_)) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn extended(&self, node: usize) -> Reply<Extended> {
        self.read_nodes().get(node).map(|node| node.extended.clone()).ok_or(Errno::NOENT)
    }

    /// Its path from the top, for messages.
    pub(crate) fn path(&self, node: usize) -> PathBuf {
        let nodes = self.read_nodes();
        let (mut parts, mut at) = (Vec::new(), node);
        while at != TOP {
            let Some(above) = nodes.get(at).map(|node| node.above) else { break };
            let entries = folder_of(&nodes, above).ok();
            let name = entries.and_then(|entries| entries.iter().find(|(_, found)| **found == at));
            let Some((name, _)) = name else { break };
            parts.push(name.clone());
            at = above;
        }
        parts.iter().rev().collect()
    }

    pub(crate) fn opened(&self, node: usize) {
        self.write_nodes().get_mut(node).into_iter().for_each(|node| node.open += 1);
    }

    pub(crate) fn released(&self, node: usize) {
        if let Some(node) = self.write_nodes().get_mut(node) {
            node.open = node.open.saturating_sub(1);
            node.forget_if_gone();
        }
    }

    pub(crate) fn change(&self, node: usize, change: Change) -> Reply<Metadata> {
        let mut nodes = self.write_nodes();
        let found = nodes.get_mut(node).ok_or(Errno::NOENT)?;
        if let Some(len) = change.len {
            let NodeContent::File(data) = &found.kind else { return Err(Errno::ISDIR) };
            data.set_len(len)?;
            found.attributes.modified_ns = now_ns();
        }
        let was = &mut found.attributes;
        was.mode = change.mode.map_or(was.mode, |mode| mode & 0o7777);
        was.uid = change.uid.unwrap_or(was.uid);
        was.gid = change.gid.unwrap_or(was.gid);
        was.modified_ns = change.modified_ns.unwrap_or(was.modified_ns);
        known(&nodes, node)
    }

    /// Says that the bytes of a file were changed.
    pub(crate) fn touch(&self, node: usize) {
        self.write_nodes().get_mut(node).into_iter().for_each(|node| node.attributes.modified_ns = now_ns());
    }

    /// Makes a file, a folder or a link.
    pub(crate) fn make(
        &self,
        folder: usize,
        name: &OsStr,
        new: NewNode<'_>,
        rights: Rights,
    ) -> Reply<Metadata> {
        let mut nodes = self.write_nodes();
        let node = nodes.len();
        let entries = folder_mut(&mut nodes, folder)?;
        if entries.contains_key(name) {
            return Err(Errno::EXIST);
        }
        entries.insert(name.to_owned(), node);
        let kind = match new {
            NewNode::Folder => NodeContent::Folder(BTreeMap::new()),
            NewNode::File => NodeContent::File(Arc::new(FileData::new(Vec::new(), 0))),
            NewNode::Link(target) => NodeContent::Link(target.to_owned()),
        };
        let Rights { mode, uid, gid } = rights;
        let attributes = Attributes { mode: mode & 0o7777, uid, gid, modified_ns: now_ns() };
        nodes.push(Node { kind, attributes, extended: Extended::new(), names: 1, open: 0, above: folder });
        touch(&mut nodes, folder);
        known(&nodes, node)
    }

    /// Gives a file another name.
    pub(crate) fn link(&self, node: usize, folder: usize, name: &OsStr) -> Reply<Metadata> {
        let mut nodes = self.write_nodes();
        match nodes.get(node).map(|node| &node.kind) {
            Some(NodeContent::Folder(_)) => return Err(Errno::PERM),
            Some(_) => {}
            None => return Err(Errno::NOENT),
        }
        let entries = folder_mut(&mut nodes, folder)?;
        if entries.contains_key(name) {
            return Err(Errno::EXIST);
        }
        entries.insert(name.to_owned(), node);
        nodes.get_mut(node).into_iter().for_each(|node| node.names += 1);
        touch(&mut nodes, folder);
        known(&nodes, node)
    }

    /// Removes a name: that of a folder, which must be empty, or of something else.
    pub(crate) fn remove(&self, folder: usize, name: &OsStr, is_folder: bool) -> Reply<()> {
        let mut nodes = self.write_nodes();
        let node = *folder_of(&nodes, folder)?.get(name).ok_or(Errno::NOENT)?;
        may_go(&nodes, node, is_folder)?;
        folder_mut(&mut nodes, folder)?.remove(name);
        unname(&mut nodes, node);
        touch(&mut nodes, folder);
        Ok(())
    }

    /// Moves something; what has the new name is replaced, if that is allowed.
    pub(crate) fn rename(
        &self,
        (from, name): (usize, &OsStr),
        (to, new): (usize, &OsStr),
        may_replace: bool,
    ) -> Reply<()> {
        let mut nodes = self.write_nodes();
        let node = *folder_of(&nodes, from)?.get(name).ok_or(Errno::NOENT)?;
        let is_folder = matches!(nodes.get(node).map(|node| &node.kind), Some(NodeContent::Folder(_)));
        if let Some(old) = folder_of(&nodes, to)?.get(new).copied() {
            if !may_replace {
                return Err(Errno::EXIST);
            }
            if old == node {
                return Ok(());
            }
            may_go(&nodes, old, is_folder)?;
            folder_mut(&mut nodes, to)?.remove(new);
            unname(&mut nodes, old);
        }
        folder_mut(&mut nodes, from)?.remove(name);
        folder_mut(&mut nodes, to)?.insert(new.to_owned(), node);
        nodes.get_mut(node).into_iter().for_each(|node| node.above = to);
        touch(&mut nodes, from);
        touch(&mut nodes, to);
        Ok(())
    }

    /// Writes to a file.
    pub(crate) fn write(
        &self,
        node: usize,
        write_folder: &WriteFolder,
        part: (u64, &[u8]),
        tell: crate::file_data::Tell<'_>,
    ) -> Reply<()> {
        self.data(node)?.write(&self.content, write_folder, part, tell)?;
        self.touch(node);
        Ok(())
    }
}

impl Node {
    fn forget_if_gone(&self) {
        if let (0, 0, NodeContent::File(data)) = (self.names, self.open, &self.kind) {
            data.drop_written();
        }
    }
}

fn known(nodes: &[Node], node: usize) -> Reply<Metadata> {
    let found = nodes.get(node).ok_or(Errno::NOENT)?;
    let (kind, len) = match &found.kind {
        NodeContent::Folder(_) => (NodeKind::Folder, 0),
        NodeContent::File(data) => (NodeKind::File, data.len()),
        NodeContent::Link(target) => (NodeKind::Link, target.len() as u64),
    };
    Ok(Metadata { node, kind, len, attributes: found.attributes, names: found.names })
}

fn folder_of(nodes: &[Node], folder: usize) -> Reply<&BTreeMap<OsString, usize>> {
    match nodes.get(folder).map(|node| &node.kind) {
        Some(NodeContent::Folder(entries)) => Ok(entries),
        Some(_) => Err(Errno::NOTDIR),
        None => Err(Errno::NOENT),
    }
}

fn folder_mut(nodes: &mut [Node], folder: usize) -> Reply<&mut BTreeMap<OsString, usize>> {
    match nodes.get_mut(folder).map(|node| &mut node.kind) {
        Some(NodeContent::Folder(entries)) => Ok(entries),
        Some(_) => Err(Errno::NOTDIR),
        None => Err(Errno::NOENT),
    }
}

fn touch(nodes: &mut [Node], folder: usize) {
    nodes.get_mut(folder).into_iter().for_each(|node| node.attributes.modified_ns = now_ns());
}

fn may_go(nodes: &[Node], node: usize, is_folder: bool) -> Reply<()> {
    match (nodes.get(node).map(|node| &node.kind), is_folder) {
        (Some(NodeContent::Folder(_)), false) => Err(Errno::ISDIR),
        (Some(NodeContent::Folder(entries)), true) if !entries.is_empty() => Err(Errno::NOTEMPTY),
        (Some(NodeContent::Folder(_)), true) | (Some(_), false) => Ok(()),
        (Some(_), true) => Err(Errno::NOTDIR),
        (None, _) => Err(Errno::NOENT),
    }
}

fn unname(nodes: &mut [Node], node: usize) {
    if let Some(node) = nodes.get_mut(node) {
        node.names = node.names.saturating_sub(1);
        node.forget_if_gone();
    }
}

/// The time, nanoseconds since the epoch.
pub(crate) fn now_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    i128::from(now.tv_sec) * NS + i128::from(now.tv_nsec)
}

/// The nodes of a tree. They always get the same numbers.
fn of_tree(found: Vec<tree::Node>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::with_capacity(found.len());
    let mut numbers: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut links = Vec::new();
    for tree::Node { path, kind, len, attributes, extended, same_as, blocks } in found {
        let above = path.parent().and_then(|above| numbers.get(above)).copied().unwrap_or(TOP);
        if let Some(first) = same_as {
            links.push((path, above, first));
            continue;
        }
        // Nobody gets more rights because the kernel does not ask us for the list.
        let list = extended.iter().find(|(name, _)| name == ACCESS_LIST);
        let mode = list.map_or(attributes.mode, |(_, list)| mode_without_list(attributes.mode, list));
        let kind = match kind {
            Kind::Folder => NodeContent::Folder(BTreeMap::new()),
            Kind::Link(target) => NodeContent::Link(target),
            Kind::File | Kind::Other => NodeContent::File(Arc::new(FileData::new(blocks, len))),
        };
        let node = nodes.len();
        let attributes = Attributes { mode, ..attributes };
        nodes.push(Node { kind, attributes, extended, names: 1, open: 0, above });
        name(&mut nodes, above, &path, node);
        numbers.insert(path, node);
    }
    for (path, above, first) in links {
        let Some(node) = numbers.get(&first).copied() else { continue };
        name(&mut nodes, above, &path, node);
        nodes.get_mut(node).into_iter().for_each(|node| node.names += 1);
    }
    nodes
}

fn name(nodes: &mut [Node], above: usize, path: &Path, node: usize) {
    if let (Some(name), Ok(entries)) = (path.file_name(), folder_mut(nodes, above)) {
        entries.insert(name.to_owned(), node);
    }
}

fn of_volume(content: &GenerationReader) -> Vec<Node> {
    let len = content.volume_len();
    let all = std::iter::once(0..len.div_ceil(BLOCK as u64)).collect();
    let modified_ns = i128::from(content.taken_s()) * NS;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let node = |kind, mode| Node {
        kind,
        attributes: Attributes { mode, uid, gid, modified_ns },
        extended: Extended::new(),
        names: 1,
        open: 0,
        above: TOP,
    };
    let entries = BTreeMap::from([(OsString::from(VOLUME), 1)]);
    vec![
        node(NodeContent::Folder(entries), OWN_FOLDER),
        node(NodeContent::File(Arc::new(FileData::new(all, len))), OWN_FILE),
    ]
}
