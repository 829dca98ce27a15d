//! Reads a volume in order without evicting other programs' pages from the page cache.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::{CacheNeutralRead, Source, Stat};

use crate::Error;
use crate::chunk_source::{BlockSet, ChunkRead, ChunkRequest, ChunkSource};
use crate::file::read_exact_at;
use crate::format::{BLOCK, CHUNK};

/// Maximum time between checks whether to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A chunk that was announced.
struct AnnouncedChunk {
    start: u64,
    bytes: usize,
    hole: bool,
    /// Parts to read, in bytes from the chunk's beginning.
    parts: Vec<Range<usize>>,
    /// The blocks of these parts, unless they are all.
    blocks: Option<BlockSet>,
    /// Its pages that were not in the page cache before, and are dropped again.
    visit: CacheNeutralRead,
}

impl AnnouncedChunk {
    fn read(self, source: &dyn Source, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        if self.hole {
            return Ok(ChunkRead::Hole);
        }
        buffer.resize(CHUNK, 0);
        buffer.get_mut(self.bytes..).unwrap_or_default().fill(0);
        for part in self.parts {
            let at = self.start + part.start as u64;
            read_exact_at(source, at, buffer.get_mut(part).unwrap_or_default())?;
        }
        self.visit.end(source);
        Ok(self.blocks.map_or(ChunkRead::Whole, ChunkRead::Blocks))
    }
}

/// Reads chunks of a local volume, in order, two at a time: while one waits for the disk, the pages of the
/// other are checked.
pub struct Scan {
    source: Box<dyn Source>,
    /// There is no data before this byte, counting from `asked`.
    data_from: u64,
    /// The place for which data was last searched.
    asked: u64,
    expected: VecDeque<AnnouncedChunk>,
    /// What was found in the next chunk, if it was read together with the one before it; its bytes are in
    /// `spare`.
    second: Option<io::Result<ChunkRead>>,
    spare: Vec<u8>,
}

impl Scan {
    /// How many chunks are announced before the first of them is read: the two that are read together, and
    /// the next one.
    pub const AHEAD: u64 = 2;

    /// Reads from the beginning.
    #[must_use]
    pub fn new(source: Box<dyn Source>) -> Scan {
        let expected = VecDeque::new();
        Scan { source, data_from: 0, asked: 0, expected, second: None, spare: Vec::new() }
    }

    /// Whether a chunk lies completely in a hole.
    fn is_hole(&mut self, start: u64, bytes: usize) -> io::Result<bool> {
        if self.data_from <= start || start < self.asked {
            let data = self.source.skip_hole(start)?;
            // If the volume was cut meanwhile, there is no data after its new end either.
            if data.is_none() && self.source.stat()?.len < start + bytes as u64 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.data_from = data.unwrap_or(u64::MAX);
        }
        self.asked = start;
        Ok(self.data_from >= start + bytes as u64)
    }
}

impl ChunkSource for Scan {
    fn stat(&mut self) -> io::Result<Stat> {
        self.source.stat()
    }

    fn settle(&mut self) {
        self.source.try_write_out();
    }

    fn is_written_to(&mut self) -> Option<bool> {
        self.source.is_written_to()
    }

    /// Which pages of a chunk are cached is determined before the chunks in front of it are read: their
    /// read-ahead would otherwise look like pages of other programs.
    fn ahead(&self) -> u64 {
        Scan::AHEAD
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        let start = number * CHUNK as u64;
        let (parts, blocks) = match want {
            ChunkRequest::All(_) => (std::iter::once(0..bytes).collect(), None),
            ChunkRequest::Blocks(blocks) => (parts_of(&blocks, bytes), Some(blocks)),
        };
        let hole = self.is_hole(start, bytes)?;
        let mut visit = CacheNeutralRead::default();
        for part in parts.iter().filter(|_| !hole) {
            visit.look(&*self.source, start + part.start as u64, part.len())?;
        }
        visit.begin(&*self.source);
        self.expected.push_back(AnnouncedChunk { start, bytes, hole, parts, blocks, visit });
        Ok(())
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        if let Some(found) = self.second.take() {
            std::mem::swap(buffer, &mut self.spare);
            return found;
        }
        let unasked = || io::Error::other("read before it was announced");
        let first = self.expected.pop_front().ok_or_else(unasked)?;
        // Not the last one that was announced: the page cache was not checked for what follows it.
        let second = match self.expected.front() {
            Some(next) if self.expected.len() > 1 && !next.hole => self.expected.pop_front(),
            _ => None,
        };
        let (source, spare) = (&*self.source, &mut self.spare);
        let (found, second) = std::thread::scope(|scope| {
            let second = second.map(|second| scope.spawn(move || second.read(source, spare)));
            let found = first.read(source, buffer);
            let ended = || Err(io::Error::other("a thread ended early"));
            (found, second.map(|second| second.join().unwrap_or_else(|_| ended())))
        });
        self.second = second;
        found
    }
}

/// These blocks of a chunk of `bytes` bytes, as ranges of bytes; adjacent blocks are merged.
fn parts_of(blocks: &BlockSet, bytes: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (number, _) in blocks.iter().enumerate().filter(|(_, wanted)| **wanted) {
        let (start, end) = ((number * BLOCK).min(bytes), ((number + 1) * BLOCK).min(bytes));
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

/// Limits the read rate.
pub(crate) struct RateLimiter<'a> {
    rate: Option<u64>,
    stop: &'a AtomicBool,
    due: Instant,
}

impl<'a> RateLimiter<'a> {
    pub(crate) fn new(rate: Option<u64>, stop: &'a AtomicBool) -> RateLimiter<'a> {
        RateLimiter { rate, stop, due: Instant::now() }
    }

    /// Fails if the run must stop.
    pub(crate) fn check_stop(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Waits until more may be read; fails if the run must stop.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let never = crossbeam_channel::never::<()>();
        loop {
            self.check_stop()?;
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            // Nobody sends on this channel: it is a wait that ends by itself.
            never.recv_timeout(left.min(LOOK_AGAIN)).ok();
        }
    }

    /// Counts bytes that were read.
    pub(crate) fn count(&mut self, bytes: usize) {
        if let Some(rate) = self.rate {
            let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate.max(1));
            let pause = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            // Unused time is not saved up.
            self.due = self.due.max(Instant::now()) + pause;
        }
    }
}
