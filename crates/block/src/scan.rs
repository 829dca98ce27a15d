//! Reading a volume from front to end without pushing others' pages out of memory.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::Source;

use crate::Error;
use crate::file::read_exact_at;
use crate::format::CHUNK;

/// How long to wait at most before looking whether to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A chunk that will be read: what of it was not in memory before, and is forgotten again.
struct Ahead {
    number: u64,
    absent: Vec<Range<u64>>,
}

/// Reads chunks in order, one ahead.
pub(crate) struct Scan<'a> {
    source: &'a dyn Source,
    name: &'a str,
    len: u64,
    /// No data before this byte, from where was asked last.
    data_from: u64,
    ahead: Option<Ahead>,
    pace: Pace<'a>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(source: &'a dyn Source, name: &'a str, len: u64, pace: Pace<'a>) -> Scan<'a> {
        Scan { source, name, len, data_from: 0, ahead: None, pace }
    }

    /// Whether a chunk lies in a hole altogether.
    pub(crate) fn is_hole(&mut self, number: u64) -> Result<bool, Error> {
        let start = number * CHUNK as u64;
        if self.data_from <= start {
            let found = self.source.skip_hole(start).map_err(|error| self.failed(start, error))?;
            self.data_from = found.unwrap_or(self.len).max(start + 1);
        }
        Ok(self.data_from >= (start + CHUNK as u64).min(self.len))
    }

    /// Reads a chunk into a buffer, which becomes [`CHUNK`] bytes; what lies behind the end of the volume is
    /// zeros. `next_too`: the chunk after it will be read as well.
    pub(crate) fn read(&mut self, number: u64, buffer: &mut Vec<u8>, next_too: bool) -> Result<(), Error> {
        let ahead = match self.ahead.take() {
            Some(ahead) if ahead.number == number => ahead,
            _ => self.look(number)?,
        };
        if next_too {
            // Looked at before this chunk is read: what that reads ahead would be mistaken for others' pages.
            let next = self.look(number + 1)?;
            for range in &next.absent {
                self.source.prefetch(range.start, range.end - range.start);
            }
            self.ahead = Some(next);
        }
        let bytes = self.bytes_of(number);
        self.pace.wait(bytes as u64)?;
        buffer.resize(CHUNK, 0);
        let (data, rest) = buffer.split_at_mut(bytes);
        rest.fill(0);
        let start = number * CHUNK as u64;
        read_exact_at(self.source, start, data).map_err(|error| self.failed(start, error))?;
        for range in ahead.absent {
            self.source.forget(range.start, range.end - range.start);
        }
        Ok(())
    }

    fn bytes_of(&self, number: u64) -> usize {
        usize::try_from(self.len - number * CHUNK as u64).unwrap_or(CHUNK).min(CHUNK)
    }

    fn look(&self, number: u64) -> Result<Ahead, Error> {
        let start = number * CHUNK as u64;
        let absent = self.source.absent(start, self.bytes_of(number));
        Ok(Ahead { number, absent: absent.map_err(|error| self.failed(start, error))? })
    }

    fn failed(&self, at: u64, error: io::Error) -> Error {
        let source = if error.kind() == io::ErrorKind::UnexpectedEof {
            io::Error::new(error.kind(), format!("it ends before its length of {} bytes", self.len))
        } else {
            error
        };
        Error::Source { name: format!("{} at byte {at}", self.name), source }
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

    /// Returns when so many more bytes may be read; fails when the run is to stop.
    pub(crate) fn wait(&mut self, bytes: u64) -> Result<(), Error> {
        let never = crossbeam_channel::never::<()>();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Nobody sends: this is a wait that ends by itself.
            never.recv_timeout(left.min(LOOK_AGAIN)).ok();
        }
        if let Some(rate) = self.rate {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let pause = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            // Time that was not used does not add up.
            self.due = self.due.max(Instant::now()) + pause;
        }
        Ok(())
    }
}
