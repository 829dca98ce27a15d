//! The end of the log: batches are added to the active segment, which is sealed and followed by the next.

use std::io::Write;
use std::sync::Arc;

use disk::Sink;

use crate::Error;
use crate::batch::{self, Header, Incarnation, Place, SEGMENT_HEADER, SegmentName};
use crate::file::SegmentFile;
use crate::folder::{Folder, count};
use crate::index::Stored;
use crate::record::RowId;

/// The active segment and where it ends.
pub(crate) struct Log {
    folder: Arc<Folder>,
    file: Arc<SegmentFile>,
    /// Absent while the queue rests.
    sink: Option<Box<dyn Sink>>,
    end: u64,
    synced: u64,
}

impl Log {
    /// Begins a segment: its header and name are durable when this returns.
    pub(crate) fn create(
        folder: &Arc<Folder>,
        incarnation: Incarnation,
        number: u64,
        next: RowId,
    ) -> Result<Log, Error> {
        let place = Place { incarnation, name: SegmentName { number, generation: 0 } };
        let file = SegmentFile::new(folder, place);
        let path = file.path();
        let disk = folder.disk();
        let mut sink = disk.create(&path).map_err(Error::disk(&path))?;
        sink.write_all(&batch::encode_segment_header(&place, next)).map_err(Error::disk(&path))?;
        sink.sync().map_err(Error::disk(&path))?;
        disk.sync_folder(&folder.path()).map_err(Error::disk(&path))?;
        let end = SEGMENT_HEADER as u64;
        Ok(Log { folder: folder.clone(), file, sink: Some(sink), end, synced: end })
    }

    /// Goes on with a segment that ends at `end`; what is behind is cut off. All of it is durable when this returns.
    pub(crate) fn resume(folder: &Arc<Folder>, file: Arc<SegmentFile>, end: u64) -> Result<Log, Error> {
        let path = file.path();
        let mut sink = folder.disk().append(&path, end).map_err(Error::disk(&path))?;
        sink.sync().map_err(Error::disk(&path))?;
        Ok(Log { folder: folder.clone(), file, sink: Some(sink), end, synced: end })
    }

    pub(crate) fn file(&self) -> &Arc<SegmentFile> {
        &self.file
    }

    /// Where the next batch will lie.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the segment has no batch.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == SEGMENT_HEADER as u64
    }

    /// Adds a batch, whose body is behind [`batch::BATCH_HEADER`] free bytes. `header.synced` is filled in here.
    pub(crate) fn write(&mut self, batch: &mut [u8], mut header: Header) -> Result<(), Error> {
        header.synced = self.synced;
        batch::seal(batch, self.file.place(), self.end, &header);
        let path = || self.file.path();
        let sink = match &mut self.sink {
            Some(sink) => sink,
            closed => {
                let opened = self.folder.disk().append(&path(), self.end).map_err(Error::disk(&path()))?;
                closed.insert(opened)
            }
        };
        count(&self.folder.calls.writes);
        sink.write_all(batch).map_err(|error| Error::disk(&path())(error))?;
        self.end += batch.len() as u64;
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if self.synced < self.end {
            if let Some(sink) = &mut self.sink {
                count(&self.folder.calls.syncs);
                sink.sync().map_err(|error| Error::disk(&self.file.path())(error))?;
            }
            self.synced = self.end;
        }
        Ok(())
    }

    /// Closes the file until the next write, after syncing it.
    pub(crate) fn rest(&mut self) -> Result<(), Error> {
        self.sync()?;
        self.sink = None;
        self.file.close();
        Ok(())
    }

    /// Seals the segment with an index batch and goes on in the next one. Returns what is known of the sealed one.
    pub(crate) fn roll(
        &mut self,
        index: &mut [u8],
        header: Header,
        next: RowId,
    ) -> Result<(Arc<SegmentFile>, Stored), Error> {
        let offset = self.end;
        self.write(index, header)?;
        self.sync()?;
        let stored = Stored { offset, len: index.len() as u64, file_len: self.end };
        let Place { incarnation, name } = *self.file.place();
        let following = Log::create(&self.folder, incarnation, name.number + 1, next)?;
        let sealed = std::mem::replace(self, following);
        Ok((sealed.file, stored))
    }
}
