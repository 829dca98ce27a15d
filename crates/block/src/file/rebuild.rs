//! Reads a file with a damaged header, index or trailer by its records, each of which has a hash.

use std::sync::atomic::AtomicU64;

use disk::Source;

use super::{File, name, read_exact_at};
use crate::format::{Header, IndexEntry, RECORD_FRAME_BYTES, Record, TRAILER_BYTES, Trailer, record_len};
use crate::store::Store;

/// The most chunks that a volume can have if only a damaged header says so: 256 TiB.
const CHUNKS_MAX: u64 = 1 << 26;

/// Replaces a damaged index.
pub(super) struct Rebuilt {
    entries: Vec<IndexEntry>,
    /// Whether no record follows the last one that was found.
    complete: bool,
    /// Whether the trailer can be read.
    pub(super) has_trailer: bool,
}

impl Rebuilt {
    /// Records are in the order of their chunks, without gaps between them. So a chunk between those of two
    /// found records has no record.
    pub(super) fn knows(&self, chunk: u64) -> bool {
        self.complete || self.entries.last().is_some_and(|last| chunk <= last.chunk)
    }

    pub(super) fn nth(&self, number: u64) -> Option<IndexEntry> {
        self.entries.get(usize::try_from(number).ok()?).copied()
    }

    pub(super) fn entry(&self, chunk: u64) -> Option<IndexEntry> {
        let found = self.entries.binary_search_by_key(&chunk, |entry| entry.chunk).ok()?;
        self.entries.get(found).copied()
    }
}

impl File {
    /// Opens a file with a damaged header, index or trailer. Its records are checked by hashes, but its
    /// header can't be: the content of the volume must be compared in the end, if there is something to
    /// compare it with. `len`, if given, replaces the length of the volume.
    pub(crate) fn rebuild(store: &dyn Store, number: u64, len_told: Option<u64>) -> Option<File> {
        let source = store.open(&name(number)).ok()?;
        let len = source.stat().ok()?.len;
        let mut front = vec![0; usize::try_from(len.min(Header::BYTES_MAX as u64)).ok()?];
        read_exact_at(&*source, 0, &mut front).ok()?;
        let mut fixed = Header::decode_fixed(&front)?;
        let told = Header::FIXED_BYTES + fixed.note_bytes;
        let begins = |at: &usize| record(&*source, *at as u64).is_some();
        let start = if begins(&told) {
            told
        } else {
            (Header::FIXED_BYTES..front.len()).find(|at| is_record(&front, *at) && begins(at)).unwrap_or(told)
        };
        let note = front.get(Header::FIXED_BYTES..start).unwrap_or_default();
        fixed.header.note = String::from_utf8_lossy(note).into_owned();
        fixed.header.len = len_told.unwrap_or(fixed.header.len);
        if crate::format::chunks_of(fixed.header.len) > CHUNKS_MAX {
            return None;
        }
        let (entries, end) = entries(&*source, number, start as u64, &fixed.header);
        let index_bytes = (entries.len() * IndexEntry::BYTES) as u64;
        let mut bytes = [0; TRAILER_BYTES];
        let read = read_exact_at(&*source, len.checked_sub(TRAILER_BYTES as u64)?, &mut bytes);
        let trailer = read.ok().and_then(|()| Trailer::decode(&bytes).ok());
        // If the file was truncated, it is shorter than what was found implies; if the records end too early,
        // it is longer.
        let complete = end + index_bytes + TRAILER_BYTES as u64 == len;
        let rebuilt = Rebuilt { entries, complete, has_trailer: trailer.is_some() };
        let nothing = Trailer {
            index_offset: end,
            index_count: 0,
            stored: 0,
            blocks: 0,
            content: [0; 32],
            root: [0; 32],
        };
        Some(File {
            number,
            header: fixed.header,
            // Records end where they were found to end, whatever the trailer says.
            trailer: Trailer { index_offset: end, ..trailer.unwrap_or(nothing) },
            header_len: start as u64,
            len,
            shown: store.shown(&name(number)),
            source,
            fetched: AtomicU64::new(0),
            rebuilt: Some(rebuilt),
        })
    }
}

fn is_record(front: &[u8], at: usize) -> bool {
    front.get(at..at + RECORD_FRAME_BYTES).is_some_and(|frame| record_len(frame).is_ok())
}

/// The record that begins here, and its bytes.
fn record(source: &dyn Source, at: u64) -> Option<(Record, Vec<u8>)> {
    let mut frame = [0; RECORD_FRAME_BYTES];
    read_exact_at(source, at, &mut frame).ok()?;
    let mut bytes = vec![0; record_len(&frame).ok()?];
    read_exact_at(source, at, &mut bytes).ok()?;
    Some((Record::decode(&bytes).ok()?, bytes))
}

/// The index for the records from `start` on, and the end of the records.
fn entries(source: &dyn Source, file: u64, start: u64, header: &Header) -> (Vec<IndexEntry>, u64) {
    let (mut entries, mut offset): (Vec<IndexEntry>, u64) = (Vec::new(), start);
    while let Some((record, bytes)) = record(source, offset) {
        let in_order = entries.last().is_none_or(|last| last.chunk < record.chunk);
        if !in_order || record.chunk >= crate::format::chunks_of(header.len) {
            break;
        }
        let end = offset + bytes.len() as u64;
        entries.push(IndexEntry {
            chunk: record.chunk,
            offset,
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            sum: bytes.last_chunk::<16>().copied().unwrap_or_default(),
            content: record.content,
        });
        let places = record.changes.iter().filter_map(|(_, place)| place.as_ref());
        let groups = places
            .flat_map(|place| [Some(&place.group), place.base.as_ref().map(|(base, _)| base)])
            .flatten();
        let own = groups.filter(|group| group.file == file);
        offset = own.map(|group| group.offset + u64::from(group.stored)).max().unwrap_or(end).max(end);
    }
    (entries, offset)
}
