//! A file of the server, read from its segments.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use disk::{Source, Stat};

use super::chunk::{chunks, decrypt, read_stored};
use super::index::{LogFile, SegmentArchive};
use crate::archive::arrival::Arrival;
use crate::event::{FLAGS_AT, IN_USE, MAGIC};

/// The offset of the byte with the in-use flag.
const FLAGS: u64 = (MAGIC.len() + FLAGS_AT) as u64;

/// An archived file that is being read.
pub struct ArchivedFile {
    segments: Arc<SegmentArchive>,
    file: LogFile,
    position: u64,
    recent: Mutex<RecentChunk>,
}

/// The last bytes that were read: most reads are sequential.
#[derive(Default)]
struct RecentChunk {
    /// The open segment, by its index.
    open: Option<(usize, Box<dyn Source>)>,
    /// Where these bytes begin in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl SegmentArchive {
    /// The recorded arrival times of a file.
    #[must_use]
    pub fn arrivals(&self, file: &LogFile) -> Vec<Arrival> {
        let entries = self.entries.get(file.entries.clone()).unwrap_or_default();
        entries.iter().flat_map(|entry| entry.header.segment.arrived.iter().copied()).collect()
    }

    /// Opens a file as the server had it.
    #[must_use]
    pub fn open_file(self: &Arc<Self>, file: &LogFile) -> ArchivedFile {
        ArchivedFile::new(Arc::clone(self), file.clone())
    }
}

impl ArchivedFile {
    fn new(segments: Arc<SegmentArchive>, file: LogFile) -> ArchivedFile {
        ArchivedFile { segments, file, position: 0, recent: Mutex::default() }
    }

    /// Makes the chunk with this byte the recent one.
    fn fetch(&self, at: u64, recent: &mut RecentChunk) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::InvalidData, "no segment contains these bytes");
        let entries = self.segments.entries.get(self.file.entries.clone()).unwrap_or_default();
        let number = entries.partition_point(|entry| entry.header.segment.end <= at);
        let entry = entries.get(number).ok_or_else(gone)?;
        let (start, place, chunk) =
            chunks(entry).find(|(start, _, chunk)| at < start + u64::from(chunk.len)).ok_or_else(gone)?;
        let source = match recent.open.take() {
            Some((open, source)) if open == number => source,
            _ => self.segments.store.open(&entry.name())?,
        };
        let bytes = read_stored(&*self.segments.store, &*source, (entry, place, chunk))?;
        recent.bytes = decrypt(&*self.segments.store, &entry.name(), bytes, chunk)?;
        (recent.start, recent.open) = (start, Some((number, source)));
        Ok(())
    }
}

impl Source for ArchivedFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of_volume(self.file.end))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if at >= self.file.end {
            let missing = self.file.missing.as_ref();
            return missing
                .map_or(Ok(0), |what| Err(io::Error::new(io::ErrorKind::InvalidData, what.clone())));
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if at < recent.start || at >= recent.start + recent.bytes.len() as u64 {
            self.fetch(at, &mut recent)?;
        }
        let skip = usize::try_from(at - recent.start).unwrap_or(usize::MAX);
        let part = recent.bytes.get(skip..).unwrap_or_default();
        let count = part.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), part.get(..count)) {
            to.copy_from_slice(from);
        }
        // It is set in all segments; a server clears it when the file is complete.
        let flags = FLAGS
            .checked_sub(at)
            .and_then(|place| buffer.get_mut(..count)?.get_mut(usize::try_from(place).ok()?));
        if let Some(flags) = flags.filter(|_| self.file.whole) {
            *flags &= !IN_USE.to_le_bytes()[0];
        }
        Ok(count)
    }

    fn absent(&self, _: u64, _: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.file.end).then_some(at))
    }

    fn prefetch(&self, _: u64, _: u64) {}

    fn forget(&self, _: u64, _: u64) {}
}

impl Read for ArchivedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for ArchivedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.file.end))?;
        Ok(self.position)
    }
}
