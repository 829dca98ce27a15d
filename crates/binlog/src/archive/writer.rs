//! Writes the files of a timeline.

use std::io::{self, Write};
use std::path::PathBuf;

use disk::{Disk, Output, Sink};

use super::arrival::{Arrival, ArrivalLog};
use crate::event::{FLAGS_AT, IN_USE, MAGIC};

/// Bytes per write.
const WRITE_BYTES: usize = 1 << 20;

/// Writes to the last file of a timeline. What was appended survives a crash after [`Writer::sync`].
pub struct Writer<'d> {
    disk: &'d dyn Disk,
    folder: PathBuf,
    index: PathBuf,
    files: Vec<String>,
    sink: Option<Box<dyn Sink>>,
    notes: Option<ArrivalLog>,
    /// Bytes not passed to the system yet.
    pending: Vec<u8>,
    at: u64,
}

impl<'d> Writer<'d> {
    pub(super) fn new(disk: &'d dyn Disk, folder: PathBuf, index: PathBuf, files: Vec<String>) -> Writer<'d> {
        Writer { disk, folder, index, files, sink: None, notes: None, pending: Vec::new(), at: 0 }
    }

    /// The current file, if one was begun.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.sink.as_ref().and(self.files.last()).map(String::as_str)
    }

    /// The offset of the next event.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Continues the last file.
    pub(super) fn resume(&mut self, file: &str, end: u64) -> io::Result<()> {
        let path = self.folder.join(file);
        let mut sink = self.disk.append(&path, end)?;
        self.at = end;
        if end <= MAGIC.len() as u64 {
            // Perhaps not even its first bytes reached the disk.
            sink = self.disk.append(&path, 0)?;
            self.pending.extend_from_slice(&MAGIC);
            self.at = MAGIC.len() as u64;
        }
        self.sink = Some(sink);
        self.notes = Some(ArrivalLog::resume(self.disk, &self.folder, file, self.at)?);
        Ok(())
    }

    /// Completes the current file, and begins the next one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn begin(&mut self, file: &str) -> io::Result<()> {
        self.close()?;
        let path = self.folder.join(file);
        let mut sink = match self.disk.create(&path) {
            // A killed run had begun it, and nothing in it can be relied on.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && !self.files.iter().any(|own| own == file) =>
            {
                self.disk.append(&path, 0)?
            }
            sink => sink?,
        };
        sink.write_all(&MAGIC)?;
        sink.sync()?;
        self.sink = Some(sink);
        self.notes = Some(ArrivalLog::begin(self.disk, &self.folder, file)?);
        self.at = MAGIC.len() as u64;
        self.files.push(file.to_owned());
        let mut index = Output::create(self.disk, &self.index)?;
        for file in &self.files {
            writeln!(index, "./{file}")?;
        }
        index.finish()
    }

    /// Appends an event. The first event of a file is marked as in use until the file is complete, as the
    /// server does it.
    ///
    /// # Errors
    /// Errors of the operating system. Nothing may be appended after an error.
    pub fn append(&mut self, event: &[u8]) -> io::Result<()> {
        let start = self.pending.len();
        self.pending.extend_from_slice(event);
        if self.at == MAGIC.len() as u64
            && let Some(flags) = self.pending.get_mut(start + FLAGS_AT)
        {
            *flags |= IN_USE.to_le_bytes()[0];
        }
        self.at += event.len() as u64;
        if self.pending.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    /// Records that everything appended so far had arrived at this time, in seconds since 1970 by the
    /// server's clock. `all`: the server had nothing more.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn note_arrival(&mut self, time_s: i64, all: bool) -> io::Result<()> {
        let arrival = Arrival { end: self.at, time_s, all };
        self.notes.as_mut().map_or(Ok(()), |notes| notes.add(arrival))
    }

    fn write(&mut self) -> io::Result<()> {
        if let Some(sink) = &mut self.sink {
            sink.write_all(&self.pending)?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Makes everything that was appended durable.
    ///
    /// # Errors
    /// Errors of the operating system. Nothing may be appended after an error: it is unknown what was
    /// written.
    pub fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        self.sink.as_mut().map_or(Ok(()), |sink| sink.sync())
    }

    /// Completes the current file.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        self.sink = None;
        self.notes.take().map_or(Ok(()), |mut notes| notes.sync())?;
        let Some(file) = self.files.last() else { return Ok(()) };
        let volume = self.disk.volume(&self.folder.join(file))?;
        let place = (MAGIC.len() + FLAGS_AT) as u64;
        let mut flags = [0];
        if volume.read_at(place, &mut flags)? == 0 {
            return Ok(());
        }
        volume.write_at(place, &[flags[0] & !IN_USE.to_le_bytes()[0]])?;
        volume.sync()
    }
}
