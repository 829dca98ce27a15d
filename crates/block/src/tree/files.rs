//! The files of a generation, read from the repository without a restore.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};

use disk::{Disk, Guard, Kind, Share, Sink, Source, Stat, Volume};

use super::{Node, read_layout};
use crate::Error;
use crate::reader::{GenerationReader, RepositoryReader};
use crate::repository::Repository;

/// The files of a generation, as a read-only disk. Only the blocks that are read are fetched, and each is
/// checked against its hash. While this exists nothing is removed from the repository.
///
/// A symbolic link is not followed, because it may lead out of the tree: there is nothing at its path.
pub struct Files {
    content: GenerationReader,
    nodes: BTreeMap<PathBuf, Node>,
    /// The path of the top.
    top: PathBuf,
}

/// What is in the tree of a generation, a folder before its contents.
///
/// # Errors
/// If the generation has no tree of files, or its list of files is damaged.
pub fn nodes(content: &GenerationReader) -> Result<Vec<Node>, Error> {
    content.with_chain(|chain, copies| read_layout(chain, copies, false)).map(|found| found.layout.nodes)
}

impl Files {
    /// The files of a generation, or of the newest one if `None`. `top` is the path under which they appear,
    /// also in messages.
    ///
    /// # Errors
    /// If the generation does not exist, has no tree of files, or its list of files or its index is damaged.
    /// Damaged blocks cause errors of kind `InvalidData` when they are read.
    pub fn open(repository: Repository, generation: Option<u64>, top: &Path) -> Result<Files, Error> {
        let content = RepositoryReader::open(repository)?.content(generation)?;
        let nodes = nodes(&content)?.into_iter().map(|node| (node.path.clone(), node)).collect();
        Ok(Files { content, nodes, top: top.to_owned() })
    }

    /// The blocks of the generation.
    #[must_use]
    pub fn content(&self) -> &GenerationReader {
        &self.content
    }

    /// The number of the generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.content.generation()
    }

    /// When it was taken, seconds since the epoch.
    #[must_use]
    pub fn taken_s(&self) -> i64 {
        self.content.taken_s()
    }

    /// Everything in the tree, a folder before its contents: paths relative to the top.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    fn node(&self, path: &Path) -> io::Result<&Node> {
        let nodes = &self.nodes;
        let node = path.strip_prefix(&self.top).ok().and_then(|path| nodes.get(path));
        let node = node.filter(|node| !matches!(node.kind, Kind::Link(_)));
        // A hard link has no bytes of its own.
        let real = node.and_then(|node| node.same_as.as_ref().map_or(Some(node), |first| nodes.get(first)));
        let missing = "there is no such file or folder in this generation";
        real.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))
    }
}

/// An open file of a generation.
struct OpenFile {
    content: GenerationReader,
    stat: Stat,
    blocks: Vec<Range<u64>>,
    position: u64,
}

impl Source for OpenFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(self.stat)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.content.read(&self.blocks, self.stat.len, at, buffer).map_err(failed)
    }

    fn is_written_to(&self) -> Option<bool> {
        Some(false)
    }

    fn absent(&self, _at: u64, _len: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.stat.len).then_some(at))
    }

    fn prefetch(&self, _at: u64, _len: u64) {}

    fn forget(&self, _at: u64, _len: u64) {}
}

/// The kind distinguishes damage from an unreachable repository.
fn failed(error: Error) -> io::Error {
    let kind = match &error {
        Error::Corrupt { .. } => io::ErrorKind::InvalidData,
        Error::Store { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.stat.len))?;
        Ok(self.position)
    }
}

fn stat(node: &Node) -> Stat {
    let modified_ns = node.attributes.modified_ns;
    Stat { modified_ns, regular: node.kind == Kind::File, ..Stat::of_volume(node.len) }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for Files {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let node = self.node(path)?;
        if node.kind != Kind::File {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (content, blocks) = (self.content.clone(), node.blocks.clone());
        Ok(Box::new(OpenFile { content, stat: stat(node), blocks, position: 0 }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.node(path).map(stat)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let node = self.node(folder)?;
        if node.kind != Kind::Folder {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let after = (Bound::Excluded(node.path.as_path()), Bound::Unbounded);
        let below = self.nodes.range::<Path, _>(after).take_while(|(path, _)| path.starts_with(&node.path));
        let within = below.filter(|(path, _)| path.parent() == Some(&*node.path));
        Ok(within.filter_map(|(path, _)| path.file_name().map(ToOwned::to_owned)).collect())
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn Sink>> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        refused()
    }

    fn append(&self, _path: &Path, _len: u64) -> io::Result<Box<dyn Sink>> {
        refused()
    }

    fn volume(&self, _path: &Path) -> io::Result<Box<dyn Volume>> {
        refused()
    }

    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_folder(&self, _folder: &Path) -> io::Result<()> {
        refused()
    }

    fn lock(&self, _path: &Path, _share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        refused()
    }
}
