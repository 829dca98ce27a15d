//! The files of a generation, read out of the repository without a restore.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use disk::{Disk, Guard, Kind, Share, Sink, Source, Stat, Volume};

use super::recent::Recent;
use super::{BLOCK_U64, Node, read_layout};
use crate::Error;
use crate::chain::{Chain, Chunk};
use crate::copies::Copies;
use crate::fetch::Opened;
use crate::format::{BLOCK, CHUNK_BLOCKS, GROUP_BLOCKS};
use crate::repository::{Loaded, Repository};
use crate::restore::{Request, expected, find};

/// Blocks that are read together when fewer are asked for: mostly they were compressed together.
const WINDOW: u64 = GROUP_BLOCKS as u64;
/// The most windows that are kept: 64 MiB.
const WINDOWS_MAX: usize = 256;
/// The most chunks whose places are kept: those of 2 GiB of a volume, some 15 MiB of memory.
const CHUNKS_MAX: usize = 512;
const CHUNK_BLOCKS_U64: u64 = CHUNK_BLOCKS as u64;

/// The files of a generation, as a disk that can only be read. Only the blocks of what is read are fetched,
/// each proven by its hash. While this exists nothing is removed from the repository.
///
/// A symbolic link is not followed, because it may lead out of the tree: there is nothing at its path.
pub struct Files {
    held: Arc<Held>,
    /// The path of the top.
    top: PathBuf,
}

struct Held {
    repository: Repository,
    loaded: Loaded,
    chain: Chain,
    nodes: BTreeMap<PathBuf, Node>,
    opened: Arc<Opened>,
    chunks: Mutex<Recent<u64, Arc<Chunk>>>,
    /// By the number of their first block.
    windows: Mutex<Recent<u64, Arc<Vec<u8>>>>,
    _stays: Option<Box<dyn Guard>>,
}

impl Files {
    /// The files of a generation, or of the newest one if none is named. `top` is the path under which they
    /// are found, which also names them in messages.
    ///
    /// # Errors
    /// When the generation does not exist, has no tree of files, or its list of files or of blocks is not as
    /// it was written. Damaged blocks are errors of reading them, of kind `InvalidData`.
    pub fn open(repository: Repository, generation: Option<u64>, top: &Path) -> Result<Files, Error> {
        let stays = repository.reading()?;
        let (loaded, chain, _) = find(&repository, Request::new(generation, 1))?;
        if expected(&loaded, chain.newest()) != Some(chain.content()?) {
            let shown = chain.newest().map(|file| file.shown.clone()).unwrap_or_default();
            return Err(Error::corrupt(shown, "the chain does not lead to what was backed up"));
        }
        let opened = Arc::default();
        let copies = Copies::sharing(repository.store(), &loaded.files, Arc::clone(&opened));
        let nodes = read_layout(&chain, &copies, false)?.layout.nodes;
        let nodes = nodes.into_iter().map(|node| (node.path.clone(), node)).collect();
        let (chunks, windows) = (Mutex::new(Recent::new(CHUNKS_MAX)), Mutex::new(Recent::new(WINDOWS_MAX)));
        let held = Held { repository, loaded, chain, nodes, opened, chunks, windows, _stays: stays };
        Ok(Files { held: Arc::new(held), top: top.to_owned() })
    }

    /// The number of the generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.held.chain.newest().map_or(0, |file| file.header.generation)
    }

    /// When it was taken, seconds since the epoch.
    #[must_use]
    pub fn taken_s(&self) -> i64 {
        self.held.chain.newest().map_or(0, |file| file.header.taken_s)
    }

    /// Everything in the tree, a folder before its contents: paths relative to the top.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.held.nodes.values()
    }

    fn node(&self, path: &Path) -> io::Result<&Node> {
        let nodes = &self.held.nodes;
        let node = path.strip_prefix(&self.top).ok().and_then(|path| nodes.get(path));
        let node = node.filter(|node| !matches!(node.kind, Kind::Link(_)));
        // A hard link has no bytes of its own.
        let real = node.and_then(|node| node.same_as.as_ref().map_or(Some(node), |first| nodes.get(first)));
        let missing = "there is no such file or folder in this generation";
        real.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))
    }
}

impl Held {
    /// Where the blocks of a chunk are.
    fn chunk(&self, number: u64) -> Result<Arc<Chunk>, Error> {
        let recent = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = recent().get(&number) {
            return Ok(chunk);
        }
        let chunk = self.chain.chunk(number)?;
        chunk.check(number)?;
        let chunk = Arc::new(chunk);
        recent().put(number, Arc::clone(&chunk));
        Ok(chunk)
    }

    /// The bytes of blocks, by their numbers in the volume.
    fn fetch(&self, blocks: Range<u64>) -> Result<Vec<u8>, Error> {
        let copies = Copies::sharing(self.repository.store(), &self.loaded.files, Arc::clone(&self.opened));
        let mut bytes = vec![0; index(blocks.end - blocks.start) * BLOCK];
        let mut at = blocks.start;
        while at < blocks.end {
            let number = at / CHUNK_BLOCKS_U64;
            let end = blocks.end.min((number + 1) * CHUNK_BLOCKS_U64);
            let chunk = self.chunk(number)?;
            let first = number * CHUNK_BLOCKS_U64;
            let places = chunk.blocks.get(index(at - first)..index(end - first)).unwrap_or_default();
            let out = bytes.get_mut(index(at - blocks.start) * BLOCK..).unwrap_or_default();
            let mut lost = copies.chunk(number, places, out)?;
            if !lost.blocks.is_empty() {
                return Err(lost.damages.swap_remove(0));
            }
            at = end;
        }
        Ok(bytes)
    }

    /// Reads bytes of the volume from `at` on. `own`: the blocks of the file's part; no others are read.
    fn read(&self, own: &Range<u64>, at: u64, out: &mut [u8]) -> Result<(), Error> {
        let blocks = at / BLOCK_U64..(at + out.len() as u64).div_ceil(BLOCK_U64);
        if blocks.end - blocks.start < WINDOW && self.read_windows(own, at, out).is_ok() {
            return Ok(());
        }
        // Another block of the window may be damaged.
        let bytes = self.fetch(blocks.clone())?;
        copy(&bytes, index(at - blocks.start * BLOCK_U64), out);
        Ok(())
    }

    fn read_windows(&self, own: &Range<u64>, at: u64, out: &mut [u8]) -> Result<(), Error> {
        let recent = || self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < out.len() {
            let place = at + done as u64;
            let window = place / BLOCK_U64 / WINDOW * WINDOW;
            let blocks = window.max(own.start)..(window + WINDOW).min(own.end);
            // The windows of two files that share one begin at different blocks.
            let known = recent().get(&blocks.start);
            let bytes = match known {
                Some(bytes) => bytes,
                None => {
                    let bytes = Arc::new(self.fetch(blocks.clone())?);
                    recent().put(blocks.start, Arc::clone(&bytes));
                    bytes
                }
            };
            let rest = out.get_mut(done..).unwrap_or_default();
            match copy(&bytes, index(place - blocks.start * BLOCK_U64), rest) {
                0 => return Err(Error::Worker),
                count => done += count,
            }
        }
        Ok(())
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Copies as much as there is and fits. Returns the number of bytes.
fn copy(from: &[u8], at: usize, to: &mut [u8]) -> usize {
    let from = from.get(at..).unwrap_or_default();
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    from.len().min(to.len())
}

/// An open file of a generation.
struct OpenFile {
    held: Arc<Held>,
    stat: Stat,
    /// The blocks of its parts, and the offset of each in the file.
    parts: Vec<(Range<u64>, u64)>,
    position: u64,
}

impl Source for OpenFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(self.stat)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let after = self.parts.partition_point(|(_, offset)| *offset <= at);
        let part = after.checked_sub(1).and_then(|part| self.parts.get(part));
        let Some((blocks, offset)) = part.filter(|_| at < self.stat.len) else { return Ok(0) };
        let end = (offset + (blocks.end - blocks.start) * BLOCK_U64).min(self.stat.len);
        let count = buffer.len().min(index(end - at));
        let out = buffer.get_mut(..count).unwrap_or_default();
        self.held.read(blocks, blocks.start * BLOCK_U64 + (at - offset), out).map_err(failed)?;
        Ok(count)
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

/// The kind tells damage from a repository that can't be reached.
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
        let mut offset = 0;
        let part = |blocks: &Range<u64>| {
            let at = offset;
            offset += (blocks.end - blocks.start) * BLOCK_U64;
            (blocks.clone(), at)
        };
        let parts = node.blocks.iter().map(part).collect();
        Ok(Box::new(OpenFile { held: Arc::clone(&self.held), stat: stat(node), parts, position: 0 }))
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
        let below =
            self.held.nodes.range::<Path, _>(after).take_while(|(path, _)| path.starts_with(&node.path));
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
