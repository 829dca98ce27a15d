//! Compacts many small segments into one, so that there are never many.

use std::io;
use std::mem::take;

use block::READER_LOCK;
use disk::Share;

use super::{Entry, SegmentWriter};
use crate::archive::arrival;
use crate::archive::segment::{self, Segment, SegmentHeader};

/// This many segments of one level are compacted into one.
pub(super) const FAN_IN: usize = 64;
/// A segment of this size is not compacted again, and none becomes much larger.
const FULL_BYTES: u64 = 32 << 20;
/// Nor are segments compacted whose headers have this many bytes together: headers have a limit, and reading
/// one byte of a segment requires all of its header.
const HEADERS_BYTES: u64 = 8 << 20;
/// Errors that only prevent compaction: the archiver continues.
const TOLERATED: [io::ErrorKind; 3] =
    [io::ErrorKind::InvalidData, io::ErrorKind::NotFound, io::ErrorKind::AlreadyExists];

impl SegmentWriter {
    /// Compacts what is due: everything small if the file is whole.
    pub(super) fn compact(&mut self, whole: bool) -> io::Result<()> {
        let mut has_compacted = false;
        while let Some(from) = self.compactable(whole) {
            match self.compact_from(from) {
                // Damaged or missing segments stay as they are, and are reported by whoever reads them. So is
                // a file that already has the name.
                Err(error) if TOLERATED.contains(&error.kind()) => {
                    self.entries.drain(..self.entries.len() - 1);
                }
                compacted => compacted?,
            }
            has_compacted = true;
        }
        let buffered: u64 = self.recent.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if buffered > FULL_BYTES {
            self.recent.clear();
        }
        if has_compacted { self.remove_superseded() } else { Ok(()) }
    }

    /// The index of the first of the newest segments that are due.
    fn compactable(&self, whole: bool) -> Option<usize> {
        let newest = self.entries.last()?;
        let level = newest.header.segment.level;
        let (mut bytes, mut headers, mut begin) = (0, 0, newest.header.segment.end);
        let fits = |entry: &&Entry| {
            let segment = &entry.header.segment;
            // A damaged segment between them would be left out.
            let is_next = segment.end == std::mem::replace(&mut begin, segment.start);
            bytes += entry.bytes;
            headers += entry.at;
            let is_small = entry.bytes < FULL_BYTES && bytes < 2 * FULL_BYTES && headers < HEADERS_BYTES;
            is_next && (whole || segment.level == level) && is_small
        };
        let count = self.entries.iter().rev().take_while(fits).count();
        let least = if whole { 2 } else { FAN_IN };
        (count >= least).then(|| self.entries.len() - count)
    }

    fn compact_from(&mut self, from: usize) -> io::Result<()> {
        let parts = self.entries.get(from..).unwrap_or_default();
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
        let level = parts.iter().map(|part| part.header.segment.level).max().unwrap_or(0) + 1;
        let (begin, end) = (&first.header.segment, &last.header.segment);
        let mut arrived = Vec::new();
        let all = parts.iter().flat_map(|part| &part.header.segment.arrived);
        all.for_each(|arrival| arrival::add(&mut arrived, *arrival));
        let segment = Segment {
            last: end.last,
            level,
            root: Some(last.root.clone()),
            end: end.end,
            whole: end.whole,
            resume_point: end.resume_point.clone(),
            arrived,
            ..begin.clone()
        };
        let chunks = parts.iter().flat_map(|part| part.header.chunks.iter().copied()).collect();
        let header = SegmentHeader { segment, chunks };
        let (mut bytes, root) = header.encode()?;
        let at = bytes.len() as u64;
        for part in parts {
            self.add(part, &mut bytes)?;
        }
        let (name, len) = (segment::name((header.segment.first, header.segment.last)), bytes.len() as u64);
        self.store.put(&name, &bytes)?;
        self.compacted.extend(parts.iter().map(Entry::name));
        let last = header.segment.last;
        self.recent.retain(|(number, _)| *number > last);
        self.entries.truncate(from);
        self.entries.push(Entry { header, root, at, bytes: len });
        Ok(())
    }

    /// Appends the chunks of a segment.
    fn add(&self, part: &Entry, to: &mut Vec<u8>) -> io::Result<()> {
        let number = part.header.segment.last;
        if let Some((_, bytes)) =
            self.recent.iter().find(|(recent, _)| part.header.segment.level == 0 && *recent == number)
        {
            to.extend_from_slice(bytes);
            return Ok(());
        }
        let source = self.store.open(&part.name())?;
        let start = to.len();
        to.resize(start + usize::try_from(part.bytes - part.at).map_err(io::Error::other)?, 0);
        let room = to.get_mut(start..).unwrap_or_default();
        let count = source.read_full_at(part.at, room)?;
        let mut rest: &[u8] = room.get(..count).unwrap_or_default();
        // Damaged bytes must not be copied as if they were sound.
        for chunk in &part.header.chunks {
            let bytes = rest.split_off(..chunk.stored as usize).unwrap_or_default();
            if *blake3::hash(bytes).as_bytes() != chunk.hash {
                let text = format!("{} is damaged", self.store.shown(&part.name()));
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(())
    }

    /// Removes segments that are contained in larger ones, unless somebody is reading.
    ///
    /// # Errors
    /// Errors of the store. Without permission to remove files, they stay.
    pub fn remove_superseded(&mut self) -> io::Result<()> {
        if self.compacted.is_empty() && self.superseded.is_empty() {
            return Ok(());
        }
        let Some(_alone) = self.store.lock(READER_LOCK, Share::Exclusive)? else { return Ok(()) };
        let mut compacted = take(&mut self.compacted);
        loop {
            for name in &compacted {
                match self.store.remove(name) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        self.superseded.clear();
                        return Ok(());
                    }
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            let Some(covered) = self.superseded.pop() else { return Ok(()) };
            compacted = covered.proven(&*self.store)?.iter().map(Entry::name).collect();
        }
    }
}
