//! The end of the log: batches are appended to the active segment; when it is sealed, the next segment
//! begins.

use std::io::{self, Write};
use std::sync::Arc;

use disk::Sink;

use crate::Error;
use crate::format::batch::IndexLocation;
use crate::format::batch::{self, Header, SEGMENT_HEADER, SegmentId};
use crate::format::record::RowId;
use crate::store::file::SegmentFile;
use crate::store::files::{OpenFilePermit, Readable};
use crate::store::folder::{Folder, count};

/// The active segment and where it ends.
pub(crate) struct Log {
    folder: Arc<Folder>,
    file: Arc<SegmentFile>,
    /// Absent while the queue rests.
    sink: Option<Writer>,
    end: u64,
    synced: u64,
    /// Set when the segment has its index and the next one could not be begun yet.
    sealed: Option<IndexLocation>,
    /// A sync failed: what the system says about these bytes can't be trusted any more.
    lost: bool,
}

/// A file that is open for writing.
struct Writer {
    sink: Box<dyn Sink>,
    _permit: OpenFilePermit,
}

impl Log {
    /// Begins a segment: its header and name are durable when this returns.
    pub(crate) fn create(folder: &Arc<Folder>, segment_id: SegmentId, next: RowId) -> Result<Log, Error> {
        let mut log = Log::begin(folder, segment_id, next)?;
        log.settle()?;
        Ok(log)
    }

    /// Writes the header of a segment. What a failure leaves is removed, now or when the segment is begun
    /// again.
    fn begin(folder: &Arc<Folder>, segment_id: SegmentId, next: RowId) -> Result<Log, Error> {
        let file = SegmentFile::new(folder, segment_id);
        let path = file.path();
        let disk = folder.disk();
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::disk(&path)(error)),
            _ => {}
        }
        let header = batch::encode_segment_header(&segment_id, next);
        let begun = disk.create(&path).and_then(|mut sink| sink.write_all(&header).map(|()| sink));
        let sink = begun.map_err(|error| {
            disk.remove(&path).ok();
            Error::disk(&path)(error)
        })?;
        let end = SEGMENT_HEADER as u64;
        Ok(Log { sink: Some(Writer::new(folder, sink)), ..Log::closed(folder, file, end) })
    }

    /// Makes a new segment and its name durable.
    fn settle(&mut self) -> Result<(), Error> {
        let path = self.file.path();
        self.sink.iter_mut().try_for_each(|writer| writer.sink.sync()).map_err(Error::disk(&path))?;
        self.folder.disk().sync_folder(&self.folder.path()).map_err(Error::disk(&path))?;
        self.synced = self.end;
        Ok(())
    }

    fn closed(folder: &Arc<Folder>, file: Arc<SegmentFile>, end: u64) -> Log {
        Log { folder: folder.clone(), file, sink: None, end, synced: 0, sealed: None, lost: false }
    }

    /// Continues a segment that ends at `end`, and cuts off what follows. Everything up to `end` is durable
    /// when this returns.
    pub(crate) fn resume(folder: &Arc<Folder>, file: Arc<SegmentFile>, end: u64) -> Result<Log, Error> {
        let mut log = Log::closed(folder, file, end);
        log.sync()?;
        Ok(log)
    }

    /// The file for writing, cut off at the segment's end.
    fn open(&mut self) -> Result<&mut Writer, Error> {
        match &mut self.sink {
            Some(writer) => Ok(writer),
            closed => {
                let path = self.file.path();
                let sink = self.folder.disk().append(&path, self.end).map_err(Error::disk(&path))?;
                Ok(closed.insert(Writer::new(&self.folder, sink)))
            }
        }
    }

    /// Whether the file is open for writing.
    pub(crate) fn is_open(&self) -> bool {
        self.sink.is_some()
    }

    /// Whether a sync failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether the segment is closed for batches.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    pub(crate) fn file(&self) -> &Arc<SegmentFile> {
        &self.file
    }

    /// The offset of the next batch.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the segment has no batches.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == SEGMENT_HEADER as u64
    }

    /// Adds a batch, whose body follows [`batch::BATCH_HEADER`] free bytes. `header.synced` is filled in
    /// here.
    pub(crate) fn write(&mut self, batch: &mut [u8], mut header: Header) -> Result<(), Error> {
        header.synced = self.synced;
        batch::seal(batch, self.file.id(), self.end, &header);
        let writer = self.open()?;
        let written = writer.sink.write_all(batch);
        count(&self.folder.calls.writes);
        if let Err(error) = written {
            // What was written is cut off now, or, if that fails too, before anything else is written.
            self.sink = None;
            self.open().ok();
            return Err(Error::disk(&self.file.path())(error));
        }
        self.end += batch.len() as u64;
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if self.synced < self.end {
            let synced = self.open()?.sink.sync();
            count(&self.folder.calls.syncs);
            synced.map_err(|error| {
                self.lost = true;
                Error::disk(&self.file.path())(error)
            })?;
            self.synced = self.end;
        }
        Ok(())
    }

    /// Closes the file until the next write, after syncing it.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.sync()?;
        self.sink = None;
        self.file.close();
        Ok(())
    }

    /// Seals the segment with an index batch and continues in the next one, which begins with this row id and
    /// has these feature flags. Returns what is known about the
    /// sealed one.
    pub(crate) fn roll(
        &mut self,
        index: &mut [u8],
        header: Header,
        (next, features): (RowId, u64),
    ) -> Result<(Arc<SegmentFile>, IndexLocation), Error> {
        let stored = match self.sealed {
            Some(stored) => stored,
            None => {
                let offset = self.end;
                self.write(index, header)?;
                self.sync()?;
                let stored = IndexLocation { offset, len: index.len() as u64, file_len: self.end };
                *self.sealed.insert(stored)
            }
        };
        let SegmentId { incarnation, name, .. } = *self.file.id();
        let mut following =
            Log::begin(&self.folder, SegmentId::active(incarnation, features, name.number + 1), next)?;
        following.settle().inspect_err(|_| self.lost = true)?;
        let sealed = std::mem::replace(self, following);
        Ok((sealed.file, stored))
    }
}

impl Writer {
    fn new(folder: &Arc<Folder>, sink: Box<dyn Sink>) -> Writer {
        Writer { sink, _permit: folder.files.permit_writing() }
    }
}
