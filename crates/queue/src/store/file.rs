//! The file of a segment, sealed or active, for reading: it is opened on demand and closed when the queue
//! rests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::{Disk, Source};

use crate::Error;
use crate::format::batch::{self, IndexLocation, Kind, SEGMENT_HEADER, SegmentId, SegmentName};
use crate::format::record::{RowId, checked_row};
use crate::format::segment_index::SegmentIndex;
use crate::store::files::{OpenFilePermit, Readable};
use crate::store::folder::{Folder, count};
use crate::sync::{Mutex, lock};

/// The most bytes that one read fetches ahead when rows are read in sequence.
const AHEAD_MAX: usize = 1 << 16;

/// One segment's file.
pub(crate) struct SegmentFile {
    folder: Arc<Folder>,
    segment_id: SegmentId,
    open: Mutex<Option<Arc<OpenSegment>>>,
    /// When it was last used, by the clock of [`OpenFiles`](crate::store::files::Files).
    used: AtomicU64,
}

/// An open file, and the bytes that were last read from it: rows are mostly taken in sequence, and a system
/// call for each would cost more than the row.
pub(crate) struct OpenSegment {
    source: Box<dyn Source>,
    folder: Arc<Folder>,
    window: Mutex<Option<Arc<Window>>>,
    _permit: OpenFilePermit,
}

struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }

    /// How many bytes to read for `len` bytes at an offset: more and more as long as the reads are
    /// sequential.
    fn next_len(&self, offset: u64, len: usize) -> usize {
        let end = self.offset + self.bytes.len() as u64;
        let follows = (end.saturating_sub(AHEAD_MAX as u64)..end + AHEAD_MAX as u64).contains(&offset);
        if follows && offset >= self.offset {
            (self.bytes.len() * 2 + len).min(AHEAD_MAX).max(len)
        } else {
            len
        }
    }
}

impl OpenSegment {
    /// Bytes that have `len` bytes at an offset in them, or fewer at the end of the file.
    fn read(&self, offset: u64, len: usize) -> std::io::Result<Arc<Window>> {
        let window = lock(&self.window).clone();
        if let Some(window) = window.as_ref().filter(|window| window.get(offset, len).is_some()) {
            count(&self.folder.calls.read_hits);
            return Ok(window.clone());
        }
        count(&self.folder.calls.reads);
        let wanted = window.map_or(len, |window| window.next_len(offset, len));
        let mut bytes = vec![0; wanted];
        let read = self.source.read_full_at(offset, &mut bytes)?;
        bytes.truncate(read);
        let window = Arc::new(Window { offset, bytes });
        // A long row is not kept.
        if len <= AHEAD_MAX {
            *lock(&self.window) = Some(window.clone());
        }
        Ok(window)
    }
}

impl std::fmt::Debug for SegmentFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.segment_id.name.file())
    }
}

impl SegmentFile {
    pub(crate) fn new(folder: &Arc<Folder>, segment_id: SegmentId) -> Arc<SegmentFile> {
        Arc::new(SegmentFile {
            folder: folder.clone(),
            segment_id,
            open: Mutex::new(None),
            used: AtomicU64::new(0),
        })
    }

    pub(crate) fn id(&self) -> &SegmentId {
        &self.segment_id
    }

    pub(crate) fn name(&self) -> SegmentName {
        self.segment_id.name
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(self.segment_id.name.file())
    }

    pub(crate) fn corrupt(&self, what: &str, offset: u64) -> Error {
        Error::Corrupt { file: self.path(), what: what.to_owned(), offset }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.folder.disk()
    }

    /// The open file. Its holder can read it even after it was unlinked.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Arc<OpenSegment>, Error> {
        let mut open = lock(&self.open);
        let files = &self.folder.files;
        self.used.store(files.now(), Ordering::Relaxed);
        if let Some(file) = &*open {
            return Ok(file.clone());
        }
        let path = self.path();
        let source = self.disk().open(&path).map_err(Error::disk(&path))?;
        let (folder, window, _permit) = (self.folder.clone(), Mutex::new(None), files.permit_reading());
        let file = Arc::new(OpenSegment { source, folder, window, _permit });
        *open = Some(file.clone());
        drop(open);
        let readable: Arc<dyn Readable> = self.clone();
        files.note(&readable);
        Ok(file)
    }

    fn read(self: &Arc<Self>, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        let read = self.open()?.source.read_full_at(offset, &mut bytes);
        let read = read.map_err(|error| Error::disk(&self.path())(error))?;
        if read < len {
            return Err(self.corrupt("an unexpected end of file", offset + read as u64));
        }
        Ok(bytes)
    }

    /// Reads the index of a sealed segment.
    pub(crate) fn read_index(self: &Arc<Self>, stored: &IndexLocation) -> Result<SegmentIndex, Error> {
        let header = self.read(0, SEGMENT_HEADER)?;
        batch::decode_segment_header(&self.path(), &header, &self.segment_id)?;
        let len =
            usize::try_from(stored.len).map_err(|_| self.corrupt("an index too long", stored.offset))?;
        let bytes = self.read(stored.offset, len)?;
        let opened = batch::open(&bytes, &self.segment_id, stored.offset);
        let (header, body) = opened
            .filter(|(header, _)| header.kind == Kind::Index)
            .ok_or_else(|| self.corrupt("an index with a wrong checksum", stored.offset))?;
        SegmentIndex::decode(body, header.first, self.segment_id.features)
            .ok_or_else(|| self.corrupt("an invalid index", stored.offset))
    }
}

/// Where a row is in its file: the place of its checksum, which the row follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// A file that stays readable after it was closed and unlinked, and what was read of it last: whoever reads
/// rows one after the other finds most of them there.
pub(crate) struct SegmentReader {
    file: Arc<SegmentFile>,
    opened: Arc<OpenSegment>,
    window: Option<Arc<Window>>,
}

impl SegmentReader {
    /// Opens the file.
    pub(crate) fn of(file: &Arc<SegmentFile>) -> Result<SegmentReader, Error> {
        Ok(SegmentReader { file: file.clone(), opened: file.open()?, window: None })
    }

    /// Whether it is this file.
    pub(crate) fn is_of(&self, file: &Arc<SegmentFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    /// Reads a row.
    pub(crate) fn row(&mut self, id: RowId, range: ByteRange) -> Result<&[u8], Error> {
        let ByteRange { offset, len } = range;
        if self.window.as_ref().is_some_and(|window| window.get(offset, len).is_some()) {
            count(&self.opened.folder.calls.read_hits);
        } else {
            let read = self.opened.read(offset, len);
            self.window = Some(read.map_err(|error| Error::disk(&self.file.path())(error))?);
        }
        let bytes = self.window.as_ref().and_then(|window| window.get(offset, len));
        let bytes = bytes.ok_or_else(|| self.file.corrupt("an unexpected end of file", offset))?;
        checked_row(id, bytes).ok_or_else(|| self.file.corrupt("a row with a wrong checksum", offset))
    }
}

/// Where a row is.
#[derive(Clone)]
pub(crate) struct RowLocation {
    file: Arc<SegmentFile>,
    pub(crate) range: ByteRange,
    /// The open file, so that the row can be read after it was closed and unlinked.
    opened: Option<Arc<OpenSegment>>,
}

impl RowLocation {
    pub(crate) fn new(file: &Arc<SegmentFile>, range: ByteRange) -> RowLocation {
        RowLocation { file: file.clone(), range, opened: None }
    }

    /// Opens the file, so that the row can be read without the queue's lock.
    pub(crate) fn open(&mut self) -> Result<(), Error> {
        self.opened = Some(self.file.open()?);
        Ok(())
    }

    /// Reads the row at this location.
    pub(crate) fn read(&self, id: RowId) -> Result<Vec<u8>, Error> {
        let opened = self.opened.clone().map_or_else(|| self.file.open(), Ok)?;
        let mut reading = SegmentReader { file: self.file.clone(), opened, window: None };
        reading.row(id, self.range).map(<[u8]>::to_vec)
    }
}

impl Readable for SegmentFile {
    fn is_open(&self) -> bool {
        lock(&self.open).is_some()
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn close(&self) {
        *lock(&self.open) = None;
    }
}

/// Removes files. Returns those that could not be removed.
pub(crate) fn unlink(disk: &dyn Disk, files: Vec<Arc<SegmentFile>>) -> Vec<Arc<SegmentFile>> {
    let there = |path: &Path| disk.stat(path).is_ok();
    files.into_iter().filter(|file| disk.remove(&file.path()).is_err() && there(&file.path())).collect()
}
