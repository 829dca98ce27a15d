//! An open file of a repository whose header, index and trailer were checked.

mod rebuild;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::Source;

use crate::Error;
use crate::format::{Corrupt, Header, IndexEntry, NUMBER_MAX, Record, TRAILER_BYTES, Trailer, chunks_of};
use crate::store::Store;

use self::rebuild::Rebuilt;

/// Bytes of the index that are read in one step.
const INDEX_READ: usize = 1024 * IndexEntry::BYTES;

/// An open file with a header, records, an index and a trailer.
pub(crate) struct File {
    pub(crate) number: u64,
    pub(crate) header: Header,
    pub(crate) trailer: Trailer,
    /// Bytes of the header; records begin after it.
    pub(crate) header_len: u64,
    /// Bytes of the file.
    pub(crate) len: u64,
    /// Its name in messages.
    pub(crate) shown: String,
    source: Box<dyn Source>,
    /// Bytes of records and indexes that were read.
    fetched: AtomicU64,
    /// Its records' contents, if header, index or trailer are damaged.
    rebuilt: Option<Rebuilt>,
}

/// `000042.blk`
pub(crate) fn name(number: u64) -> String {
    format!("{number:06}.blk")
}

/// The number in a name from [`name`].
pub(crate) fn number(of: &str) -> Option<u64> {
    let number = of.strip_suffix(".blk")?.parse().ok()?;
    (number > 0 && number <= NUMBER_MAX && name(number) == of).then_some(number)
}

/// Fills the buffer or fails: with `UnexpectedEof` when there are too few bytes.
pub(crate) fn read_exact_at(source: &dyn Source, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    let whole = source.read_full_at(at, buffer)? == buffer.len();
    if whole { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl File {
    /// Opens a file and checks it: header, index and trailer must match the root hash.
    pub(crate) fn open(store: &dyn Store, number: u64) -> Result<File, Error> {
        let shown = store.shown(&name(number));
        let failed = |source| Error::Store { name: shown.clone(), source };
        let source = store.open(&name(number)).map_err(failed)?;
        let len = source.stat().map_err(failed)?.len;
        let mut fixed = [0; Header::FIXED_BYTES];
        let least = (Header::FIXED_BYTES + TRAILER_BYTES) as u64;
        if len < least {
            return Err(Error::corrupt(format!("{shown} at byte {len}"), "the file is truncated"));
        }
        read_exact_at(&*source, 0, &mut fixed).map_err(failed)?;
        let header_len = Header::total_bytes(&fixed).map_err(|bad| at(&shown, 0, &bad))?;
        let mut trailer = [0; TRAILER_BYTES];
        let trailer_at = len - TRAILER_BYTES as u64;
        read_exact_at(&*source, trailer_at, &mut trailer).map_err(failed)?;
        let trailer = Trailer::decode(&trailer).map_err(|bad| at(&shown, trailer_at, &bad))?;
        let mut header = vec![0; header_len];
        let index_len = trailer.index_count.checked_mul(IndexEntry::BYTES as u64);
        let end = index_len.and_then(|len| len.checked_add(trailer.index_offset));
        if end != Some(trailer_at) || trailer.index_offset < header_len as u64 {
            return Err(Error::corrupt(
                format!("{shown} at byte {trailer_at}"),
                "the index is not where it should be: the file is truncated or damaged",
            ));
        }
        read_exact_at(&*source, 0, &mut header).map_err(failed)?;
        let file = File {
            number,
            header: Header::decode(&header).map_err(|bad| at(&shown, 0, &bad))?,
            trailer,
            header_len: header_len as u64,
            len,
            shown: shown.clone(),
            source,
            fetched: AtomicU64::new(0),
            rebuilt: None,
        };
        file.check_root(&header)?;
        Ok(file)
    }

    fn check_root(&self, header: &[u8]) -> Result<(), Error> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(header);
        let mut buffer = vec![0; INDEX_READ];
        let (mut offset, end) = (self.trailer.index_offset, self.len - TRAILER_BYTES as u64);
        while offset < end {
            let count = usize::try_from(end - offset).unwrap_or(INDEX_READ).min(INDEX_READ);
            let part = buffer.get_mut(..count).unwrap_or_default();
            self.read(offset, part)?;
            hasher.update(part);
            offset += count as u64;
        }
        hasher.update(&self.trailer.encode_covered());
        if *hasher.finalize().as_bytes() == self.trailer.root {
            return Ok(());
        }
        let place = format!("{} at byte 0 or from byte {} on", self.shown, self.trailer.index_offset);
        Err(Error::corrupt(place, "header, index or trailer do not match the root hash"))
    }

    /// Bytes that were read with [`File::read`].
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Reads exactly these bytes.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.fetched.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        read_exact_at(&*self.source, offset, buffer).map_err(|source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                Error::corrupt(format!("{} at byte {offset}", self.shown), "the file is truncated")
            } else {
                Error::Store { name: format!("{} at byte {offset}", self.shown), source }
            }
        })
    }

    /// The record of an index entry.
    pub(crate) fn record(&self, entry: &IndexEntry) -> Result<Record, Error> {
        let place = || format!("{} at byte {}", self.shown, entry.offset);
        if entry.offset.saturating_add(u64::from(entry.len)) > self.trailer.index_offset {
            return Err(Error::corrupt(place(), "a record that reaches beyond the file"));
        }
        let mut bytes = vec![0; entry.len as usize];
        self.read(entry.offset, &mut bytes)?;
        let record = Record::decode(&bytes).map_err(|bad| at(&self.shown, entry.offset, &bad))?;
        let sum = bytes.last_chunk::<16>();
        if sum != Some(&entry.sum) || record.chunk != entry.chunk || record.content != entry.content {
            return Err(Error::corrupt(place(), "a record that does not match the index"));
        }
        Ok(record)
    }

    /// Number of chunks of the volume in this generation.
    pub(crate) fn chunks(&self) -> u64 {
        chunks_of(self.header.len)
    }

    /// Whether the file's information about a chunk is complete. If header, index or trailer are damaged, it
    /// may not be.
    pub(crate) fn knows(&self, chunk: u64) -> bool {
        self.rebuilt.as_ref().is_none_or(|rebuilt| rebuilt.knows(chunk))
    }

    /// Whether the volume may have this content in this generation.
    pub(crate) fn may_have_content(&self, content: &[u8; 32]) -> bool {
        self.expected().is_none_or(|expected| expected == content)
    }

    /// Hash of the volume in this generation; none if that is damaged.
    pub(crate) fn expected(&self) -> Option<&[u8; 32]> {
        let told = self.rebuilt.as_ref().is_none_or(|rebuilt| rebuilt.has_trailer);
        told.then_some(&self.trailer.content)
    }

    /// Whether header and index are undamaged.
    pub(crate) fn is_sound(&self) -> bool {
        self.rebuilt.is_none()
    }

    /// The index entry for a chunk, if there is one.
    pub(crate) fn entry(&self, chunk: u64) -> Result<Option<IndexEntry>, Error> {
        if let Some(rebuilt) = &self.rebuilt {
            return Ok(rebuilt.entry(chunk));
        }
        let (mut low, mut high) = (0, self.trailer.index_count);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut bytes = [0; IndexEntry::BYTES];
            let offset = self.trailer.index_offset + middle * IndexEntry::BYTES as u64;
            self.read(offset, &mut bytes)?;
            let entry = IndexEntry::decode(&bytes).map_err(|bad| at(&self.shown, offset, &bad))?;
            match entry.chunk.cmp(&chunk) {
                std::cmp::Ordering::Equal => return Ok(Some(entry)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// The entries of the index, in order.
    pub(crate) fn index(&self) -> Index<'_> {
        Index { file: self, next: 0, buffer: Vec::new(), at: 0, last: None }
    }
}

/// An error of the format with its place in the file.
pub(crate) fn at(shown: &str, offset: u64, bad: &Corrupt) -> Error {
    Error::corrupt(format!("{shown} at byte {}", offset + bad.place as u64), bad.what)
}

/// Reads an index in parts.
pub(crate) struct Index<'a> {
    file: &'a File,
    /// Number of the first entry that is not in the buffer.
    next: u64,
    buffer: Vec<u8>,
    at: usize,
    last: Option<u64>,
}

impl Index<'_> {
    fn fill(&mut self) -> Result<(), Error> {
        let left = self.file.trailer.index_count - self.next;
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(INDEX_READ / IndexEntry::BYTES);
        self.buffer.resize(count * IndexEntry::BYTES, 0);
        self.at = 0;
        let offset = self.file.trailer.index_offset + self.next * IndexEntry::BYTES as u64;
        self.file.read(offset, &mut self.buffer)?;
        self.next += count as u64;
        Ok(())
    }
}

impl Iterator for Index<'_> {
    type Item = Result<IndexEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(rebuilt) = &self.file.rebuilt {
            let entry = rebuilt.nth(self.next)?;
            self.next += 1;
            return Some(Ok(entry));
        }
        if self.at == self.buffer.len() {
            if self.next == self.file.trailer.index_count {
                return None;
            }
            if let Err(error) = self.fill() {
                return Some(Err(error));
            }
        }
        let bytes = self.buffer.get(self.at..self.at + IndexEntry::BYTES).unwrap_or_default();
        self.at += IndexEntry::BYTES;
        let decoded = IndexEntry::decode(bytes)
            .map_err(|bad| at(&self.file.shown, self.file.trailer.index_offset, &bad));
        Some(decoded.and_then(|entry| {
            if self.last.is_some_and(|last| last >= entry.chunk) || entry.chunk >= self.file.chunks() {
                return Err(Error::corrupt(&self.file.shown, "chunks out of order in the index"));
            }
            self.last = Some(entry.chunk);
            Ok(entry)
        }))
    }
}
