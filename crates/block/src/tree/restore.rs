//! Restores a tree of files.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, Kind, Stat, Volume};

use super::format::{self, TreeHeader};
use super::new_folder::NewFolder;
use super::open_files::OpenFiles;
use super::part_map::{FilePart, PartMap};
use super::{Layout, Node};
use crate::backup::RunContext;
use crate::chain::Chain;
use crate::fallback_reader::FallbackReader;
use crate::format::{BLOCK, CHUNK, CHUNK_BLOCKS};
use crate::repository::Repository;
use crate::restore::{Loss, Request, Summary, find, in_place_fresh};
use crate::{Error, chain};

/// The layout of a generation, or of the newest one if none is named.
///
/// # Errors
/// If the generation does not exist, has no tree of files, or is damaged.
pub fn layout_of(repository: &Repository, generation: Option<u64>) -> Result<Layout, Error> {
    let _stays = repository.lock_reader()?;
    let (loaded, chain, _) = find(repository, Request::new(generation, 1))?;
    read_layout(&chain, &FallbackReader::new(repository.store(), &loaded.files), false)
        .map(|found| found.layout)
}

/// The list of files, as far as it can be read.
pub(crate) struct LayoutRead {
    pub(crate) layout: Layout,
    /// The byte range of the list that is lost, up to its end.
    lost: Option<Range<u64>>,
    damages: Vec<Error>,
}

/// The layout at the end of a chain; with `keep_going` its first part is enough.
pub(crate) fn read_layout(
    chain: &Chain,
    copies: &FallbackReader<'_>,
    keep_going: bool,
) -> Result<LayoutRead, Error> {
    let corrupt = |what: &str| {
        let shown = chain.newest().map(|file| file.shown.clone()).unwrap_or_default();
        Error::corrupt(shown, format!("the list of files: {what}"))
    };
    let first = bytes(chain, copies, std::iter::once((0..BLOCK as u64, 0)))?;
    first.whole()?;
    let header = if first.bytes == format::stub() {
        let end = chain.len();
        let last = bytes(chain, copies, std::iter::once((end.saturating_sub(BLOCK as u64)..end, 0)))?;
        last.whole()?;
        last
    } else {
        first
    };
    let tree_header = TreeHeader::decode(&header.bytes).map_err(corrupt)?;
    let blocks = chain.len() / BLOCK as u64;
    if tree_header.places().any(|(place, _)| place.end > chain.len()) {
        return Err(corrupt("it lies beyond the end"));
    }
    let map = bytes(chain, copies, tree_header.places())?;
    let lost = map.lost.map(|lost| lost as u64..map.bytes.len() as u64);
    if !keep_going {
        map.whole()?;
        return Ok(LayoutRead {
            layout: tree_header.layout(&map.bytes, blocks).map_err(corrupt)?,
            lost,
            damages: Vec::new(),
        });
    }
    let known = map.lost.and_then(|lost| map.bytes.get(..lost));
    let layout = match known {
        None => tree_header.layout(&map.bytes, blocks),
        Some(known) => tree_header.part(known, blocks),
    };
    Ok(LayoutRead { layout: layout.map_err(corrupt)?, lost, damages: map.damages })
}

/// Bytes of a volume.
struct VolumeBytes {
    bytes: Vec<u8>,
    /// The first of them that can't be read.
    lost: Option<usize>,
    damages: Vec<Error>,
}

impl VolumeBytes {
    /// Fails unless all of them were read.
    fn whole(&self) -> Result<(), Error> {
        match (self.lost, self.damages.first()) {
            (None, _) => Ok(()),
            (Some(_), Some(Error::Corrupt { what, place })) => Err(Error::corrupt(place, what)),
            (Some(_), damage) => Err(Error::corrupt(
                damage.map(ToString::to_string).unwrap_or_default(),
                "the list of files can't be read",
            )),
        }
    }
}

/// Bytes of a volume: each range goes to an offset in the result.
fn bytes(
    chain: &Chain,
    copies: &FallbackReader<'_>,
    places: impl Iterator<Item = (Range<u64>, u64)>,
) -> Result<VolumeBytes, Error> {
    // A chain is walked in order, so the chunks come in order.
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
    let mut out = VolumeBytes { bytes: vec![0; index(len)], lost: None, damages: Vec::new() };
    let (mut walk, mut buffer) = (chain.walk(), vec![0; CHUNK]);
    for (number, parts) in wanted {
        let chunk: chain::Chunk = walk.chunk_as_known(number, &mut out.damages)?;
        buffer.fill(0);
        let is_wanted = |block: usize| {
            let start = number * size + (block * BLOCK) as u64;
            parts.iter().any(|(place, _)| place.start < start + BLOCK as u64 && start < place.end)
        };
        // The rest of a chunk may be megabytes of files.
        let blocks = chunk.blocks.iter().enumerate();
        let blocks: Vec<_> = blocks.map(|(block, place)| place.filter(|_| is_wanted(block))).collect();
        let mut lost = copies.chunk(number, &blocks, &mut buffer)?;
        out.damages.append(&mut lost.damages);
        lost.blocks.extend((0..CHUNK_BLOCKS).filter(|block| chunk.is_unknown(*block)));
        for (place, offset) in parts {
            let within = index(place.start - number * size)..index(place.end - number * size);
            let from = buffer.get(within.start..).unwrap_or_default();
            let target = out.bytes.get_mut(index(offset)..index(offset + (place.end - place.start)));
            target.unwrap_or_default().iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            let here = |block: &&usize| (**block + 1) * BLOCK > within.start && **block * BLOCK < within.end;
            let first = lost.blocks.iter().filter(here).map(|block| (block * BLOCK).max(within.start)).min();
            let first = first.map(|at| index(offset) + (at - within.start));
            out.lost = out.lost.into_iter().chain(first).min();
        }
    }
    Ok(out)
}

impl Layout {
    /// The first of these bytes of the volume that belong to the list of files.
    pub(crate) fn of_list(&self, ranges: &[Range<u64>]) -> Option<Range<u64>> {
        let list = self.map.iter().map(|range| range.start * BLOCK as u64..range.end * BLOCK as u64);
        let own: Vec<Range<u64>> = std::iter::once(0..BLOCK as u64).chain(list).collect();
        let touched =
            |range: &&Range<u64>| own.iter().any(|own| range.start < own.end && own.start < range.end);
        ranges.iter().find(touched).cloned()
    }

    /// Translates lost parts of the volume into parts of files, by path. Parts that belong to no file are
    /// left out.
    pub(crate) fn losses(&self, ranges: &[Range<u64>]) -> Vec<Loss> {
        let mut losses = Vec::new();
        for node in &self.nodes {
            for (place, offset) in node.places() {
                // They are in order and not adjacent.
                let first = ranges.partition_point(|range| range.end <= place.start);
                let here = ranges.iter().skip(first).take_while(|range| range.start < place.end);
                losses.extend(here.map(|range| {
                    let (start, end) = (range.start.max(place.start), range.end.min(place.end));
                    let bytes = offset + (start - place.start)..offset + (end - place.start);
                    Loss { path: Some(node.path.clone()), bytes }
                }));
            }
        }
        losses.sort_by(|one, other| (&one.path, one.bytes.start).cmp(&(&other.path, other.bytes.start)));
        losses
    }
}

/// Restores a tree into a new folder, which gets its name only when everything in it is complete and durable.
///
/// # Errors
/// If the folder exists or can't be written, or if the generation is damaged. Then nothing has the name.
pub fn restore(
    repository: &Repository,
    target: NewFolder<'_>,
    request: Request,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    target.is_free()?;
    let stays = repository.lock_reader()?;
    let (loaded, chain, _) = find(repository, request)?;
    let copies = FallbackReader::new(repository.store(), &loaded.files);
    let found = read_layout(&chain, &copies, request.keep_going)?;
    // The same generation, even if a newer one has been added meanwhile.
    let generation = chain.newest().map(|file| file.header.generation);
    let request = Request { generation, ..request };
    drop(stays);
    target.fill(|partial| {
        let restored = target.build(&found.layout.nodes, partial, |syncs| {
            let target = Target::new(Arc::clone(target.disk), &found.layout, partial, syncs);
            let shown = partial.display().to_string();
            in_place_fresh(repository, (&target, &shown), request, context)
        });
        restored.map(|summary| Summary { len: found.layout.bytes(), ..found.tell(summary) })
    })
}

impl LayoutRead {
    /// Translates what was lost of the volume into losses of its files.
    fn tell(&self, mut summary: Summary) -> Summary {
        let ranges: Vec<Range<u64>> = summary.losses.into_iter().map(|loss| loss.bytes).collect();
        summary.losses = self.layout.losses(&ranges);
        summary.losses.extend(self.lost.clone().map(|bytes| Loss { path: Some(PathBuf::new()), bytes }));
        summary.damages.extend(self.damages.iter().map(ToString::to_string));
        summary.damages.sort();
        summary.damages.dedup();
        summary
    }
}

/// The files of a tree, written as one volume. Bytes that belong to no file are dropped.
struct Target {
    disk: Arc<dyn Disk>,
    len: u64,
    parts: PartMap<FilePart>,
    open: OpenFiles<dyn Volume>,
    files: Vec<PathBuf>,
    /// Whether each file must be synced; otherwise all are synced at once.
    syncs: bool,
}

impl Target {
    fn new(disk: Arc<dyn Disk>, layout: &Layout, top: &Path, syncs: bool) -> Target {
        let (mut parts, mut files) = (PartMap::new(), Vec::new());
        let is_file = |node: &&Node| node.kind == Kind::File && node.same_as.is_none();
        for node in layout.nodes.iter().filter(is_file) {
            let path = top.join(&node.path);
            for (place, offset) in node.places() {
                parts.add(place, FilePart { path: path.clone(), offset });
            }
            files.push(path);
        }
        Target { disk, len: layout.volume_len(), parts, open: OpenFiles::new(), files, syncs }
    }

    fn file(&self, path: &Path) -> io::Result<Arc<dyn Volume>> {
        self.open.get(path, |path| self.disk.volume(path))
    }
}

impl Volume for Target {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of_volume(self.len))
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
        let files = self.files.iter().filter(|_| self.syncs);
        files.into_iter().try_for_each(|path| self.file(path)?.sync())
    }
}
