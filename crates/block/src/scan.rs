//! Reading a volume from front to end without pushing others' pages out of memory.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disk::Source;

use crate::Error;
use crate::file::read_exact_at;
use crate::format::CHUNK;

/// What is asked at once whether it is in memory.
const UNIT: usize = 64 << 10;
/// How long to wait at most before looking whether to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A chunk of the volume that is partly read: what was in memory.
struct Begun {
    number: u64,
    buffer: Vec<u8>,
    /// Ranges of the buffer that have to be read from the device.
    missing: Vec<Range<usize>>,
    /// Whether a range was not in memory at all: then it is forgotten again.
    forget: Vec<Range<usize>>,
}

/// Reads chunks in order, one ahead.
pub(crate) struct Scan<'a> {
    source: &'a dyn Source,
    name: &'a str,
    len: u64,
    /// No data before this byte, from where was asked last.
    data_from: u64,
    ahead: Option<Begun>,
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

    /// Reads a chunk into a buffer of [`CHUNK`] bytes; what lies behind the end of the volume is zeros.
    /// `next` is a buffer to begin the next chunk in, if there is one to spare.
    pub(crate) fn read(
        &mut self,
        number: u64,
        mut buffer: impl FnMut() -> Result<Vec<u8>, Error>,
        next: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Error> {
        let begun = match self.ahead.take() {
            Some(begun) if begun.number == number => begun,
            _ => self.begin(number, buffer()?)?,
        };
        if let Some(spare) = next {
            // Looked at before this chunk is read, whose read-ahead would be mistaken for others' pages.
            let ahead = self.begin(number + 1, spare)?;
            for range in &ahead.missing {
                self.source.prefetch(ahead.number * CHUNK as u64 + range.start as u64, range.len() as u64);
            }
            self.ahead = Some(ahead);
        }
        self.complete(begun)
    }

    fn bytes_of(&self, number: u64) -> usize {
        usize::try_from(self.len - number * CHUNK as u64).unwrap_or(CHUNK).min(CHUNK)
    }

    fn begin(&mut self, number: u64, mut buffer: Vec<u8>) -> Result<Begun, Error> {
        let (start, bytes) = (number * CHUNK as u64, self.bytes_of(number));
        buffer.resize(CHUNK, 0);
        let (mut missing, mut forget): (Vec<Range<usize>>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < bytes {
            let end = (at + UNIT).min(bytes);
            let unit = buffer.get_mut(at..end).unwrap_or_default();
            match self.source.read_cached(start + at as u64, unit) {
                Ok(Some(count)) if count == end - at => {}
                Ok(found) => {
                    extend(&mut missing, at..end);
                    if found == Some(0) {
                        extend(&mut forget, at..end);
                    }
                }
                Err(error) => return Err(self.failed(start + at as u64, error)),
            }
            at = end;
        }
        buffer.get_mut(bytes..).unwrap_or_default().fill(0);
        Ok(Begun { number, buffer, missing, forget })
    }

    fn complete(&mut self, begun: Begun) -> Result<Vec<u8>, Error> {
        let Begun { number, mut buffer, missing, forget } = begun;
        let start = number * CHUNK as u64;
        self.pace.wait(self.bytes_of(number) as u64)?;
        for range in missing {
            let at = start + range.start as u64;
            let wanted = buffer.get_mut(range).unwrap_or_default();
            read_exact_at(self.source, at, wanted).map_err(|error| self.failed(at, error))?;
        }
        for range in forget {
            self.source.forget(start + range.start as u64, range.len() as u64);
        }
        Ok(buffer)
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

fn extend(ranges: &mut Vec<Range<usize>>, more: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if last.end == more.start => last.end = more.end,
        _ => ranges.push(more),
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
