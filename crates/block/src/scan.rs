//! Reading a volume from front to end without pushing others' pages out of memory.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::{Source, Stat};

use crate::Error;
use crate::feed::{Feed, Seen};
use crate::file::read_exact_at;
use crate::format::{CHUNK, Hash};

/// How long to wait at most before looking whether to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A chunk that was announced.
struct Expected {
    start: u64,
    bytes: usize,
    hole: bool,
    /// What of it was not in memory before, and is forgotten again.
    absent: Vec<Range<u64>>,
}

/// Reads chunks of something that is at hand, in order, one ahead.
pub struct Scan {
    source: Box<dyn Source>,
    /// Where the next chunk to be announced begins.
    next: u64,
    /// No data before this byte, from where was asked last.
    data_from: u64,
    expected: VecDeque<Expected>,
}

impl Scan {
    /// Reads from the front.
    #[must_use]
    pub fn new(source: Box<dyn Source>) -> Scan {
        Scan { source, next: 0, data_from: 0, expected: VecDeque::new() }
    }

    /// Whether a chunk lies in a hole altogether.
    fn is_hole(&mut self, start: u64, bytes: usize) -> io::Result<bool> {
        if self.data_from <= start {
            self.data_from = self.source.skip_hole(start)?.unwrap_or(u64::MAX).max(start + 1);
        }
        Ok(self.data_from >= start + bytes as u64)
    }
}

impl Feed for Scan {
    fn stat(&mut self) -> io::Result<Stat> {
        self.source.stat()
    }

    /// Each is looked at before the one before it is read: what that reads ahead would be mistaken for others' pages.
    fn ahead(&self) -> u64 {
        1
    }

    fn expect(&mut self, bytes: usize, _known: Option<Vec<Hash>>) -> io::Result<()> {
        let start = self.next;
        self.next += CHUNK as u64;
        let hole = self.is_hole(start, bytes)?;
        let absent = if hole { Vec::new() } else { self.source.absent(start, bytes)? };
        for range in &absent {
            self.source.prefetch(range.start, range.end - range.start);
        }
        self.expected.push_back(Expected { start, bytes, hole, absent });
        Ok(())
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Seen> {
        let unasked = || io::Error::other("read before it was announced");
        let Expected { start, bytes, hole, absent } = self.expected.pop_front().ok_or_else(unasked)?;
        if hole {
            return Ok(Seen::Hole);
        }
        buffer.resize(CHUNK, 0);
        let (data, rest) = buffer.split_at_mut(bytes);
        rest.fill(0);
        read_exact_at(&*self.source, start, data)?;
        for range in absent {
            self.source.forget(range.start, range.end - range.start);
        }
        Ok(Seen::Whole)
    }
}

/// Keeps to a number of bytes a second.
pub(crate) struct Pace<'a> {
    rate: Option<u64>,
    stop: &'a AtomicBool,
    due: Instant,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(rate: Option<u64>, stop: &'a AtomicBool) -> Pace<'a> {
        Pace { rate, stop, due: Instant::now() }
    }

    /// Returns when more may be read; fails when the run is to stop.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let never = crossbeam_channel::never::<()>();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            // Nobody sends: this is a wait that ends by itself.
            never.recv_timeout(left.min(LOOK_AGAIN)).ok();
        }
    }

    /// So many bytes were read.
    pub(crate) fn spend(&mut self, bytes: usize) {
        if let Some(rate) = self.rate {
            let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate.max(1));
            let pause = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            // Time that was not used does not add up.
            self.due = self.due.max(Instant::now()) + pause;
        }
    }
}
