//! Restores a generation into a file or a device.

mod find;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, bounded};
use disk::{Disk, Output, Volume};

use crate::Error;
use crate::backup::RunContext;
use crate::chain::{Chain, Chunk, ChunkCursor, ContentHasher};
use crate::chunk_source::BlockSet;
use crate::fallback_reader::{FallbackReader, LostBlocks, runs};
use crate::format::{BLOCK, CHUNK, CHUNK_BLOCKS, ZERO, chunks_of, is_zero};
use crate::repository::Repository;

pub use find::note;
pub(crate) use find::{expected, find};

/// The maximum number of worker threads.
const JOBS_MAX: usize = 12;
/// The maximum number of damaged places that are listed individually.
const CAUSES_MAX: usize = 1000;

/// What to restore, and how.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The generation; `None` for the newest.
    pub generation: Option<u64>,
    /// Read the target and write only blocks that differ.
    pub delta: bool,
    /// If the backup is damaged, restore what can be verified, and report the rest.
    pub keep_going: bool,
    /// Threads that decompress and write.
    pub jobs: usize,
}

impl Request {
    /// Restores a generation, all of it or nothing.
    #[must_use]
    pub fn new(generation: Option<u64>, jobs: usize) -> Request {
        Request { generation, delta: false, keep_going: false, jobs }
    }
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The generation.
    pub generation: u64,
    /// Bytes of the volume.
    pub len: u64,
    /// Bytes that were written.
    pub written: u64,
    /// What could not be restored, in order. Only with [`Request::keep_going`].
    pub losses: Vec<Loss>,
    /// Whether the whole volume was verified, and not only each block.
    pub is_verified: bool,
    /// Damage found, as far as it is listed individually. Blocks of a damaged place may have been found
    /// elsewhere.
    pub damages: Vec<String>,
    /// Entries of a tree that the target can't store unchanged: the path, and what was changed.
    pub altered: Vec<(PathBuf, String)>,
}

/// A part of a volume, or of a file of a tree, that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The file, relative to the top of a tree; `None` for a part of a volume. An empty path means the list
    /// of files itself.
    pub path: Option<PathBuf>,
    /// Its bytes.
    pub bytes: Range<u64>,
}

/// What is lost of a volume, and why.
#[derive(Default)]
pub(crate) struct Losses {
    /// Bytes of the volume.
    ranges: Vec<Range<u64>>,
    damages: Vec<String>,
}

impl Losses {
    fn blame(&mut self, damages: impl IntoIterator<Item = Error>) {
        let room = CAUSES_MAX.saturating_sub(self.damages.len());
        self.damages.extend(damages.into_iter().take(room).map(|error| error.to_string()));
    }

    fn lose(&mut self, chunk: u64, blocks: impl IntoIterator<Item = usize>, len: u64) {
        let at = |block: usize| (chunk * CHUNK as u64 + (block * BLOCK) as u64).min(len);
        self.ranges.extend(runs(blocks).into_iter().map(|run| at(run.start)..at(run.end)));
    }

    /// In order, adjacent ranges merged.
    fn ranges(mut self) -> (Vec<Range<u64>>, Vec<String>) {
        self.ranges.retain(|range| range.start < range.end);
        self.ranges.sort_by_key(|range| range.start);
        self.ranges.dedup_by(|next, last| {
            let touching = next.start <= last.end;
            if touching {
                last.end = last.end.max(next.end);
            }
            touching
        });
        self.damages.sort();
        self.damages.dedup();
        (self.ranges, self.damages)
    }
}

/// The target, shared by the workers.
struct Target<'a> {
    volume: &'a dyn Volume,
    name: &'a str,
    /// Whether it contains only zeros.
    fresh: bool,
    delta: bool,
    keep_going: bool,
    len: u64,
    written: AtomicU64,
    losses: Mutex<Losses>,
}

/// Restores into a new file, which gets its name only when it is complete and durable.
///
/// # Errors
/// If the file exists or can't be written, or if the generation is damaged. Then no file has the name.
pub fn to_new_file(
    repository: &Repository,
    disk: &dyn Disk,
    path: &Path,
    request: Request,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let failed = |source| Error::Target { name: path.display().to_string(), source };
    if disk.stat(path).is_ok() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    let partial = Output::partial(path);
    // A killed run may have left it.
    disk.remove(&partial).ok();
    drop(disk.create(&partial).map_err(failed)?);
    let restored = disk.volume(&partial).map_err(failed).and_then(|volume| {
        let name = path.display().to_string();
        in_place_fresh(repository, (&*volume, &name), request, context)
    });
    // The caller gets the original error.
    name(disk, (&partial, path), restored, || disk.remove(&partial))
}

/// Renames what was restored; an incomplete result is removed.
pub(crate) fn name(
    disk: &dyn Disk,
    (partial, path): (&Path, &Path),
    restored: Result<Summary, Error>,
    remove: impl FnOnce() -> std::io::Result<()>,
) -> Result<Summary, Error> {
    let failed = |source| Error::Target { name: path.display().to_string(), source };
    let named = restored.and_then(|summary| {
        disk.rename(partial, path).map_err(failed)?;
        disk.sync_folder(path.parent().unwrap_or(Path::new(""))).map_err(failed)?;
        Ok(summary)
    });
    if named.is_err() {
        remove().ok();
    }
    named
}

/// Restores into an existing target: a regular file gets the length of the volume, a device must be large
/// enough.
///
/// # Errors
/// If the target is too small or can't be written, or if the generation is damaged. The target is then partly
/// overwritten; the same command again completes it.
pub fn in_place(
    repository: &Repository,
    volume: &dyn Volume,
    name: &str,
    request: Request,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    run(repository, &Destination { volume, name, is_fresh: false }, request, context)
}

/// Restores into a target that already has the volume's length and contains only zeros.
pub(crate) fn in_place_fresh(
    repository: &Repository,
    (volume, name): (&dyn Volume, &str),
    request: Request,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let to = Destination { volume, name, is_fresh: true };
    run(repository, &to, Request { delta: false, ..request }, context)
}

/// Where a volume is restored to.
struct Destination<'a> {
    volume: &'a dyn Volume,
    name: &'a str,
    /// Whether it has the volume's length and contains only zeros.
    is_fresh: bool,
}

fn run(
    repository: &Repository,
    to: &Destination<'_>,
    request: Request,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let Destination { volume, name, is_fresh: fresh } = *to;
    let _stays = repository.lock_reader()?;
    let (loaded, chain, mut damages) = find(repository, request)?;
    let failed = |source| Error::Target { name: name.to_owned(), source };
    let (len, stat) = (chain.len(), volume.stat().map_err(failed)?);
    if stat.regular {
        if stat.len != len {
            volume.set_len(len).map_err(failed)?;
        }
    } else if stat.len < len {
        return Err(Error::Unfit(format!(
            "{name} has {} bytes, the volume {len}; restore to a larger device or to a file",
            stat.len
        )));
    }
    context.progress.phase("restoring", Some(len));
    let Request { delta, keep_going, .. } = request;
    let (written, losses) = (AtomicU64::new(0), Mutex::default());
    let target = Target { volume, name, fresh, delta, keep_going, len, written, losses };
    let copies = FallbackReader::new(repository.store(), &loaded.files);
    let content = transfer(&copies, &chain, &target, request.jobs, context)?;
    let newest = chain.newest();
    let (ranges, mut met) = target.losses.into_inner().unwrap_or_else(PoisonError::into_inner).ranges();
    damages.append(&mut met);
    let is_verified =
        ranges.is_empty() && expected(&loaded, newest).is_some_and(|expected| expected == content);
    // The losses are already reported.
    if !is_verified && ranges.is_empty() {
        let shown = newest.map(|file| file.shown.clone()).unwrap_or_default();
        let error = Error::corrupt(shown, "the chain does not reproduce what was backed up");
        if !keep_going {
            return Err(error);
        }
        damages.push(format!("{error}; each block was verified, but the volume as a whole could not be"));
    }
    volume.sync().map_err(failed)?;
    let losses = ranges.into_iter().map(|bytes| Loss { path: None, bytes }).collect();
    let (generation, written) =
        (newest.map_or(0, |file| file.header.generation), target.written.into_inner());
    Ok(Summary { generation, len, written, losses, is_verified, damages, altered: Vec::new() })
}

/// Writes all chunks to the target. Returns the hash of what was written.
fn transfer(
    copies: &FallbackReader<'_>,
    chain: &Chain,
    target: &Target<'_>,
    jobs: usize,
    context: RunContext<'_>,
) -> Result<[u8; 32], Error> {
    let workers = jobs.clamp(1, JOBS_MAX);
    let (send, receive) = bounded::<(u64, Chunk)>(workers);
    let (failed, first) = (AtomicBool::new(false), Mutex::new(None));
    let mut content = ContentHasher::new(target.len);
    let fed = std::thread::scope(|scope| {
        for _ in 0..workers {
            let (receive, failed, first) = (receive.clone(), &failed, &first);
            scope.spawn(move || {
                if let Err(error) = work(&receive, copies, target, context) {
                    failed.store(true, Ordering::Relaxed);
                    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
        drop(receive);
        let mut walk = chain.walk();
        for number in 0..chunks_of(target.len) {
            if context.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let chunk = target.next(&mut walk, number)?;
            content.add(&chunk.content);
            if chunk.content == ZERO && chunk.blocks.iter().all(Option::is_none) && target.zeros(number)? {
                context.progress.read(target.bytes_of(number));
                continue;
            }
            if failed.load(Ordering::Relaxed) || send.send((number, chunk)).is_err() {
                break;
            }
        }
        drop(send);
        Ok(())
    });
    fed?;
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(content.finish()),
    }
}

fn work(
    jobs: &Receiver<(u64, Chunk)>,
    copies: &FallbackReader<'_>,
    target: &Target<'_>,
    context: RunContext<'_>,
) -> Result<(), Error> {
    let (mut buffer, mut present) = (vec![0; CHUNK], Vec::new());
    for (number, chunk) in jobs {
        let bytes = target.bytes_of(number);
        let lost = target.read_chunk(number, &chunk, copies, &mut buffer)?;
        let wanted = buffer.get(..usize::try_from(bytes).unwrap_or(CHUNK)).unwrap_or_default();
        target.put(number * CHUNK as u64, wanted, lost.as_ref(), &mut present)?;
        context.progress.read(bytes);
    }
    Ok(())
}

/// What to do with some blocks of the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockAction {
    Leave,
    Write,
    Clear,
}

impl Target<'_> {
    /// Bytes of a chunk of the volume.
    fn bytes_of(&self, number: u64) -> u64 {
        (self.len - number * CHUNK as u64).min(CHUNK as u64)
    }

    /// The next chunk, as far as it is known.
    fn next(&self, walk: &mut ChunkCursor<'_>, number: u64) -> Result<Chunk, Error> {
        if !self.keep_going {
            return walk.chunk(number);
        }
        let mut damages = Vec::new();
        let chunk = walk.chunk_as_known(number, &mut damages)?;
        if !damages.is_empty() {
            self.losses().blame(damages);
        }
        Ok(chunk)
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a chunk zeros without reading it, if possible.
    fn zeros(&self, number: u64) -> Result<bool, Error> {
        if self.delta && !self.fresh {
            return Ok(false);
        }
        if !self.fresh {
            let (start, bytes) = (number * CHUNK as u64, self.bytes_of(number));
            let failed = |source| Error::Target { name: self.name.to_owned(), source };
            self.volume.clear(start, bytes).map_err(failed)?;
            self.written.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Reads a chunk's blocks into a buffer. Returns the blocks that can't be read, if that is allowed.
    fn read_chunk(
        &self,
        number: u64,
        chunk: &Chunk,
        copies: &FallbackReader<'_>,
        buffer: &mut [u8],
    ) -> Result<Option<BlockSet>, Error> {
        buffer.fill(0);
        if let Err(error) = chunk.check(number) {
            if !self.keep_going {
                return Err(error);
            }
            let all = LostBlocks { blocks: (0..CHUNK_BLOCKS).collect(), damages: vec![error] };
            return Ok(Some(self.lose(number, all)));
        }
        let mut lost = copies.chunk(number, &chunk.blocks, buffer)?;
        if !lost.blocks.is_empty() && !self.keep_going {
            return Err(lost.damages.swap_remove(0));
        }
        lost.blocks.extend((0..CHUNK_BLOCKS).filter(|block| chunk.is_unknown(*block)));
        lost.blocks.sort_unstable();
        let none = lost.blocks.is_empty() && lost.damages.is_empty();
        Ok((!none).then(|| self.lose(number, lost)))
    }

    fn lose(&self, number: u64, lost: LostBlocks) -> BlockSet {
        let mut blocks: BlockSet = Box::new([false; CHUNK_BLOCKS]);
        for block in &lost.blocks {
            blocks.get_mut(*block).into_iter().for_each(|lost| *lost = true);
        }
        let mut losses = self.losses();
        losses.lose(number, lost.blocks, self.len);
        losses.blame(lost.damages);
        blocks
    }

    /// Makes a part of the target equal to `wanted`, in runs of blocks. Lost blocks stay as they are.
    fn put(
        &self,
        start: u64,
        wanted: &[u8],
        lost: Option<&BlockSet>,
        present: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let failed = |source| Error::Target { name: self.name.to_owned(), source };
        if self.delta {
            present.resize(wanted.len(), 0);
            self.read(start, present).map_err(failed)?;
        }
        let is_lost = |at: usize| lost.is_some_and(|lost| lost.get(at / BLOCK) == Some(&true));
        let action = |at: usize, block: &[u8]| match is_zero(block) {
            _ if is_lost(at) => BlockAction::Leave,
            true if self.fresh => BlockAction::Leave,
            zero if self.delta => match present.get(at..at + block.len()) == Some(block) {
                true => BlockAction::Leave,
                false if zero => BlockAction::Clear,
                false => BlockAction::Write,
            },
            true => BlockAction::Clear,
            false => BlockAction::Write,
        };
        let mut at = 0;
        while at < wanted.len() {
            let block = |at: usize| wanted.get(at..(at + BLOCK).min(wanted.len())).unwrap_or_default();
            let what = action(at, block(at));
            let mut end = at + block(at).len();
            while end < wanted.len() && action(end, block(end)) == what {
                end += block(end).len();
            }
            let (from, bytes) = (start + at as u64, wanted.get(at..end).unwrap_or_default());
            match what {
                BlockAction::Leave => Ok(()),
                BlockAction::Write => self.volume.write_at(from, bytes),
                BlockAction::Clear => self.volume.clear(from, bytes.len() as u64),
            }
            .map_err(failed)?;
            if what != BlockAction::Leave {
                self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            at = end;
        }
        Ok(())
    }

    fn read(&self, mut at: u64, mut buffer: &mut [u8]) -> std::io::Result<()> {
        while !buffer.is_empty() {
            match self.volume.read_at(at, buffer)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                count => {
                    at += count as u64;
                    buffer = buffer.get_mut(count..).unwrap_or_default();
                }
            }
        }
        Ok(())
    }
}
