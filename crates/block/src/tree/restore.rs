//! Bringing a tree of files back.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, Kind, Output, Stat, Tree, Volume};

use super::format::Front;
use super::open::OpenFiles;
use super::parts::{FilePart, Parts};
use super::{Layout, Node};
use crate::backup::World;
use crate::chain::Chain;
use crate::fetch::Fetcher;
use crate::format::{BLOCK, CHUNK};
use crate::repository::Repository;
use crate::restore::{Request, Summary, in_place_fresh};
use crate::{Error, chain};

/// The layout of a generation, of the newest one if none is named.
///
/// # Errors
/// When there is no such generation, it is none of a tree of files, or it can't be read as it was written.
pub fn layout_of(repository: &Repository, generation: Option<u64>) -> Result<Layout, Error> {
    let _stays = repository.reading()?;
    let loaded = repository.load()?;
    let chain = repository.chain(&loaded, generation)?;
    let fetcher = Fetcher::new(repository.store());
    let corrupt = |what: &str| {
        let shown = chain.newest().map(|file| file.shown.clone()).unwrap_or_default();
        Error::corrupt(shown, format!("the list of files: {what}"))
    };
    let front = bytes(&chain, &fetcher, std::iter::once((0..BLOCK as u64, 0)))?;
    let front = Front::decode(&front).map_err(corrupt)?;
    let blocks = chain.len() / BLOCK as u64;
    if front.places().any(|(place, _)| place.end > chain.len()) {
        return Err(corrupt("it lies behind the end"));
    }
    let map = bytes(&chain, &fetcher, front.places())?;
    front.layout(&map, blocks).map_err(corrupt)
}

/// Bytes of a volume: each range of it at an offset of what is returned.
fn bytes(
    chain: &Chain,
    fetcher: &Fetcher<'_>,
    places: impl Iterator<Item = (Range<u64>, u64)>,
) -> Result<Vec<u8>, Error> {
    // A chain is walked from front to end, so the chunks come in order.
    let mut wanted: BTreeMap<u64, Vec<(Range<u64>, u64)>> = BTreeMap::new();
    let (mut len, size) = (0, CHUNK as u64);
    for (place, offset) in places {
        len = len.max(offset + (place.end - place.start));
        let mut at = place.start;
        while at < place.end {
            let end = place.end.min((at / size + 1) * size);
            wanted.entry(at / size).or_default().push((at..end, offset + (at - place.start)));
            at = end;
        }
    }
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let mut out = vec![0; index(len)];
    let (mut walk, mut buffer) = (chain.walk(), vec![0; CHUNK]);
    for (number, parts) in wanted {
        let chunk: chain::Chunk = walk.chunk(number)?;
        buffer.fill(0);
        fetcher.blocks(&chunk.blocks, &mut buffer, &mut |_, error| Err(error))?;
        for (place, offset) in parts {
            let from = buffer.get(index(place.start - number * size)..).unwrap_or_default();
            let target = out.get_mut(index(offset)..index(offset + (place.end - place.start)));
            target.unwrap_or_default().iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
    Ok(out)
}

/// Restores a tree into a new folder, which has its name only when all of it is there and durable.
///
/// # Errors
/// When there is something at `path`, when it can't be written, or when the generation can't be read as it was written.
/// Nothing has the name then.
pub fn restore(
    repository: &Repository,
    (disk, tree): (&Arc<dyn Disk>, &dyn Tree),
    path: &Path,
    request: Request,
    world: World<'_>,
) -> Result<Summary, Error> {
    let failed = |source| Error::Target { name: path.display().to_string(), source };
    if disk.stat(path).is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let layout = layout_of(repository, request.generation)?;
    let partial = Output::partial(path);
    // A leftover of a run that was killed.
    remove(&**disk, tree, &partial).map_err(failed)?;
    let restored = fill(repository, (disk, tree), (&layout, &partial), request, world);
    crate::restore::name(&**disk, (&partial, path), restored, || remove(&**disk, tree, &partial))
}

fn fill(
    repository: &Repository,
    (disk, tree): (&Arc<dyn Disk>, &dyn Tree),
    (layout, top): (&Layout, &Path),
    request: Request,
    world: World<'_>,
) -> Result<Summary, Error> {
    let failed = |path: &Path| {
        let name = path.display().to_string();
        |source| Error::Target { name, source }
    };
    for node in &layout.nodes {
        let path = join(top, &node.path);
        match &node.kind {
            Kind::Folder => disk.create_folder(&path),
            Kind::Link(target) => tree.make_link(&path, Path::new(target)),
            Kind::File | Kind::Other => {
                disk.create(&path).and_then(|_| disk.volume(&path)?.set_len(node.len))
            }
        }
        .map_err(failed(&path))?;
    }
    let target = Target::new(Arc::clone(disk), layout, top);
    let shown = top.display().to_string();
    let summary = in_place_fresh(repository, (&target, &shown), request, world)?;
    // What is in a folder before the folder itself, whose time changes with it.
    for node in layout.nodes.iter().rev() {
        let path = join(top, &node.path);
        if node.kind == Kind::Folder {
            disk.sync_folder(&path).map_err(failed(&path))?;
        }
        tree.set_attributes(&path, &node.kind, node.attributes).map_err(failed(&path))?;
    }
    Ok(Summary { len: layout.bytes(), ..summary })
}

/// `Path::join` would end the path of the top itself with a slash.
fn join(top: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { top.to_owned() } else { top.join(path) }
}

/// Removes a folder and all that is in it; that there is none is no error.
fn remove(disk: &dyn Disk, tree: &dyn Tree, folder: &Path) -> io::Result<()> {
    let entries = match tree.entries(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        match entry.kind {
            Kind::Folder => remove(disk, tree, &path)?,
            _ => disk.remove(&path)?,
        }
    }
    disk.remove_folder(folder)
}

/// The files of a tree, written as one volume. What belongs to no file is let go.
struct Target {
    disk: Arc<dyn Disk>,
    len: u64,
    parts: Parts<FilePart>,
    open: OpenFiles<dyn Volume>,
    files: Vec<PathBuf>,
}

impl Target {
    fn new(disk: Arc<dyn Disk>, layout: &Layout, top: &Path) -> Target {
        let (mut parts, mut files) = (Parts::new(), Vec::new());
        let is_file = |node: &&Node| node.kind == Kind::File;
        for node in layout.nodes.iter().filter(is_file) {
            let path = top.join(&node.path);
            for (place, offset) in node.places() {
                parts.add(place, FilePart { path: path.clone(), offset });
            }
            files.push(path);
        }
        Target { disk, len: layout.volume_len(), parts, open: OpenFiles::new(), files }
    }

    fn file(&self, path: &Path) -> io::Result<Arc<dyn Volume>> {
        self.open.get(path, |path| self.disk.volume(path))
    }
}

impl Volume for Target {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat { len: self.len, modified_ns: 0, regular: true, block_device: false })
    }

    fn read_at(&self, _at: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        for (place, part, within) in self.parts.touched(at..at + bytes.len() as u64) {
            let index = |place: u64| usize::try_from(place - at).unwrap_or(usize::MAX);
            let here = bytes.get(index(place.start)..index(place.end)).unwrap_or_default();
            self.file(&part.path)?.write_at(part.offset + within, here)?;
        }
        Ok(())
    }

    fn clear(&self, _at: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|path| self.file(path)?.sync())
    }
}
