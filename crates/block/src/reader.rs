//! Random access to the content of generations, without a restore.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disk::Guard;

use crate::Error;
use crate::chain::{Chain, Chunk};
use crate::fallback_reader::FallbackReader;
use crate::fetch::OpenedFiles;
use crate::format::{BLOCK, CHUNK_BLOCKS, GROUP_BLOCKS};
use crate::lru::LruCache;
use crate::repository::{Repository, RepositoryState};
use crate::restore::expected;

/// Blocks that are read together when fewer are requested: usually they were compressed together.
const WINDOW: u64 = GROUP_BLOCKS as u64;
/// The most windows that are kept: 64 MiB.
const WINDOWS_MAX: usize = 256;
/// The most chunks whose locations are kept: those of 2 GiB of a volume, some 15 MiB of memory.
const CHUNKS_MAX: usize = 512;

const BLOCK_U64: u64 = BLOCK as u64;
const CHUNK_BLOCKS_U64: u64 = CHUNK_BLOCKS as u64;

/// A generation's number, and a chunk or block of it.
type Key = (u64, u64);

/// A repository whose generations are read at any offset. Recently read blocks are cached, up to a fixed
/// limit. While this exists nothing is removed from the repository.
pub struct RepositoryReader {
    repository: Repository,
    loaded: RepositoryState,
    opened: Arc<OpenedFiles>,
    chunks: Mutex<LruCache<Key, Arc<Chunk>>>,
    /// By the number of their first block.
    windows: Mutex<LruCache<Key, Arc<Vec<u8>>>>,
    _stays: Option<Box<dyn Guard>>,
}

impl RepositoryReader {
    /// Opens a repository with all generations that it has now.
    ///
    /// # Errors
    /// [`Error::Busy`] while a prune removes files, and errors of the store.
    pub fn open(repository: Repository) -> Result<Arc<RepositoryReader>, Error> {
        let stays = repository.lock_reader()?;
        let loaded = repository.load()?;
        Ok(Arc::new(RepositoryReader {
            repository,
            loaded,
            opened: Arc::default(),
            chunks: Mutex::new(LruCache::new(CHUNKS_MAX)),
            windows: Mutex::new(LruCache::new(WINDOWS_MAX)),
            _stays: stays,
        }))
    }

    /// The generations, in order: number, time in seconds since the epoch, and note.
    pub fn generations(&self) -> impl Iterator<Item = (u64, i64, &str)> {
        self.loaded
            .generations
            .values()
            .map(|file| (file.header.generation, file.header.taken_s, &*file.header.note))
    }

    /// Files that can't be used, and generations that are missing.
    pub fn damages(&self) -> impl Iterator<Item = &Error> {
        self.loaded.damages()
    }

    /// Bytes read from the repository so far: stored blocks, records and indexes.
    #[must_use]
    pub fn fetched(&self) -> u64 {
        self.opened.fetched() + self.loaded.files.values().map(|file| file.fetched()).sum::<u64>()
    }

    /// Opens a generation, or the newest one if `None`.
    ///
    /// # Errors
    /// If the generation does not exist, or its index is damaged.
    pub fn content(self: &Arc<Self>, generation: Option<u64>) -> Result<GenerationReader, Error> {
        let chain = self.repository.chain(&self.loaded, generation)?;
        if expected(&self.loaded, chain.newest()) != Some(chain.content()?) {
            let shown = chain.newest().map(|file| file.shown.clone()).unwrap_or_default();
            return Err(Error::corrupt(shown, "the chain does not reproduce what was backed up"));
        }
        Ok(GenerationReader { library: Arc::clone(self), chain })
    }

    fn copies(&self) -> FallbackReader<'_> {
        FallbackReader::sharing(self.repository.store(), &self.loaded.files, Arc::clone(&self.opened))
    }
}

/// The content of a generation. Only the blocks that are read are fetched, and each is checked against its
/// hash.
#[derive(Clone)]
pub struct GenerationReader {
    library: Arc<RepositoryReader>,
    chain: Chain,
}

impl GenerationReader {
    /// The number of the generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.chain.newest().map_or(0, |file| file.header.generation)
    }

    /// When it was taken, seconds since the epoch.
    #[must_use]
    pub fn taken_s(&self) -> i64 {
        self.chain.newest().map_or(0, |file| file.header.taken_s)
    }

    /// The repository.
    #[must_use]
    pub fn library(&self) -> &Arc<RepositoryReader> {
        &self.library
    }

    /// Length of the volume in bytes.
    #[must_use]
    pub fn volume_len(&self) -> u64 {
        self.chain.len()
    }

    /// Reads from offset `at` of something that is `len` bytes long and lies in these blocks of the volume.
    /// Returns the number of bytes: fewer than requested at a border between ranges, 0 at the end.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the damaged location, and errors of the store.
    pub fn read(&self, parts: &[Range<u64>], len: u64, at: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut offset = 0;
        for blocks in parts {
            let end = (offset + (blocks.end - blocks.start) * BLOCK_U64).min(len);
            if at < end {
                let count = buffer.len().min(index(end - at));
                let out = buffer.get_mut(..count).unwrap_or_default();
                self.read_part(blocks, blocks.start * BLOCK_U64 + (at - offset), out)?;
                return Ok(count);
            }
            offset = end;
        }
        Ok(0)
    }

    /// For the list of files.
    pub(crate) fn with_chain<Answer>(
        &self,
        act: impl FnOnce(&Chain, &FallbackReader<'_>) -> Answer,
    ) -> Answer {
        act(&self.chain, &self.library.copies())
    }

    fn key(&self, number: u64) -> Key {
        (self.generation(), number)
    }

    /// The locations of a chunk's blocks.
    fn chunk(&self, number: u64) -> Result<Arc<Chunk>, Error> {
        let recent = || lock(&self.library.chunks);
        if let Some(chunk) = recent().get(&self.key(number)) {
            return Ok(chunk);
        }
        let chunk = self.chain.chunk(number)?;
        chunk.check(number)?;
        let chunk = Arc::new(chunk);
        recent().put(self.key(number), Arc::clone(&chunk));
        Ok(chunk)
    }

    /// The bytes of blocks, by their numbers in the volume.
    fn fetch(&self, blocks: Range<u64>) -> Result<Vec<u8>, Error> {
        let copies = self.library.copies();
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
    fn read_part(&self, own: &Range<u64>, at: u64, out: &mut [u8]) -> Result<(), Error> {
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
        let recent = || lock(&self.library.windows);
        let mut done = 0;
        while done < out.len() {
            let place = at + done as u64;
            let window = place / BLOCK_U64 / WINDOW * WINDOW;
            let blocks = window.max(own.start)..(window + WINDOW).min(own.end);
            // The windows of two files that share one begin at different blocks.
            let known = recent().get(&self.key(blocks.start));
            let bytes = match known {
                Some(bytes) => bytes,
                None => {
                    let bytes = Arc::new(self.fetch(blocks.clone())?);
                    recent().put(self.key(blocks.start), Arc::clone(&bytes));
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

fn lock<Value>(of: &Mutex<Value>) -> MutexGuard<'_, Value> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
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
