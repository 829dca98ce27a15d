//! A file that appears under its name only when it is complete.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Disk, Sink};

/// A file that is written under a temporary name in the same folder. [`Output::finish`] syncs it, renames it
/// and syncs the folder; if it is dropped before that, nothing remains.
///
/// The temporary name is the final one with `.partial` added. So a file left by a crash is recognised, and
/// replaced by the next run for the same name.
pub struct Output<'disk> {
    disk: &'disk dyn Disk,
    sink: Option<Box<dyn Sink>>,
    partial: PathBuf,
    name: PathBuf,
}

impl<'disk> Output<'disk> {
    /// Starts a file that will be called `name`; an existing file of that name stays as it is until `finish`.
    ///
    /// # Errors
    /// Errors of creating the temporary file.
    pub fn create(disk: &'disk dyn Disk, name: &Path) -> io::Result<Output<'disk>> {
        let partial = Output::partial(name);
        match disk.remove(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let sink = disk.create(&partial)?;
        Ok(Output { disk, sink: Some(sink), partial, name: name.to_owned() })
    }

    /// Replaces the first bytes, which were written before.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn begin_anew(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.disk.volume(&self.partial)?.write_at(0, bytes)
    }

    /// Makes the file complete and durable under its name.
    ///
    /// # Errors
    /// Errors of writing, syncing or renaming; the name then still belongs to the former file, if any.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(mut sink) = self.sink.take() {
            let synced = sink.flush().and_then(|()| sink.sync());
            drop(sink);
            let named = synced.and_then(|()| self.disk.rename(&self.partial, &self.name));
            if let Err(error) = named {
                self.discard();
                return Err(error);
            }
        }
        self.disk.sync_folder(self.name.parent().unwrap_or(Path::new("")))
    }

    /// Gives up, but keeps what was written under the temporary name.
    pub fn leave(mut self) {
        if let Some(mut sink) = self.sink.take() {
            // Whoever reads the file checks what is in it.
            sink.flush().ok();
        }
    }

    /// The temporary name of the file that will be called `name`.
    #[must_use]
    pub fn partial(name: &Path) -> PathBuf {
        let mut partial = OsString::from(name.as_os_str());
        partial.push(".partial");
        PathBuf::from(partial)
    }

    fn discard(&self) {
        // The caller already has the error that led here; the next run replaces what is left.
        self.disk.remove(&self.partial).ok();
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Some(sink) => sink.write(bytes),
            None => Err(io::Error::other("the file is finished")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.sink.take().is_some() {
            self.discard();
        }
    }
}
