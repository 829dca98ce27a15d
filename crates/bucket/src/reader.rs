//! Random access to files of a store, in chunks that are cached for a while.
//!
//! A request takes as long as many bytes do, so missing chunks are fetched together, and sequential reads are
//! fetched ahead.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use block::mirror::MirrorSide;
use disk::{Source, Stat};

use crate::client::{Bucket, StoreRequest};
use crate::read_cache::{ChunkCache, lock};

/// Bytes of a chunk.
const CHUNK_BYTES: u64 = 128 << 10;
/// Maximum number of chunks per fetch: 8 MiB.
const RUN_MAX: u64 = 64;
/// From this many chunks on, more are fetched while these are read.
const AHEAD_MIN: u64 = 4;
/// Maximum number of concurrent read-ahead fetches.
const AHEAD_JOBS: usize = 3;
/// A sequential read skips at most this many chunks.
const GAP: u64 = 8;
/// Maximum number of concurrent sequential reads of a file.
const STREAMS: usize = 4;

/// A sequential read of a file.
#[derive(Clone, Copy)]
struct Stream {
    /// The first chunk that was not requested yet.
    reach: u64,
    /// How many chunks the next fetch brings.
    window: u64,
    /// Whether a second read has followed the first.
    is_sure: bool,
}

/// A file of a store.
struct OpenObject {
    bucket: Bucket,
    name: String,
    /// Distinguishes it from other open files.
    id: u64,
    len: u64,
    streams: Mutex<Vec<Stream>>,
}

/// An open file that is read.
pub(crate) struct Reader {
    file: Arc<OpenObject>,
    position: u64,
}

impl Bucket {
    /// Opens a file and fetches its first chunk, which also tells its length.
    pub(crate) fn reader(&self, name: &str) -> io::Result<Reader> {
        let range = [("range", format!("bytes=0-{}", CHUNK_BYTES - 1))];
        let mut answer = self.send(&StoreRequest { headers: &range, ..StoreRequest::about("GET", name) })?;
        let (mut len, mut first) = (0, Vec::new());
        match answer.status() {
            200 | 206 => {
                let total = answer.header("content-range").and_then(|range| range.rsplit_once('/'));
                // Without a range it is all of it.
                let total = match answer.status() {
                    206 => total.map(|(_, total)| total),
                    _ => answer.header("content-length"),
                };
                let total = total.and_then(|total| total.parse().ok());
                len = total.ok_or_else(|| io::Error::other("the store did not report the file's length"))?;
                let read = answer.response.body_mut().as_reader().take(CHUNK_BYTES).read_to_end(&mut first);
                if read.is_err() || first.len() as u64 != len.min(CHUNK_BYTES) {
                    // It broke off.
                    first = self.read(name, 0, usize::try_from(len.min(CHUNK_BYTES)).unwrap_or(0))?;
                }
            }
            // An empty file has no first byte.
            416 => {}
            _ => return Err(self.failure("read", name, answer)),
        }
        let id = self.cache.opened.fetch_add(1, Ordering::Relaxed);
        lock(&self.cache.chunks).put((id, 0), first);
        let streams = Mutex::new(vec![Stream { reach: 1, window: 1, is_sure: false }]);
        let file = OpenObject { bucket: self.clone(), name: name.to_owned(), id, len, streams };
        Ok(Reader { file: Arc::new(file), position: 0 })
    }
}

impl OpenObject {
    /// A chunk, fetched with others that are requested or may be soon.
    fn chunk(self: &Arc<Self>, number: u64, wanted: Range<u64>) -> io::Result<Arc<Vec<u8>>> {
        let cache = &self.bucket.cache;
        let mut cached = lock(&cache.chunks);
        loop {
            cached.clock += 1;
            let clock = cached.clock;
            match cached.chunks.get_mut(&(self.id, number)) {
                Some(Some(chunk)) => {
                    chunk.used = clock;
                    let bytes = Arc::clone(&chunk.bytes);
                    self.look_ahead(number, &mut cached);
                    return Ok(bytes);
                }
                Some(None) => cached = cache.arrived.wait(cached).unwrap_or_else(PoisonError::into_inner),
                None => break,
            }
        }
        let run = self.claim(number, self.plan_fetch(number, wanted), &mut cached);
        drop(cached);
        let bytes = self.fetch(run.clone())?;
        let skip = usize::try_from((number - run.start) * CHUNK_BYTES).unwrap_or(0);
        let chunk = bytes.get(skip..).unwrap_or_default();
        let len = chunk.len().min(usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX));
        Ok(Arc::new(chunk.get(..len).unwrap_or_default().to_vec()))
    }

    /// The range to fetch when a chunk is missing.
    fn plan_fetch(&self, number: u64, wanted: Range<u64>) -> Range<u64> {
        let end = wanted.end.clamp(number + 1, number + RUN_MAX);
        let mut streams = lock(&self.streams);
        let follows = |stream: &Stream| (stream.reach..=stream.reach + GAP).contains(&number);
        if let Some(at) = streams.iter().position(follows) {
            let mut stream = streams.remove(at);
            stream.window = (stream.window * 2).min(RUN_MAX);
            stream.is_sure = true;
            // What was skipped is often read by another thread.
            let start = stream.reach;
            stream.reach = end.max(number + stream.window);
            streams.push(stream);
            return start..stream.reach;
        }
        if streams.len() == STREAMS {
            streams.remove(0);
        }
        streams.push(Stream { reach: end, window: end - number, is_sure: false });
        number..end
    }

    /// Fetches the next chunks while the present ones are read.
    fn look_ahead(self: &Arc<Self>, number: u64, cached: &mut ChunkCache) {
        if cached.ahead >= AHEAD_JOBS {
            return;
        }
        let mut streams = lock(&self.streams);
        let near = |stream: &Stream| {
            stream.is_sure
                && stream.window >= AHEAD_MIN
                && number < stream.reach
                && stream.reach - number <= stream.window / 2
                && stream.reach < self.chunks()
        };
        let Some(at) = streams.iter().position(near) else { return };
        let mut stream = streams.remove(at);
        stream.window = (stream.window * 2).min(RUN_MAX);
        let run = stream.reach..stream.reach + stream.window;
        stream.reach = run.end;
        streams.push(stream);
        drop(streams);
        let free = |number: &u64| !cached.chunks.contains_key(&(self.id, *number));
        let Some(first) = run.clone().take_while(|number| *number < self.chunks()).find(free) else { return };
        let run = self.claim(first, run, cached);
        cached.ahead += 1;
        let file = Arc::clone(self);
        std::thread::spawn(move || {
            // Whoever needs it requests it again, and gets the error.
            file.fetch(run).ok();
            lock(&file.bucket.cache.chunks).ahead -= 1;
        });
    }

    fn chunks(&self) -> u64 {
        self.len.div_ceil(CHUNK_BYTES)
    }

    /// Marks the chunks around a missing one, within a run, that nobody has fetched or is fetching.
    fn claim(&self, missing: u64, run: Range<u64>, cached: &mut ChunkCache) -> Range<u64> {
        let free = |number: &u64| !cached.chunks.contains_key(&(self.id, *number));
        let before = (run.start..missing).rev().take_while(free).count() as u64;
        let after = (missing..run.end.min(self.chunks())).take_while(free).count() as u64;
        let claimed = missing - before..missing + after;
        for number in claimed.clone() {
            cached.chunks.insert((self.id, number), None);
        }
        claimed
    }

    /// Fetches chunks that were claimed.
    fn fetch(&self, run: Range<u64>) -> io::Result<Vec<u8>> {
        let start = run.start * CHUNK_BYTES;
        let len = usize::try_from((run.end * CHUNK_BYTES).min(self.len) - start).map_err(io::Error::other)?;
        let read = self.bucket.read(&self.name, start, len);
        let cache = &self.bucket.cache;
        let mut cached = lock(&cache.chunks);
        for number in run.clone() {
            cached.chunks.remove(&(self.id, number));
        }
        if let Ok(bytes) = &read {
            let parts = bytes.chunks(usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX));
            for (number, part) in run.zip(parts) {
                cached.put((self.id, number), part.to_vec());
            }
        }
        drop(cached);
        cache.arrived.notify_all();
        read
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        lock(&self.bucket.cache.chunks).forget(self.id);
    }
}

impl Source for Reader {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of_volume(self.file.len))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if at >= self.file.len || buffer.is_empty() {
            return Ok(0);
        }
        let wanted = at / CHUNK_BYTES..(at + buffer.len() as u64).div_ceil(CHUNK_BYTES);
        let chunk = self.file.chunk(at / CHUNK_BYTES, wanted)?;
        let skip = usize::try_from(at % CHUNK_BYTES).unwrap_or(0);
        let part = chunk.get(skip..).unwrap_or_default();
        let count = part.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), part.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn absent(&self, _: u64, _: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.file.len).then_some(at))
    }

    fn prefetch(&self, _: u64, _: u64) {}

    fn forget(&self, _: u64, _: u64) {}
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.file.len))?;
        Ok(self.position)
    }
}
