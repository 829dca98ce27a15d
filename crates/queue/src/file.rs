//! A sealed or active segment as a file that is read: opened when it is needed, closed when the queue rests.

use std::path::PathBuf;
use std::sync::Arc;

use disk::{Disk, Source};

use crate::Error;
use crate::batch::{self, Indexed, Kind, Place, SEGMENT_HEADER, SegmentName, Since};
use crate::folder::Folder;
use crate::index::{Location, Stored};
use crate::record::{RowId, checked_row};
use crate::sync::{Mutex, lock};

/// One segment's file.
pub(crate) struct SegmentFile {
    folder: Arc<Folder>,
    place: Place,
    open: Mutex<Option<Arc<dyn Source>>>,
}

impl std::fmt::Debug for SegmentFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.place.name.file())
    }
}

impl SegmentFile {
    pub(crate) fn new(folder: &Arc<Folder>, place: Place) -> Arc<SegmentFile> {
        Arc::new(SegmentFile { folder: folder.clone(), place, open: Mutex::new(None) })
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn name(&self) -> SegmentName {
        self.place.name
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(self.place.name.file())
    }

    pub(crate) fn corrupt(&self, what: &str, place: u64) -> Error {
        Error::Corrupt { file: self.path(), what: what.to_owned(), place }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.folder.disk()
    }

    /// The open file. Who has it can read it also after it was unlinked.
    pub(crate) fn open(&self) -> Result<Arc<dyn Source>, Error> {
        let mut open = lock(&self.open);
        if let Some(file) = &*open {
            return Ok(file.clone());
        }
        let path = self.path();
        let file: Arc<dyn Source> = self.disk().open(&path).map_err(Error::disk(&path))?.into();
        *open = Some(file.clone());
        Ok(file)
    }

    /// Closes the file, as soon as nobody reads it any more.
    pub(crate) fn close(&self) {
        *lock(&self.open) = None;
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        self.read_from(&*self.open()?, offset, len)
    }

    fn read_from(&self, source: &dyn Source, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        let read =
            source.read_full_at(offset, &mut bytes).map_err(|error| Error::disk(&self.path())(error))?;
        if read < len {
            return Err(self.corrupt("the file ends too early", offset + read as u64));
        }
        Ok(bytes)
    }

    /// Reads the index of a sealed segment.
    pub(crate) fn read_index(&self, stored: &Stored) -> Result<(Vec<Indexed>, Vec<Since>), Error> {
        let header = self.read(0, SEGMENT_HEADER)?;
        batch::decode_segment_header(&self.path(), &header, &self.place)?;
        let len =
            usize::try_from(stored.len).map_err(|_| self.corrupt("an index too long", stored.offset))?;
        let bytes = self.read(stored.offset, len)?;
        let opened = batch::open(&bytes, &self.place, stored.offset);
        let (header, body) = opened
            .filter(|(header, _)| header.kind == Kind::Index)
            .ok_or_else(|| self.corrupt("an index with a wrong checksum", stored.offset))?;
        batch::decode_index(body, header.first)
            .ok_or_else(|| self.corrupt("an index that is no index", stored.offset))
    }
}

impl Location {
    /// Opens the file, so that the row can be read without the queue's lock.
    pub(crate) fn open(&mut self) -> Result<(), Error> {
        self.opened = Some(self.file.open()?);
        Ok(())
    }

    /// Reads the row that is here.
    pub(crate) fn read(&self, id: RowId) -> Result<Vec<u8>, Error> {
        let bytes = match &self.opened {
            Some(source) => self.file.read_from(&**source, self.offset, self.len)?,
            None => self.file.read(self.offset, self.len)?,
        };
        let wrong = || self.file.corrupt("a row with a wrong checksum", self.offset);
        checked_row(id, &bytes).map(<[u8]>::to_vec).ok_or_else(wrong)
    }
}
