//! A generation back into a file or a device.

use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, bounded};
use disk::{Disk, Output, Volume};

use crate::Error;
use crate::backup::World;
use crate::chain::{Chain, Chunk, ContentHasher};
use crate::fetch::Fetcher;
use crate::format::{BLOCK, CHUNK, chunk_hash, is_zero};
use crate::repository::Repository;

/// Most threads that make sense.
const JOBS_MAX: usize = 12;

/// What to restore, and how.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The generation; `None` for the newest.
    pub generation: Option<u64>,
    /// Read the target and write only blocks that differ.
    pub delta: bool,
    /// Threads that decompress and write.
    pub jobs: usize,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The generation.
    pub generation: u64,
    /// Bytes of the volume.
    pub len: u64,
    /// Bytes that were written.
    pub written: u64,
}

/// Where to, as the workers see it.
struct Target<'a> {
    volume: &'a dyn Volume,
    name: &'a str,
    /// It holds nothing but zeros.
    fresh: bool,
    delta: bool,
    len: u64,
    written: AtomicU64,
}

/// Restores into a new file, which has its name only when it is whole and durable.
///
/// # Errors
/// When there is such a file, when it can't be written, or when the generation can't be read as it was
/// written. Nothing has the name then.
pub fn to_new_file(
    repository: &Repository,
    disk: &dyn Disk,
    path: &Path,
    request: Request,
    world: World<'_>,
) -> Result<Summary, Error> {
    let failed = |source| Error::Target { name: path.display().to_string(), source };
    if disk.stat(path).is_ok() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    let partial = Output::partial(path);
    // A leftover of a run that was killed.
    disk.remove(&partial).ok();
    drop(disk.create(&partial).map_err(failed)?);
    let restored = disk.volume(&partial).map_err(failed).and_then(|volume| {
        let name = path.display().to_string();
        in_place_fresh(repository, (&*volume, &name), request, world)
    });
    // The caller is told of the failure itself.
    name(disk, (&partial, path), restored, || disk.remove(&partial))
}

/// Gives what was restored its name; what was not whole goes.
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

/// Restores into what is there: a regular file is made as long as the volume, a device has to be as large.
///
/// # Errors
/// When the target is too small or can't be written, or when the generation can't be read as it was
/// written. The target is then partly written over; the same command again makes it whole.
pub fn in_place(
    repository: &Repository,
    volume: &dyn Volume,
    name: &str,
    request: Request,
    world: World<'_>,
) -> Result<Summary, Error> {
    run(repository, (volume, name, false), request, world)
}

/// Restores into what is as long as the volume already and holds nothing but zeros.
pub(crate) fn in_place_fresh(
    repository: &Repository,
    (volume, name): (&dyn Volume, &str),
    request: Request,
    world: World<'_>,
) -> Result<Summary, Error> {
    run(repository, (volume, name, true), Request { delta: false, ..request }, world)
}

fn run(
    repository: &Repository,
    (volume, name, fresh): (&dyn Volume, &str, bool),
    request: Request,
    world: World<'_>,
) -> Result<Summary, Error> {
    let _stays = repository.reading()?;
    let loaded = repository.load()?;
    let chain = repository.chain(&loaded, request.generation)?;
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
    world.progress.phase("restoring", Some(len));
    let target = Target { volume, name, fresh, delta: request.delta, len, written: AtomicU64::new(0) };
    let content = transfer(repository, &chain, &target, request.jobs, world)?;
    if chain.newest().is_none_or(|file| file.trailer.content != content) {
        let shown = chain.newest().map(|file| file.shown.clone()).unwrap_or_default();
        return Err(Error::corrupt(shown, "the chain does not lead to what was backed up"));
    }
    volume.sync().map_err(failed)?;
    let generation = chain.newest().map_or(0, |file| file.header.generation);
    Ok(Summary { generation, len, written: target.written.into_inner() })
}

/// Brings all chunks to the target; returns the hash of what was brought.
fn transfer(
    repository: &Repository,
    chain: &Chain,
    target: &Target<'_>,
    jobs: usize,
    world: World<'_>,
) -> Result<[u8; 32], Error> {
    let workers = jobs.clamp(1, JOBS_MAX);
    let (send, receive) = bounded::<(u64, Chunk)>(workers);
    let fetcher = Fetcher::new(repository.store());
    let (failed, first) = (AtomicBool::new(false), Mutex::new(None));
    let mut content = ContentHasher::new(target.len);
    let fed = std::thread::scope(|scope| {
        for _ in 0..workers {
            let (receive, fetcher, failed, first) = (receive.clone(), &fetcher, &failed, &first);
            scope.spawn(move || {
                if let Err(error) = work(&receive, fetcher, target, world) {
                    failed.store(true, Ordering::Relaxed);
                    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
        drop(receive);
        let mut walk = chain.walk();
        for number in 0..crate::format::chunks_of(target.len) {
            if world.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let chunk = walk.chunk(number)?;
            content.add(&chunk.content);
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
    fetcher: &Fetcher<'_>,
    target: &Target<'_>,
    world: World<'_>,
) -> Result<(), Error> {
    let (mut buffer, mut present) = (vec![0; CHUNK], Vec::new());
    for (number, chunk) in jobs {
        let start = number * CHUNK as u64;
        let bytes = usize::try_from(target.len - start).unwrap_or(CHUNK).min(CHUNK);
        if chunk_hash(&chunk.hashes()) != chunk.content {
            let what = "the blocks of a chunk are not those that were backed up";
            return Err(Error::corrupt(format!("chunk {number}"), what));
        }
        buffer.fill(0);
        fetcher.blocks(&chunk.blocks, &mut buffer, &mut |_, error| Err(error))?;
        let wanted = buffer.get(..bytes).unwrap_or_default();
        target.put(start, wanted, &mut present)?;
        world.progress.read(bytes as u64);
    }
    Ok(())
}

/// What to do with some blocks of the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Leave,
    Write,
    Clear,
}

impl Target<'_> {
    /// Makes a part of the target be `wanted`, in runs of blocks.
    fn put(&self, start: u64, wanted: &[u8], present: &mut Vec<u8>) -> Result<(), Error> {
        let failed = |source| Error::Target { name: self.name.to_owned(), source };
        if self.delta {
            present.resize(wanted.len(), 0);
            self.read(start, present).map_err(failed)?;
        }
        let deed = |at: usize, block: &[u8]| match is_zero(block) {
            true if self.fresh => Deed::Leave,
            zero if self.delta => match present.get(at..at + block.len()) == Some(block) {
                true => Deed::Leave,
                false if zero => Deed::Clear,
                false => Deed::Write,
            },
            true => Deed::Clear,
            false => Deed::Write,
        };
        let mut at = 0;
        while at < wanted.len() {
            let block = |at: usize| wanted.get(at..(at + BLOCK).min(wanted.len())).unwrap_or_default();
            let what = deed(at, block(at));
            let mut end = at + block(at).len();
            while end < wanted.len() && deed(end, block(end)) == what {
                end += block(end).len();
            }
            let (from, bytes) = (start + at as u64, wanted.get(at..end).unwrap_or_default());
            match what {
                Deed::Leave => Ok(()),
                Deed::Write => self.volume.write_at(from, bytes),
                Deed::Clear => self.volume.clear(from, bytes.len() as u64),
            }
            .map_err(failed)?;
            if what != Deed::Leave {
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
