//! Files of a store that are read here and there, in pieces that are kept for a while.
//!
//! A request costs as much time as many bytes, so what is missing is fetched together, and what is read in
//! order is fetched before somebody asks for it.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use block::mirror::Place;
use disk::{Source, Stat};

use crate::client::{Ask, Bucket};
use crate::kept::{Kept, lock};

/// Bytes of a piece.
const PIECE: u64 = 128 << 10;
/// The most pieces that are fetched at once: 8 MiB.
const RUN_MAX: u64 = 64;
/// From so many pieces on, more are fetched while these are read.
const AHEAD_MIN: u64 = 4;
/// The most fetches ahead at a time.
const AHEAD_JOBS: usize = 3;
/// Readers that follow one another leave no more pieces out than this.
const GAP: u64 = 8;
/// Places of a file that are read in order at the same time.
const STREAMS: usize = 4;

/// Where a file is read in order.
#[derive(Clone, Copy)]
struct Stream {
    /// The first piece that was not asked for yet.
    reach: u64,
    /// How many pieces the next fetch brings.
    window: u64,
    /// One read has followed another.
    is_sure: bool,
}

/// A file of a store.
struct Open {
    bucket: Bucket,
    name: String,
    /// Tells it from other open files.
    id: u64,
    len: u64,
    streams: Mutex<Vec<Stream>>,
}

/// An open file that is read.
pub(crate) struct Reader {
    file: Arc<Open>,
    position: u64,
}

impl Bucket {
    /// Opens a file with its first piece, which tells the length.
    pub(crate) fn reader(&self, name: &str) -> io::Result<Reader> {
        let range = [("range", format!("bytes=0-{}", PIECE - 1))];
        let mut answer = self.ask(&Ask { headers: &range, ..Ask::about("GET", name) })?;
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
                len = total.ok_or_else(|| io::Error::other("the store does not tell the file's length"))?;
                let read = answer.response.body_mut().as_reader().take(PIECE).read_to_end(&mut first);
                if read.is_err() || first.len() as u64 != len.min(PIECE) {
                    // It broke off.
                    first = self.read(name, 0, usize::try_from(len.min(PIECE)).unwrap_or(0))?;
                }
            }
            // An empty file has no first byte.
            416 => {}
            _ => return Err(self.refused("read", name, answer)),
        }
        let id = self.cache.opened.fetch_add(1, Ordering::Relaxed);
        lock(&self.cache.kept).put((id, 0), first);
        let streams = Mutex::new(vec![Stream { reach: 1, window: 1, is_sure: false }]);
        let file = Open { bucket: self.clone(), name: name.to_owned(), id, len, streams };
        Ok(Reader { file: Arc::new(file), position: 0 })
    }
}

impl Open {
    /// A piece, with others that are wanted or may be soon.
    fn piece(self: &Arc<Self>, number: u64, wanted: Range<u64>) -> io::Result<Arc<Vec<u8>>> {
        let cache = &self.bucket.cache;
        let mut kept = lock(&cache.kept);
        loop {
            kept.clock += 1;
            let clock = kept.clock;
            match kept.pieces.get_mut(&(self.id, number)) {
                Some(Some(piece)) => {
                    piece.used = clock;
                    let bytes = Arc::clone(&piece.bytes);
                    self.look_ahead(number, &mut kept);
                    return Ok(bytes);
                }
                Some(None) => kept = cache.news.wait(kept).unwrap_or_else(PoisonError::into_inner),
                None => break,
            }
        }
        let run = self.claim(number, self.run(number, wanted), &mut kept);
        drop(kept);
        let bytes = self.fetch(run.clone())?;
        let skip = usize::try_from((number - run.start) * PIECE).unwrap_or(0);
        let piece = bytes.get(skip..).unwrap_or_default();
        let len = piece.len().min(usize::try_from(PIECE).unwrap_or(usize::MAX));
        Ok(Arc::new(piece.get(..len).unwrap_or_default().to_vec()))
    }

    /// What is fetched when a piece is missing.
    fn run(&self, number: u64, wanted: Range<u64>) -> Range<u64> {
        let end = wanted.end.clamp(number + 1, number + RUN_MAX);
        let mut streams = lock(&self.streams);
        let follows = |stream: &Stream| (stream.reach..=stream.reach + GAP).contains(&number);
        if let Some(at) = streams.iter().position(follows) {
            let mut stream = streams.remove(at);
            stream.window = (stream.window * 2).min(RUN_MAX);
            stream.is_sure = true;
            // What was left out is often read by another thread.
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

    /// Fetches what comes next while what is here is read.
    fn look_ahead(self: &Arc<Self>, number: u64, kept: &mut Kept) {
        if kept.ahead >= AHEAD_JOBS {
            return;
        }
        let mut streams = lock(&self.streams);
        let near = |stream: &Stream| {
            stream.is_sure
                && stream.window >= AHEAD_MIN
                && number < stream.reach
                && stream.reach - number <= stream.window / 2
                && stream.reach < self.pieces()
        };
        let Some(at) = streams.iter().position(near) else { return };
        let mut stream = streams.remove(at);
        stream.window = (stream.window * 2).min(RUN_MAX);
        let run = stream.reach..stream.reach + stream.window;
        stream.reach = run.end;
        streams.push(stream);
        drop(streams);
        let free = |number: &u64| !kept.pieces.contains_key(&(self.id, *number));
        let Some(first) = run.clone().take_while(|number| *number < self.pieces()).find(free) else { return };
        let run = self.claim(first, run, kept);
        kept.ahead += 1;
        let file = Arc::clone(self);
        std::thread::spawn(move || {
            // Who needs it asks again, and is told the error.
            file.fetch(run).ok();
            lock(&file.bucket.cache.kept).ahead -= 1;
        });
    }

    fn pieces(&self) -> u64 {
        self.len.div_ceil(PIECE)
    }

    /// Marks the pieces around a missing one, within a run, that nobody has fetched or fetches.
    fn claim(&self, missing: u64, run: Range<u64>, kept: &mut Kept) -> Range<u64> {
        let free = |number: &u64| !kept.pieces.contains_key(&(self.id, *number));
        let before = (run.start..missing).rev().take_while(free).count() as u64;
        let after = (missing..run.end.min(self.pieces())).take_while(free).count() as u64;
        let claimed = missing - before..missing + after;
        for number in claimed.clone() {
            kept.pieces.insert((self.id, number), None);
        }
        claimed
    }

    /// Fetches pieces that were claimed.
    fn fetch(&self, run: Range<u64>) -> io::Result<Vec<u8>> {
        let start = run.start * PIECE;
        let len = usize::try_from((run.end * PIECE).min(self.len) - start).map_err(io::Error::other)?;
        let read = self.bucket.read(&self.name, start, len);
        let cache = &self.bucket.cache;
        let mut kept = lock(&cache.kept);
        for number in run.clone() {
            kept.pieces.remove(&(self.id, number));
        }
        if let Ok(bytes) = &read {
            let parts = bytes.chunks(usize::try_from(PIECE).unwrap_or(usize::MAX));
            for (number, part) in run.zip(parts) {
                kept.put((self.id, number), part.to_vec());
            }
        }
        drop(kept);
        cache.news.notify_all();
        read
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.bucket.cache.kept).forget(self.id);
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
        let wanted = at / PIECE..(at + buffer.len() as u64).div_ceil(PIECE);
        let piece = self.file.piece(at / PIECE, wanted)?;
        let skip = usize::try_from(at % PIECE).unwrap_or(0);
        let part = piece.get(skip..).unwrap_or_default();
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
